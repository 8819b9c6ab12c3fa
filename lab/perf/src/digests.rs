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
use meridian_base::{PeerId, ReplicaId, Rng, Time};
use meridian_protocol::peer::{Hearing, Page, Tell, Telling};
use meridian_routing::{Input, Load, PeerSpec, Routing};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use crate::decision::world::Fleet;
use meridian_tools::json_file;
use meridian_tools::load::table;

/// Sizes of the measurement, and the path of its results.
#[derive(Clone, Debug)]
pub struct Options {
    /// Peers.
    pub peers: u16,
    /// Replicas of each region.
    pub replicas: u16,
    /// Simulated time of each row.
    pub each: Duration,
    /// Output file.
    pub json: PathBuf,
}

/// Target share of a core.
const TARGET: f64 = 0.02;
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

#[derive(Clone, Debug, Serialize)]
struct Row {
    name: &'static str,
    unit: &'static str,
    /// Total share of a core.
    value: f64,
    telling: f64,
    hearing: f64,
    /// Bytes a second to one peer.
    bytes_per_second: f64,
    digests_per_second: f64,
    within: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    bench: &'static str,
    commit: String,
    peers: u16,
    replicas: u16,
    rows: Vec<Row>,
}

/// Measures, prints the table, writes the file.
///
/// # Errors
/// When the file cannot be written, or messages are not understood.
pub fn measure(options: &Options) -> anyhow::Result<()> {
    ensure!(options.each >= BEAT, "each: {:?} has no digest in it; use 1s or more", options.each);
    let rows = CASES.iter().map(|case| row(options, case)).collect::<anyhow::Result<_>>()?;
    let Options { peers, replicas, .. } = *options;
    let report =
        Report { bench: "digests", commit: meridian_tools::commit(), peers, replicas, rows };
    print(&report);
    json_file::write(&report, &options.json)
}

/// Bytes of a region's digest for one peer, in the mean of a second, if the figures of all its replicas
/// change.
pub fn bytes(replicas: u16, every: Duration) -> anyhow::Result<f64> {
    let each = Duration::from_secs(1);
    let options = Options { peers: 1, replicas, each, json: PathBuf::new() };
    let case = Case { name: "all replicas are busy", busy: 1.0, every };
    let row = row(&options, &case)?;
    Ok(row.bytes_per_second / row.digests_per_second)
}

fn row(options: &Options, case: &Case) -> anyhow::Result<Row> {
    let fleet = Fleet::new(SEED, options.replicas, 1000);
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
        let began = cpu();
        let messages = tell(&here, &mut page, &mut tellings);
        let middle = cpu();
        hear(&mut there, now, sent, &mut hearings, &messages)?;
        if sent > 1 {
            telling += middle - began;
            hearing += cpu() - middle;
            bytes += messages.first().map_or(0, |message| message.len() as u64);
        }
    }
    let seconds = digests as f64 * case.every.as_secs_f64();
    let share = |spent: Duration| spent.as_secs_f64() / seconds;
    let value = share(telling + hearing);
    Ok(Row {
        name: case.name,
        unit: "share of a core",
        value,
        telling: share(telling),
        hearing: share(hearing),
        bytes_per_second: bytes as f64 / seconds,
        digests_per_second: digests as f64 / seconds,
        within: value <= TARGET,
    })
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

/// This thread's CPU time.
fn cpu() -> Duration {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(spent.tv_sec.cast_unsigned(), u32::try_from(spent.tv_nsec).unwrap_or(0))
}

fn print(report: &Report) {
    let header = [
        "",
        "digests/s",
        "telling, % of a core",
        "hearing",
        "sum",
        "KB/s to a peer",
        "KB/s to all",
    ];
    let mut table = table::table(&header);
    let percent = |share: f64| format!("{:.2}", share * 100.0);
    for row in &report.rows {
        let kb = row.bytes_per_second / 1e3;
        table.add_row([
            row.name.to_owned(),
            format!("{:.0}", row.digests_per_second),
            percent(row.telling),
            percent(row.hearing),
            percent(row.value),
            format!("{kb:.1}"),
            format!("{:.0}", kb * f64::from(report.peers)),
        ]);
    }
    println!(
        "{} peers, {} replicas each; the target is at most {} % of a core\n{table}",
        report.peers,
        report.replicas,
        TARGET * 100.0
    );
}
