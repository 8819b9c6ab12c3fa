//! Tests of the order of batches and of pruning: corrections 10, 11 and 12.

use meridian_base::{BatchId, Duration, FlowId, RequestId, Time};
use meridian_flow::{
    Batch, Config, Flow, Flows, Input, Lever, Output, Owner, PortPlan, Ports, RedOrder, Stage,
};

use crate::link::{PORT, batch, config};

/// A machine with a port of 1,000 bytes a millisecond, where half of all requests may be dropped.
fn machine(change: impl Fn(&mut Config)) -> Flows {
    let mut config = Config { drop_share: 0.5, ..config("mfs") };
    change(&mut config);
    let mut flows = Flows::new(config, 1).unwrap();
    flows.handle(Time::ZERO, Input::Port { id: PORT, bytes_per_second: 1e6 });
    flows
}

/// A batch of requests with deadline and handoff in ms, its collectives in ms of the port.
fn loaded(id: u32, requests: &[(u64, u64, u64)], collectives: u64) -> Batch {
    let deadlines: Vec<(u64, f64)> = requests.iter().map(|r| (r.0, r.1 as f64 / 1e3)).collect();
    let mut one = batch(id, 1, &deadlines);
    one.collectives = vec![(PORT, collectives * 1000)];
    for (member, (_, _, ms)) in one.requests.iter_mut().zip(requests) {
        member.plan = vec![PortPlan { port: PORT, reuse: 0, handoff: ms * 1000 }];
    }
    one
}

fn outputs(flows: &mut Flows) -> Vec<Output> {
    std::iter::from_fn(|| flows.poll()).collect()
}

/// Requests reported as pruned since the last call.
fn pruned(flows: &mut Flows) -> Vec<u64> {
    let is = |output: &Output| match output {
        Output::Pruned { request, .. } => Some(request.0),
        _ => None,
    };
    outputs(flows).iter().filter_map(is).collect()
}

fn arrive(flows: &mut Flows, ms: u64, batch: Batch) -> Vec<u64> {
    flows.handle(Time::from_millis(ms), Input::BatchArrived(batch));
    pruned(flows)
}

fn collective(flows: &mut Flows, id: u32, batch: u32) -> (u8, u64) {
    let (id, owner, stage) = (FlowId(id), Owner::Batch(BatchId(batch)), Stage::Collective);
    let one = Flow { id, owner, stage, layer: 0, bytes: 1, ports: Ports::one(PORT) };
    flows.handle(Time::ZERO, Input::Submit(one));
    let place = flows.place(id).unwrap();
    (place.class, place.order)
}

// The piggyback effect, in the machine: a batch of nine requests due at 1 s and one due at 100 ms
// goes behind one whose requests are due at 800 ms. Without RED, batches go in order of arrival.
#[test]
fn piggyback_is_ordered_by_the_many() {
    let mut mixed = vec![(1, 100, 1)];
    mixed.extend((2..11).map(|id| (id, 1000, 1)));
    let uniform: Vec<_> = (20..30).map(|id| (id, 800, 1)).collect();
    let order = |red: bool| {
        let mut flows = machine(|config| {
            config.terms.red = red;
            config.red_clip = 100.0;
        });
        arrive(&mut flows, 0, loaded(1, &mixed, 1));
        arrive(&mut flows, 0, loaded(2, &uniform, 1));
        collective(&mut flows, 1, 1) < collective(&mut flows, 2, 2)
    };
    assert!(!order(true), "the mixed batch goes second");
    assert!(order(false), "as they came");
}

// Correction 10: with the variant, RED less the estimated remaining service, a batch of longer
// computation goes first at a deadline that is a little later.
#[test]
fn correction_10_red_by_laxity() {
    let order = |red: RedOrder| {
        let mut flows = machine(|config| config.red = red);
        arrive(&mut flows, 0, loaded(1, &[(1, 500, 1)], 1));
        let mut long = loaded(2, &[(2, 600, 1)], 1);
        long.layer_time = Duration::from_millis(300);
        arrive(&mut flows, 0, long);
        collective(&mut flows, 1, 1) < collective(&mut flows, 2, 2)
    };
    assert!(order(RedOrder::Deadline));
    assert!(!order(RedOrder::Laxity));
}

// Correction 11: the finish is estimated after each pruned request. A batch of 30, 40 and 50 ms with
// 90 ms to its deadline fits once the longest is out; as printed, where it is estimated only after a
// request of an earlier batch was pruned, all three would go.
#[test]
fn correction_11_pruning_stops_when_the_batch_fits() {
    let mut flows = machine(|_| {});
    let batch = loaded(1, &[(1, 90, 30), (2, 90, 40), (3, 90, 50)], 10);
    assert_eq!(arrive(&mut flows, 0, batch), [3]);
}

// Correction 11: an earlier batch's request is pruned if it is the heaviest at the bottleneck, and
// the estimate follows that too.
#[test]
fn correction_11_an_earlier_batch_is_pruned_for_a_later_one() {
    let mut flows = machine(|_| {});
    let before = loaded(1, &[(1, 100, 60), (2, 100, 5)], 5);
    assert_eq!(arrive(&mut flows, 0, before), []);
    assert_eq!(arrive(&mut flows, 0, loaded(2, &[(3, 120, 55), (4, 120, 10)], 5)), [1]);
}

// Correction 11: the budget holds. A third of three requests is one, even if that is far from
// enough.
#[test]
fn correction_11_the_budget_is_a_share_of_what_came() {
    let mut flows = machine(|config| config.drop_share = 0.34);
    let batch = loaded(1, &[(1, 20, 60), (2, 20, 70), (3, 20, 80)], 1);
    assert_eq!(arrive(&mut flows, 0, batch), [3]);
    assert_eq!(flows.budget(), (3, 1));
}

// Correction 11: if no request has bytes on the bottleneck that can be removed, pruning stops: the
// batch is late because of its collectives alone.
#[test]
fn correction_11_pruning_stops_without_load_on_the_bottleneck() {
    let mut flows = machine(|config| config.drop_share = 1.0);
    assert_eq!(arrive(&mut flows, 0, loaded(1, &[(1, 20, 0), (2, 20, 0)], 50)), []);
    assert_eq!(flows.budget(), (2, 0));
}

// Correction 11, aging: of two requests the longer would always be pruned. It arrived 2 s before
// the other, so it weighs a third, and the shorter is pruned.
#[test]
fn correction_11_who_came_long_ago_is_spared() {
    for (came, expected) in [(1999, 1), (0, 2)] {
        let mut flows = machine(|_| {});
        arrive(&mut flows, came, loaded(1, &[(1, 2090, 60)], 0));
        assert_eq!(arrive(&mut flows, 2000, loaded(2, &[(2, 2090, 50)], 0)), [expected]);
    }
}

// Correction 11, hysteresis: there must be capacity for a pruned request at two passes, with a
// margin.
#[test]
fn correction_11_a_pruned_request_comes_back_after_two_passes() {
    let mut flows = machine(|_| {});
    arrive(&mut flows, 0, loaded(1, &[(1, 100, 60)], 0));
    assert_eq!(arrive(&mut flows, 0, loaded(2, &[(2, 110, 70)], 0)), [2]);
    // The first batch has ended and its handoff with it: there is capacity, at the first pass.
    flows.handle(Time::from_millis(1), Input::BatchDeparted(BatchId(1)));
    flows.handle(Time::from_millis(1), Input::Ended(RequestId(1)));
    assert!(!outputs(&mut flows).contains(&Output::Reinstated(RequestId(2))));
    flows.handle(Time::from_millis(2), Input::BatchArrived(loaded(3, &[(3, 9000, 1)], 0)));
    assert!(outputs(&mut flows).contains(&Output::Reinstated(RequestId(2))), "at the second");
    assert_eq!(flows.budget().1, 1, "coming back gives nothing back to the budget");
}

/// Two batches whose requests are pruned for a third one's collectives, with the levers. Request 1
/// has started its fetch, request 2 has not.
fn levers(can_defer: bool) -> Vec<(u64, Lever)> {
    let mut flows = machine(|config| (config.can_defer, config.drop_share) = (can_defer, 1.0));
    for (id, deadline, handoff) in [(1, 100, 60), (2, 110, 30)] {
        let mut one = loaded(id, &[(u64::from(id), deadline, handoff)], 0);
        one.requests[0].plan[0].reuse = 5_000;
        arrive(&mut flows, 0, one);
    }
    let (id, owner) = (FlowId(1), Owner::Request(RequestId(1)));
    let fetch =
        Flow { id, owner, stage: Stage::Reuse, layer: 0, bytes: 5000, ports: Ports::one(PORT) };
    flows.handle(Time::ZERO, Input::Submit(fetch));
    let place = flows.place(id);
    flows.handle(Time::ZERO, Input::BatchArrived(loaded(3, &[(3, 120, 0)], 105)));
    assert_eq!(flows.place(id), place, "its fetch holds up its batch, and stays where it is");
    let is = |output: &Output| match output {
        Output::Pruned { request, lever, .. } => Some((request.0, *lever)),
        _ => None,
    };
    outputs(&mut flows).iter().filter_map(is).collect()
}

// Correction 12: the levers are to put a request's handoff last or, if the driver can and no fetch
// has started, to defer it. The output names which; a batch's collectives and a fetch in progress
// are never delayed.
#[test]
fn correction_12_the_levers_are_deferral_and_the_handoff() {
    assert_eq!(levers(false), [(1, Lever::DemoteHandoff), (2, Lever::DemoteHandoff)]);
    assert_eq!(levers(true), [(1, Lever::DemoteHandoff), (2, Lever::Defer)]);
}

// Correction 12: pruning removes no stage-2 bytes. The collectives of 95 ms leave 5 of 100, so
// pruning the one request of 10 ms makes the batch fit. With collectives of 101 ms the same request
// is pruned in vain: its batch is still late.
#[test]
fn correction_12_collectives_stay() {
    let late_by = |collectives| {
        let mut flows = machine(|config| config.drop_share = 1.0);
        flows.handle(Time::ZERO, Input::BatchArrived(loaded(1, &[(1, 100, 10)], collectives)));
        let is = |output: &Output| match output {
            Output::Pruned { why, .. } => Some((why.late_by.as_millis(), why.bytes)),
            _ => None,
        };
        outputs(&mut flows).iter().filter_map(is).collect::<Vec<_>>()
    };
    assert_eq!(late_by(95), [(5, 10_000)]);
    assert_eq!(late_by(101), [(11, 10_000)]);
}
