//! Measures the cost of digests for a gateway: its share of a core, and the bytes on the wire.
//!
//! Two machines represent all: one region that sends digests to its followers, and one that
//! receives those of as many peers. The gateway's own code creates, writes, reads and applies the
//! messages; sockets, TLS and HTTP/2 are not included. A gateway does both, so its cost is the sum.
//! Time is the thread's own CPU time, so other processes do not count.
//!
//! The size of a digest depends on how many replicas' figures change between two: none, a tenth, or
//! all with each probe. Idle regions send one per `peers.beat`, others one per `peers.push`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;
use bytes::BytesMut;
use clap::value_parser;
use meridian_base::{PeerId, ReplicaId, Rng, Time};
use meridian_protocol::peer::{Hearing, Page, Tell, Telling};
use meridian_routing::{Input, Load, PeerSpec, Routing};
use meridian_tools::load::seconds;
use serde_json::json;

use crate::decision::world::DecisionFleet;
use crate::harness::{Results, cpu_time};

/// Sizes of the measurement, and the path of its results.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Peers
    #[arg(long, default_value_t = 30, value_parser = value_parser!(u16).range(1..=64))]
    peers: u16,
    /// Replicas in each region
    #[arg(long, default_value_t = 1000, value_parser = value_parser!(u16).range(1..=4096))]
    replicas: u16,
    /// Simulated time for each row
    #[arg(long, default_value = "10s", value_parser = seconds)]
    each: Duration,
    /// Output file
    #[arg(long, default_value = "target/bench/digests.json")]
    json: PathBuf,
}

/// The most that digests should take, in % of a core.
const MOST: f64 = 2.0;
/// Interval between digests without changes, and between digests with changes; the defaults of
/// `peers`.
const BEAT: Duration = Duration::from_millis(100);
const PUSH: Duration = Duration::from_millis(20);
/// Each busy replica is probed once in this interval.
const PROBE: Duration = Duration::from_millis(100);
const SEED: u64 = 1;

/// How many replicas change.
struct Case {
    name: &'static str,
    /// Share of the replicas that are busy.
    busy: f64,
    every: Duration,
}

const CASES: [Case; 3] = [
    Case { name: "nothing changes", busy: 0.0, every: BEAT },
    Case { name: "a tenth of the replicas is busy", busy: 0.1, every: PUSH },
    Case { name: "all replicas are busy", busy: 1.0, every: PUSH },
];

/// The cost of a case.
struct Cost {
    /// CPU seconds of sending and of receiving.
    telling: f64,
    hearing: f64,
    /// Bytes to one peer.
    bytes: f64,
    digests: f64,
    /// Simulated seconds.
    seconds: f64,
}

/// Measures, prints the table, writes the file.
///
/// # Errors
/// When the file cannot be written, or messages are not understood.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let Options { peers, replicas, each, .. } = *options;
    ensure!(each >= BEAT, "each: {each:?} has no digest in it; use 1s or more");
    let settings = json!({"peers": peers, "replicas": replicas});
    let mut results = Results::new("digests", settings, &options.json)?;
    for case in &CASES {
        let Cost { telling, hearing, bytes, digests, seconds } = measure(options, case)?;
        let (percent, kb) = (100.0 / seconds, bytes / 1e3 / seconds);
        results.case(case.name);
        results.add("digests", "1/s", digests / seconds);
        results.add("sending", "% of a core", telling * percent);
        results.add("receiving", "% of a core", hearing * percent);
        results.add("sum", "% of a core", (telling + hearing) * percent).at_most(MOST);
        results.add("to a peer", "KB/s", kb);
        results.add("to all", "KB/s", kb * f64::from(peers));
    }
    results.finish()
}

/// Bytes of a region's digest for one peer, in the mean of a second, if the figures of all its replicas
/// change.
pub fn bytes(replicas: u16, every: Duration) -> anyhow::Result<f64> {
    let each = Duration::from_secs(1);
    let options = Options { peers: 1, replicas, each, json: PathBuf::new() };
    let case = Case { name: "all replicas are busy", busy: 1.0, every };
    let cost = measure(&options, &case)?;
    Ok(cost.bytes / cost.digests)
}

fn measure(options: &Options, case: &Case) -> anyhow::Result<Cost> {
    let fleet = DecisionFleet::new(SEED, options.replicas, 1000);
    let (mut here, mut there) = (fleet.routing(SEED, None)?, fleet.routing(SEED, None)?);
    let mut now = Time::from_millis(10);
    let rtt = Duration::from_millis(80);
    for id in (0..options.peers).map(PeerId) {
        let spec = PeerSpec { rtt, near: false, name_hash: u64::from(id.0) };
        there.handle(now, Input::PeerJoined { id, spec });
    }
    let mut tellings: Vec<Telling> = (0..options.peers).map(|_| Telling::default()).collect();
    let mut hearings: Vec<Hearing> = (0..options.peers).map(|_| Hearing::default()).collect();
    let (mut telling, mut hearing, mut bytes) = (Duration::ZERO, Duration::ZERO, 0_u64);
    let (mut rng, mut page) = (Rng::new(SEED), Page::default());
    let digests = (options.each.as_secs_f64() / case.every.as_secs_f64()) as u64;
    // The first message is complete, as at the start of a stream.
    for sent in 1..=digests + 1 {
        now = now + case.every;
        change(&mut here, now, options, case, &mut rng);
        let began = cpu_time();
        let messages = tell(&here, &mut page, &mut tellings);
        let middle = cpu_time();
        hear(&mut there, now, sent, &mut hearings, &messages)?;
        if sent > 1 {
            telling += middle - began;
            hearing += cpu_time() - middle;
            bytes += messages.first().map_or(0, |message| message.len() as u64);
        }
    }
    let (telling, hearing) = (telling.as_secs_f64(), hearing.as_secs_f64());
    let (bytes, digests) = (bytes as f64, digests as f64);
    Ok(Cost { telling, hearing, bytes, digests, seconds: digests * case.every.as_secs_f64() })
}

/// Probes report the busy replicas' figures, spread evenly over time.
fn change(here: &mut Routing, now: Time, options: &Options, case: &Case, rng: &mut Rng) {
    let busy = f64::from(options.replicas) * case.busy;
    let probed = (busy * case.every.as_secs_f64() / PROBE.as_secs_f64()).round() as u16;
    for _ in 0..probed {
        let id = ReplicaId(rng.below(busy as usize) as u16);
        let load = Load {
            pending: Some(0),
            running: Some(rng.below(40) as u32),
            kv_used: Some(rng.unit() as f32),
            kv_tokens: Some(500_000),
        };
        here.handle(now, Input::Reported { id, asked: now, load });
    }
    while here.poll().is_some() {}
}

/// Creates one digest, and a message of it for each follower.
fn tell(here: &Routing, page: &mut Page, tellings: &mut [Telling]) -> Vec<BytesMut> {
    *page = page.next(here.digest());
    let one = |telling: &mut Telling| {
        let mut message = BytesMut::new();
        Tell::News(telling.news(page)).encode(&mut message);
        message
    };
    tellings.iter_mut().map(one).collect()
}

/// Receives a message from each peer.
fn hear(
    there: &mut Routing,
    now: Time,
    sent: u64,
    hearings: &mut [Hearing],
    messages: &[BytesMut],
) -> anyhow::Result<()> {
    for ((peer, hearing), message) in (0..).map(PeerId).zip(hearings).zip(messages) {
        let Tell::News(news) = Tell::decode(&message[..])? else { continue };
        let digest = hearing.take(news)?;
        there.handle(now, Input::Digested { peer, sent, rtt: None, digest });
        while there.poll().is_some() {}
    }
    Ok(())
}
