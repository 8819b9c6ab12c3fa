//! Properties over random events: monotonic promotion, the budget, aging, and no panic on any
//! input.

use std::collections::{BTreeMap, BTreeSet};

use meridian_base::{BatchId, Duration, FlowId, PortId, RequestId, Rng, Time};
use meridian_flow::{
    Arbitration, Batch, Config, Flow, Flows, Input, Level, Member, Output, Owner, PortPlan, Ports,
    Stage, Why,
};

use crate::link::{Link, batch, config, flow};

const PORTS: usize = 6;

/// A source of random events, most of them valid.
struct Storm {
    flows: Flows,
    rng: Rng,
    now: Time,
    requests: u64,
}

impl Storm {
    fn new(config: Config, seed: u64) -> Storm {
        let mut flows = Flows::new(config, seed).unwrap();
        for id in 0..PORTS as u32 {
            flows.handle(Time::ZERO, Input::Port { id: PortId(id), bytes_per_second: 1e9 });
        }
        Storm { flows, rng: Rng::new(seed), now: Time::ZERO, requests: 0 }
    }

    /// Advances the time by up to 2 ms and draws an event.
    fn next(&mut self) -> Input {
        self.now = self.now + Duration::from_nanos(self.rng.below(2_000_000) as u64);
        let id = self.rng.below(60) as u32;
        let batch = BatchId(self.rng.below(6) as u32);
        let request = RequestId(self.requests.saturating_sub(self.rng.below(24) as u64));
        match self.rng.below(20) {
            0 | 1 => Input::BatchArrived(self.batch(batch)),
            2 => Input::BatchDeparted(batch),
            3 | 4 => {
                let (generation, layer) = (self.rng.below(2) as u32, self.rng.below(12) as u16);
                Input::Layer { batch, generation, layer }
            }
            5 => Input::Ended(request),
            6..=11 => Input::Submit(self.flow(id, batch, request)),
            12 | 13 => Input::Ask { flow: FlowId(id), bytes: self.rng.below(1 << 20) as u32 },
            14 => Input::Withdrawn { flow: FlowId(id), unused: 0 },
            _ => Input::Completed { flow: FlowId(id), bytes: self.rng.below(3_000_000) as u64 },
        }
    }

    fn flow(&mut self, id: u32, batch: BatchId, request: RequestId) -> Flow {
        let stage = [Stage::Reuse, Stage::Collective, Stage::Handoff][self.rng.below(3)];
        let owner = match stage {
            Stage::Collective => Owner::Batch(batch),
            _ => Owner::Request(request),
        };
        let mut ports: Vec<PortId> = (0..1 + self.rng.below(3))
            .map(|_| PortId(self.rng.below(PORTS + 1).min(PORTS) as u32))
            .collect();
        ports.dedup();
        let ports = Ports::new(&ports).unwrap();
        let bytes = self.rng.below(5_000_000) as u64;
        Flow { id: FlowId(id), owner, stage, layer: self.rng.below(11) as u16, bytes, ports }
    }

    fn batch(&mut self, id: BatchId) -> Batch {
        let layers = 1 + self.rng.below(10) as u16;
        let members = self.rng.below(5);
        let member = |storm: &mut Storm| {
            storm.requests += 1;
            let ahead = Duration::from_micros(storm.rng.below(30_000) as u64);
            let plan = (0..storm.rng.below(3))
                .map(|_| PortPlan {
                    port: PortId(storm.rng.below(PORTS) as u32),
                    reuse: storm.rng.below(1_000_000) as u64,
                    handoff: storm.rng.below(20_000_000) as u64,
                })
                .collect();
            Member {
                id: RequestId(storm.requests),
                deadline: (storm.rng.below(10) > 0).then(|| storm.now + ahead),
                slo: ahead,
                decode: Duration::from_micros(storm.rng.below(2000) as u64),
                plan,
            }
        };
        let requests = (0..members).map(|_| member(self)).collect();
        let port = PortId(self.rng.below(PORTS) as u32);
        let collectives = vec![(port, self.rng.below(5_000_000) as u64)];
        let layer_time = Duration::from_micros(self.rng.below(1000) as u64);
        Batch { id, number: 0, layers, layer_time, collectives, requests }
    }

    /// Handles all work that is due, then the next event.
    fn step(&mut self) -> (Input, Vec<Output>) {
        let input = self.next();
        self.flows.handle_timeout(self.now);
        self.flows.handle(self.now, input.clone());
        let outputs = std::iter::from_fn(|| self.flows.poll()).collect();
        (input, outputs)
    }
}

// For any events in any order, nothing panics, the tables stay consistent, and each refusal gives a
// reason. Every policy, both arbitrations.
#[test]
fn no_order_of_events_breaks_the_tables() {
    for (nth, policy) in meridian_flow::policy::ALL.iter().enumerate() {
        for arbitration in [Arbitration::Hierarchical, Arbitration::Level] {
            let config = Config { arbitration, drop_share: 0.2, ..config(policy.name) };
            let mut storm = Storm::new(config, 100 + nth as u64);
            let mut refused = 0;
            for step in 0..4000 {
                let (_, outputs) = storm.step();
                refused += outputs.iter().filter(|o| matches!(o, Output::Refused { .. })).count();
                if step % 8 == 0 {
                    storm.flows.check_invariants();
                }
            }
            storm.flows.check_invariants();
            assert!((400..3500).contains(&refused), "{refused} refused: good and bad events mix");
        }
    }
}

// Monotonic promotion: within a generation a flow's level never falls, except for requests that are
// given up, for flows that restart with a new generation, and for critical flows that a batch arrives
// in front of.
#[test]
fn promotion_is_monotonic() {
    let (mut rises, mut falls) = (0, 0);
    for seed in 0..20 {
        let mut storm = Storm::new(Config { drop_share: 0.2, ..config("mfs") }, seed);
        let mut levels: BTreeMap<u32, u8> = BTreeMap::new();
        for _ in 0..3000 {
            let (input, outputs) = storm.step();
            if let Input::Submit(flow) = &input {
                let refused = |o: &Output| matches!(o, Output::Refused { .. });
                if !outputs.iter().any(refused) {
                    levels.remove(&flow.id.0);
                }
            }
            let fresh =
                matches!(input, Input::Layer { generation: 1.., .. } | Input::BatchArrived(_));
            for output in outputs {
                let Output::Placed { flow, place, why } = output else { continue };
                let level = place.level.0;
                let before = levels.insert(flow.0, level).unwrap_or(u8::MAX);
                rises += u32::from(level < before && before != u8::MAX);
                if level > before {
                    let given_up = matches!(why, Why::Infeasible { .. } | Why::Pruned | Why::Late);
                    assert!(given_up || fresh, "{flow} fell from {before} to {level} for {why}");
                    falls += 1;
                }
            }
        }
    }
    assert!(rises > 100 && falls > 100, "{rises} rises, {falls} falls");
}

/// The requests that outputs gave up, kept up to date.
fn give_up(given_up: &mut BTreeSet<RequestId>, outputs: &[Output]) {
    for output in outputs {
        match output {
            Output::Pruned { request, .. } | Output::Demoted { request, .. } => {
                given_up.insert(*request);
            }
            Output::Reinstated(request) => {
                given_up.remove(request);
            }
            _ => {}
        }
    }
}

// The same with aging, and with every update visiting every request: neither progress nor the end
// of a wait undoes a promotion.
#[test]
fn promotion_is_monotonic_where_needs_fall_and_flows_age() {
    let (mut rises, mut aged) = (0, 0);
    for seed in 0..20 {
        let aging = Duration::from_millis(20);
        let mut storm = Storm::new(Config { drop_share: 1.0, aging, ..config("mfs") }, seed);
        storm.flows.look_always();
        let mut stands: BTreeMap<u32, (Owner, u8)> = BTreeMap::new();
        let mut given_up = BTreeSet::new();
        for _ in 0..3000 {
            let (input, outputs) = storm.step();
            let refused = outputs.iter().any(|o| matches!(o, Output::Refused { .. }));
            if let Input::Submit(flow) = &input
                && !refused
            {
                stands.insert(flow.id.0, (flow.owner, u8::MAX));
            }
            let fresh =
                matches!(input, Input::Layer { generation: 1.., .. } | Input::BatchArrived(_));
            give_up(&mut given_up, &outputs);
            for output in outputs {
                let Output::Placed { flow, place, why } = output else { continue };
                let (owner, before) = stands[&flow.0];
                let level = place.level.0;
                stands.insert(flow.0, (owner, level));
                let given_up = matches!(owner, Owner::Request(id) if given_up.contains(&id));
                assert!(level <= before || given_up || fresh, "{flow}: {before} to {level}, {why}");
                rises += u32::from(level < before && before != u8::MAX);
                aged += u32::from(matches!(why, Why::Aged { .. }));
            }
        }
    }
    assert!(rises > 1000 && aged > 1000, "{rises} rises, {aged} by age");
}

// A promoted handoff keeps its level when its need falls, and other handoffs of its request on the
// same port join it: nine tenths of a second's bytes, most of which leave at once.
#[test]
fn a_need_that_falls_takes_no_level_back() {
    let mut link = Link::new(Config { load_window: Duration::ZERO, ..config("mfs") });
    link.tell(Input::BatchArrived(batch(1, 8, &[(1, 1.0)])));
    let owner = Owner::Request(RequestId(1));
    link.tell(Input::Submit(flow(1, owner, Stage::Handoff, 0, 0.9)));
    let first = link.flows.place(FlowId(1)).unwrap().level;
    link.tell(Input::Completed { flow: FlowId(1), bytes: 890_000 });
    link.tell(Input::Submit(flow(2, owner, Stage::Handoff, 1, 0.001)));
    let later = link.flows.place(FlowId(2)).unwrap().level;
    link.tell(Input::BatchArrived(batch(2, 8, &[(2, 1.0)])));
    let other = Owner::Request(RequestId(2));
    link.tell(Input::Submit(flow(3, other, Stage::Handoff, 1, 0.011)));
    let small = link.flows.place(FlowId(3)).unwrap().level;
    assert_eq!((first, later), (Level(0), Level(0)));
    assert!(small > Level(2), "{small} is where so few bytes of others stand");
}

// The budget holds: of the requests that arrived within the window, no more than its share is given
// up, counted from the outputs and not by the machine.
#[test]
fn the_drop_budget_is_respected() {
    for share in [0.0, 0.05, 0.3] {
        let window = Duration::from_millis(500);
        let mut storm =
            Storm::new(Config { drop_share: share, drop_window: window, ..config("mfs") }, 77);
        // A bucket is a tenth of the window; the newest ten count.
        let bucket = |time: Time| time.as_nanos() / 50_000_000;
        let (mut came, mut dropped) = (vec![], vec![]);
        let mut counted = BTreeSet::new();
        for _ in 0..20_000 {
            let (input, outputs) = storm.step();
            let now = bucket(storm.now);
            let refused: Vec<String> = outputs
                .iter()
                .filter_map(|o| match o {
                    Output::Refused { subject, .. } => Some(subject.to_string()),
                    _ => None,
                })
                .collect();
            if let Input::BatchArrived(batch) = &input {
                let whole = refused.contains(&batch.id.to_string());
                let taken = |m: &&Member| !whole && !refused.contains(&m.id.to_string());
                came.extend(batch.requests.iter().filter(taken).map(|_| now));
            }
            let before = dropped.len();
            for output in outputs {
                let request = match output {
                    Output::Pruned { request, .. } => request,
                    Output::Demoted { request, why: Why::Infeasible { .. } } => request,
                    _ => continue,
                };
                if counted.insert(request) {
                    dropped.push(now);
                }
            }
            let recent = |all: &[u64]| all.iter().filter(|at| **at + 10 > now).count() as f64;
            if dropped.len() > before {
                assert!(recent(&dropped) <= share * recent(&came), "at {}", storm.now);
            }
        }
        assert_eq!(dropped.is_empty(), share == 0.0, "{} dropped", dropped.len());
    }
}

/// When a loose flow ends on a link full of critical handoffs and collectives, with new ones
/// arriving all the time; `None` if it has not ended after `seconds`.
fn beside_a_stream(stage: Stage, aging: Duration, seconds: f64) -> Option<f64> {
    let mut link = Link::new(Config { aging, ..config("mfs") });
    link.tell(Input::BatchArrived(batch(1, 64, &[(1, 10_000.0)])));
    let owner = Owner::Request(RequestId(1));
    link.tell(Input::Submit(flow(0, owner, stage, 60, 0.001)));
    let mut id = 2;
    while link.now < seconds && !link.ended.contains_key(&0) {
        // 6 ms of a handoff with 10 ms to its deadline and 11 ms of a collective, every 10 ms.
        let one = batch(2 + id % 8, 1, &[(u64::from(id), link.now + 0.0105)]);
        let batch = one.id;
        link.tell(Input::BatchArrived(one));
        let request = Owner::Request(RequestId(u64::from(id)));
        link.tell(Input::Submit(flow(2 * id % 250, request, Stage::Handoff, 0, 0.006)));
        link.tell(Input::BatchDeparted(batch));
        let collective =
            flow((2 * id + 1) % 250, Owner::Batch(BatchId(1)), Stage::Collective, 0, 0.011);
        link.tell(Input::Submit(collective));
        let end = link.now + 0.01;
        link.run(end);
        id += 1;
        if id > 120 {
            break;
        }
    }
    link.ended.get(&0).copied()
}

// No starvation beyond aging: next to a link that more urgent flows keep full, a loose one ends
// within K levels of aging (a quarter more, since age is checked four times an interval), whatever
// its stage. Without aging it never ends.
#[test]
fn nothing_starves_beyond_aging() {
    let aging = Duration::from_millis(60);
    let bound = 0.06 * 1.25 * 9.0 + 0.02;
    for stage in [Stage::Reuse, Stage::Handoff] {
        let ended = beside_a_stream(stage, aging, 1.1);
        assert!(ended.is_some_and(|ended| ended < bound), "{stage:?} ended {ended:?}");
        assert!(ended.is_some_and(|ended| ended > 0.06), "and it was not first before");
        assert_eq!(beside_a_stream(stage, Duration::ZERO, 1.1), None);
    }
}

// The same events give the same outputs, with any seed of the maps.
#[test]
fn outputs_do_not_depend_on_the_maps() {
    let run = |maps: u64| {
        let mut storm = Storm::new(config("mfs"), 5);
        storm.flows = Flows::new(config("mfs"), maps).unwrap();
        for id in 0..PORTS as u32 {
            let port = Input::Port { id: PortId(id), bytes_per_second: 1e9 };
            storm.flows.handle(Time::ZERO, port);
        }
        (0..3000).flat_map(|_| storm.step().1).map(|o| format!("{o:?}")).collect::<Vec<_>>()
    };
    assert!(run(1) == run(2) && run(1).len() > 1000);
}

// Updates skip requests whose flows can't rise yet; that changes no output.
#[test]
fn updates_left_out_would_change_nothing() {
    let run = |seed: u64, always: bool| {
        let mut storm = Storm::new(Config { drop_share: 0.2, ..config("mfs") }, seed);
        if always {
            storm.flows.look_always();
        }
        let mut said = vec![];
        for _ in 0..3000 {
            for output in storm.step().1 {
                said.push(match output {
                    Output::Placed { flow, place, .. } => format!("{flow} {place:?}"),
                    Output::Demoted { request, .. } => format!("{request} demoted"),
                    other => format!("{other:?}"),
                });
            }
        }
        said
    };
    for seed in 0..10 {
        assert!(run(seed, false) == run(seed, true), "seed {seed}");
    }
}
