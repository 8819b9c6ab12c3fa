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

use meridian_engine::{Config, Gpu, Model, Profile, TokenOutputs};
use std::io::{BufRead, Write};

fn config(words: &[&str]) -> Option<(Config, f64)> {
    let mut gpu = Gpu::named(words[1]).unwrap();
    let (mut budget, mut seqs, mut think) = (None, None, 0.0);
    for (field, value) in words[3..].iter().filter_map(|word| word.split_once('=')) {
        let value: f64 = value.parse().unwrap();
        match field {
            "memory" => gpu.memory_efficiency = value,
            "compute" => gpu.compute_efficiency = value,
            "attention" => gpu.attention_efficiency = value,
            "step" => gpu.step = value,
            "sequence" => gpu.sequence = value,
            "reduce" => gpu.reduce = value,
            "link" => gpu.link_efficiency = value,
            "budget" => budget = Some(value as u32),
            "think" => think = value,
            "seqs" => seqs = Some(value as u32),
            other => panic!("unknown field {other}"),
        }
    }
    let profile = Profile::new(Model::named(words[0]).unwrap(), gpu, words[2].parse().unwrap());
    let mut config = Config::new(profile.ok()?);
    config.token_outputs = TokenOutputs::First;
    config.decode_stride = 1 << 16;
    config.max_num_batched_tokens = budget.unwrap_or(config.max_num_batched_tokens);
    config.max_num_seqs = seqs.unwrap_or(config.max_num_seqs);
    Some((config, think))
}

fn main() {
    let mut out = std::io::stdout();
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        let last: Vec<u32> = words[words.len() - 4..].iter().map(|w| w.parse().unwrap()).collect();
        let (ttft, tpot) = match config(&words) {
            Some((config, think)) => {
                closed_loop::closed_loop(config, think, last.try_into().unwrap())
            }
            None => (f64::NAN, f64::NAN),
        };
        writeln!(out, "{ttft:.4} {tpot:.4}").unwrap();
        out.flush().unwrap();
    }
}
