//! Rate limits of tenants: requests and tokens per minute.

use std::time::Duration;

use meridian_config::{AdmissionMode, Gateway as Config, TenantLimits};

use crate::common::{Answer, Region, Replica, Script, call, open, request};
use crate::forwards::{World, occupy_with};
use crate::tenants::{bearing, tenant};

const KEY: &str = "mk-0123456789abcdefghij";
const OTHER: &str = "mk-zyxwvutsrqponmlkjihg";

/// `acme` has limits and `other` has none.
fn limited(config: &mut Config, requests: Option<u32>, tokens: Option<u32>) {
    config.tenants = vec![tenant("acme", KEY), tenant("other", OTHER)];
    config.tenants[0].limits =
        TenantLimits { requests_per_minute: requests, tokens_per_minute: tokens };
}

fn body(max_tokens: Option<u32>, stream: bool) -> String {
    let bound = max_tokens.map_or_else(String::new, |n| format!(r#","max_tokens":{n}"#));
    format!(
        r#"{{"model":"m","stream":{stream},"messages":[{{"role":"user","content":"hi"}}]{bound}}}"#
    )
}

async fn ask(region: &Region, key: &str, max_tokens: Option<u32>) -> Answer {
    let request = request("POST", "/v1/chat/completions", &body(max_tokens, false));
    call(region.listen, bearing(request, key)).await
}

/// An answer whose engine counted these tokens in prompt and reply.
fn counted(prompt: u32, reply: u32) -> Script {
    let usage = format!(r#"{{"prompt_tokens":{prompt},"completion_tokens":{reply}}}"#);
    Script::json(200, &format!(r#"{{"id":"x","choices":[],"usage":{usage}}}"#))
}

fn left(answer: &Answer, what: &str) -> i64 {
    answer.header(&format!("x-ratelimit-remaining-{what}")).parse().unwrap()
}

// A tenant's requests of a minute pass at once. The next one is refused in OpenAI's form with the
// time to wait and the headers that its clients read, and passes after that time. It reaches no
// replica, and no other tenant is affected.
#[tokio::test(start_paused = true)]
async fn requests_a_minute() {
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], |c| limited(c, Some(2), None)).await;
    for remaining in ["1", "0"] {
        let answer = ask(&region, KEY, None).await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("x-ratelimit-limit-requests"), "2");
        assert_eq!(answer.header("x-ratelimit-remaining-requests"), remaining);
        assert_eq!(answer.header("x-ratelimit-limit-tokens"), "", "it has no such limit");
    }
    let answer = ask(&region, KEY, None).await;
    assert_eq!((answer.status, answer.code().as_str()), (429, "rate_limit_exceeded"));
    assert_eq!(answer.json()["error"]["type"], "rate_limit_error");
    assert_eq!(answer.header("x-meridian-refused"), "rate_limit_exceeded");
    assert_eq!(answer.header("x-ratelimit-remaining-requests"), "0");
    assert!(!answer.text().contains("acme"), "{}", answer.text());
    let wait: u64 = answer.header("retry-after").parse().unwrap();
    assert!((1..=30).contains(&wait), "{wait}");
    let free = ask(&region, OTHER, None).await;
    assert_eq!((free.status, free.header("x-ratelimit-limit-requests")), (200, ""));
    assert_eq!(replica.count(), 3);
    // Pages of the gateway itself do not count.
    let models = call(region.listen, bearing(request("GET", "/v1/models", ""), KEY)).await;
    assert_eq!(models.status, 200);
    tokio::time::sleep(Duration::from_secs(wait)).await;
    assert_eq!(ask(&region, KEY, None).await.status, 200);
    let metrics = region.admin("GET", "/metrics", "").await;
    for sample in [
        "meridian_rate_limited_total{limit=\"requests\"} 1",
        "meridian_refusals_total{reason=\"rate_limit_exceeded\"} 1",
    ] {
        assert!(metrics.text().contains(sample), "{sample}: {}", metrics.text());
    }
}

// Tokens are charged on arrival as prompt plus longest reply, and corrected to the engine's count.
#[tokio::test(start_paused = true)]
async fn tokens_are_settled() {
    let replica = Replica::start().await;
    replica.always(counted(10, 20));
    let region = Region::with(&[&replica], |c| limited(c, None, Some(100_000))).await;
    let first = ask(&region, KEY, Some(90_000)).await;
    let charged = 100_000 - left(&first, "tokens");
    assert!((90_001..90_100).contains(&charged), "{charged}");
    region.settled().await;
    let used = left(&first, "tokens") - left(&ask(&region, KEY, Some(90_000)).await, "tokens");
    // Some are earned back meanwhile: 1,667 a second.
    assert!((-10..=30).contains(&used), "30 of them were used: {used}");
    // A request that no engine worked on costs nothing.
    region.settled().await;
    replica.then(Script::json(400, "{}"));
    assert_eq!(ask(&region, KEY, Some(90_000)).await.status, 400);
    replica.then(Script::json(500, "{}"));
    assert_eq!(ask(&region, KEY, Some(90_000)).await.status, 502);
    region.settled().await;
    assert_eq!(ask(&region, KEY, Some(90_000)).await.status, 200);
}

// A reply longer than the charge puts the tenant into debt: its next request waits until that is
// earned back. A stream's usage counts like a non-streamed answer's.
#[tokio::test(start_paused = true)]
async fn what_is_owed_is_waited_for() {
    let replica = Replica::start().await;
    let usage =
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":2990}}\n\n";
    let events =
        ["data: {\"choices\":[{\"delta\":{\"content\":\"w\"}}]}\n\n", usage, "data: [DONE]\n\n"];
    replica.then(Script::stream(&events, Duration::from_millis(1)));
    let region = Region::with(&[&replica], |c| limited(c, None, Some(1000))).await;
    let stream = request("POST", "/v1/chat/completions", &body(None, true));
    assert_eq!(call(region.listen, bearing(stream, KEY)).await.status, 200);
    region.settled().await;
    let answer = ask(&region, KEY, Some(1)).await;
    assert_eq!((answer.status, answer.code().as_str()), (429, "rate_limit_exceeded"));
    // 2,000 tokens plus those of the request, at 1,000 a minute.
    let wait: u64 = answer.header("retry-after").parse().unwrap();
    assert!((115..=125).contains(&wait), "{wait}");
    let reset = answer.header("x-ratelimit-reset-tokens");
    assert!(reset == "3m0s" || reset.starts_with("2m5"), "{reset}");
    tokio::time::sleep(Duration::from_secs(wait)).await;
    assert_eq!(ask(&region, KEY, Some(1)).await.status, 200);
}

// A client that disconnects gets nothing back: the engine worked.
#[tokio::test(start_paused = true)]
async fn hanging_up_is_no_way_round() {
    let replica = Replica::start().await;
    replica.then(
        Script::sse().event("data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n").hang(),
    );
    let region = Region::with(&[&replica], |c| limited(c, None, Some(1000))).await;
    let stream = request("POST", "/v1/chat/completions", &body(Some(900), true));
    let mut answer = open(region.listen, bearing(stream, KEY)).await;
    answer.read_to("data").await;
    drop(answer);
    region.settled().await;
    assert_eq!(ask(&region, KEY, Some(900)).await.status, 429);
}

// A client that disconnects before the engine's count is charged for the delivered part, however
// short its earlier replies were.
#[tokio::test(start_paused = true)]
async fn what_came_is_charged() {
    let replica = Replica::start().await;
    replica.always(counted(10, 2));
    let region = Region::with(&[&replica], |c| limited(c, None, Some(1000))).await;
    for _ in 0..30 {
        assert_eq!(ask(&region, KEY, None).await.status, 200);
        region.settled().await;
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    let event = "data: {\"choices\":[{\"delta\":{\"content\":\"w\"}}]}\n\n";
    let said = (0..500).fold(Script::sse(), |said, _| said.event(event));
    replica.then(said.event("data: {\"choices\":[{\"delta\":{\"content\":\"last\"}}]}\n\n").hang());
    let stream = request("POST", "/v1/chat/completions", &body(None, true));
    let mut answer = open(region.listen, bearing(stream, KEY)).await;
    answer.read_to("last").await;
    drop(answer);
    region.settled().await;
    let left = left(&ask(&region, KEY, Some(1)).await, "tokens");
    assert!((400..520).contains(&left), "{left}");
}

// A request larger than a minute's tokens gets an error without Retry-After, and with a status that
// clients do not retry: waiting does not help.
#[tokio::test(start_paused = true)]
async fn too_large_for_ever() {
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], |c| limited(c, Some(9), Some(1000))).await;
    let answer = ask(&region, KEY, Some(1000)).await;
    assert_eq!((answer.status, answer.code().as_str()), (400, "request_exceeds_limit"));
    assert!(answer.text().contains("no retry can succeed"), "{}", answer.text());
    assert_eq!(answer.header("retry-after"), "");
    assert_eq!(left(&answer, "requests"), 9);
    assert_eq!(ask(&region, KEY, None).await.status, 200, "without a bound it may be shorter");
    assert_eq!(replica.count(), 1);
}

// A forwarded request is charged by the first gateway, and not again at the peer.
#[tokio::test(start_paused = true)]
async fn counted_once() {
    let (here, there) = (Replica::start().await, Replica::start().await);
    let mut world = World::of(&[&[&here], &[&there]]);
    for config in &mut world.configs {
        limited(config, Some(1), None);
        config.admission = Some(AdmissionMode::Outstanding(1));
    }
    let regions = world.start().await;
    let _busy = occupy_with(&regions[0], &here, OTHER).await;
    let sent = ask(&regions[0], KEY, None).await;
    assert_eq!((sent.status, sent.header("x-meridian-region")), (200, "eu"));
    assert_eq!(left(&sent, "requests"), 0);
    assert_eq!(ask(&regions[0], KEY, None).await.status, 429);
    regions[1].settled().await;
    assert_eq!(ask(&regions[1], KEY, None).await.status, 200, "each gateway counts for itself");
}

// An engine's error that reaches the client names the tenant's remaining limits, like every other
// answer.
#[tokio::test(start_paused = true)]
async fn an_engines_failure_tells_what_is_left() {
    let (a, b) = (Replica::start().await, Replica::start().await);
    let region = Region::with(&[&a, &b], |c| limited(c, Some(2), None)).await;
    for replica in [&a, &b] {
        replica.always(Script::json(500, r#"{"error":{"message":"index out of range"}}"#));
    }
    let answer = ask(&region, KEY, None).await;
    assert_eq!((answer.status, left(&answer, "requests")), (500, 1));
}

// Defect bad-bodies-charged: a request that is refused as its client's mistake, such as a body that
// cannot be read or a model that no replica serves, counts as a request of its tenant.
#[tokio::test(start_paused = true)]
async fn mistakes_count_as_requests() {
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], |c| limited(c, Some(4), None)).await;
    let send = async |path: &str, body: &str| {
        call(region.listen, bearing(request("POST", path, body), KEY)).await.status
    };
    let chat = "/v1/chat/completions";
    assert_eq!(send(chat, "{").await, 400);
    assert_eq!(send(chat, r#"{"model":"unknown","messages":[]}"#).await, 404);
    assert_eq!(send("/nowhere", "{}").await, 404);
    let answer = ask(&region, KEY, None).await;
    assert_eq!((answer.status, left(&answer, "requests")), (200, 0));
    assert_eq!(send(chat, "{").await, 429);
    assert_eq!(replica.count(), 1);
}
