//! Held blocks: until they are fetched, until the client is gone, or until the lease expires.

use super::{
    EXPIRED, FAILED, LATE, TEXT, UNTOLD, USAGE, body, engine, pair, prefill_params, prompt,
    recompute, with_transfer,
};
use crate::common::{Client, read};
use meridian_engined::Network;
use serde_json::json;
use std::time::Duration;
use tokio::time::sleep;

const SECOND: Duration = Duration::from_secs(1);

// Without a decode leg the blocks stay used for the lease, while no request is running or waiting.
// So they do for a streamed prefill leg, which tells no params.
#[tokio::test(start_paused = true)]
async fn blocks_are_held_for_the_lease() {
    let mut pair = pair(|_, _| {}).await;
    pair.prefill.prefill(&prompt("one ", 400)).await;
    let streamed = json!({"prompt": prompt("two ", 400), "max_tokens": 1, "stream": true,
                          "kv_transfer_params": prefill_params()});
    let (_, stream) = read(pair.prefill.client.post(TEXT, &streamed.to_string()).await).await;
    assert!(!stream.contains("kv_transfer_params") && stream.contains("[DONE]"), "{stream}");
    let blocks = 50.0 / options_blocks();
    sleep(29 * SECOND).await;
    let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
    assert!(close(pair.prefill.metric(USAGE).await, blocks));
    assert_eq!(pair.prefill.metric("vllm:num_requests_running").await, 0.0);
    assert_eq!(pair.prefill.metric("vllm:num_requests_waiting").await, 0.0);
    sleep(2 * SECOND).await;
    assert_eq!(pair.prefill.metric(USAGE).await, 0.0);
    assert_eq!(pair.prefill.metric(EXPIRED).await, 2.0);
}

fn options_blocks() -> f64 {
    f64::from(crate::common::options().engine.kv_blocks)
}

// A decode leg after the end of the lease fails instead of reading blocks that may hold anything,
// and its release counts as late. With the policy `recompute` the engine computes the prompt.
#[tokio::test(start_paused = true)]
async fn a_late_decode_leg_fails() {
    let mut pair = pair(|_, _| {}).await;
    let text = prompt("late ", 200);
    let params = pair.prefill.prefill(&text).await;
    sleep(31 * SECOND).await;
    assert_eq!(pair.decode.decode(&text, &params).await.0, 500);
    sleep(SECOND).await;
    assert_eq!(pair.decode.metric(FAILED).await, 1.0);
    assert_eq!((pair.prefill.metric(EXPIRED).await, pair.prefill.metric(LATE).await), (1.0, 1.0));

    let mut pair = super::pair(recompute).await;
    let params = pair.prefill.prefill(&text).await;
    sleep(31 * SECOND).await;
    assert_eq!(pair.decode.decode(&text, &params).await.0, 200);
}

// A decode leg that is sent twice finds all but the last block in the cache, and that one released:
// it fails, where vLLM reads what is there.
#[tokio::test(start_paused = true)]
async fn params_work_once() {
    let mut pair = pair(|_, _| {}).await;
    let text = prompt("twice ", 200);
    let params = pair.prefill.prefill(&text).await;
    assert_eq!(pair.decode.decode(&text, &params).await.0, 200);
    assert_eq!(pair.decode.decode(&text, &params).await.0, 500);
    sleep(SECOND).await;
    assert_eq!(pair.prefill.metric(LATE).await, 1.0);
    assert_eq!(pair.decode.metric(UNTOLD).await, 0.0);
}

// While a decode leg waits for a slot, heartbeats keep its lease alive, for longer than the lease.
#[tokio::test(start_paused = true)]
async fn heartbeats_keep_a_lease_while_the_engine_is_full() {
    let mut pair = pair(|options, _| options.engine.max_num_seqs = 1).await;
    let mut busy = Client::connect(&pair.decode.service).await;
    let long =
        tokio::spawn(
            async move { busy.json(TEXT, r#"{"prompt":"abcd","max_tokens":1500}"#).await.0 },
        );
    sleep(SECOND).await;
    let text = prompt("patience ", 200);
    let params = pair.prefill.prefill(&text).await;
    let leg = pair.decode.spawn_decode(&text, &params).await;
    sleep(50 * SECOND).await;
    assert!(!long.is_finished() && !leg.is_finished());
    assert!(pair.prefill.metric(USAGE).await > 0.0);
    assert_eq!(long.await.unwrap(), 200);
    assert_eq!(leg.await.unwrap().0, 200);
    sleep(SECOND).await;
    assert_eq!((pair.prefill.metric(EXPIRED).await, pair.prefill.metric(LATE).await), (0.0, 0.0));
    assert_eq!(pair.prefill.metric(USAGE).await, 0.0);
}

// A client that leaves before its decode leg is scheduled, or during the transfer, frees both
// engines at once.
#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_frees_both_engines() {
    let network = Network::in_memory();
    let slow = |options: &mut meridian_engined::Options,
                transfer: &mut meridian_engined::Transfer| {
        transfer.link_gbps = 0.1;
        options.engine.max_num_seqs = 1;
    };
    let mut prefill = engine(with_transfer(&network, slow)).await;
    let mut decode = engine(with_transfer(&network, slow)).await;
    for waits_for_a_slot in [true, false] {
        let text = prompt("gone ", 800);
        let params = prefill.prefill(&text).await;
        let mut busy = Client::connect(&decode.service).await;
        let long = waits_for_a_slot.then(|| {
            let long = r#"{"prompt":"abcd","max_tokens":500}"#;
            tokio::spawn(async move { busy.json(TEXT, long).await.0 })
        });
        sleep(SECOND).await;
        let leg = decode.spawn_decode(&text, &params).await;
        sleep(2 * SECOND).await;
        let deferred =
            decode.labelled("num_requests_waiting_by_reason", "reason", "deferred").await;
        assert_eq!(deferred, f64::from(u8::from(!waits_for_a_slot)));
        leg.abort();
        sleep(SECOND).await;
        assert_eq!(prefill.metric(USAGE).await, 0.0);
        if let Some(long) = long {
            assert_eq!(long.await.unwrap(), 200);
        }
        assert_eq!(decode.metric(USAGE).await, 0.0);
        assert_eq!(decode.metric("vllm:num_requests_waiting").await, 0.0);
    }
    assert_eq!((prefill.metric(EXPIRED).await, prefill.metric(LATE).await), (0.0, 0.0));
}

// A decode leg that is refused before it is scheduled frees the blocks, whatever refuses it.
#[tokio::test(start_paused = true)]
async fn a_refused_decode_leg_frees_the_blocks() {
    let mut pair = pair(|options, _| {
        options.engine.max_num_seqs = 1;
        options.engine.max_pending = 1;
    })
    .await;
    let text = prompt("refused ", 200);
    let cases: [(&str, u16); 2] = [(r#""max_tokens":0"#, 400), (r#""model":"other""#, 404)];
    for (field, wanted) in cases {
        let params = pair.prefill.prefill(&text).await;
        let body = format!(r#"{{"prompt":"{text}",{field},"kv_transfer_params":{params}}}"#);
        assert_eq!(pair.decode.client.json(TEXT, &body).await.0, wanted);
        sleep(SECOND).await;
        assert_eq!(pair.prefill.metric(USAGE).await, 0.0, "{field}");
    }
    let params = pair.prefill.prefill(&text).await;
    for _ in 0..2 {
        let mut busy = Client::connect(&pair.decode.service).await;
        let body = body("abcd", 500, &json!(null));
        tokio::spawn(async move { busy.json(TEXT, &body).await });
        sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(pair.decode.decode(&text, &params).await.0, 503);
    sleep(SECOND).await;
    assert_eq!((pair.prefill.metric(USAGE).await, pair.prefill.metric(EXPIRED).await), (0.0, 0.0));
}
