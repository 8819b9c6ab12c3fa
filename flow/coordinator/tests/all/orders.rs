//! Verdicts reach the gates and change the order there.

use meridian_flow::Stage;
use meridian_gate::{Gate, Handle, NewFlow};

use crate::common::{Running, node, part, until};

const CHUNK: u32 = 256 << 10;

fn collective(gate: &Gate, batch: u64, chunks: u64) -> Handle {
    let bytes = chunks * u64::from(CHUNK);
    let flow = NewFlow { stage: Stage::Collective, owner: batch, layer: 0, bytes, ports: &[0] };
    gate.submit(flow).expect("the batch is there")
}

fn permitted(gate: &Gate, transfer: Handle) -> bool {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    gate.poll_permit(transfer, CHUNK, &mut context).is_ready()
}

/// The batch whose collective goes first at the gate once its window has room.
fn first(gate: &Gate, batches: [u64; 2]) -> u64 {
    let full = collective(gate, batches[0], 2);
    assert!(permitted(gate, full) && permitted(gate, full), "the window has room for two chunks");
    let [one, two] = batches.map(|batch| collective(gate, batch, 8));
    assert!(!permitted(gate, one) && !permitted(gate, two));
    gate.completed(full, u64::from(CHUNK)).expect("it is under way");
    let (found, sends, waits) =
        if permitted(gate, one) { (batches[0], one, two) } else { (batches[1], two, one) };
    gate.withdrawn(waits).expect("it waits");
    // A transfer that ends with permits in use would put the port in doubt.
    for transfer in [full, sends] {
        gate.completed(transfer, u64::from(CHUNK)).expect("it is under way");
    }
    gate.withdrawn(sends).expect("it has bytes left");
    found
}

// A node knows batch 1 by a request with much time, and batch 2 by one with less, so it sends batch
// 2's collectives first. Another node's part of batch 1 has a request with hardly any time. Once the
// coordinator has told both, batch 1 goes first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_learns_of_other_nodes_requests() {
    let running = Running::start(0).await;
    let (a, b) = (node("a", running.address), node("b", running.address));
    until(&a, |status| status.coordinator == Some(true)).await;
    until(&b, |status| status.coordinator == Some(true)).await;
    a.batch(&part(1, "a", &[(1, 900_000.0)])).expect("it is new");
    a.batch(&part(2, "a", &[(2, 600_000.0)])).expect("it is new");
    until(&a, |status| status.verdicts >= 2).await;
    assert_eq!(first(&a, [1, 2]), 2);
    let told = a.status().verdicts;
    b.batch(&part(1, "b", &[(3, 100_000.0)])).expect("it is new");
    until(&b, |status| status.verdicts >= 1).await;
    until(&a, |status| status.verdicts > told).await;
    assert_eq!(first(&a, [1, 2]), 1);
    running.stop().await;
}

// The coordinator is lost: batches that arrive then have the node's own order, and nothing waits for
// it. A new one at the same address hears of what computes, and its verdicts count again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_coordinator_leaves_the_nodes_order() {
    let running = Running::start(0).await;
    let (a, port) = (node("a", running.address), running.address.port());
    until(&a, |status| status.coordinator == Some(true)).await;
    running.stop().await;
    until(&a, |status| status.coordinator == Some(false)).await;
    a.batch(&part(1, "a", &[(1, 900_000.0)])).expect("it is new");
    a.batch(&part(2, "a", &[(2, 600_000.0)])).expect("it is new");
    assert_eq!(first(&a, [1, 2]), 2);

    let running = Running::start(port).await;
    let b = node("b", running.address);
    until(&a, |status| status.verdicts >= 2).await;
    let told = a.status().verdicts;
    b.batch(&part(1, "b", &[(3, 100_000.0)])).expect("it is new");
    until(&a, |status| status.verdicts > told).await;
    assert_eq!(first(&a, [1, 2]), 1);
    running.stop().await;
}

// A node that leaves takes its batches with it: the other nodes' later batches have verdicts as
// before, and the number of the batch can be reported again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_leaves_takes_its_batches_along() {
    let running = Running::start(0).await;
    let (a, b) = (node("a", running.address), node("b", running.address));
    until(&b, |status| status.coordinator == Some(true)).await;
    b.batch(&part(1, "b", &[(1, 300_000.0)])).expect("it is new");
    until(&b, |status| status.verdicts >= 1).await;
    drop(b);
    until(&a, |status| status.coordinator == Some(true)).await;
    for batch in 1..200 {
        a.batch(&part(batch, "a", &[(1000 + batch, 1e6)])).expect("it is new");
        a.departed(batch).expect("it is there");
        a.ended(1000 + batch).expect("it is there");
    }
    a.batch(&part(777, "a", &[(7, 300_000.0)])).expect("it is new");
    until(&a, |status| status.verdicts >= 1).await;
    running.stop().await;
}
