//! Recorded requests get the recorded answers.

use meridian_mock::Fleet;
use meridian_protocol::engines::{Answers, detect};
use meridian_protocol::legs::{self, Handed, Pair};
use meridian_protocol::openai::{Endpoint, Reading, prefill_leg, read};
use serde_json::Value;

use super::client::NAMES;
use super::{Answer, get, post, prefill, recording, with};

/// Status, headers and body are the recorded ones.
fn assert_recorded(name: &str, answer: &Answer, recorded: &Value, body: &str) {
    assert_eq!(answer.status, recorded["status"], "{name}");
    for (header, value) in recorded["headers"].as_object().unwrap() {
        assert_eq!(answer.headers[header], value.as_str().unwrap(), "{name}: {header}");
    }
    assert_eq!(answer.body, body, "{name}");
}

// Each recording, leg for leg. Only the two ids of the parameters are fresh, and of equal length.
#[tokio::test(start_paused = true)]
async fn each_recording_is_answered() {
    let fleet = Fleet::pair().await.unwrap();
    for name in NAMES {
        let recorded = recording(name);
        let path = recorded["prefill_request"]["path"].as_str().unwrap();
        let body = &recorded["prefill_request"]["body"];
        let answer = post(&fleet.prefill[0], path, body).await.unwrap();
        let params = &answer.json()["kv_transfer_params"];
        let mut wanted = recorded["prefill_answer"].as_str().unwrap().to_owned();
        let theirs = &serde_json::from_str::<Value>(&wanted).unwrap()["kv_transfer_params"];
        for id in ["remote_request_id", "remote_engine_id"] {
            let (theirs, ours) = (theirs[id].as_str().unwrap(), params[id].as_str().unwrap());
            assert!(theirs != ours && theirs.len() == ours.len(), "{name}: {ours}");
            wanted = wanted.replace(theirs, ours);
        }
        assert_recorded(name, &answer, &recorded["prefill"], &wanted);

        let body = with(&recorded["decode_request"]["body"], "kv_transfer_params", params.clone());
        let answer = post(&fleet.decode[0], path, &body).await.unwrap();
        let wanted = recorded["decode"]["body"].as_str().unwrap();
        assert_recorded(name, &answer, &recorded["decode"], wanted);
    }
    assert_eq!(fleet.uncovered(), [""; 0]);
    // The second prompt of the batch and the second answer of n = 2 are held and not handed over.
    assert_eq!(fleet.prefill[0].counts().held_blocks, 24);
}

// The legs that the gateway makes of each client's body are covered, and so are whole requests.
#[tokio::test(start_paused = true)]
async fn the_gateway_s_legs_are_covered() {
    let fleet = Fleet::pair().await.unwrap();
    let nixl = legs::find("nixl").unwrap();
    let pair = Pair {
        id: 7,
        host: "127.0.0.1",
        port: fleet.prefill[0].addr().port(),
        bootstrap_host: None,
        bootstrap_port: None,
        engine_id: None,
        rank: None,
        ttft_left_ms: None,
    };
    let reading =
        Reading { seed: 7, block_bytes: 8, head_bytes: 16, tenant_scope: None, counts: false };
    for name in NAMES {
        let request = recording(name)["decode_request"].take();
        let (path, mut body) = (request["path"].as_str().unwrap(), request["body"].clone());
        body.as_object_mut().unwrap().remove("kv_transfer_params");
        let (endpoint, client) = (Endpoint::of(path), bytes::Bytes::from(body.to_string()));
        let usual = read(endpoint, &client, &reading).unwrap().splices;
        let bytes = |splices: &meridian_protocol::openai::Splices, members: &[bytes::Bytes]| {
            let pieces = splices.with_members(&client, members).apply(&client, |_| true);
            serde_json::from_slice::<Value>(&pieces.concat()).unwrap()
        };
        if let Ok(leg) = prefill_leg(endpoint, &client, &usual) {
            let leg = bytes(&leg, &(nixl.prefill)(&pair).unwrap().members);
            let answer = post(&fleet.prefill[0], path, &leg).await.unwrap();
            let handed = Handed::read(endpoint, &answer.body.into()).unwrap();
            let added = (nixl.decode)(&pair, Some(&handed)).unwrap();
            let leg = bytes(&usual, &added.members);
            assert_eq!(post(&fleet.decode[0], path, &leg).await.unwrap().status, 200, "{name}");
        }
        let whole = bytes(&usual, &[]);
        assert_eq!(post(&fleet.decode[0], path, &whole).await.unwrap().status, 200, "{name}");
    }
    assert_eq!(fleet.uncovered(), [""; 0]);
    let counts = fleet.decode[0].counts();
    assert_eq!((counts.decodes, counts.alone), (6, 8));
}

// A decode leg that asks for too many tokens is refused, and its blocks are given back.
#[tokio::test(start_paused = true)]
async fn a_refused_decode_leg() {
    let fleet = Fleet::pair().await.unwrap();
    let (params, body) = prefill(&fleet.prefill[0], "completions").await;
    let body = with(&with(&body, "kv_transfer_params", params), "max_tokens", 99_999);
    let answer = post(&fleet.decode[0], "/v1/completions", &body).await.unwrap();
    assert_eq!((answer.status, &answer.json()["error"]["param"]), (400, &"max_tokens".into()));
    assert_eq!(fleet.prefill[0].counts().held_blocks, 0);
    assert_eq!((fleet.decode[0].counts().failures, fleet.uncovered().len()), (1, 0));
}

// A prefill leg that streams has no parameters in its answer, and its blocks are held.
#[tokio::test(start_paused = true)]
async fn a_streamed_prefill_leg() {
    let fleet = Fleet::pair().await.unwrap();
    for (name, held) in [("chat-stream", 13), ("completions", 13 + 12)] {
        let leg = &recording(name)["prefill_request"];
        let body = with(&leg["body"], "stream", true);
        let path = leg["path"].as_str().unwrap();
        let answer = post(&fleet.prefill[0], path, &body).await.unwrap();
        assert!(answer.body.starts_with("data: {") && answer.body.ends_with("data: [DONE]\n\n"));
        assert_eq!((answer.status, answer.body.contains("kv_transfer_params")), (200, false));
        assert_eq!(fleet.prefill[0].counts().held_blocks, held);
    }
    assert_eq!(fleet.uncovered(), [""; 0]);
}

// The pages that a gateway reads.
#[tokio::test(start_paused = true)]
async fn pages() {
    let fleet = Fleet::pair().await.unwrap();
    prefill(&fleet.prefill[0], "completions").await;
    let page = get(&fleet.prefill[0], "/metrics").await.body;
    let answers = Answers { metrics: Some(page.as_bytes()), own: None };
    assert_eq!(detect(&answers).unwrap().name, "vllm");
    let usage = page.lines().find(|line| line.starts_with("vllm:kv_cache_usage_perc{")).unwrap();
    assert!(usage.ends_with(&format!(" {}", 12.0 / 8191.0)), "{usage}");
    assert_eq!(get(&fleet.decode[0], "/v1/models").await.json()["data"][0]["id"], "tiny");
    assert_eq!(get(&fleet.decode[0], "/version").await.json()["version"], "0.32.0");
    assert_eq!(get(&fleet.decode[0], "/health").await.status, 200);
    assert_eq!(get(&fleet.decode[0], "/server_info").await.status, 404);
}
