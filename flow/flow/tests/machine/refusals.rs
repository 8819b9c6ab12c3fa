//! Tests of bad input: each is refused with a message that names the field, the value and the
//! remedy, and leaves the machine unchanged.

use meridian_base::{BatchId, FlowId, PortId, RequestId, Time};
use meridian_flow::{Flows, Input, Output, Owner, Ports, Stage, Thresholds};

use crate::link::{PORT, batch, config, flow};

/// A machine with a port and a batch of request 1, four layers, that computes layer 2.
fn machine() -> Flows {
    let mut flows = Flows::new(config("mfs"), 1).unwrap();
    flows.handle(Time::ZERO, Input::Port { id: PORT, bytes_per_second: 1e9 });
    flows.handle(Time::ZERO, Input::BatchArrived(batch(1, 4, &[(1, 1.0)])));
    let layer = Input::Layer { batch: BatchId(1), generation: 0, layer: 2 };
    flows.handle(Time::ZERO, layer);
    while flows.poll().is_some() {}
    flows
}

/// The outputs for an input, at 10 ms.
fn said(input: Input) -> String {
    let mut flows = machine();
    flows.handle(Time::from_millis(10), input);
    let mut said = vec![];
    while let Some(output) = flows.poll() {
        match output {
            Output::Refused { subject, why } => said.push(format!("{subject}: {why}")),
            other => panic!("{other:?} in place of a refusal"),
        }
    }
    flows.check_invariants();
    assert!(flows.is_empty(), "a refused flow is not entered");
    said.join("; ")
}

const REQUEST: Owner = Owner::Request(RequestId(1));

fn submit(change: impl Fn(&mut meridian_flow::Flow)) -> String {
    let mut flow = flow(7, REQUEST, Stage::Reuse, 3, 1.0);
    change(&mut flow);
    said(Input::Submit(flow))
}

// A flow without size or of an impossible one, a deadline in the past, a cycle of layers.
#[test]
fn size_deadline_and_cycle() {
    assert_eq!(submit(|f| f.bytes = 0), "flow-7: bytes is 0: submit a flow with its size");
    assert_eq!(
        submit(|f| f.bytes = u64::MAX),
        "flow-7: bytes is 18446744073709551615: a flow has 549755813888 at most, so split it"
    );
    let late = said(Input::BatchArrived(batch(2, 4, &[(2, 0.01)])));
    assert_eq!(
        late,
        "req-2: deadline 10.000ms is not after 10.000ms: send none to have it served best effort; \
         batch-2: requests is empty: a batch has requests or collectives"
    );
    let back = said(Input::Layer { batch: BatchId(1), generation: 0, layer: 1 });
    assert_eq!(
        back,
        "batch-1: layer 1 comes after layer 2 in generation 0, so layers run in a cycle: count up, \
         or begin a new generation for a new chunk"
    );
}

// A flow names ports that exist, once each.
#[test]
fn ports_of_a_flow() {
    let ports = |ids: &[u32]| {
        let ids: Vec<PortId> = ids.iter().map(|id| PortId(*id)).collect();
        submit(|f| f.ports = Ports::new(&ids).unwrap())
    };
    assert_eq!(ports(&[]), "flow-7: ports is empty: name the ports, the sender's first");
    assert_eq!(ports(&[0, 0]), "flow-7: ports names port-0 twice: name it once");
    for unknown in [3, 400] {
        let said = ports(&[0, unknown]);
        assert!(said.starts_with(&format!("flow-7: ports names port-{unknown}, which")), "{said}");
    }
    assert_eq!(Ports::new(&[PORT; 5]), None, "a flow has at most four ports");
}

// A flow's owner has been announced, and its layer exists in the model.
#[test]
fn owner_and_layer_of_a_flow() {
    assert_eq!(
        submit(|f| f.owner = Owner::Request(RequestId(9))),
        "flow-7: owner req-9 is unknown: announce its batch first"
    );
    assert_eq!(
        submit(|f| f.owner = Owner::Batch(BatchId(99))),
        "flow-7: owner batch-99 is unknown: announce its batch first"
    );
    assert_eq!(
        submit(|f| (f.owner, f.stage) = (Owner::Batch(BatchId(1)), Stage::Handoff)),
        "flow-7: owner batch-1 of a handoff: it has a request's deadline, submit one a request"
    );
    let beyond = submit(|f| f.layer = 4);
    assert_eq!(beyond, "flow-7: layer is 4 of a model of 4: layers count from 0");
    let beyond = said(Input::Layer { batch: BatchId(1), generation: 0, layer: 4 });
    assert_eq!(beyond, "batch-1: layer is 4 of a model of 4: layers count from 0");
}

// Rows beyond their tables, rows in use, and unknown rows.
#[test]
fn rows() {
    assert_eq!(
        submit(|f| f.id = FlowId(256)),
        "flow-256: id 256 is not below limits.flows = 256: raise it, or reuse ids"
    );
    let taken = said(Input::BatchArrived(batch(1, 4, &[(2, 1.0)])));
    assert_eq!(taken, "batch-1: id is in use: end what has it, or take a free one");
    let taken = said(Input::BatchArrived(batch(2, 4, &[(1, 1.0)])));
    assert!(taken.starts_with("req-1: id is in use"), "{taken}");
    for unknown in [
        Input::Completed { flow: FlowId(3), bytes: 1 },
        Input::Withdrawn { flow: FlowId(1 << 30), unused: 0 },
        Input::Ask { flow: FlowId(3), bytes: 1 },
        Input::BatchDeparted(BatchId(5)),
        Input::Layer { batch: BatchId(1 << 30), generation: 0, layer: 0 },
        Input::Ended(RequestId(5)),
    ] {
        let said = said(unknown.clone());
        assert!(
            said.ends_with("id is unknown: it was never started, or it has ended"),
            "{unknown:?}"
        );
    }
}

// A port has a rate; a batch has layers and requests, and no more than the tables can store.
#[test]
fn ports_and_batches() {
    for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let dead = said(Input::Port { id: PORT, bytes_per_second: rate });
        assert!(dead.starts_with("port-0: bytes_per_second is") && dead.contains("above 0"));
    }
    let none = said(Input::BatchArrived(batch(2, 0, &[(2, 1.0)])));
    assert_eq!(none, "batch-2: layers is 0: use 1 to limits.layers = 256");
    let none = said(Input::BatchArrived(batch(2, 4, &[])));
    assert_eq!(none, "batch-2: requests is empty: a batch has requests or collectives");
    let many: Vec<(u64, f64)> = (10..300).map(|id| (id, 1.0)).collect();
    let full = said(Input::BatchArrived(batch(2, 4, &many)));
    assert_eq!(full, "batch-2: limits.requests = 256 are in use: raise it, or end what is over");
}

// More bytes than a flow had end it, and are reported.
#[test]
fn too_many_bytes() {
    let mut flows = machine();
    flows.handle(Time::ZERO, Input::Submit(flow(7, REQUEST, Stage::Reuse, 3, 1.0)));
    flows.poll();
    flows.handle(Time::ZERO, Input::Completed { flow: FlowId(7), bytes: 2_000_000 });
    let Some(Output::Refused { subject, why }) = flows.poll() else { panic!("not refused") };
    assert_eq!(
        format!("{subject}: {why}"),
        "flow-7: bytes is 2000000, and the flow had 1000000 left: it counts as over"
    );
    assert!(flows.is_empty());
    flows.check_invariants();
}

// After a batch departs only its handoffs remain.
#[test]
fn a_departed_batch_fetches_nothing() {
    let mut flows = machine();
    flows.handle(Time::ZERO, Input::BatchDeparted(BatchId(1)));
    flows.handle(Time::ZERO, Input::Submit(flow(7, REQUEST, Stage::Reuse, 3, 1.0)));
    let Some(Output::Refused { why, .. }) = flows.poll() else { panic!("not refused") };
    let text = "stage is early and the batch has departed: only handoffs remain";
    assert_eq!(why.to_string(), text);
    flows.handle(Time::ZERO, Input::Submit(flow(7, REQUEST, Stage::Handoff, 3, 1.0)));
    assert!(matches!(flows.poll(), Some(Output::Placed { .. })));
}

// Inconsistent settings: the error names the field, the value, and the range.
#[test]
fn settings() {
    let mut bad = config("mfs");
    bad.levels = 17;
    let error = Flows::new(bad, 1).err().expect("is refused");
    assert_eq!(error.to_string(), "levels 17 is out of range: use 2 to 16");
    let mut bad = config("mfs");
    bad.thresholds = Thresholds::Geometric { top: 1.5, ratio: 4.0 };
    assert_eq!(Flows::new(bad, 1).err().expect("is refused").field, "thresholds.top");
    let mut bad = config("mfs");
    bad.window = bad.chunk - 1;
    assert_eq!(Flows::new(bad, 1).err().expect("is refused").field, "window");
    bad.drop_share = f64::NAN;
    bad.window = bad.chunk;
    assert_eq!(Flows::new(bad, 1).err().expect("is refused").field, "drop_share");
}
