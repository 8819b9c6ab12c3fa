//! An answer of two legs that breaks in mid-stream and resumes.

use meridian_config::Resume;
use serde_json::Value;

use crate::common::{Script, post};
use crate::legs::{MS, Pools, params, prefilled};

const CHAT: &str =
    r#"{"model":"m","stream":true,"max_tokens":9,"messages":[{"role":"user","content":"tell"}]}"#;

fn event(choice: &str) -> String {
    format!("data: {{\"id\":\"a\",\"model\":\"m\",\"choices\":[{choice}]}}\n\n")
}

fn say(text: &str) -> String {
    event(&format!(r#"{{"index":0,"delta":{{"content":"{text}"}},"finish_reason":null}}"#))
}

fn stop() -> String {
    event(r#"{"index":0,"delta":{},"finish_reason":"stop"}"#)
}

const DONE: &str = "data: [DONE]\n\n";

// The decode leg breaks off in mid-stream. The continuation goes whole to the other decode replica,
// without another prefill leg, and no KV is used twice. The client sees one answer.
#[tokio::test(start_paused = true)]
async fn a_continuation_is_whole() {
    let pools = Pools::with(1, 2, None, |config| config.resume = Some(Resume::default())).await;
    let broken = Script::sse().event(&say("Once")).event("data: {\"id\":\"ha").wait(MS);
    pools.decode[0].then(broken.close());
    for d in &pools.decode {
        d.always(Script::stream(&[&say(" more"), &stop(), DONE], MS));
    }
    // Until it is the turn of the replica that breaks off.
    let (mut asked, mut answer) = (0, String::new());
    while !answer.contains("Once") {
        assert!(asked < 4, "each decode replica gets its turn");
        pools.prefill[0].then(prefilled(&params(&format!("r{asked}"))));
        let whole = post(pools.region.listen, "/v1/chat/completions", CHAT).await;
        assert_eq!((whole.status, whole.cut), (200, false));
        answer = whole.text().to_owned();
        asked += 1;
    }
    assert_eq!(answer, [say("Once"), say(" more"), stop(), DONE.to_owned()].concat());
    assert_eq!(pools.prefill[0].count(), asked);
    let seen = pools.decode.iter().flat_map(|d| d.seen());
    let bodies: Vec<Value> = seen.map(|s| serde_json::from_slice(&s.body).unwrap()).collect();
    let with = bodies.iter().map(|body| &body["kv_transfer_params"]["remote_request_id"]);
    let mut with: Vec<_> = with.filter_map(Value::as_str).collect();
    with.sort_unstable();
    let used: Vec<_> = (0..asked).map(|n| format!("r{n}")).collect();
    assert_eq!((bodies.len(), with), (asked + 1, used.iter().map(String::as_str).collect()));
    let continued = bodies.iter().filter(|body| body["messages"].as_array().unwrap().len() == 2);
    assert_eq!(continued.count(), 1);
    assert_eq!(pools.settled().await.requests.done as usize, asked);
}
