//! Tests of the coordinator, and of nodes that receive its verdicts.

use meridian_base::{BatchId, FlowId, PortId, RequestId, Time};
use meridian_flow::{
    Batch, Config, Coordinator, Flow, Flows, Input, Output, Owner, PortPlan, Ports, Report, Ruling,
    Stage, Verdict,
};

use crate::link::{PORT, batch, config};

/// Settings under which half of all requests may be dropped.
fn settings() -> Config {
    Config { drop_share: 0.5, ..config("mfs") }
}

/// A coordinator with a port of 1,000 bytes a millisecond.
fn coordinator() -> Coordinator {
    let mut all = Coordinator::new(settings(), 1).unwrap();
    all.handle(Time::ZERO, Report::Port { id: PORT, bytes_per_second: 1e6 });
    all
}

/// A node with the same port.
fn node() -> Flows {
    let mut flows = Flows::new(settings(), 1).unwrap();
    flows.handle(Time::ZERO, Input::Port { id: PORT, bytes_per_second: 1e6 });
    flows
}

/// A node's part of batch `id`: requests with deadline and handoff in ms.
fn part(id: u32, number: u64, requests: &[(u64, u64, u64)]) -> Batch {
    let deadlines: Vec<(u64, f64)> = requests.iter().map(|r| (r.0, r.1 as f64 / 1e3)).collect();
    let mut one = Batch { number, ..batch(id, 1, &deadlines) };
    for (member, (_, _, ms)) in one.requests.iter_mut().zip(requests) {
        member.plan = vec![PortPlan { port: PORT, reuse: 0, handoff: ms * 1000 }];
    }
    one
}

fn verdicts(all: &mut Coordinator) -> Vec<Verdict> {
    let rulings = std::iter::from_fn(|| all.poll());
    let verdict = |ruling| match ruling {
        Ruling::Verdict(verdict) => verdict,
        Ruling::Refused { subject, why } => panic!("{subject} was refused: {why}"),
    };
    rulings.map(verdict).collect()
}

fn report(all: &mut Coordinator, ms: u64, report: Report) -> Vec<Verdict> {
    all.handle(Time::from_millis(ms), report);
    verdicts(all)
}

fn pruned(verdict: &Verdict) -> Vec<u64> {
    verdict.pruned.iter().map(|(request, _)| request.0).collect()
}

// One node has a request due at 100 ms, the other nine due at 1 s. Each alone would order the batch by
// its own; the coordinator orders it by all ten: 0.1 x 100 + 0.9 x 1000 ms, here clipped at three SLOs
// after the first, 400 ms: 370.
#[test]
fn a_batch_is_ordered_by_the_requests_of_all_its_nodes() {
    let mut all = coordinator();
    let alone = report(&mut all, 0, Report::Batch(part(1, 7, &[(1, 100, 1)])));
    assert_eq!((alone.len(), alone[0].red), (1, Time::from_millis(100)));
    let others: Vec<_> = (2..11).map(|id| (id, 1000, 1)).collect();
    let both = report(&mut all, 0, Report::Batch(part(1, 7, &others)));
    let expected = Verdict {
        batch: BatchId(1),
        number: 7,
        red: Time::from_millis(370),
        requests: 10,
        pruned: vec![],
    };
    assert_eq!(both, [expected]);
}

// A node orders its batches by its own requests until a verdict arrives: batch 1 is due before batch
// 2, and goes behind it once the coordinator has said that most of its requests are not urgent. A
// verdict on an earlier batch of the row is ignored.
#[test]
fn a_verdict_replaces_the_nodes_own_order() {
    let mut flows = node();
    for (id, due) in [(1, 100), (2, 800)] {
        let batch =
            Batch { collectives: vec![(PORT, 1000)], ..part(id, 7, &[(id.into(), due, 1)]) };
        flows.handle(Time::ZERO, Input::BatchArrived(batch));
        let (owner, stage) = (Owner::Batch(BatchId(id)), Stage::Collective);
        let ports = Ports::one(PORT);
        let flow = Flow { id: FlowId(id), owner, stage, layer: 0, bytes: 1000, ports };
        flows.handle(Time::ZERO, Input::Submit(flow));
    }
    let first = |flows: &Flows| {
        let place = |id| flows.place(FlowId(id)).unwrap();
        if place(1).precedes(&place(2)) { 1 } else { 2 }
    };
    assert_eq!(first(&flows), 1);
    let red = Time::from_millis(900);
    let verdict = |number| Verdict { batch: BatchId(1), number, red, requests: 1, pruned: vec![] };
    flows.handle(Time::ZERO, Input::Verdict(verdict(6)));
    assert_eq!(first(&flows), 1, "that was another batch");
    flows.handle(Time::ZERO, Input::Verdict(verdict(7)));
    assert_eq!(first(&flows), 2);
    // Other batches come and go without undoing it.
    flows.handle(Time::ZERO, Input::BatchArrived(part(3, 7, &[(3, 50, 1)])));
    flows.handle(Time::ZERO, Input::BatchDeparted(BatchId(3)));
    assert_eq!(first(&flows), 2);
}

// Batches of two nodes meet at a port: together they can't be in time, which no node can tell. The
// coordinator prunes the heaviest; its node demotes the handoff, and reinstates it when a later
// verdict does not list it.
#[test]
fn the_coordinator_prunes_what_nodes_cannot_see() {
    let mut all = coordinator();
    assert_eq!(report(&mut all, 0, Report::Batch(part(1, 1, &[(1, 100, 60)]))).len(), 1);
    let second = part(2, 1, &[(2, 100, 70), (3, 100, 5)]);
    let told = report(&mut all, 0, Report::Batch(second.clone()));
    let told = told.iter().find(|verdict| verdict.batch == BatchId(2)).unwrap();
    assert_eq!(pruned(told), [2]);

    let mut flows = node();
    flows.handle(Time::ZERO, Input::BatchArrived(second));
    let outputs = |flows: &mut Flows| std::iter::from_fn(|| flows.poll()).collect::<Vec<_>>();
    assert_eq!(outputs(&mut flows), [], "alone it fits");
    flows.handle(Time::ZERO, Input::Verdict(told.clone()));
    let is = |output: &Output| matches!(output, Output::Pruned { request, .. } if request.0 == 2);
    assert!(outputs(&mut flows).iter().all(is));
    let (owner, stage) = (Owner::Request(RequestId(2)), Stage::Handoff);
    let ports = Ports::one(PORT);
    let flow = Flow { id: FlowId(2), owner, stage, layer: 0, bytes: 70_000, ports };
    flows.handle(Time::ZERO, Input::Submit(flow));
    assert_eq!(flows.place(FlowId(2)).unwrap().level.0, 8, "it goes last");
    outputs(&mut flows);
    flows.handle(Time::ZERO, Input::Verdict(Verdict { pruned: vec![], ..told.clone() }));
    assert!(outputs(&mut flows).contains(&Output::Reinstated(RequestId(2))));
}

// A departure that is lost is made up for: after the window of the drop budget the batch no longer
// counts against others, and the next in its row replaces it at once.
#[test]
fn a_lost_departure_is_made_up_for() {
    let late = |ms: u64| {
        let mut all = coordinator();
        let mut first = part(1, 1, &[(1, 20_000, 15_000)]);
        (first.layers, first.layer_time) = (10, std::time::Duration::from_secs(10));
        report(&mut all, 0, Report::Batch(first));
        assert_eq!(all.poll_timeout(), Some(Time::from_millis(10_000)));
        all.handle_timeout(Time::from_millis(ms));
        let second = part(2, 1, &[(2, ms + 6_000, 1_000), (3, ms + 6_000, 1)]);
        report(&mut all, ms, Report::Batch(second)).iter().flat_map(pruned).count()
    };
    assert_eq!((late(9_999), late(10_000)), (1, 0));
    let mut all = coordinator();
    report(&mut all, 0, Report::Batch(part(1, 1, &[(1, 100, 60)])));
    let next = report(&mut all, 1, Report::Batch(part(1, 2, &[(2, 100, 60)])));
    assert_eq!((next.len(), next[0].number), (1, 2));
    report(&mut all, 2, Report::Departed(BatchId(1), 2));
    let old = part(1, 2, &[(9, 200, 1)]);
    assert_eq!(report(&mut all, 3, Report::Batch(old)), [], "a part that comes too late");
}

// A batch that a node sends only collectives for has no deadline there: nothing is pruned for it.
#[test]
fn a_batch_without_requests_prunes_none() {
    let mut config = settings();
    config.terms.red = false;
    let mut flows = Flows::new(config, 1).unwrap();
    flows.handle(Time::ZERO, Input::Port { id: PORT, bytes_per_second: 1e6 });
    flows.handle(Time::ZERO, Input::BatchArrived(part(1, 1, &[(1, 100, 60), (2, 100, 10)])));
    let others = Batch { collectives: vec![(PORT, 500_000)], ..part(2, 1, &[]) };
    flows.handle(Time::ZERO, Input::BatchArrived(others));
    assert_eq!(flows.poll(), None);
}

// A coordinator hears of no layers: it assumes that a batch's bytes leave at its pace. Half way
// through, the second batch fits.
#[test]
fn bytes_leave_with_the_time_that_passes() {
    let after = |ms: u64| {
        let mut all = coordinator();
        let mut first = part(1, 1, &[(1, 200, 80)]);
        (first.layers, first.layer_time) = (10, std::time::Duration::from_millis(10));
        report(&mut all, 0, Report::Batch(first));
        let second = part(2, 1, &[(2, ms + 100, 50), (3, ms + 100, 1)]);
        report(&mut all, ms, Report::Batch(second)).iter().flat_map(pruned).collect::<Vec<_>>()
    };
    assert_eq!(after(0), [1]);
    assert_eq!(after(60), [] as [u64; 0]);
}

// Bad reports change nothing and say why.
#[test]
fn bad_reports_are_refused() {
    let refused = |report: Report| {
        let mut all = coordinator();
        all.handle(Time::ZERO, report);
        match all.poll() {
            Some(Ruling::Refused { why, .. }) => why.to_string(),
            other => panic!("{other:?}"),
        }
    };
    let dead = Report::Port { id: PORT, bytes_per_second: 0.0 };
    assert!(refused(dead).contains('0'));
    assert!(
        refused(Report::Port { id: PortId(99), bytes_per_second: 1.0 }).contains("limits.ports")
    );
    assert!(refused(Report::Batch(part(99, 1, &[(1, 1, 1)]))).contains("limits.batches"));
    assert!(refused(Report::Batch(part(1, 1, &[]))).contains("request"));
    let mut all = coordinator();
    report(&mut all, 0, Report::Batch(part(1, 1, &[(1, 100, 1)])));
    let second = Batch { collectives: vec![(PortId(9), 1)], ..part(1, 1, &[]) };
    all.handle(Time::ZERO, Report::Batch(second));
    assert!(matches!(all.poll(), Some(Ruling::Refused { .. })), "a further part is checked, too");
}
