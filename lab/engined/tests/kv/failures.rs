//! KV that does not arrive, or is not that of the prompt.

use super::{
    BYTES, EXPIRED, Engine, FAILED, LATE, MISMATCHES, Pair, TEXT, USAGE, engine, pair, prompt,
    recompute, with_transfer,
};
use crate::common::{events, read};
use meridian_engined::Network;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);

fn recorded_error() -> Value {
    let recorded: Value = serde_json::from_str(include_str!("recorded/15.json")).unwrap();
    recorded["decode_response"]["body"].clone()
}

/// The engine serves on, with no KV in use.
async fn assert_lives(engine: &mut Engine) {
    assert_eq!(engine.decode("abcd", &Value::Null).await.0, 200);
    assert_eq!(engine.metric(USAGE).await, 0.0);
    assert_eq!(engine.metric("vllm:num_requests_waiting").await, 0.0);
}

// The prefilling engine is killed after its leg. By default the client gets vLLM's error after the
// handshake timeout; with `recompute` the prompt is computed.
#[tokio::test(start_paused = true)]
async fn a_killed_prefill_engine() {
    let text = prompt("killed ", 200);
    let Pair { mut prefill, mut decode } = pair(|_, _| {}).await;
    let params = prefill.prefill(&text).await;
    prefill.kill().await;
    let start = Instant::now();
    let (status, error) = decode.decode(&text, &params).await;
    assert_eq!((status, error), (500, recorded_error()));
    assert_eq!(start.elapsed().as_secs(), 5);
    assert_eq!(decode.metric(FAILED).await, 1.0);
    let errors = "vllm:request_success_total{engine=\"0\",finished_reason=\"error\"";
    assert_eq!(decode.metric(errors).await, 1.0);
    assert_lives(&mut decode).await;

    let Pair { mut prefill, mut decode } = pair(recompute).await;
    let params = prefill.prefill(&text).await;
    prefill.kill().await;
    let (status, answer) = decode.decode(&text, &params).await;
    assert_eq!((status, &answer["kv_transfer_params"]), (200, &Value::Null));
    assert_eq!(decode.metric(FAILED).await, 1.0);
    let computed = decode.labelled("prompt_tokens_by_source_total", "source", "local_compute");
    assert_eq!(computed.await, 200.0);
}

// The prefilling engine is killed during the transfer: the request fails at once.
#[tokio::test(start_paused = true)]
async fn a_prefill_engine_killed_during_the_transfer() {
    let network = Network::in_memory();
    let mut prefill = engine(with_transfer(&network, |_, t| t.link_gbps = 0.1)).await;
    let mut decode = engine(with_transfer(&network, |_, _| {})).await;
    let text = prompt("cut ", 800);
    let params = prefill.prefill(&text).await;
    let leg = decode.spawn_decode(&text, &params).await;
    sleep(3 * SECOND).await;
    assert!(decode.metric("meridian_engine_kv_received_bytes_total").await > 0.0);
    prefill.kill().await;
    let start = Instant::now();
    assert_eq!(leg.await.unwrap().0, 500);
    assert!(start.elapsed() < SECOND);
    assert_eq!((decode.metric(FAILED).await, decode.metric(BYTES).await), (1.0, 0.0));
    assert_lives(&mut decode).await;
}

// A streamed decode leg has started before its KV fails: the error is an event, and the stream ends.
#[tokio::test(start_paused = true)]
async fn a_stream_tells_the_error() {
    let Pair { mut prefill, mut decode } = pair(|_, _| {}).await;
    let text = prompt("streamed ", 200);
    let params = prefill.prefill(&text).await;
    prefill.kill().await;
    let body = json!({"prompt": text, "stream": true, "kv_transfer_params": params}).to_string();
    let (status, stream) = read(decode.client.post(TEXT, &body).await).await;
    let events = events(&stream);
    assert_eq!((status, events.len(), events[1]), (200, 2, "[DONE]"));
    assert_eq!(serde_json::from_str::<Value>(events[0]).unwrap(), recorded_error());
}

// Params that name another engine fail fast, and the blocks wait for their lease. A decode leg on
// the engine that prefilled fails after the handshake timeout.
#[tokio::test(start_paused = true)]
async fn params_of_another_engine() {
    for (policy, wanted) in [((|_, _| {}) as fn(&mut _, &mut _), 500), (recompute, 200)] {
        let mut pair = pair(policy).await;
        let text = prompt("unknown ", 200);
        let mut params = pair.prefill.prefill(&text).await;
        let engine_id = params["remote_engine_id"].take();
        params["remote_engine_id"] = json!("00000000-dead-beef-0000-000000000000");
        let start = Instant::now();
        assert_eq!(pair.decode.decode(&text, &params).await.0, wanted);
        assert!(start.elapsed() < SECOND);
        assert_eq!(pair.decode.metric(FAILED).await, 1.0);
        assert!(pair.prefill.metric(USAGE).await > 0.0);
        assert_lives(&mut pair.decode).await;
        params["remote_engine_id"] = engine_id;
        let start = Instant::now();
        assert_eq!(pair.prefill.decode(&text, &params).await.0, 500);
        assert_eq!(start.elapsed().as_secs(), 5);
        sleep(60 * SECOND).await;
        assert_eq!(pair.prefill.metric(EXPIRED).await, 1.0);
    }
}

// KV of another prompt is detected on arrival, also where only the last, partial block differs. The
// request fails under either policy, and nothing wrong stays in the prefix cache.
#[tokio::test(start_paused = true)]
async fn wrong_kv_is_detected() {
    for policy in [(|_, _| {}) as fn(&mut _, &mut _), recompute] {
        let mut pair = pair(policy).await;
        let text = prompt("right ", 200);
        for (at, wrong) in [(0, "W"), (799, "W")] {
            let params = pair.prefill.prefill(&text).await;
            let mut other = text.clone();
            other.replace_range(at..=at, wrong);
            let (status, error) = pair.decode.decode(&other, &params).await;
            assert_eq!((status, error), (500, recorded_error()));
            let (_, plain) = pair.decode.decode(&other, &Value::Null).await;
            assert_eq!(plain["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
            sleep(SECOND).await;
            assert_eq!(pair.prefill.metric(USAGE).await, 0.0);
        }
        assert_eq!(pair.decode.metric(MISMATCHES).await, 2.0);
        assert_eq!((pair.decode.metric(FAILED).await, pair.prefill.metric(LATE).await), (0.0, 0.0));
    }
}

// Blocks that the request does not hold are not read, and an engine of another scale, as one of
// another model, does not fit.
#[tokio::test(start_paused = true)]
async fn blocks_and_engines_must_fit() {
    let mut fits = pair(|_, _| {}).await;
    let text = prompt("blocks ", 32);
    let mut params = fits.prefill.prefill(&text).await;
    params["remote_block_ids"] = json!([[4000, 4001]]);
    assert_eq!(fits.decode.decode(&text, &params).await.0, 500);
    assert_eq!(fits.decode.metric(FAILED).await, 1.0);

    let mut other = pair(|_, transfer| transfer.scale = 0.5).await;
    let params = other.prefill.prefill(&text).await;
    assert_eq!(other.decode.decode(&text, &params).await.0, 500);
    assert_eq!(other.decode.metric(FAILED).await, 1.0);
}
