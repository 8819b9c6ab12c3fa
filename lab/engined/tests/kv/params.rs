//! Params that end a vLLM process, and settings out of range.

use super::{EXPIRED, USAGE, engine, pair, prompt, with_transfer};
use meridian_engined::{Network, Service, Transfer};
use serde_json::{Value, json};

// Each malformed body is refused with the field's name, and the engine serves on. Null is safe.
#[tokio::test(start_paused = true)]
async fn malformed_params_are_refused() {
    let mut pair = pair(|_, _| {}).await;
    let text = prompt("secret ", 400);
    let params = pair.prefill.prefill(&text).await;
    let with = |field: &str, value: Value| {
        let mut params = params.clone();
        params[field] = value;
        params
    };
    let cases = [
        (json!({"do_remote_prefill": true, "do_remote_decode": false}), "remote_engine_id"),
        (with("remote_request_id", json!(null)), "remote_request_id is null"),
        (with("remote_port", json!("15600")), "remote_port"),
        (with("remote_block_ids", json!([[1, 2]])), "2 blocks and the prompt needs 25"),
        (with("remote_block_ids", json!("secret")), "remote_block_ids"),
        (with("do_remote_decode", json!(true)), "both true"),
        (json!("secret"), "not an object"),
    ];
    for (params, wanted) in cases {
        let (status, error) = pair.decode.decode(&text, &params).await;
        let message = error["error"]["message"].as_str().unwrap();
        assert_eq!((status, &error["error"]["type"]), (400, &json!("BadRequestError")));
        assert!(message.contains(wanted) && !message.contains("secret"), "{message}");
    }
    let (status, answer) = pair.decode.decode(&text, &Value::Null).await;
    assert_eq!((status, answer.get("kv_transfer_params")), (200, None));
    assert_eq!(pair.decode.metric(USAGE).await, 0.0);
    assert_eq!(pair.decode.metric(EXPIRED).await, 0.0);
}

// An engine id is new at each start, so that params of an earlier process are recognized.
#[tokio::test(start_paused = true)]
async fn an_engine_id_is_new_at_each_start() {
    let mut ids = Vec::new();
    for _ in 0..2 {
        let mut engine = engine(with_transfer(&Network::in_memory(), |_, _| {})).await;
        let params = engine.prefill("abcd").await;
        ids.push(params["remote_engine_id"].as_str().unwrap().to_owned());
    }
    assert_ne!(ids[0], ids[1]);
    let groups: Vec<usize> = ids[0].split('-').map(str::len).collect();
    assert_eq!(groups, [8, 4, 4, 4, 12]);
}

// Settings out of range are refused with their name and the remedy.
#[tokio::test(start_paused = true)]
async fn settings_out_of_range_are_refused() {
    let refused = |change: fn(&mut Transfer)| {
        let options = with_transfer(&Network::in_memory(), |_, transfer| change(transfer));
        Service::start(options).unwrap_err().to_string()
    };
    assert!(refused(|t| t.scale = 0.0).contains("KV scale 0"));
    assert!(refused(|t| t.scale = f64::NAN).contains("KV scale NaN"));
    assert!(refused(|t| t.link_gbps = -1.0).contains("KV link -1 Gb/s"));
    assert!(refused(|t| t.lease = std::time::Duration::ZERO).contains("KV lease 0ns"));
    let everywhere = refused(|t| t.side_channel = ([0, 0, 0, 0], 5600).into());
    assert!(everywhere.contains("0.0.0.0:5600") && everywhere.contains("other engines"));
}
