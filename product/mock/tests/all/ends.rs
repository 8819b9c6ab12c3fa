//! Engines that end, and KV that does not arrive.

use std::time::Duration;

use meridian_mock::{Fleet, LoadFailure};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use super::{get, post, prefill, with};

const TEXT: &str = "/v1/completions";

// Too few blocks and unfilled parameters: the decode engine answers a 500 and is gone, and so are
// its other connections.
#[tokio::test(start_paused = true)]
async fn fatal_bodies() {
    let unfilled = json!({"do_remote_prefill": true, "do_remote_decode": false});
    let few = |params: &Value| with(params, "remote_block_ids", json!([[1, 2, 3]]));
    for fatal in [few as fn(&Value) -> Value, |_| Value::Null] {
        let fleet = Fleet::start(1, 2, LoadFailure::Fail).await.unwrap();
        let decode = &fleet.decode[0];
        let (params, body) = prefill(&fleet.prefill[0], "completions").await;
        let params = Some(fatal(&params)).filter(Value::is_object).unwrap_or(unfilled.clone());
        let mut idle = tokio::net::TcpStream::connect(decode.addr()).await.unwrap();
        let body = with(&body, "kv_transfer_params", params);
        let answer = post(decode, TEXT, &body).await.unwrap();
        assert_eq!(answer.status, 500);
        assert!(answer.body.contains("EngineCore encountered an issue"), "{}", answer.body);
        assert_eq!(decode.death(), Some("parameters with too few blocks, or none"));
        assert!(post(decode, TEXT, &body).await.is_none(), "refuses from then on");
        let read = tokio::io::AsyncReadExt::read(&mut idle, &mut [0]).await;
        assert_eq!(read.unwrap_or(0), 0, "closed");
        assert_eq!(get(&fleet.decode[1], "/health").await.status, 200);
        assert_eq!(fleet.uncovered(), [""; 0]);
    }
}

// Without remote_request_id there is no answer, and the engine ends when the client disconnects.
#[tokio::test(start_paused = true)]
async fn a_missing_request_id() {
    let fleet = Fleet::pair().await.unwrap();
    let decode = &fleet.decode[0];
    let (mut params, body) = prefill(&fleet.prefill[0], "completions").await;
    params.as_object_mut().unwrap().remove("remote_request_id");
    let body = with(&body, "kv_transfer_params", params);
    let leg = post(decode, TEXT, &body);
    let waited = async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        let page = get(decode, "/metrics").await.body;
        assert!(page.contains("reason=\"deferred\"} 1"), "{page}");
        assert_eq!(decode.death(), None);
    };
    let ended = tokio::select! {
        answer = leg => answer.map(|answer| answer.status),
        () = waited => None,
    };
    assert_eq!(ended, None);
    let gone = async {
        while post(decode, TEXT, &Value::Null).await.is_some() {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(60), gone).await.expect("the engine ends");
    assert!(decode.death().is_some_and(|cause| cause.contains("remote_request_id")));
}

// A killed prefill engine refuses connections. Its parameters fail after the handshake timeout, or
// with `recompute` cost the decode engine a prefill. Null is safe.
#[tokio::test(start_paused = true)]
async fn a_killed_prefill_engine() {
    for (policy, status, seconds) in [(LoadFailure::Fail, 500, 5), (LoadFailure::Recompute, 200, 0)]
    {
        let fleet = Fleet::start(1, 1, policy).await.unwrap();
        let (params, body) = prefill(&fleet.prefill[0], "completions").await;
        fleet.prefill[0].kill().await;
        assert!(post(&fleet.prefill[0], TEXT, &Value::Null).await.is_none());
        let start = Instant::now();
        let leg = with(&body, "kv_transfer_params", params);
        assert_eq!(post(&fleet.decode[0], TEXT, &leg).await.unwrap().status, status);
        assert_eq!(start.elapsed().as_secs(), seconds);
        assert_eq!(fleet.decode[0].counts().failed_transfers, 1);
        let leg = with(&body, "kv_transfer_params", Value::Null);
        assert_eq!(post(&fleet.decode[0], TEXT, &leg).await.unwrap().status, 200);
        assert_eq!(fleet.uncovered(), [""; 0]);
    }
}

// Wrong addresses of a living prefill engine: the engines live, and the blocks wait for the lease.
#[tokio::test(start_paused = true)]
async fn wrong_addresses() {
    let fleet = Fleet::pair().await.unwrap();
    let (params, body) = prefill(&fleet.prefill[0], "completions").await;
    let unknown = with(&params, "remote_engine_id", "00000000-dead-beef-0000-000000000000");
    let dead = with(&unknown, "remote_port", 15999);
    for (engine, params, seconds, failed) in [
        (&fleet.decode[0], &unknown, 0, 1),
        (&fleet.decode[0], &dead, 5, 3),
        (&fleet.prefill[0], &params, 5, 2),
    ] {
        let start = Instant::now();
        let leg = with(&body, "kv_transfer_params", params.clone());
        let answer = post(engine, TEXT, &leg).await.unwrap();
        let message = &answer.json()["error"]["message"];
        assert_eq!((answer.status, message), (500, &json!("Internal server error")));
        assert_eq!(start.elapsed().as_secs(), seconds);
        assert_eq!(engine.counts().failed_transfers, failed);
    }
    assert_eq!(fleet.prefill[0].counts().held_blocks, 12);
    assert_eq!(fleet.uncovered(), [""; 0]);
}
