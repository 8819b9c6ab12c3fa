//! Tests of the gate: the order of permits.

use meridian_base::{BatchId, FlowId, RequestId, Rng, Time};
use meridian_flow::{Config, Flows, Input, Output, Owner, PermitWhy, Stage};

use crate::link::{PORT, batch, config, flow};

const REQUEST: Owner = Owner::Request(RequestId(1));
const BATCH: Owner = Owner::Batch(BatchId(1));

fn machine(config: Config) -> Flows {
    let mut flows = Flows::new(config, 1).unwrap();
    flows.handle(Time::ZERO, Input::Port { id: PORT, bytes_per_second: 1e9 });
    flows.handle(Time::ZERO, Input::BatchArrived(batch(1, 8, &[(1, 1.0)])));
    flows
}

/// Permits among the outputs: the flow and why.
fn permits(flows: &mut Flows) -> Vec<(u32, PermitWhy)> {
    let mut found = vec![];
    while let Some(output) = flows.poll() {
        if let Output::Permit { flow, why, .. } = output {
            found.push((flow.0, why));
        }
    }
    found
}

fn ask(flows: &mut Flows, ids: &[u32]) -> Vec<(u32, PermitWhy)> {
    let bytes = flows.config().chunk;
    for id in ids {
        flows.handle(Time::ZERO, Input::Ask { flow: FlowId(*id), bytes });
    }
    permits(flows)
}

fn complete(flows: &mut Flows, id: u32) -> Vec<(u32, PermitWhy)> {
    complete_at(flows, Time::ZERO, id)
}

fn complete_at(flows: &mut Flows, now: Time, id: u32) -> Vec<(u32, PermitWhy)> {
    let bytes = u64::from(flows.config().chunk);
    flows.handle(now, Input::Completed { flow: FlowId(id), bytes });
    permits(flows)
}

// A window of two chunks: of flows of one traffic class two are permitted at once, the others wait
// and go by precedence, here the nearest layer first.
#[test]
fn the_window_is_given_by_precedence() {
    let mut flows = machine(config("mfs"));
    for (id, layer) in [(1, 7), (2, 6), (3, 5)] {
        flows.handle(Time::ZERO, Input::Submit(flow(id, REQUEST, Stage::Reuse, layer, 1.0)));
    }
    use PermitWhy::{First, Free};
    assert_eq!(ask(&mut flows, &[1, 2]), [(1, Free), (2, Free)]);
    assert_eq!(ask(&mut flows, &[1, 2, 3]), []);
    assert_eq!(complete(&mut flows, 1), [(3, First)]);
    assert_eq!(complete(&mut flows, 2), [(2, First)]);
    assert_eq!(complete(&mut flows, 3), [(1, First)], "low priority never means idle");
    flows.check_invariants();
}

// Correction 17: bytes of a lower traffic class fill no window of a higher one. Two chunks of a
// handoff are under way, and a third waits; a fetch and a collective get theirs at once.
#[test]
fn correction_17_lower_classes_hold_up_no_higher_one() {
    let mut flows = machine(config("mfs"));
    for (id, owner, stage) in
        [(1, REQUEST, Stage::Handoff), (2, REQUEST, Stage::Reuse), (3, BATCH, Stage::Collective)]
    {
        let layer = if stage == Stage::Reuse { 5 } else { 0 };
        flows.handle(Time::ZERO, Input::Submit(flow(id, owner, stage, layer, 1.0)));
    }
    use PermitWhy::Free;
    assert_eq!(ask(&mut flows, &[1, 1, 1]), [(1, Free), (1, Free)]);
    assert_eq!(ask(&mut flows, &[2, 3]), [(2, Free), (3, Free)]);
    assert_eq!(complete(&mut flows, 1), [], "the fetch and the collective count for the handoff");
    flows.check_invariants();
}

// A flow that is promoted while it waits passes the others: layer 5 starts, and its data goes
// before layer 2's remainder of another batch's distance.
#[test]
fn promotion_reaches_those_that_wait() {
    let mut flows = machine(config("mfs"));
    flows.handle(Time::ZERO, Input::BatchArrived(batch(2, 8, &[(2, 2.0)])));
    let other = Owner::Request(RequestId(2));
    for (id, owner, layer) in [(1, REQUEST, 0), (2, REQUEST, 0), (3, REQUEST, 5), (4, other, 2)] {
        flows.handle(Time::ZERO, Input::Submit(flow(id, owner, Stage::Reuse, layer, 1.0)));
    }
    ask(&mut flows, &[1, 2, 3, 4]);
    let layer = Input::Layer { batch: BatchId(1), generation: 0, layer: 5 };
    flows.handle(Time::ZERO, layer);
    assert_eq!(complete(&mut flows, 1), [(3, PermitWhy::First)]);
}

// Equal flows take turns.
#[test]
fn equals_take_turns() {
    let mut flows = machine(config("fair"));
    for id in 1..=3 {
        flows.handle(Time::ZERO, Input::Submit(flow(id, REQUEST, Stage::Reuse, 0, 9.0)));
    }
    ask(&mut flows, &[1, 2, 3]);
    let mut order = vec![];
    let mut running = std::collections::VecDeque::from([1, 2]);
    for _ in 0..6 {
        let done = running.pop_front().unwrap();
        let given = complete(&mut flows, done);
        running.extend(given.iter().map(|(id, _)| *id));
        order.extend(given);
        assert_eq!(ask(&mut flows, &[done]), []);
    }
    assert_eq!(order.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [3, 1, 2, 3, 1, 2]);
}

// A collective whose permit does not come within 5 ms gets it anyway: the gate fails open, but only
// for that flow. The reuse flow behind it keeps waiting.
#[test]
fn a_collective_is_held_5_ms_at_most() {
    let mut flows = machine(config("mfs"));
    for (id, owner, stage) in [
        (1, BATCH, Stage::Collective),
        (2, BATCH, Stage::Collective),
        (3, BATCH, Stage::Collective),
        (4, REQUEST, Stage::Reuse),
    ] {
        flows.handle(Time::ZERO, Input::Submit(flow(id, owner, stage, 0, 1.0)));
    }
    assert_eq!(ask(&mut flows, &[1, 2, 3, 4]).len(), 2);
    let due = flows.poll_timeout().unwrap();
    assert_eq!(due, Time::from_millis(5));
    flows.handle_timeout(due);
    assert_eq!(permits(&mut flows), [(3, PermitWhy::FailOpen)]);
    flows.handle_timeout(Time::from_millis(9));
    assert_eq!(permits(&mut flows), []);
    flows.check_invariants();
}

// A client is stopped with the whole window permitted. The others wait 5 ms, then the permits expire
// and the window is theirs. The late completion frees nothing a second time.
#[test]
fn permits_of_a_stopped_client_expire() {
    let mut flows = machine(config("mfs"));
    for id in 1..=4 {
        flows.handle(Time::ZERO, Input::Submit(flow(id, REQUEST, Stage::Reuse, 0, 1.0)));
    }
    assert_eq!(ask(&mut flows, &[1, 1, 2, 3, 4]).len(), 2);
    flows.handle_timeout(Time::from_nanos(4_999_999));
    assert_eq!(permits(&mut flows), []);
    assert_eq!(flows.poll_timeout(), Some(Time::from_millis(5)));
    let then = Time::from_millis(5);
    flows.handle_timeout(then);
    use PermitWhy::{FailOpen, First};
    assert_eq!(permits(&mut flows), [(2, FailOpen), (3, FailOpen)]);
    assert_eq!(complete_at(&mut flows, then, 1), []);
    flows.check_invariants();
    assert_eq!(complete_at(&mut flows, then, 2), [(4, First)]);
}

// A client that takes permits again and again and never sends costs the others one hold, not one each
// time: once a flow has ended with permitted bytes, a flow fills no window before bytes of it have
// completed, until 64 flows have completed some. Permits that are returned unused are no sign of that.
#[test]
fn permits_that_come_to_nothing_cost_one_hold() {
    let mut flows = machine(config("mfs"));
    let submit = |flows: &mut Flows, id: u32| {
        flows.handle(Time::ZERO, Input::Submit(flow(id, REQUEST, Stage::Reuse, 0, 1.0)));
    };
    let keep = |flows: &mut Flows| {
        (1..=2).for_each(|id| submit(flows, id));
        ask(flows, &[1, 2])
    };
    let withdraw = |flows: &mut Flows, unused: u64| {
        let input = |id| Input::Withdrawn { flow: FlowId(id), unused };
        (1..=2).for_each(|id| flows.handle(Time::ZERO, input(id)));
    };
    let leave = |flows: &mut Flows| withdraw(flows, 0);
    assert_eq!(keep(&mut flows).len(), 2);
    let chunk = u64::from(flows.config().chunk);
    withdraw(&mut flows, chunk);
    use PermitWhy::{First, Free};
    assert_eq!(keep(&mut flows).len(), 2);
    submit(&mut flows, 3);
    assert_eq!(ask(&mut flows, &[3]), [], "the window is taken");
    leave(&mut flows);
    assert_eq!(permits(&mut flows), [(3, First)]);
    complete(&mut flows, 3);
    for id in 4..68 {
        assert_eq!(keep(&mut flows), [(1, Free), (2, Free)]);
        submit(&mut flows, id);
        assert_eq!(ask(&mut flows, &[id]), [(id, Free)], "beside permits that come to nothing");
        complete(&mut flows, id);
        // A second chunk counts, and permits of the client that keeps them do not.
        assert_eq!(ask(&mut flows, &[id]), [(id, Free)]);
        complete(&mut flows, id);
        leave(&mut flows);
        flows.check_invariants();
    }
    for id in 100..164 {
        submit(&mut flows, id);
        assert_eq!(ask(&mut flows, &[id]), [(id, Free)]);
        complete(&mut flows, id);
    }
    keep(&mut flows);
    submit(&mut flows, 200);
    assert_eq!(ask(&mut flows, &[200]), [], "64 flows came through, so the window counts again");
}

// Each completed chunk starts the 5 ms again, so a port that is only slow does not fail open. One that
// needs longer for a chunk has four times its window's time.
#[test]
fn a_slow_port_has_not_stalled() {
    let mut flows = machine(config("mfs"));
    for id in 1..=4 {
        flows.handle(Time::ZERO, Input::Submit(flow(id, REQUEST, Stage::Reuse, 0, 2.0)));
    }
    ask(&mut flows, &[1, 2, 3]);
    let bytes = u64::from(flows.config().chunk);
    let input = Input::Completed { flow: FlowId(1), bytes };
    flows.handle(Time::from_millis(4), input);
    assert_eq!(permits(&mut flows), [(3, PermitWhy::First)]);
    flows.handle(Time::from_millis(4), Input::Ask { flow: FlowId(1), bytes: 1 });
    flows.handle_timeout(Time::from_millis(8));
    assert_eq!(permits(&mut flows), []);

    flows.handle(Time::from_millis(8), Input::Port { id: PORT, bytes_per_second: 1e7 });
    flows.handle_timeout(Time::from_millis(200));
    assert_eq!(permits(&mut flows), [], "the window takes 52 ms at the new rate");
    flows.handle_timeout(Time::from_millis(214));
    assert_eq!(permits(&mut flows), [(1, PermitWhy::FailOpen)]);
    flows.check_invariants();
}

// Correction 8: deferral is work-conserving. Through random submissions, asks, completions and
// ends, under every policy, no flow waits at a port with free window.
#[test]
fn correction_8_no_flow_waits_beside_a_free_window() {
    for policy in meridian_flow::policy::ALL {
        let mut flows = machine(config(policy.name));
        let chunk = u64::from(flows.config().chunk);
        let mut rng = Rng::new(8);
        // By flow: bytes left, bytes permitted, whether it waits.
        let mut book = std::collections::BTreeMap::new();
        let mut now = 0;
        for _ in 0..4000 {
            now += rng.below(300_000) as u64;
            let (time, id) = (Time::from_nanos(now), rng.below(40) as u32);
            let input = match (rng.below(5), book.get(&id).copied()) {
                (0, None) => {
                    let stage = [Stage::Reuse, Stage::Collective, Stage::Handoff][rng.below(3)];
                    let owner = if stage == Stage::Collective { BATCH } else { REQUEST };
                    let one = flow(id, owner, stage, rng.below(8) as u16, 1.0);
                    book.insert(id, (one.bytes, 0, false));
                    Input::Submit(one)
                }
                (1 | 2, Some((left, permitted, false))) if left > permitted => {
                    book.insert(id, (left, permitted, true));
                    let bytes = chunk.min(left - permitted) as u32;
                    Input::Ask { flow: FlowId(id), bytes }
                }
                (3, Some((left, permitted, waits))) if permitted > 0 => {
                    if left == permitted {
                        book.remove(&id);
                    } else {
                        book.insert(id, (left - permitted, 0, waits));
                    }
                    Input::Completed { flow: FlowId(id), bytes: permitted }
                }
                (4, Some(_)) if rng.below(8) == 0 => {
                    book.remove(&id);
                    Input::Withdrawn { flow: FlowId(id), unused: 0 }
                }
                _ => continue,
            };
            flows.handle(time, input);
            flows.handle_timeout(time);
            while let Some(output) = flows.poll() {
                if let Output::Permit { flow, bytes, .. } = output {
                    let (_, permitted, waits) = book.get_mut(&flow.0).expect("a live flow");
                    assert!(*waits, "a permit answers an ask");
                    (*permitted, *waits) = (*permitted + u64::from(bytes), false);
                }
            }
            flows.check_invariants();
            let busy: u64 = book.values().map(|(_, permitted, _)| permitted).sum();
            let waits = book.values().any(|(_, _, waits)| *waits);
            let window = u64::from(flows.config().window);
            assert!(!waits || busy + chunk > window, "{}: {busy} of {window}", policy.name);
        }
    }
}
