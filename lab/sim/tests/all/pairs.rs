//! Prefill and decode replicas: long prompts are split between two replicas, and their KV crosses the
//! fabric between them.

mod faults;

use std::sync::Arc;
use std::time::Duration;

use meridian_engine::{Config, Profile};
use meridian_routing::{Role, policy};
use meridian_sim::{
    Crossing, Fate, Hardware, Load, Measure, Rack, Record, Region, Report, Scenario, Source,
    System, Topology, Transfer, Wan, run,
};
use meridian_workload::{Sessions, open_loop};

/// KV bytes of a token of the model.
const TOKEN: f64 = 131_072.0;
/// Rate of every card, Gb/s.
const GBPS: f64 = 200.0;
/// Tokens of a long prompt.
const LONG: u32 = 16_000;

fn replica(role: Role, gbps: f64) -> Hardware {
    let profile = Profile::named("llama-3.1-8b", "h100", 1).expect("it fits");
    let transfer = Transfer { gbps, ..Transfer::default() };
    Hardware { role, transfer, ..Hardware::new(0, Config::new(profile)) }
}

/// One region: chats of short prompts and long answers, so that every decode replica is busy, and
/// a long prompt of its own every `every` from the fifth second on.
fn world(prefill: usize, decode: usize, every: Duration) -> Scenario {
    let chats = Sessions { turns: 1, system_bytes: 0, question_bytes: 400, max_tokens: 400 };
    let chats = Source::Closed {
        clients: 150,
        generator: Arc::new(chats),
        ramp: Duration::from_secs(2),
        programs: None,
        day: None,
    };
    let long = Sessions { turns: 1, system_bytes: 0, question_bytes: LONG * 4, max_tokens: 50 };
    let starts = (0..).map(move |n: u32| seconds(5) + every * n);
    let long = open_loop(Arc::new(long), starts, 7, 0);
    let load = |source| Load { region: 0, source, may_run_in: None };
    let pool = |role, n| vec![replica(role, GBPS); n];
    let policy = policy::find("meridian").expect("a policy");
    Scenario {
        seed: 3,
        regions: vec![Region { name: "a".into(), continent: "one".into() }],
        wan: Wan { rtt_ms: vec![vec![1.0]], jitter: 0.0, loss: 0.0 },
        replicas: [pool(Role::Prefill, prefill), pool(Role::Decode, decode)].concat(),
        system: System::usual(policy, Topology::RegionLocal),
        loads: vec![load(chats), load(Source::Open(Box::new(long)))],
        faults: Vec::new(),
        autoscaler: None,
        racks: Vec::new(),
        measure: Measure { warmup: Duration::from_secs(5), window: Duration::from_secs(30) },
        paranoid: true,
    }
}

fn ran(scenario: Scenario) -> Report {
    let report = run(scenario).expect("a possible scenario");
    assert_eq!(report.violations, Vec::<String>::new());
    report
}

fn long(report: &Report) -> impl Iterator<Item = &Record> {
    report.requests.iter().filter(|r| r.load == 1)
}

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

// One prefill and three decode replicas: long prompts are split, short ones stay whole. The KV of
// a split one crosses at the rate of the cards, and its TTFT has the transfer in it.
#[test]
fn long_prompts_are_split() {
    let report = ran(world(1, 3, seconds(2)));
    assert!(report.requests.iter().all(|r| r.fate == Fate::Done && r.replica > 0));
    assert!(report.requests.iter().filter(|r| r.load == 0).all(|r| r.crossing.is_none()));
    let split: Vec<_> = long(&report).filter_map(|r| r.crossing.map(|way| (r, way))).collect();
    assert!(split.len() > 10 && split.len() + 2 > long(&report).count(), "{} split", split.len());
    for (request, way) in split {
        let bytes = f64::from(request.prompt_tokens.div_ceil(16) * 16) * TOKEN;
        assert_eq!(way.bytes, bytes as u64);
        let alone = bytes * 8.0 / (GBPS * 1e9);
        let took = way.time.as_secs_f64();
        assert!((alone..alone + 0.005).contains(&took), "{took} s, and {alone} alone");
        assert!(request.ttft > way.time);
    }
}

/// Long prompts only, two at a time, which a policy that does not price pairs always splits.
fn two_prompts(prefill: usize, decode: usize) -> Scenario {
    let policy = policy::find("least_outstanding").expect("a policy");
    let mut scenario = world(prefill, decode, seconds(1));
    scenario.system = System::usual(policy, Topology::RegionLocal);
    let long = Sessions { turns: 1, system_bytes: 0, question_bytes: LONG * 4, max_tokens: 50 };
    let starts = (0..).map(|n: u32| seconds(5) + seconds(10) * (n / 2));
    let source = Source::Open(Box::new(open_loop(Arc::new(long), starts, 7, 0)));
    scenario.loads = vec![Load { region: 0, source, may_run_in: None }];
    scenario
}

/// The transfers of the first two requests.
fn first_two(report: &Report) -> [Crossing; 2] {
    [0, 1].map(|at| report.requests[at].crossing.expect("it is split"))
}

// Two prompts are computed at the same time, and one replica fetches both. They share its port, so
// each takes twice as long as to two replicas.
#[test]
fn transfers_share_a_port() {
    let apart = first_two(&ran(two_prompts(2, 2)));
    let together = first_two(&ran(two_prompts(2, 1)));
    for (alone, shared) in apart.into_iter().zip(together) {
        assert_eq!(alone.bytes, shared.bytes);
        let ratio = shared.time.as_secs_f64() / alone.time.as_secs_f64();
        assert!((1.9..2.01).contains(&ratio), "{alone:?}, {shared:?}");
    }
}

// Two prefill replicas in one rack, two decode replicas in another. The uplinks are as fast as one
// card, so that two transfers at the same time share them.
#[test]
fn racks_share_an_uplink() {
    let in_racks = |gbps| {
        let mut scenario = two_prompts(2, 2);
        scenario.racks = vec![Rack { gbps }; 2];
        for replica in &mut scenario.replicas {
            replica.transfer.rack = Some(usize::from(replica.role == Role::Decode));
        }
        first_two(&ran(scenario))
    };
    for (wide, narrow) in in_racks(2.0 * GBPS).into_iter().zip(in_racks(GBPS)) {
        let ratio = narrow.time.as_secs_f64() / wide.time.as_secs_f64();
        assert!((1.9..2.01).contains(&ratio), "{wide:?}, {narrow:?}");
    }
    let mut nowhere = two_prompts(1, 1);
    nowhere.replicas[0].transfer.rack = Some(0);
    let why = run(nowhere).expect_err("there are no racks").to_string();
    assert_eq!(why, "replica 0 is in rack 0, and there are 0: add it, or leave it out");
}

// The same world gives the same report.
#[test]
fn pairs_repeat() {
    let [one, two] = [(); 2].map(|()| ran(world(1, 3, seconds(2))));
    assert_eq!(one, two);
}
