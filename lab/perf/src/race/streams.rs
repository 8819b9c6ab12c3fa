//! Many connections at once: what open streams, idle connections and slow readers cost a gateway.
//!
//! Each part has a fresh gateway and a fresh mock replica, in processes of their own, so that memory
//! starts from the same state and each process has its own limit on open files. Memory is the growth
//! of the gateway's resident memory over the state after a few requests, shared out.
//!
//! 1. *Idle*: connections that are kept alive after one answer.
//! 2. *Open*: streams with an event a second. Meanwhile short requests are timed, as they were before
//!    the streams, and memory is sampled. Then the replica ends all streams. Each has to end with its
//!    last byte, the bytes of all have to be those that the replica wrote, and the gateway's own
//!    counts those of the clients.
//! 3. *Slow*: the replica sends as fast as it can, and each client reads 1 KB a second. The gateway
//!    has to hold the replica back; one that keeps what it gets grows without a limit. Streams that
//!    the gateway ends are counted as cut off.
//!
//! Load, gateway and replica share the machine, so the times of short requests include their work
//! for the streams.

mod answer;
mod clients;
mod short;
mod world;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::builder::TypedValueParser;
use clap::value_parser;
use meridian_base::quantile;
use meridian_tools::load::seconds;
use serde_json::json;

use super::{Builds, descriptors};
use crate::harness::Results;
use crate::mock;
use clients::{Reader, Streams};
use world::RaceWorld;

/// The numbers of connections.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    #[command(flatten)]
    builds: Builds,
    /// Open streams, as far as the limit on open files allows
    #[arg(long, default_value_t = 10_000, value_parser = number(1..=25_000))]
    streams: usize,
    /// Idle connections, as far as the limit on open files allows; 0 for none
    #[arg(long, default_value_t = 50_000)]
    idle: usize,
    /// Slow readers, with 1 KB/s each; 0 for none
    #[arg(long, default_value_t = 100, value_parser = number(0..=1000))]
    slow: usize,
    /// For how long the streams stay open
    #[arg(long, default_value = "60s", value_parser = seconds)]
    hold: Duration,
    /// Output file
    #[arg(long, default_value = "target/bench/streams.json")]
    json: PathBuf,
}

/// A count within a range.
fn number(range: std::ops::RangeInclusive<i64>) -> impl TypedValueParser<Value = usize> {
    value_parser!(u16).range(range).map(usize::from)
}

/// Files of a process beside its connections: libraries, listeners, probes, logs.
const SPARE: u64 = 160;
/// The most memory of an open stream beside its body, KB.
const STREAM_KB: f64 = 16.0;
/// Growth of memory while streams stay open, KB each, that counts as flat: noise of the allocator.
const FLAT_KB: f64 = 0.5;
/// For memory to settle after connections were opened.
const SETTLE: Duration = Duration::from_secs(2);
/// Between two samples of memory.
const SAMPLE: Duration = Duration::from_millis(500);
/// For how long slow readers read slowly, at most.
const SLOW_HOLD: Duration = Duration::from_secs(30);
/// For how long short requests are timed without streams, at most.
const QUIET_HOLD: Duration = Duration::from_secs(10);

/// Measures, prints the table and writes the file.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let mut results = Results::new("streams", json!({}), &options.json)?;
    ensure!(options.hold >= Duration::from_secs(1), "--hold: use 1s or more");
    let dir = options.json.parent().unwrap_or(Path::new(".")).join("streams");
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let dir = dir.canonicalize()?;
    let options = fitted(options, descriptors::raise());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let meridian = options.builds.meridian()?;
    let before = options.builds.before.as_deref().map(|binary| ("before", binary));
    for (name, binary) in before.into_iter().chain([("meridian", &*meridian)]) {
        eprintln!("measuring {name}");
        results.no_targets();
        results.case(name);
        runtime.block_on(measure(&options, binary, &dir, &mut results))?;
    }
    results.finish()
}

/// No more connections than the open files of a process allow: a gateway reserves two for each.
fn fitted(options: &Options, files: u64) -> Options {
    let most = usize::try_from(files.saturating_sub(SPARE) / 2).unwrap_or(usize::MAX);
    let mut options = options.clone();
    let counts = [
        ("--streams", &mut options.streams),
        ("--idle", &mut options.idle),
        ("--slow", &mut options.slow),
    ];
    for (flag, count) in counts {
        if *count > most {
            eprintln!(
                "{flag}: {most} in place of {count}, because a process may open {files} files \
                 (ulimit -Hn)"
            );
            *count = most;
        }
    }
    options
}

impl Options {
    /// The connections that the gateway has to allow.
    fn connections(&self) -> usize {
        self.streams.max(self.idle).max(self.slow) + 16
    }
}

async fn measure(
    options: &Options,
    binary: &Path,
    dir: &Path,
    results: &mut Results,
) -> anyhow::Result<()> {
    if options.idle > 0 {
        idle(options, binary, dir, results).await?;
    }
    open(options, binary, dir, results).await?;
    if options.slow > 0 {
        slow(options, binary, dir, results).await?;
    }
    Ok(())
}

/// Connections that are kept alive.
async fn idle(
    options: &Options,
    binary: &Path,
    dir: &Path,
    results: &mut Results,
) -> anyhow::Result<()> {
    let mut world = RaceWorld::start(options, binary, dir)?;
    world.warm_up().await?;
    let before = world.memory();
    let sockets = clients::open_idle(world.address, &body(false, "hello"), options.idle).await?;
    tokio::time::sleep(SETTLE).await;
    let after = world.memory();
    world.alive()?;
    results.add("idle connections", "", sockets.len() as f64);
    results.add("idle connections that the gateway closed", "", clients::closed(&sockets) as f64);
    results.add("memory of an idle connection", "KB", kb_each(before, after, sockets.len()));
    Ok(())
}

/// Streams with an event a second.
async fn open(
    options: &Options,
    binary: &Path,
    dir: &Path,
    results: &mut Results,
) -> anyhow::Result<()> {
    let mut world = RaceWorld::start(options, binary, dir)?;
    world.warm_up().await?;
    let (quiet, _) = short_requests(&world, options.hold.min(QUIET_HOLD)).await?;
    let before = world.memory();
    let counted = world.counts().await?;
    let body = body(true, mock::OPEN);
    let streams = Streams::open(world.address, &body, options.streams, Reader::Eager).await?;
    tokio::time::sleep(SETTLE).await;
    let opened = world.memory();
    let (busy, peak) = short_requests(&world, options.hold).await?;
    let held = world.memory();
    world.release().await?;
    let ends = streams.end().await?;
    world.alive()?;
    let (written, gateway) = (world.written().await?, world.settled(counted).await?);

    let count = options.streams;
    results.add("open streams", "", count as f64);
    let each = kb_each(before, opened, count);
    results.add("memory of an open stream", "KB", each).at_most(STREAM_KB);
    results.add("memory of an open stream, peak", "KB", kb_each(before, peak, count));
    let growth = kb_each(opened, held, count);
    results.add("its growth while streams stay open", "KB", growth).at_most(FLAT_KB);
    let ms = |values: &[f64], share| quantile(values, share).unwrap_or_default() * 1e3;
    results.add("short requests without streams, p50", "ms", ms(&quiet, 0.5));
    results.add("short requests without streams, p99", "ms", ms(&quiet, 0.99));
    results.add("short requests beside streams, p50", "ms", ms(&busy, 0.5));
    results.add("short requests beside streams, p99", "ms", ms(&busy, 0.99));
    results.add("streams that ended complete", "", ends.complete as f64);
    results.add("streams lost", "", ends.lost() as f64).at_most(0.0);
    let missing = written as f64 - ends.bytes as f64;
    results.add("bytes lost", "", missing.abs()).at_most(0.0);
    // The gateway also counts the short requests beside the streams.
    let requests = ends.complete + busy.len() as u64;
    let difference = gateway.done.abs_diff(requests) + gateway.ended_otherwise;
    results.add("requests that the gateway counts differently", "", difference as f64).at_most(0.0);
    Ok(())
}

/// Streams whose clients read less than the replica sends.
async fn slow(
    options: &Options,
    binary: &Path,
    dir: &Path,
    results: &mut Results,
) -> anyhow::Result<()> {
    let mut world = RaceWorld::start(options, binary, dir)?;
    world.warm_up().await?;
    let before = world.memory();
    let counted = world.counts().await?;
    let body = body(true, mock::FAST);
    let streams = Streams::open(world.address, &body, options.slow, Reader::Slow).await?;
    let (_, peak) = short_requests(&world, options.hold.min(SLOW_HOLD)).await?;
    let written = world.written().await?;
    world.release().await?;
    let ends = streams.end().await?;
    world.alive()?;
    let gateway = world.settled(counted).await?;
    results.add("slow readers", "", options.slow as f64);
    results.add("memory of a slow reader, peak", "KB", kb_each(before, peak, options.slow));
    results.add("sent to each by the replica", "KB", kb_each(0, written, options.slow));
    results.add("slow readers cut off by the gateway", "", ends.cut_off as f64);
    results.add(
        "slow streams that the gateway counts as failed",
        "",
        gateway.ended_otherwise as f64,
    );
    results.add("slow streams that ended complete", "", ends.complete as f64);
    results
        .add("slow streams lost otherwise", "", (ends.lost() - ends.cut_off) as f64)
        .at_most(0.0);
    Ok(())
}

/// Times short requests for so long; in seconds, and the gateway's largest memory meanwhile.
async fn short_requests(world: &RaceWorld, hold: Duration) -> anyhow::Result<(Vec<f64>, u64)> {
    let (address, mut peak) = (world.address, world.memory());
    let timed = tokio::task::spawn_blocking(move || short::time(address, hold));
    while !timed.is_finished() {
        peak = peak.max(world.memory());
        tokio::time::sleep(SAMPLE).await;
    }
    Ok((timed.await??, peak.max(world.memory())))
}

fn body(stream: bool, prompt: &str) -> String {
    serde_json::json!({
        "model": "mock", "messages": [{"role": "user", "content": prompt}], "max_tokens": 8,
        "stream": stream,
    })
    .to_string()
}

/// KB of each of `count` by which memory grew, in bytes.
fn kb_each(before: u64, after: u64, count: usize) -> f64 {
    (after as f64 - before as f64) / 1e3 / count.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    // Memory is shared out, and may have shrunk.
    #[test]
    fn memory_of_each() {
        assert_eq!(kb_each(1_000_000, 3_000_000, 100), 20.0);
        assert_eq!(kb_each(2000, 1000, 1), -1.0);
        assert_eq!(kb_each(0, 1000, 0), 1.0);
    }

    // More connections than a process may open become as many as it may.
    #[test]
    fn counts_fit_the_limit() {
        let asked = Options {
            builds: Builds { meridian: None, before: None },
            streams: 10_000,
            idle: 50_000,
            slow: 100,
            hold: Duration::from_secs(60),
            json: PathBuf::new(),
        };
        let counts = |files| {
            let fitted = fitted(&asked, files);
            (fitted.streams, fitted.idle, fitted.slow)
        };
        assert_eq!(counts(u64::MAX), (10_000, 50_000, 100));
        assert_eq!(counts(20_000), (9920, 9920, 100));
        assert_eq!(counts(1024), (432, 432, 100));
        // A gateway reserves two files for each connection, one for each replica and 64.
        let most = fitted(&asked, 20_000).connections() as u64;
        assert!(2 * most + 16 + 64 <= 20_000, "{most}");
    }
}
