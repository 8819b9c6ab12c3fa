//! Blocks held for a decode leg.

use std::time::Duration;

use meridian_mock::Fleet;
use tokio::time::sleep;

use super::{post, prefill, with};

// Without a decode leg the blocks are held for the lease, and its end is counted. A decode leg after
// it gets a 200 all the same: only the prefill engine's count shows it.
#[tokio::test(start_paused = true)]
async fn a_lease_ends() {
    let fleet = Fleet::pair().await.unwrap();
    let engine = &fleet.prefill[0];
    let (params, body) = prefill(engine, "completions").await;
    sleep(Duration::from_secs(29)).await;
    assert_eq!((engine.counts().held_blocks, engine.counts().expired), (12, 0));
    sleep(Duration::from_secs(1)).await;
    assert_eq!((engine.counts().held_blocks, engine.counts().expired), (0, 1));

    let body = with(&body, "kv_transfer_params", params);
    assert_eq!(post(&fleet.decode[0], "/v1/completions", &body).await.unwrap().status, 200);
    assert_eq!((engine.counts().expired, engine.counts().late), (1, 1));
    assert_eq!(fleet.uncovered(), [""; 0]);
}

// The second use of parameters gets a 200, reads one block more, and is counted as late.
#[tokio::test(start_paused = true)]
async fn parameters_used_twice() {
    let fleet = Fleet::pair().await.unwrap();
    let (params, body) = prefill(&fleet.prefill[0], "completions").await;
    let body = with(&body, "kv_transfer_params", params);
    for (late, fetched) in [(0, 12), (1, 13)] {
        assert_eq!(post(&fleet.decode[0], "/v1/completions", &body).await.unwrap().status, 200);
        assert_eq!(fleet.prefill[0].counts().late, late);
        assert_eq!(fleet.decode[0].counts().fetched_blocks, fetched);
    }
    assert_eq!((fleet.prefill[0].counts().expired, fleet.uncovered().len()), (0, 0));
}
