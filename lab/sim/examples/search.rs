//! Searches seeds until an invariant breaks, and prints how to repeat it. Each seed gives two worlds,
//! one of them with prefill and decode replicas.
//!
//! ```text
//! cargo run --release -p meridian-sim --example search -- [--from SEED] [--for SECONDS] [--seed N]
//! ```

use std::time::{Duration, Instant, SystemTime};

use meridian_sim::{Scenario, run, swarm};

/// The values of `--seed`, `--from` and `--for`; `None` for any other argument.
fn options(args: &[String]) -> Option<[Option<u64>; 3]> {
    let mut said = [None; 3];
    for pair in args.chunks(2) {
        let [flag, value] = pair else { return None };
        let at = ["--seed", "--from", "--for"].iter().position(|f| f == flag)?;
        said[at] = Some(value.parse().ok()?);
    }
    Some(said)
}

fn main() -> std::process::ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some([seed, from, limit]) = options(&args) else {
        eprintln!("usage: search [--seed N] [--from SEED] [--for SECONDS], each a whole number");
        return std::process::ExitCode::from(2);
    };
    if let Some(seed) = seed {
        return if holds(seed) { 0.into() } else { 1.into() };
    }
    #[expect(clippy::disallowed_methods, reason = "a seed that was never tried")]
    let clock = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let from = from.unwrap_or(clock.as_secs() * 1000);
    let limit = limit.map(Duration::from_secs);
    let started = Instant::now();
    let mut tried = 0;
    while limit.is_none_or(|l| started.elapsed() < l) {
        if !holds(from + tried) {
            return 1.into();
        }
        tried += 1;
    }
    println!("{tried} seeds from {from} on: every invariant holds");
    0.into()
}

/// Runs both worlds of one seed.
fn holds(seed: u64) -> bool {
    holds_in(seed, swarm::scenario) && holds_in(seed, swarm::paired)
}

/// Runs one world; prints a broken invariant with the command that repeats it.
fn holds_in(seed: u64, world: fn(u64) -> Scenario) -> bool {
    let outcome = std::panic::catch_unwind(|| run(world(seed)));
    let why = match outcome {
        Ok(Ok(report)) if report.violations.is_empty() => return true,
        Ok(Ok(report)) => report.violations.join("\n  "),
        Ok(Err(impossible)) => impossible.to_string(),
        Err(_) => "a panic, above".to_owned(),
    };
    println!("seed {seed} breaks an invariant:\n  {why}");
    println!("repeat it:  ./x sim --seed {seed}");
    println!("keep it:    add it to lab/sim/tests/seeds.txt with a line that says why");
    false
}
