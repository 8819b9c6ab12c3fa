//! The order of permits, and who is woken.

use std::time::Duration;

use meridian_flow::Stage;
use meridian_gate::{Clock, Gate, GateError, NewFlow};
use meridian_messages::{Batch, PortPlan};

use crate::common::{CHUNK, batch, gate, handoff, permitted, settings};

// Two requests hand over KV; the window is full. Of the two that wait, the one that is due first goes
// first, though it asked last.
#[test]
fn the_request_that_is_due_first_goes_first() {
    let (gate, _) = gate();
    gate.batch(&batch(1, &[(1, 10_000.0), (2, 500.0), (3, 20.0)])).unwrap();
    gate.departed(1).unwrap();
    let (slow, other) = (handoff(&gate, 1, 40), handoff(&gate, 1, 40));
    let sooner = handoff(&gate, 2, 40);
    assert!(permitted(&gate, slow) && permitted(&gate, slow));
    assert!(!permitted(&gate, other) && !permitted(&gate, sooner));
    gate.completed(slow, u64::from(CHUNK)).unwrap();
    assert!(!permitted(&gate, other));
    assert!(permitted(&gate, sooner));
    // A critical one does not even wait for the window: its traffic class passes the others.
    assert!(permitted(&gate, handoff(&gate, 3, 40)));
}

// A client that sends one chunk after the other keeps its place: the gate asks for its next chunk
// before the last one has completed, so a transfer with less precedence gets room only while the
// other has enough.
#[test]
fn a_client_keeps_its_place_between_two_chunks() {
    let (gate, _) = gate();
    gate.batch(&batch(1, &[(1, 10_000.0), (2, 500.0)])).unwrap();
    let (slow, sooner) = (handoff(&gate, 1, 40), handoff(&gate, 2, 40));
    assert!(permitted(&gate, slow) && !permitted(&gate, sooner), "one is sent, one is ahead");
    let chunk = u64::from(CHUNK);
    gate.completed(slow, chunk).unwrap();
    assert!(permitted(&gate, slow), "the permit that came ahead");
    gate.completed(slow, chunk).unwrap();
    for _ in 0..38 {
        assert!(permitted(&gate, sooner));
        gate.completed(sooner, chunk).unwrap();
        assert!(!permitted(&gate, slow));
    }
    assert!(permitted(&gate, sooner) && permitted(&gate, sooner), "its last two fill the window");
    gate.completed(sooner, chunk).unwrap();
    assert!(permitted(&gate, slow));
}

// A thread that waits is woken by the completion of another's chunk, long before it would look by
// itself.
#[test]
fn a_completion_wakes_the_thread_that_waits() {
    let patient = meridian_messages::Settings { hold_ms: 600_000.0, ..settings() };
    let gate = Gate::new(&patient, Clock::default()).unwrap();
    gate.batch(&batch(1, &[(1, 1000.0), (2, 1000.0)])).unwrap();
    let (one, two) = (handoff(&gate, 1, 2), handoff(&gate, 2, 2));
    assert!(permitted(&gate, one) && permitted(&gate, one));
    let waiting = gate.clone();
    let thread = std::thread::spawn(move || waiting.permit(two, CHUNK));
    while gate.status().waiting < 1 {
        std::thread::yield_now();
    }
    gate.completed(one, u64::from(CHUNK)).unwrap();
    assert_eq!(thread.join().unwrap().unwrap().bytes, CHUNK);
}

// A client that waits when its request ends gets an answer: the transfer has ended.
#[test]
fn the_end_of_a_request_wakes_its_transfers() {
    let (gate, _) = gate();
    gate.batch(&batch(1, &[(1, 1000.0), (2, 1000.0)])).unwrap();
    let (one, two) = (handoff(&gate, 1, 3), handoff(&gate, 2, 3));
    assert!(permitted(&gate, one) && permitted(&gate, one) && !permitted(&gate, two));
    gate.ended(2).unwrap();
    assert_eq!(gate.permit(two, CHUNK), Err(GateError::UnknownTransfer));
    assert_eq!(gate.completed(two, 1), Err(GateError::UnknownTransfer));
}

// A collective goes before the handoff of a request that is not critical, a fetch of a far layer
// after it.
#[test]
fn stages_and_layers_reach_the_machine() {
    let (gate, _) = gate();
    let mut ten = Batch { layers: 10, ..batch(7, &[(1, 1000.0)]) };
    ten.requests[0].plan.push(PortPlan { port: "out".to_owned(), reuse: 1, handoff: 1 });
    gate.batch(&ten).unwrap();
    gate.layer(7, 0, 1).unwrap();
    let bytes = 2 * u64::from(CHUNK);
    let flow = |stage, owner, layer| NewFlow { stage, owner, layer, bytes, ports: &[0] };
    let full = gate.submit(flow(Stage::Collective, 7, 1)).unwrap();
    let later = gate.submit(flow(Stage::Handoff, 1, 0)).unwrap();
    let next = gate.submit(flow(Stage::Collective, 7, 1)).unwrap();
    assert!(permitted(&gate, full) && permitted(&gate, full));
    assert!(!permitted(&gate, later) && !permitted(&gate, next));
    gate.completed(full, u64::from(CHUNK)).unwrap();
    assert!(permitted(&gate, next) && !permitted(&gate, later));
}

// The counts are those of the permits.
#[test]
fn the_status_counts_permits_and_waits() {
    let (gate, hand) = gate();
    gate.batch(&batch(1, &[(1, 1000.0)])).unwrap();
    let transfer = handoff(&gate, 1, 3);
    assert!(
        permitted(&gate, transfer) && permitted(&gate, transfer) && !permitted(&gate, transfer)
    );
    hand.set_ms(3);
    gate.completed(transfer, u64::from(CHUNK)).unwrap();
    assert!(permitted(&gate, transfer));
    let status = gate.status();
    assert_eq!((status.permits, status.waits, status.transfers), (3, 1, 1));
    assert_eq!(status.handoff_bytes, 3 * u64::from(CHUNK));
    assert_eq!(Duration::from_micros(status.waited_us), Duration::from_millis(3));
    gate.completed(transfer, 2 * u64::from(CHUNK)).unwrap();
    assert_eq!(gate.status().transfers, 0);
}
