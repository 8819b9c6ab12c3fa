//! Correction 15: a critical handoff goes before the flows that computation waits for only if their
//! batches can bear the delay. Correction 16: a fetch goes before other batches' collectives only when
//! it is urgent.

use meridian_base::{BatchId, Duration, FlowId, PortId, RequestId, Time};
use meridian_flow::{Batch, Flow, Flows, Input, Owner, PortPlan, Ports, Stage};

use crate::link::{PORT, batch, config};

/// A port of 1,000 bytes a millisecond.
fn machine() -> Flows {
    let mut flows = Flows::new(config("mfs"), 1).unwrap();
    flows.handle(Time::ZERO, Input::Port { id: PORT, bytes_per_second: 1e6 });
    flows
}

/// A batch of one request with the number of the batch, which is due after `ms`.
fn one(id: u32, ms: u64) -> Batch {
    batch(id, 4, &[(u64::from(id), ms as f64 / 1e3)])
}

/// A batch whose request fetches `bytes`.
fn fetching(id: u32, ms: u64, bytes: u64) -> Batch {
    let mut one = one(id, ms);
    one.requests[0].plan = vec![PortPlan { port: PORT, reuse: bytes, handoff: 0 }];
    one
}

fn submit(flows: &mut Flows, id: u32, stage: Stage, owner: Owner, bytes: u64) {
    let ports = Ports::one(PORT);
    let flow = Flow { id: FlowId(id), owner, stage, layer: 0, bytes, ports };
    flows.handle(Time::ZERO, Input::Submit(flow));
}

/// Submits the whole KV of request `id`, which must be there after `ms`, as flow `id`.
fn critical(flows: &mut Flows, id: u32, ms: u64, bytes: u64) {
    flows.handle(Time::ZERO, Input::BatchArrived(one(id, ms)));
    submit(flows, id, Stage::Handoff, Owner::Request(RequestId(u64::from(id))), bytes);
}

fn precedes(flows: &Flows, first: u32, second: u32) -> bool {
    let place = |id| flows.place(FlowId(id)).expect("is live");
    place(first).precedes(&place(second))
}

// The handoff of request 1 needs three quarters of the port. Batch 2 has a second to spare and
// exchanges over the same port: its collective goes first, then the critical handoff, then one that
// can wait. Once batch 2 has departed, the handoff goes before everything.
#[test]
fn correction_15_a_critical_handoff_never_passes_collectives() {
    let mut flows = machine();
    let exchanging = Batch { collectives: vec![(PORT, 1000)], ..one(2, 1000) };
    flows.handle(Time::ZERO, Input::BatchArrived(exchanging));
    submit(&mut flows, 2, Stage::Collective, Owner::Batch(BatchId(2)), 250);
    critical(&mut flows, 1, 40, 30_000);
    critical(&mut flows, 3, 60, 1000);
    assert!(precedes(&flows, 2, 1), "the collective goes first");
    assert!(precedes(&flows, 1, 3), "a critical handoff leads the others");
    assert_eq!(flows.place(FlowId(1)).unwrap().level.0, 1);
    flows.handle(Time::ZERO, Input::BatchDeparted(BatchId(2)));
    flows.handle(Time::ZERO, Input::BatchDeparted(BatchId(1)));
    flows.handle_timeout(Time::from_millis(1));
    assert_eq!(flows.place(FlowId(1)).unwrap().level.0, 0);
}

// Batch 2 waits for a fetch, is due at 100 ms and needs 10 ms to compute. A handoff of 80 ms passes
// its fetch, one of 95 ms does not.
#[test]
fn correction_15_a_critical_handoff_passes_fetches_within_their_slack() {
    let passes = |bytes: u64| {
        let mut flows = machine();
        let layer_time = Duration::from_micros(2500);
        let waiting = Batch { layer_time, ..fetching(2, 100, 1000) };
        flows.handle(Time::ZERO, Input::BatchArrived(waiting));
        submit(&mut flows, 2, Stage::Reuse, Owner::Request(RequestId(2)), 1000);
        critical(&mut flows, 1, 99, bytes);
        precedes(&flows, 1, 2)
    };
    assert!(passes(80_000));
    assert!(!passes(95_000));
}

// Two handoffs of 60 ms together take more than the 100 ms that batch 9 can wait: the first passes
// its fetch, the second does not.
#[test]
fn correction_15_the_slack_is_given_once() {
    let mut flows = machine();
    flows.handle(Time::ZERO, Input::BatchArrived(fetching(9, 100, 1000)));
    submit(&mut flows, 9, Stage::Reuse, Owner::Request(RequestId(9)), 1000);
    critical(&mut flows, 1, 90, 60_000);
    critical(&mut flows, 2, 90, 60_000);
    assert!(precedes(&flows, 1, 9));
    assert!(precedes(&flows, 9, 2));
}

// A handoff that crosses two ports passes only if both have the slack.
#[test]
fn correction_15_every_port_crossed_counts() {
    let mut flows = machine();
    let far = PortId(1);
    flows.handle(Time::ZERO, Input::Port { id: far, bytes_per_second: 1e6 });
    let exchanging = Batch { collectives: vec![(far, 1000)], ..one(2, 1000) };
    flows.handle(Time::ZERO, Input::BatchArrived(exchanging));
    flows.handle(Time::ZERO, Input::BatchArrived(one(1, 40)));
    let ports = Ports::new(&[PORT, far]).unwrap();
    let (owner, stage) = (Owner::Request(RequestId(1)), Stage::Handoff);
    let flow = Flow { id: FlowId(1), owner, stage, layer: 0, bytes: 30_000, ports };
    flows.handle(Time::ZERO, Input::Submit(flow));
    assert_eq!(flows.place(FlowId(1)).unwrap().level.0, 1);
}

// Batch 1 is due at 100 ms and fetches for 1 ms; batch 2 is due later and exchanges. The collective
// goes first, although its batch is behind in the order, until batch 1 needs a quarter of the time
// that it has left: 4 ms before its deadline.
#[test]
fn correction_16_a_fetch_waits_for_collectives_until_it_is_urgent() {
    let mut flows = machine();
    flows.handle(Time::ZERO, Input::BatchArrived(fetching(1, 100, 1000)));
    flows.handle(Time::ZERO, Input::BatchArrived(one(2, 200)));
    submit(&mut flows, 1, Stage::Reuse, Owner::Request(RequestId(1)), 1000);
    submit(&mut flows, 2, Stage::Collective, Owner::Batch(BatchId(2)), 1000);
    let (batch, generation, layer) = (BatchId(1), 0, 0);
    flows.handle(Time::ZERO, Input::Layer { batch, generation, layer });
    flows.handle_timeout(Time::from_millis(95));
    assert!(precedes(&flows, 2, 1));
    flows.handle_timeout(Time::from_millis(96));
    assert!(precedes(&flows, 1, 2));
}

// Waiting for a fetch is not computing: a batch of 4 layers of 5 ms that waits for 1 ms of bytes is
// urgent 4 times its 21 ms before its deadline, less one layer, however long it has waited.
#[test]
fn correction_16_a_batch_that_waits_does_not_compute() {
    let mut flows = machine();
    let waiting = Batch { layer_time: Duration::from_millis(5), ..fetching(1, 1000, 1000) };
    flows.handle(Time::ZERO, Input::BatchArrived(waiting));
    flows.handle(Time::ZERO, Input::BatchArrived(one(2, 2000)));
    submit(&mut flows, 1, Stage::Reuse, Owner::Request(RequestId(1)), 1000);
    submit(&mut flows, 2, Stage::Collective, Owner::Batch(BatchId(2)), 1000);
    let (batch, generation, layer) = (BatchId(1), 0, 0);
    flows.handle(Time::ZERO, Input::Layer { batch, generation, layer });
    let urgent_at = (0..1000).find(|ms| {
        flows.handle_timeout(Time::from_millis(*ms));
        precedes(&flows, 1, 2)
    });
    assert_eq!(urgent_at, Some(1000 - 4 * 16));
}

// A fetch that waits shares no traffic class with collectives.
#[test]
fn correction_17_a_fetch_that_waits_is_below_collectives_in_switches() {
    let mut flows = machine();
    flows.handle(Time::ZERO, Input::BatchArrived(fetching(1, 100, 1000)));
    flows.handle(Time::ZERO, Input::BatchArrived(one(2, 200)));
    submit(&mut flows, 1, Stage::Reuse, Owner::Request(RequestId(1)), 1000);
    submit(&mut flows, 2, Stage::Collective, Owner::Batch(BatchId(2)), 1000);
    let class = |flows: &Flows, id| flows.place(FlowId(id)).unwrap().traffic;
    assert_eq!((class(&flows, 1), class(&flows, 2)), (2, 1));
    let (batch, generation, layer) = (BatchId(1), 0, 0);
    flows.handle(Time::ZERO, Input::Layer { batch, generation, layer });
    flows.handle_timeout(Time::from_millis(99));
    assert_eq!((class(&flows, 1), class(&flows, 2)), (1, 1), "it is urgent");
}

// A request whose need becomes critical when a layer's KV is submitted takes its earlier layers along.
#[test]
fn correction_15_all_layers_of_a_critical_request_rise_together() {
    let mut flows = machine();
    critical(&mut flows, 1, 100, 10_000);
    let level = |flows: &Flows, id| flows.place(FlowId(id)).unwrap().level.0;
    assert_eq!(level(&flows, 1), 2);
    submit(&mut flows, 2, Stage::Handoff, Owner::Request(RequestId(1)), 50_000);
    assert_eq!((level(&flows, 1), level(&flows, 2)), (0, 0));
}

// A handoff that passes while no batch is at its port goes behind the collectives of one that arrives,
// and before them again once that has departed.
#[test]
fn correction_15_a_batch_that_arrives_is_not_delayed() {
    let mut flows = machine();
    critical(&mut flows, 1, 40, 30_000);
    flows.handle(Time::ZERO, Input::BatchDeparted(BatchId(1)));
    let level = |flows: &Flows| flows.place(FlowId(1)).unwrap().level.0;
    assert_eq!(level(&flows), 0);
    let exchanging = Batch { collectives: vec![(PORT, 1000)], ..one(2, 1000) };
    flows.handle(Time::ZERO, Input::BatchArrived(exchanging));
    submit(&mut flows, 2, Stage::Collective, Owner::Batch(BatchId(2)), 250);
    assert_eq!(level(&flows), 1);
    assert!(precedes(&flows, 2, 1));
    flows.handle(Time::ZERO, Input::BatchDeparted(BatchId(2)));
    assert_eq!(level(&flows), 0);
}
