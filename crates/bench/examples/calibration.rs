//! Prints every comparison of the engine model with measurements:
//!
//! ```text
//! cargo run --release -p meridian-bench --example calibration [-- EVERY]
//! ```
//! EVERY selects every EVERY-th of the 1,244 points. All of them take some seconds.

use meridian_bench::calibration::{run, text};

fn main() {
    let every = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(1);
    let (rows, silicon) = run(every);
    print!("{}", text(&rows, &silicon));
}
