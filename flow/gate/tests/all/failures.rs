//! Clients that stop, forget or misbehave, and settings that are wrong.

use meridian_flow::Stage;
use meridian_gate::{Gate, GateError, NewFlow};
use meridian_messages::{Batch, PortPlan, Settings};

use crate::common::{CHUNK, Hand, batch, gate, handoff, permitted, settings};

// A client stops with the whole window. The other one waits 5 ms, and again for the chunks that the
// gate asked for ahead of the stopped one. Then it goes on at full speed.
#[test]
fn a_stopped_client_costs_the_others_two_holds() {
    let (gate, hand) = gate();
    gate.batch(&batch(1, &[(1, 1000.0), (2, 1000.0)])).unwrap();
    let (stopped, other) = (handoff(&gate, 1, 9), handoff(&gate, 2, 9));
    assert!(permitted(&gate, stopped) && permitted(&gate, stopped));
    assert!(!permitted(&gate, other));
    hand.set_ms(4);
    assert!(!permitted(&gate, other));
    hand.set_ms(5);
    assert!(permitted(&gate, other));
    gate.completed(other, u64::from(CHUNK)).unwrap();
    assert!(!permitted(&gate, other));
    hand.set_ms(10);
    for _ in 0..7 {
        assert!(permitted(&gate, other));
        gate.completed(other, u64::from(CHUNK)).unwrap();
    }
    assert_eq!(gate.status().waiting, 0);
}

// A client that never ends its batches: the oldest make way, and their transfers end.
#[test]
fn forgotten_batches_make_way() {
    let (gate, _) = gate();
    gate.batch(&batch(0, &[(0, 1000.0)])).unwrap();
    let forgotten = handoff(&gate, 0, 1);
    for number in 1..5000 {
        gate.batch(&batch(number, &[(number, 1000.0)])).unwrap();
    }
    assert_eq!(gate.permit(forgotten, CHUNK), Err(GateError::UnknownTransfer));
    let status = gate.status();
    assert_eq!(status.transfers, 0);
    assert!(status.abandoned >= 5000 - 1024, "{status:?}");
}

// A departed batch whose requests never end makes way too.
#[test]
fn forgotten_requests_make_way() {
    let (gate, _) = gate();
    for number in 0..9000 {
        gate.batch(&batch(number, &[(number, 1000.0)])).unwrap();
        gate.departed(number).unwrap();
    }
    assert!(gate.status().abandoned >= 9000 - 4096);
    assert_eq!(gate.ended(0), Err(GateError::UnknownRequest(0)));
    gate.ended(8999).unwrap();
}

// Transfers that are never ended fill the table, and the error says so. Each that ends frees a row.
#[test]
fn the_table_of_transfers_is_bounded() {
    let (gate, _) = gate();
    gate.batch(&batch(1, &[(1, 1000.0)])).unwrap();
    let first = handoff(&gate, 1, 1);
    for _ in 1..4096 {
        handoff(&gate, 1, 1);
    }
    let flow = NewFlow { stage: Stage::Handoff, owner: 1, layer: 0, bytes: 1, ports: &[0] };
    assert_eq!(gate.submit(flow), Err(GateError::Full(4096)));
    gate.withdrawn(first).unwrap();
    let again = gate.submit(flow).unwrap();
    assert_ne!(again, first, "a handle of the row's earlier transfer is recognised");
    assert_eq!(gate.withdrawn(first), Err(GateError::UnknownTransfer));
}

// Inputs that are not valid change nothing and name the field and the remedy.
#[test]
fn wrong_inputs_are_refused() {
    let (gate, _) = gate();
    gate.batch(&batch(1, &[(1, 1000.0)])).unwrap();
    let plan = PortPlan { port: "eth9".to_owned(), reuse: 0, handoff: 1 };
    let mut unknown_port = batch(2, &[(2, 1.0)]);
    unknown_port.requests[0].plan.push(plan);
    let cases = [
        (batch(1, &[]), "batch 1 is under way: give each batch its own number"),
        (unknown_port, "port `eth9` is unknown: name it in the settings of a gate first"),
        (batch(2, &[(2, f64::NAN)]), "ttft_left_ms is NaN: use a number, up to a year"),
        (batch(2, &[(2, 1e15)]), "ttft_left_ms is 1000000000000000: use a number, up to a year"),
        (
            Batch { layers: 0, ..batch(2, &[(2, 1.0)]) },
            "layers is 0: use 1 to limits.layers = 1024",
        ),
        (batch(2, &[]), "requests is empty: a batch has requests or collectives"),
    ];
    for (batch, message) in cases {
        assert_eq!(gate.batch(&batch).unwrap_err().to_string(), message);
    }
    let flow = NewFlow { stage: Stage::Handoff, owner: 1, layer: 0, bytes: 1, ports: &[0] };
    let cases = [
        (NewFlow { bytes: 0, ..flow }, "bytes is 0: submit a flow with its size"),
        (NewFlow { ports: &[], ..flow }, "ports is empty: name the ports, the sender's first"),
        (
            NewFlow { ports: &[7], ..flow },
            "ports names port-7, which was not described: send its rate first",
        ),
        (NewFlow { layer: 1, ..flow }, "layer is 1 of a model of 1: layers count from 0"),
        (
            NewFlow { stage: Stage::Collective, owner: 5, ..flow },
            "batch 5 is unknown: it was never announced, or it has departed",
        ),
    ];
    for (flow, message) in cases {
        assert_eq!(gate.submit(flow).unwrap_err().to_string(), message);
    }
    assert!(gate.submit(NewFlow { ports: &[0, 1, 2, 3, 4], ..flow }).is_err());
    assert_eq!(gate.status().transfers, 0);
}

// A client that asks for more than its transfer has gets an error for that; what it has sent still
// counts.
#[test]
fn asking_beyond_a_transfer_is_refused() {
    let (gate, _) = gate();
    gate.batch(&batch(1, &[(1, 1000.0)])).unwrap();
    let transfer = handoff(&gate, 1, 1);
    assert!(permitted(&gate, transfer));
    let again = gate.permit(transfer, CHUNK);
    assert_eq!(again, Err(GateError::AllPermitted));
    gate.completed(transfer, u64::from(CHUNK)).unwrap();
    assert_eq!(gate.permit(transfer, CHUNK), Err(GateError::UnknownTransfer));
}

// A budget that is used up is a deadline that has passed: the request goes last, it is not refused.
#[test]
fn a_used_up_budget_is_no_error() {
    let (gate, _) = gate();
    gate.batch(&batch(1, &[(1, -3.0), (2, 0.0)])).unwrap();
    assert!(permitted(&gate, handoff(&gate, 1, 1)));
}

// Settings that are not valid name the field.
#[test]
fn wrong_settings_are_refused() {
    let port = |name: &str, gbps| meridian_messages::Port { name: name.to_owned(), gbps };
    let right = settings();
    let known = "mfs, fair, sjf, edf, karuna, two_class, two_class_floor, tent, edf_drop";
    let cases = [
        (
            Settings { policy: "best".to_owned(), ..right.clone() },
            format!("policy `best` is unknown: use one of {known}"),
        ),
        (
            Settings { ports: vec![], ..right.clone() },
            "ports is empty: name at least one direction of a card, with its gbps".to_owned(),
        ),
        (
            Settings { ports: vec![port("a", 1.0), port("a", 1.0)], ..right.clone() },
            "ports names `a` twice: name it once".to_owned(),
        ),
        (
            Settings { ports: vec![port("a", -1.0)], ..right.clone() },
            "gbps of port `a` is -1: use 0.001 to 100000".to_owned(),
        ),
        (
            Settings { window: Some(1), ..right.clone() },
            "window 1 is out of range: use 262144 to 4000000000".to_owned(),
        ),
        (
            Settings { hold_ms: f64::NAN, ..right.clone() },
            "max_hold_us 18446744073709552000000000 is out of range: use 1 to 1000000000"
                .to_owned(),
        ),
        (
            Settings { coordinator: Some("here".to_owned()), ..right },
            "coordinator `here` is not host:port: add its port".to_owned(),
        ),
    ];
    for (settings, message) in cases {
        let refused = Gate::open(&settings, Hand::default().clock()).err().map(|e| e.to_string());
        assert_eq!(refused, Some(message));
    }
}

// A batch with a request of another one is refused whole: its other requests and its row are free.
#[test]
fn a_batch_with_a_request_of_another_is_refused_whole() {
    let (gate, _) = gate();
    gate.batch(&batch(1, &[(7, 1000.0)])).unwrap();
    for twice in [batch(2, &[(7, 1000.0), (8, 1000.0)]), batch(2, &[(8, 1000.0), (8, 1000.0)])] {
        assert!(matches!(gate.batch(&twice), Err(GateError::Refused(_))));
        assert_eq!(gate.ended(8), Err(GateError::UnknownRequest(8)));
    }
    gate.batch(&batch(3, &[(8, 1000.0)])).unwrap();
    gate.ended(8).unwrap();
    gate.ended(7).unwrap();
}

// A batch departs while some of its transfers wait: the window of the first goes to none of them.
#[test]
fn a_batch_departs_while_its_transfers_wait() {
    let settings = Settings { window: Some(CHUNK), ..settings() };
    let gate = Gate::new(&settings, Hand::default().clock()).unwrap();
    gate.batch(&batch(1, &[(1, 1000.0)])).unwrap();
    let bytes = 4 * u64::from(CHUNK);
    let flow = NewFlow { stage: Stage::Reuse, owner: 1, layer: 0, bytes, ports: &[0] };
    let mut all = [0; 3].map(|_| gate.submit(flow).unwrap());
    // The newest one, which ends first, has the window.
    all.reverse();
    assert_eq!(all.map(|transfer| permitted(&gate, transfer)), [true, false, false]);
    gate.departed(1).unwrap();
    assert_eq!(gate.status().waiting, 0);
}
