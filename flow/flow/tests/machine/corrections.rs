//! The corrections to the paper, one named test each. Corrections 1, 3, 4, 6, 7 and 10 are next to
//! the formula that they correct, 8 in `permits.rs`, 9 in `theorem.rs`, 11 and 12 in `passes.rs`.

use meridian_base::{BatchId, Duration, FlowId, PortId, RequestId, Time};
use meridian_flow::{
    Arbitration, Batch, Config, Flow, Flows, Input, Level, Output, Owner, PortPlan, Ports, Stage,
    Why,
};

use crate::link::{PORT, batch, config, flow};

const REQUEST: Owner = Owner::Request(RequestId(1));
const BATCH: Owner = Owner::Batch(BatchId(1));

fn ms(ms: u64) -> Time {
    Time::from_millis(ms)
}

/// A machine with one port of 1,000 bytes a millisecond.
fn machine(config: Config) -> Flows {
    let mut flows = Flows::new(config, 1).unwrap();
    flows.handle(Time::ZERO, Input::Port { id: PORT, bytes_per_second: 1e6 });
    flows
}

fn sized(id: u32, owner: Owner, stage: Stage, layer: u16, bytes: u64) -> Input {
    Input::Submit(Flow { id: FlowId(id), owner, stage, layer, bytes, ports: Ports::one(PORT) })
}

fn outputs(flows: &mut Flows) -> Vec<Output> {
    std::iter::from_fn(|| flows.poll()).collect()
}

/// Level and reason of a flow, as last reported.
fn placed(flows: &mut Flows, id: u32) -> Option<(u8, Why)> {
    let is = |output: Output| match output {
        Output::Placed { flow, place, why } if flow.0 == id => Some((place.level.0, why)),
        _ => None,
    };
    outputs(flows).into_iter().filter_map(is).next_back()
}

fn level(flows: &Flows, id: u32) -> u8 {
    flows.place(FlowId(id)).expect("is live").level.0
}

/// A batch whose request hands over `bytes` in all, equally from each layer.
fn planned(layers: u16, deadline_ms: u64, bytes: u64, layer_ms: u64) -> Batch {
    let mut one = batch(1, layers, &[(1, deadline_ms as f64 / 1e3)]);
    one.layer_time = Duration::from_millis(layer_ms);
    one.requests[0].plan = vec![PortPlan { port: PORT, reuse: 0, handoff: bytes }];
    one
}

// Correction 1, in the machine: a layer's flow of 1,000 bytes with 64 ms left needs 1/64 of the port
// on its own, and half of it with the 31 layers that share its deadline: the top level, not the fourth.
#[test]
fn correction_1_a_flow_stands_by_all_that_its_request_needs() {
    let mut flows = machine(config("mfs"));
    flows.handle(Time::ZERO, Input::BatchArrived(planned(32, 64, 32_000, 0)));
    flows.handle(Time::ZERO, sized(1, REQUEST, Stage::Handoff, 0, 1000));
    assert_eq!(placed(&mut flows, 1), Some((0, Why::Mlu { mlu: 0.5, port: PORT })));
    let mut alone = machine(config("mfs"));
    alone.handle(Time::ZERO, Input::BatchArrived(batch(1, 32, &[(1, 0.064)])));
    alone.handle(Time::ZERO, sized(1, REQUEST, Stage::Handoff, 0, 1000));
    assert_eq!(level(&alone, 1), 3);
}

// Correction 1: a handoff rises by its own suffix, and the request's feasibility is judged by all
// suffixes. Each of four layers has 0.5 ms of bytes; the last is ready at 30 ms and needs half of
// the port until 31, which the first layers cannot help with. With 0.25 ms left for it the request
// can't be in time. No request may be given up here, so it goes behind flows that computation waits
// for.
#[test]
fn correction_1_a_handoff_rises_by_its_own_suffix() {
    let after_two_updates = |deadline_ms: f64| {
        let mut flows = machine(Config { drop_share: 0.0, ..config("mfs") });
        let mut one = planned(4, 0, 2000, 10);
        one.requests[0].deadline = Some(Time::from_nanos((deadline_ms * 1e6) as u64));
        flows.handle(Time::ZERO, Input::BatchArrived(one));
        flows.handle(Time::ZERO, sized(1, REQUEST, Stage::Handoff, 0, 500));
        let first = placed(&mut flows, 1).unwrap();
        for generation in 0..2 {
            let layer = Input::Layer { batch: BatchId(1), generation, layer: 0 };
            flows.handle(Time::ZERO, layer);
        }
        (first, level(&flows, 1))
    };
    let ((level, why), later) = after_two_updates(31.0);
    assert_eq!((level, later), (2, 2));
    assert!(matches!(why, Why::Mlu { mlu, .. } if (mlu - 2.0 / 31.0).abs() < 1e-9), "{why}");
    assert_eq!(after_two_updates(30.25).1, 1);
}

// Correction 1: of the ports that a flow crosses, the one with the largest need counts.
#[test]
fn correction_1_the_largest_over_the_ports_crossed() {
    let mut flows = machine(config("mfs"));
    flows.handle(Time::ZERO, Input::Port { id: PortId(1), bytes_per_second: 1e5 });
    flows.handle(Time::ZERO, Input::BatchArrived(batch(1, 1, &[(1, 0.1)])));
    let mut one = flow(1, REQUEST, Stage::Handoff, 0, 0.002);
    one.ports = Ports::new(&[PORT, PortId(1)]).unwrap();
    flows.handle(Time::ZERO, Input::Submit(one));
    let (level, why) = placed(&mut flows, 1).unwrap();
    assert_eq!((level, why), (1, Why::Mlu { mlu: 0.2, port: PortId(1) }));
}

// Correction 2: rho is a running mean of the higher classes' load on the port. A collective that
// takes half of it doubles a handoff's need; the request's own handoffs, of a lower or the same
// level, add nothing.
#[test]
fn correction_2_rho_counts_higher_classes_and_not_itself() {
    let need_beside = |stage: Stage, owner: Owner| {
        let mut flows = machine(config("mfs"));
        flows.handle(Time::ZERO, Input::BatchArrived(batch(1, 8, &[(1, 100.0)])));
        flows.handle(Time::ZERO, sized(1, owner, stage, 0, 1_000_000));
        // 500 bytes a millisecond for ten time constants.
        for at in 0..100 {
            flows.handle(ms(at), Input::Completed { flow: FlowId(1), bytes: 500 });
        }
        outputs(&mut flows);
        flows.handle(ms(100), Input::Withdrawn { flow: FlowId(1), unused: 0 });
        flows.handle(ms(100), sized(2, REQUEST, Stage::Handoff, 0, 99_900));
        match placed(&mut flows, 2).unwrap().1 {
            Why::Mlu { mlu, .. } => mlu,
            other => panic!("{other:?} is not a need"),
        }
    };
    let idle = need_beside(Stage::Handoff, REQUEST);
    assert!((idle / 1e-3 - 1.0).abs() < 0.01, "99,900 bytes in 99.9 s of 1 MB/s: {idle}");
    let busy = need_beside(Stage::Collective, BATCH);
    assert!((busy / idle - 2.0).abs() < 0.1, "half of the port is ahead: {busy}");
}

// Correction 2: however busy the port, a twentieth of it counts as free, so the need is not
// infinite.
#[test]
fn correction_2_rho_is_at_most_0_95() {
    let mut flows = machine(config("mfs"));
    flows.handle(Time::ZERO, Input::BatchArrived(batch(1, 8, &[(1, 100.0)])));
    flows.handle(Time::ZERO, sized(1, BATCH, Stage::Collective, 0, 10_000_000));
    flows.handle(ms(1), Input::Completed { flow: FlowId(1), bytes: 5_000_000 });
    flows.handle(ms(1), sized(2, REQUEST, Stage::Handoff, 0, 99_999));
    let Some((_, Why::Mlu { mlu, .. })) = placed(&mut flows, 2) else { panic!("has no need") };
    assert!((mlu / 0.02 - 1.0).abs() < 1e-3, "twenty times a thousandth: {mlu}");
}

// Correction 2: the time left ends when decode must begin. 40 of 100 ms go to the first decode step.
#[test]
fn correction_2_time_left_is_without_the_first_decode() {
    let mut flows = machine(config("mfs"));
    let mut one = batch(1, 1, &[(1, 0.1)]);
    one.requests[0].decode = Duration::from_millis(40);
    flows.handle(Time::ZERO, Input::BatchArrived(one));
    flows.handle(Time::ZERO, sized(1, REQUEST, Stage::Handoff, 0, 24_000));
    let found = placed(&mut flows, 1).unwrap();
    assert_eq!(found.1, Why::Mlu { mlu: 0.4, port: PORT }, "24 ms of 60, not of 100");
}

/// A machine with `arrived` earlier requests, a tenth of which may be dropped, and one whose
/// handoff needs 1.2 of the port and which has no layers left to compute.
fn black_hole(arrived: u64) -> Flows {
    let mut flows = machine(Config { drop_share: 0.1, ..config("mfs") });
    let requests: Vec<(u64, f64)> = (100..100 + arrived).map(|id| (id, 9.0)).collect();
    flows.handle(Time::ZERO, Input::BatchArrived(batch(2, 1, &requests)));
    flows.handle(Time::ZERO, Input::BatchArrived(batch(1, 1, &[(1, 0.1)])));
    flows.handle(Time::ZERO, sized(1, REQUEST, Stage::Handoff, 0, 120_000));
    flows.handle(Time::ZERO, Input::BatchDeparted(BatchId(1)));
    outputs(&mut flows);
    flows
}

// Correction 5, the black hole: a request that needs 1.2 of the port keeps its place at the first
// update and is in the scavenger's level from the second on, counted as a drop. It does not get the
// top level.
#[test]
fn correction_5_black_hole_goes_to_the_scavenger_after_two_updates() {
    let mut flows = black_hole(20);
    flows.handle_timeout(ms(1));
    assert_eq!((level(&flows, 1), flows.budget()), (0, (21, 0)));
    flows.handle_timeout(ms(2));
    assert_eq!((level(&flows, 1), flows.budget()), (8, (21, 1)));
    let said = outputs(&mut flows);
    let demoted = |output: &Output| {
        matches!(output, Output::Demoted { request: RequestId(1), why: Why::Infeasible { mlu, .. } }
            if *mlu > 1.2)
    };
    assert!(said.iter().any(demoted), "{said:?}");
}

// Correction 5: if the budget is used up the request is not given up, but does not get the top
// level either, which would be the black hole again. It goes right behind the flows that
// computation waits for, before all flows that can wait. No drop is reported, and once it can be in
// time it gets the top level again.
#[test]
fn correction_5_the_drop_budget_bounds_the_scavenger() {
    let mut flows = black_hole(5);
    (1..20).for_each(|at| flows.handle_timeout(ms(at)));
    assert_eq!((level(&flows, 1), flows.budget()), (1, (6, 0)));
    flows.handle(ms(20), sized(2, Owner::Batch(BatchId(2)), Stage::Collective, 0, 1000));
    let loose = Owner::Request(RequestId(100));
    flows.handle(ms(20), sized(3, loose, Stage::Handoff, 0, 1000));
    let place = |id| flows.place(FlowId(id)).unwrap();
    assert!(place(2).precedes(&place(1)) && place(1).precedes(&place(3)));
    flows.handle(ms(20), Input::Completed { flow: FlowId(1), bytes: 80_000 });
    (21..23).for_each(|at| flows.handle_timeout(ms(at)));
    assert_eq!(level(&flows, 1), 0);
    let is_change = |one: &Output| matches!(one, Output::Demoted { .. } | Output::Reinstated(_));
    assert!(!outputs(&mut flows).iter().any(is_change));
}

// Correction 5: a request is reinstated after two updates, and with a margin: at a need of 1 it
// keeps its place.
#[test]
fn correction_5_a_request_that_can_be_in_time_comes_back() {
    let mut flows = black_hole(20);
    flows.handle_timeout(ms(1));
    flows.handle_timeout(ms(2));
    // 20,000 bytes of the 120,000 were another path's after all: 98 of 98 ms are needed.
    flows.handle(ms(2), Input::Completed { flow: FlowId(1), bytes: 22_000 });
    (3..10).for_each(|at| flows.handle_timeout(ms(at)));
    assert_eq!(level(&flows, 1), 8, "just feasible is within the margin");
    flows.handle(ms(10), Input::Completed { flow: FlowId(1), bytes: 40_000 });
    flows.handle_timeout(ms(11));
    assert_eq!(level(&flows, 1), 8);
    flows.handle_timeout(ms(12));
    assert_eq!(level(&flows, 1), 0);
    assert!(outputs(&mut flows).contains(&Output::Reinstated(RequestId(1))));
}

// Correction 5: a request past its deadline is not a drop, since nothing can help it.
#[test]
fn correction_5_a_late_request_goes_last_without_a_budget() {
    let mut flows = machine(config("mfs"));
    flows.handle(Time::ZERO, Input::BatchArrived(batch(1, 1, &[(1, 0.1)])));
    flows.handle(Time::ZERO, sized(1, REQUEST, Stage::Handoff, 0, 50_000));
    flows.handle(Time::ZERO, Input::BatchDeparted(BatchId(1)));
    flows.handle_timeout(ms(100));
    assert_eq!((level(&flows, 1), flows.budget().1), (8, 0));
}

// Correction 7, in the machine: a handoff in level 1 goes behind reuse in level 7 at the host, and
// before it on a switch, behind the collective of its own level.
#[test]
fn correction_7_hierarchical_and_level_place_differently() {
    let order = |arbitration| {
        let mut flows = machine(Config { arbitration, ..config("mfs") });
        flows.handle(Time::ZERO, Input::BatchArrived(batch(1, 20, &[(1, 0.1)])));
        flows.handle(Time::ZERO, sized(1, REQUEST, Stage::Handoff, 0, 20_000));
        flows.handle(Time::ZERO, sized(2, REQUEST, Stage::Reuse, 15, 1000));
        flows.handle(Time::ZERO, sized(3, BATCH, Stage::Collective, 0, 1000));
        assert_eq!([1, 2, 3].map(|id| level(&flows, id)), [1, 7, 1]);
        let mut ids = [1, 2, 3];
        ids.sort_by_key(|id| flows.place(FlowId(*id)).map(|place| (place.class, place.order)));
        ids
    };
    assert_eq!(order(Arbitration::Hierarchical), [3, 2, 1]);
    assert_eq!(order(Arbitration::Level), [3, 1, 2]);
}

// Correction 8: Karuna sends a handoff first, limited to its minimum rate, and the rest smallest
// first. The rate is recomputed: at 50 of 100 ms with nothing sent it has doubled.
#[test]
fn correction_8_karuna_is_least_rate_then_smallest() {
    let mut flows = machine(config("karuna"));
    flows.handle(Time::ZERO, Input::BatchArrived(batch(1, 1, &[(1, 0.1)])));
    flows.handle(Time::ZERO, sized(1, REQUEST, Stage::Handoff, 0, 20_000));
    flows.handle(Time::ZERO, sized(2, BATCH, Stage::Collective, 0, 9_000));
    flows.handle(Time::ZERO, sized(3, REQUEST, Stage::Reuse, 0, 4_000));
    let place = |flows: &Flows, id| flows.place(FlowId(id)).unwrap();
    assert_eq!(place(&flows, 1).rate, Some(200_000.0));
    assert!(place(&flows, 1).precedes(&place(&flows, 3)));
    assert!(place(&flows, 3).precedes(&place(&flows, 2)));
    flows.handle(Time::ZERO, Input::BatchDeparted(BatchId(1)));
    flows.handle_timeout(ms(50));
    assert_eq!(place(&flows, 1).rate, Some(400_000.0));
}

// Correction 13: a second chunk of a prompt starts at layer 0 again. Within a generation no level
// falls. With a new one reuse is placed by its distance again, and a handoff by its need; events of
// an old generation are ignored.
#[test]
fn correction_13_a_new_generation_starts_again() {
    let mut flows = machine(config("mfs"));
    let layer = |generation, layer| Input::Layer { batch: BatchId(1), generation, layer };
    flows.handle(Time::ZERO, Input::BatchArrived(batch(1, 8, &[(1, 1.0)])));
    flows.handle(Time::ZERO, sized(1, REQUEST, Stage::Reuse, 5, 1000));
    flows.handle(Time::ZERO, sized(2, REQUEST, Stage::Handoff, 0, 600_000));
    flows.handle(ms(1), layer(0, 4));
    assert_eq!([1, 2].map(|id| level(&flows, id)), [2, 0]);
    // Most of the handoff is complete: its need falls, its level does not.
    flows.handle(ms(2), Input::Completed { flow: FlowId(2), bytes: 500_000 });
    flows.handle(ms(3), layer(0, 5));
    assert_eq!([1, 2].map(|id| level(&flows, id)), [1, 0]);
    flows.handle(ms(4), layer(1, 0));
    assert_eq!([1, 2].map(|id| level(&flows, id)), [6, 2]);
    flows.handle(ms(5), layer(0, 7));
    assert_eq!([1, 2].map(|id| level(&flows, id)), [6, 2], "generation 0 is over");
    assert!(!outputs(&mut flows).iter().any(|one| matches!(one, Output::Refused { .. })));
    assert_eq!(flows.place(FlowId(1)).unwrap().level, Level(6));
}
