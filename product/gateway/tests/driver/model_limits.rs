//! Limits of models.

use std::time::Duration;

use meridian_config::{Gateway as Config, ModelLimits, ModelSettings};

use crate::aliases::aliased;
use crate::common::{Region, Replica, Script, call, chat, get, open, post, stream_chat};
use crate::records::{DONE, WORD};

const MS: Duration = Duration::from_millis(1);

fn limited(config: &mut Config, requests: Option<usize>, tokens_per_minute: Option<u32>) {
    let limits = ModelLimits { requests, tokens_per_minute };
    config.models.insert("m".to_owned(), ModelSettings { limits, ..ModelSettings::default() });
}

// One request more than the limit is refused at once with the time to wait, under the model's own
// name and under an alias; other models are served. A place is free when an answer has ended, or when
// its client has disconnected.
#[tokio::test(start_paused = true)]
async fn requests_at_once() {
    let replica = Replica::of(&["m", "n"]).await;
    let region = Region::with(&[&replica], |c| {
        aliased(c);
        limited(c, Some(1), None);
    })
    .await;
    replica.then(Script::sse().event(WORD).wait(50 * MS).event(DONE).send("0\r\n\r\n"));
    let mut first = open(region.listen, stream_chat("hi")).await;
    first.read_to("data").await;
    let alias = r#"{"model":"gpt \"4\"","messages":[]}"#;
    for refused in [
        call(region.listen, chat("hi")).await,
        post(region.listen, "/v1/chat/completions", alias).await,
    ] {
        assert_eq!((refused.status, refused.code().as_str()), (429, "model_limit_exceeded"));
        assert_eq!(refused.header("retry-after"), "1");
    }
    let other = post(region.listen, "/v1/completions", r#"{"model":"n","prompt":"hi"}"#).await;
    assert_eq!(other.status, 200);
    first.read_to("[DONE]").await;
    drop(first);
    region.settled().await;
    replica.then(Script::sse().event(WORD).hang());
    let mut second = open(region.listen, stream_chat("hi")).await;
    second.read_to("data").await;
    drop(second);
    region.settled().await;
    assert_eq!(call(region.listen, chat("hi")).await.status, 200);
    let metrics = get(region.admin, "/metrics").await;
    assert!(metrics.text().contains("meridian_refusals_total{reason=\"model_limit_exceeded\"} 2"));
    assert_eq!(region.settled().await.requests.accepted, 4);
}

// The tokens of all requests of a model count; the charge is corrected to the engine's count.
#[tokio::test(start_paused = true)]
async fn tokens_per_minute() {
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], |c| limited(c, None, Some(1000))).await;
    let usage = |n: u32| {
        let usage = format!(r#"{{"prompt_tokens":{n},"completion_tokens":0}}"#);
        Script::json(200, &format!(r#"{{"id":"x","choices":[],"usage":{usage}}}"#))
    };
    replica.then(usage(10)).then(usage(900));
    let body = r#"{"model":"m","max_tokens":500,"messages":[]}"#;
    let send = || post(region.listen, "/v1/chat/completions", body);
    for _ in 0..2 {
        let answer = send().await;
        assert_eq!((answer.status, answer.header("x-ratelimit-limit-tokens")), (200, ""));
        region.settled().await;
    }
    let refused = send().await;
    assert_eq!((refused.status, refused.code().as_str()), (429, "model_limit_exceeded"));
    assert!(refused.text().contains("limit of this model"), "{}", refused.text());
    let wait: u64 = refused.header("retry-after").parse().unwrap();
    tokio::time::advance(Duration::from_secs(wait)).await;
    assert_eq!(send().await.status, 200);
}
