//! Turns the engine against clients in a closed loop, for `fit/fit.py`.
//!
//! Each line of stdin is one run: `model gpu tp field=value... isl osl clients rounds`. Each client
//! sends its next request when the last has ended, so `clients * rounds` requests run in all. Each
//! line of stdout is mean TTFT and mean TPOT in milliseconds, or `nan nan` where the model does not
//! fit. The fields override the GPU's fitted numbers and the engine's settings. A client
//! thinks for `think` seconds in the mean before each request; its first is not counted (warm-up).
#![allow(clippy::unwrap_used, reason = "a tool for developers may panic")]

#[path = "../tests/common/closed_loop.rs"]
mod closed_loop;
mod common;

use std::io::{BufRead, Write};

fn main() {
    let mut out = std::io::stdout();
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        let last: Vec<u32> = words[words.len() - 4..].iter().map(|w| w.parse().unwrap()).collect();
        let (ttft, tpot) = match common::config(&words) {
            Some((config, think)) => {
                closed_loop::closed_loop(config, think, last.try_into().unwrap())
            }
            None => (f64::NAN, f64::NAN),
        };
        writeln!(out, "{ttft:.4} {tpot:.4}").unwrap();
        out.flush().unwrap();
    }
}
