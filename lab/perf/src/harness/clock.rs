//! Times and memory of this process, and runs in processes of their own.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};
use meridian_base::quantile;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::race::process::memory_of;

/// Median and 99th percentile in microseconds.
pub(crate) struct Quantiles {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

impl Quantiles {
    pub(crate) fn of(times: &[Duration]) -> Quantiles {
        let us: Vec<f64> = times.iter().map(|time| time.as_nanos() as f64 / 1e3).collect();
        let [p50, p99] = [0.5, 0.99].map(|share| quantile(&us, share).unwrap_or_default());
        Quantiles { p50, p99 }
    }
}

/// Times `count` operations, after a warm-up of a twentieth as many.
pub(crate) fn sample(count: usize, mut operation: impl FnMut() -> Duration) -> Quantiles {
    for _ in 0..count / 20 {
        operation();
    }
    Quantiles::of(&(0..count).map(|_| operation()).collect::<Vec<_>>())
}

/// CPU time of this thread, which other programs do not affect.
pub(crate) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// Current and peak resident memory of this process, in bytes.
///
/// # Panics
/// Where the kernel does not tell it: 0 bytes would meet every target.
pub(crate) fn memory() -> (u64, u64) {
    let memory = memory_of(std::process::id());
    assert!(memory.0 > 0 && memory.1 > 0, "/proc/self/status does not say how much memory is used");
    memory
}

/// The result of `bench ARGS` in a process of its own, so that its peak memory is its own. That
/// process calls [`tell`].
pub(crate) fn apart<T: DeserializeOwned>(args: &[&str]) -> anyhow::Result<T> {
    let program = std::env::current_exe().context("this program's own path is unknown")?;
    let out = Command::new(program).arg("bench").args(args).output()?;
    let shown = args.join(" ");
    let error = String::from_utf8_lossy(&out.stderr);
    ensure!(out.status.success(), "the run `bench {shown}` failed: {error}");
    let read = serde_json::from_slice(&out.stdout);
    read.with_context(|| format!("the run `bench {shown}` printed no result"))
}

/// Prints the result of a run for [`apart`].
pub(crate) fn tell(result: &impl Serialize) -> anyhow::Result<()> {
    println!("{}", serde_json::to_string(result)?);
    Ok(())
}
