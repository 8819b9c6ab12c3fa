//! What digests cost: microseconds to make one, to write and to read its news, bytes a second, and
//! the share of a core for a gateway with thirty peers of a thousand replicas each, which all tell
//! of themselves at the fastest pace, 50 times a second.
//!
//! A machine of a thousand replicas names its best 256 in a digest (`most_remotes`). Three loads:
//! nothing changes, a tenth of the replicas changes between two digests, all of them do.
//!
//! `cargo run --release -p meridian-wire --example digest_cost`

use std::hint::black_box;
use std::time::{Duration, Instant};

use meridian_base::{ModelId, ReplicaId, Time};
use meridian_routing::{Config, Digest, Input, Load, ReplicaSpec, Routing, SharedPrefix, policy};
use meridian_wire::peer::{Budget, Hearing, Tell, Telling};

const PEERS: f64 = 30.0;
const PACE: f64 = 50.0;
const ROUNDS: u32 = 2000;

fn machine() -> Routing {
    let spec = policy::find("meridian").expect("is the default policy");
    let mut machine = Routing::new(Config::new(spec), 1);
    for id in (0..1000).map(ReplicaId) {
        let spec = ReplicaSpec {
            models: vec![ModelId(0)],
            kv_tokens: Some(100_000),
            slots: None,
            weight: 1,
            rtt: Duration::ZERO,
            place: 0,
        };
        machine.handle(Time::ZERO, Input::Joined { id, spec });
        let load = Load { pending: Some(0), running: Some(id.0.into()), ..Load::default() };
        machine.handle(Time::ZERO, Input::Reported { id, asked: Time::ZERO, load });
        while machine.poll().is_some() {}
    }
    machine
}

fn micros(spent: Duration) -> f64 {
    spent.as_secs_f64() * 1e6 / f64::from(ROUNDS)
}

/// The cost of a stream on which every `every`th replica changes between two digests; 0 for none.
fn stream(name: &str, start: &Digest, every: usize, prefixes: u64) {
    let mut digest = start.clone();
    let mut telling = Telling::new(Time::ZERO, true, Budget::default());
    let mut hearing = Hearing::default();
    let (mut writing, mut reading, mut bytes) = (Duration::ZERO, Duration::ZERO, 0);
    for round in 0..=ROUNDS {
        if every > 0 {
            for remote in digest.replicas.iter_mut().step_by(every) {
                remote.front_tokens = round as f32;
            }
        }
        let first = u64::from(round) * prefixes;
        let fresh = (first..first + prefixes).map(|n| SharedPrefix {
            hash: n.wrapping_mul(0x9E37_79B9_7F4A_7C15),
            replica: ReplicaId((n % 1000) as u16),
        });
        digest.prefixes = fresh.collect();
        let now = Time::from_millis(20 * u64::from(round));
        let began = Instant::now();
        let mut message = Vec::new();
        Tell::News(telling.news(now, black_box(&digest))).encode(&mut message);
        let wrote = began.elapsed();
        let began = Instant::now();
        let read = Tell::decode(black_box(message.as_slice())).expect("is within bounds");
        let Tell::News(news) = read else { unreachable!("news were written") };
        black_box(hearing.take(news).expect("follows"));
        let heard = began.elapsed();
        // The first message tells everything, once a stream.
        if round > 0 {
            (writing, reading, bytes) = (writing + wrote, reading + heard, bytes + message.len());
        }
    }
    let (write, read) = (micros(writing), micros(reading));
    let core = (write + read) * PACE * PEERS / 1e6 * 100.0;
    let kb = bytes as f64 / f64::from(ROUNDS) * PACE / 1000.0;
    println!(
        "{name:<32} write {write:>6.1} us  read {read:>6.1} us  {kb:>7.1} KB/s a peer  {core:>6.2} % of a core for {PEERS} peers"
    );
}

fn main() {
    let machine = machine();
    let began = Instant::now();
    for _ in 0..ROUNDS {
        black_box(machine.digest(Time::from_millis(1)));
    }
    let made = micros(began.elapsed());
    println!(
        "a digest of 1,000 replicas: {made:.1} us, {:.2} % of a core at {PACE} a second, for all followers",
        made * PACE / 1e6 * 100.0
    );
    let digest = machine.digest(Time::from_millis(1));
    stream("nothing changes", &digest, 0, 0);
    stream("prefixes at the whole budget", &digest, 0, 130);
    stream("a tenth changes", &digest, 10, 0);
    stream("everything changes", &digest, 1, 0);
}
