//! The two legs of a request, compared with recordings of vLLM.

use super::{
    BLOCK, BYTES, EXPIRED, Engine, LATE, TEXT, TRANSFERS, UNTOLD, USAGE, body, engine, pair,
    prefill_params, prompt,
};
use crate::common::{Client, chat, events, options, read};
use meridian_engined::Service;
use serde_json::Value;
use std::mem::discriminant;
use std::time::Duration;
use tokio::time::{Instant, sleep};

fn recorded(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// The same fields with values of the same types. Fields that do not belong to one run are equal.
fn assert_same_form(ours: &Value, theirs: &Value) {
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(ours), keys(theirs));
    let of_a_run = [
        "remote_block_ids",
        "remote_engine_id",
        "remote_request_id",
        "remote_port",
        "remote_prefill_cached_tokens",
    ];
    for (field, theirs) in theirs.as_object().unwrap() {
        match of_a_run.contains(&&**field) {
            true => assert_eq!(discriminant(&ours[field]), discriminant(theirs), "{field}"),
            false => assert_eq!(&ours[field], theirs, "{field}"),
        }
    }
}

// The whole exchange as recorded, twice: the second time both engines have the prompt except for
// its last block, and only that block crosses. The usage has the prefilling engine's hit.
#[tokio::test(start_paused = true)]
async fn both_legs_are_those_of_vllm() {
    let mut pair = pair(|_, _| {}).await;
    let text = prompt("the quick brown fox ", 382);
    let runs = [
        (include_str!("recorded/01.json"), 0, 24.0),
        (include_str!("recorded/02.json"), 368, 25.0),
    ];
    for (recording, hit, fetched) in runs {
        let theirs = recorded(recording);
        let request = body(&text, 1, &theirs["prefill_request"]["kv_transfer_params"]);
        let (status, answer) = pair.prefill.client.json(TEXT, &request).await;
        assert_eq!(status, 200);
        let params = &answer["kv_transfer_params"];
        assert_same_form(params, &theirs["prefill_response"]["kv_transfer_params"]);
        let blocks = params["remote_block_ids"].as_array().unwrap();
        assert_eq!((blocks.len(), blocks[0].as_array().unwrap().len()), (1, 24));
        assert_eq!(params["remote_prefill_cached_tokens"], hit);
        let (id, name) = (&answer["id"], params["remote_request_id"].as_str().unwrap());
        let suffix = name.strip_prefix(&format!("{}-0-", id.as_str().unwrap())).unwrap();
        assert_eq!(suffix.len(), 8);
        assert!(pair.prefill.metric(USAGE).await > 0.0);

        let (status, answer) = pair.decode.decode(&text, params).await;
        assert_eq!((status, &answer["kv_transfer_params"]), (200, &Value::Null));
        assert!(answer.as_object().unwrap().contains_key("kv_transfer_params"));
        for field in ["prompt_tokens", "completion_tokens", "total_tokens"] {
            assert_eq!(answer["usage"][field], theirs["decode_response"]["usage"][field]);
        }
        assert_eq!(answer["usage"]["prompt_tokens_details"]["cached_tokens"], hit);
        sleep(Duration::from_secs(1)).await;
        assert_eq!(pair.prefill.metric(USAGE).await, 0.0);
        assert_eq!(pair.decode.metric(BYTES).await, fetched * BLOCK);
    }
    sums(&mut pair.prefill, &mut pair.decode).await;
}

/// After 382 tokens and then the last 14 of them crossed, nothing failed and nothing is late.
async fn sums(prefill: &mut Engine, decode: &mut Engine) {
    assert_eq!(decode.metric(TRANSFERS).await, 2.0);
    assert_eq!(decode.metric("vllm:nixl_xfer_time_seconds_count").await, 2.0);
    let sent = prefill.metric("meridian_engine_kv_sent_bytes_total").await;
    assert_eq!(sent, 25.0 * BLOCK / 1024.0);
    assert_eq!(decode.metric("meridian_engine_kv_received_bytes_total").await, sent);
    let sources = ["local_compute", "local_cache_hit", "external_kv_transfer"];
    for (engine, wanted) in [(prefill, [396.0, 368.0, 0.0]), (decode, [0.0, 368.0, 396.0])] {
        for (source, wanted) in sources.into_iter().zip(wanted) {
            let tokens = engine.labelled("prompt_tokens_by_source_total", "source", source).await;
            assert_eq!(tokens, wanted, "{source}");
        }
        for nothing in [EXPIRED, LATE, UNTOLD, super::FAILED, super::MISMATCHES] {
            assert_eq!(engine.metric(nothing).await, 0.0, "{nothing}");
        }
    }
}

// A chat that is prefilled elsewhere gets the same text as from one engine, streamed too, and its
// prefill leg has the recorded form.
#[tokio::test(start_paused = true)]
async fn the_reply_is_that_of_one_engine() {
    let mut pair = pair(|_, _| {}).await;
    let question = prompt("why is the sky blue? ", 300);
    let messages = [("user", &*question)];
    let path = "/v1/chat/completions";
    let rest = format!(r#","max_tokens":1,"kv_transfer_params":{}"#, prefill_params());
    let (_, answer) = pair.prefill.client.json(path, &chat(&messages, &rest)).await;
    let params = &answer["kv_transfer_params"];
    let theirs = recorded(include_str!("recorded/03.json"));
    let mut theirs = theirs["prefill_response"]["kv_transfer_params"].clone();
    theirs["remote_num_tokens"] = answer["usage"]["prompt_tokens"].clone();
    assert_same_form(params, &theirs);
    let name = params["remote_request_id"].as_str().unwrap();
    assert_eq!(name.strip_prefix(answer["id"].as_str().unwrap()).unwrap().len(), 9);

    let rest = format!(r#","max_tokens":20,"stream":true,"kv_transfer_params":{params}"#);
    let (status, stream) = read(pair.decode.client.post(path, &chat(&messages, &rest)).await).await;
    let parsed = events(&stream).into_iter().filter_map(|e| serde_json::from_str::<Value>(e).ok());
    let delta = |e: Value| e["choices"][0]["delta"]["content"].as_str().map(str::to_owned);
    let streamed: String = parsed.filter_map(delta).collect();
    assert_eq!((status, pair.decode.metric(TRANSFERS).await), (200, 1.0));

    let alone = Service::start(options()).unwrap();
    let mut alone = Client::connect(&alone).await;
    let (_, whole) = alone.json(path, &chat(&messages, r#","max_tokens":20"#)).await;
    assert_eq!(whole["choices"][0]["message"]["content"], streamed);
}

// The transfer takes the time of the model's KV on the link, and during it the request is deferred
// at one engine while its blocks are held at the other.
#[tokio::test(start_paused = true)]
async fn a_transfer_takes_the_link_s_time() {
    let network = meridian_engined::Network::in_memory();
    let slow = super::with_transfer(&network, |_, transfer| transfer.link_gbps = 1.0);
    let mut prefill = engine(slow).await;
    let mut decode = engine(super::with_transfer(&network, |_, _| {})).await;
    let text = prompt("slow ", 1600);
    let params = prefill.prefill(&text).await;
    let start = Instant::now();
    let leg = decode.spawn_decode(&text, &params).await;
    sleep(Duration::from_millis(500)).await;
    let reasons = "num_requests_waiting_by_reason";
    assert_eq!(decode.labelled(reasons, "reason", "deferred").await, 1.0);
    assert_eq!(decode.labelled(reasons, "reason", "capacity").await, 0.0);
    assert_eq!(decode.metric("vllm:num_requests_waiting").await, 1.0);
    assert_eq!(decode.metric("vllm:num_requests_running").await, 0.0);
    let held = prefill.metric(USAGE).await;
    assert!(held > 0.0 && held == decode.metric(USAGE).await);
    assert_eq!(leg.await.unwrap().0, 200);
    let seconds = 100.0 * BLOCK * 8.0 / 1e9;
    let measured = decode.metric("vllm:nixl_xfer_time_seconds_sum").await;
    assert!((measured / seconds - 1.0).abs() < 0.02, "{measured} for {seconds}");
    assert!(start.elapsed().as_secs_f64() > seconds);
    assert_eq!(decode.labelled(reasons, "reason", "deferred").await, 0.0);
    assert_eq!(decode.metric(USAGE).await, 0.0);
}

// Without a transfer the params are ignored, and the answer has none.
#[tokio::test(start_paused = true)]
async fn an_engine_without_transfer_ignores_params() {
    let mut plain = engine(options()).await;
    let (status, answer) = plain.client.json(TEXT, &body("abcd", 1, &prefill_params())).await;
    assert_eq!((status, answer.get("kv_transfer_params")), (200, None));
    assert_eq!(plain.metric(USAGE).await, 0.0);
    let alone = serde_json::json!({"do_remote_prefill": true});
    assert_eq!(plain.decode("abcd", &alone).await.0, 200);
}
