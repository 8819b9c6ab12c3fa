//! Requests that differ from the recorded ones.

use meridian_mock::Fleet;
use serde_json::json;

use super::{post, prefill, recording, with};

// Each changed member of a prefill leg gets a 500 and a difference that names it, and no text of
// the prompt.
#[tokio::test(start_paused = true)]
async fn a_changed_prefill_leg() {
    let fleet = Fleet::pair().await.unwrap();
    let body = &recording("completions")["prefill_request"]["body"];
    let table = [
        ("max_tokens", json!(7), "max_tokens: recorded 1, got 7"),
        ("min_tokens", json!(3), "min_tokens: recorded nothing, got 3"),
        ("stream", json!(null), "stream: recorded false, got null"),
        ("prompt", json!("secret"), "prompt: recorded a text of 1195 bytes, got a text of 6 bytes"),
        (
            "kv_transfer_params",
            with(&body["kv_transfer_params"], "do_remote_decode", false),
            "kv_transfer_params.do_remote_decode: recorded true, got false",
        ),
    ];
    for (count, (member, value, difference)) in table.into_iter().enumerate() {
        let body = with(body, member, value);
        let answer = post(&fleet.prefill[0], "/v1/completions", &body).await.unwrap();
        let expected = format!(
            "prefill engine 0, /v1/completions: not recorded: nearest is the prefill leg of \
             `completions`: {difference}"
        );
        assert_eq!((answer.status, &answer.json()["error"]["message"]), (500, &json!(expected)));
        assert_eq!(fleet.uncovered()[count], expected);
        assert_eq!(fleet.prefill[0].counts().uncovered, count as u64 + 1);
    }
    assert_eq!(fleet.prefill[0].counts().held_blocks, 0);
}

// A leg at the other kind of engine, at another path or without JSON is uncovered.
#[tokio::test(start_paused = true)]
async fn a_leg_in_the_wrong_place() {
    let fleet = Fleet::pair().await.unwrap();
    let body = &recording("completions")["prefill_request"]["body"];
    for (engine, path, body, difference) in [
        (&fleet.decode[0], "/v1/completions", body, "leg: recorded at a prefill engine"),
        (&fleet.prefill[0], "/v1/chat/completions", body, "path: recorded /v1/completions"),
        (&fleet.prefill[0], "/v1/completions", &json!("secret"), "not a JSON object"),
    ] {
        assert_eq!(post(engine, path, body).await.unwrap().status, 500);
        let last = fleet.uncovered().pop().unwrap();
        assert!(last.ends_with(difference) && !last.contains("secret"), "{last}");
    }
    assert_eq!(fleet.uncovered().len(), 3);
}

// Parameters that were changed, that no engine handed out, or that belong to another prompt.
#[tokio::test(start_paused = true)]
async fn changed_parameters() {
    let fleet = Fleet::pair().await.unwrap();
    let (params, body) = prefill(&fleet.prefill[0], "completions").await;
    let (others, _) = prefill(&fleet.prefill[0], "chat-logprobs").await;
    for (params, difference) in [
        (with(&params, "tp_size", 2), "kv_transfer_params.tp_size: recorded 1, got 2"),
        (with(&params, "remote_port", 1), "kv_transfer_params.remote_port: recorded 15600, got 1"),
        (with(&params, "remote_request_id", "x"), "not of a prefill engine of this fleet"),
        (others, "kv_transfer_params: those of a prefill of `chat-logprobs`"),
    ] {
        let body = with(&body, "kv_transfer_params", params);
        assert_eq!(post(&fleet.decode[0], "/v1/completions", &body).await.unwrap().status, 500);
        let last = fleet.uncovered().pop().unwrap();
        assert!(last.ends_with(difference), "{last}");
    }
    assert_eq!(fleet.decode[0].counts().uncovered, 4);
    assert_eq!(fleet.prefill[0].counts().held_blocks, 12 + 13);
}
