//! Prints every comparison of the engine model with measurements:
//!
//! ```text
//! cargo run --release -p meridian-papers --example calibration [-- EVERY]
//! ```
//! EVERY selects every EVERY-th of the colocated points. All of them take about half a minute.

use meridian_papers::calibration::{run, text};

fn main() {
    let every = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(1);
    let (rows, silicon, disaggregated) = run(every);
    print!("{}", text(&rows, &silicon, &disaggregated));
}
