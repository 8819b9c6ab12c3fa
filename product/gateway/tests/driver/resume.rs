//! Streams that break after their first byte and resume on another replica, if `resume` is set.

use std::time::Duration;

use meridian_config::{Gateway as Config, Resume};
use meridian_protocol::admin::{EngineName, Status};
use meridian_protocol::engines::NONE;
use meridian_protocol::units::Size;
use serde_json::Value;

use crate::common::{Answer, Region, Replica, Script, events, get, open, post, request};
use crate::forwards::{World, occupy};

const MS: Duration = Duration::from_millis(1);
const CHAT: &str =
    r#"{"model":"m","stream":true,"max_tokens":9,"messages":[{"role":"user","content":"tell"}]}"#;

fn resumes(c: &mut Config) {
    c.resume = Some(Resume::default());
    c.probe.down_after = 1_000_000;
}

async fn region(replicas: &[&Replica]) -> Region {
    Region::with(replicas, resumes).await
}

fn event(id: &str, choices: &str, more: &str) -> String {
    format!("data: {{\"id\":\"{id}\",\"model\":\"m\",\"choices\":[{choices}]{more}}}\n\n")
}

fn role(id: &str) -> String {
    event(id, r#"{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}"#, "")
}

fn say(id: &str, text: &str) -> String {
    let choice = format!(r#"{{"index":0,"delta":{{"content":"{text}"}},"finish_reason":null}}"#);
    event(id, &choice, "")
}

fn stop(id: &str) -> String {
    event(id, r#"{"index":0,"delta":{},"finish_reason":"stop"}"#, "")
}

fn usage(id: &str, prompt: u32, said: u32) -> String {
    let total = prompt + said;
    let usage = format!(
        ",\"usage\":{{\"prompt_tokens\":{prompt},\"completion_tokens\":{said},\"total_tokens\":{total}}}"
    );
    event(id, "", &usage)
}

const DONE: &str = "data: [DONE]\n\n";

/// Sends `events`, then breaks off within another one.
fn breaks(events: &[String]) -> Script {
    let script = events.iter().fold(Script::sse(), |script, event| script.event(event));
    script.event("data: {\"id\":\"ha").wait(MS).close()
}

fn whole(events: &[String]) -> Script {
    let events: Vec<&str> = events.iter().map(String::as_str).collect();
    Script::stream(&events, MS)
}

/// The results at the client, at the other replica, and in the gateway's counts.
struct Seen {
    answer: Answer,
    sent: Value,
    status: Status,
    metrics: String,
}

/// Two replicas in turn: one that breaks after "Once upon", and one that resumes.
async fn broken_once(body: &str, change: impl FnOnce(&mut Config)) -> Seen {
    let (a, b) = (Replica::start().await, Replica::start().await);
    let region = Region::with(&[&a, &b], |c| {
        resumes(c);
        change(c);
    })
    .await;
    a.then(breaks(&[role("a"), say("a", "Once"), say("a", " upon")]));
    b.always(whole(&[
        role("b"),
        say("b", " a time"),
        stop("b"),
        usage("b", 12, 1),
        DONE.to_owned(),
    ]));
    let answer = post(region.listen, "/v1/chat/completions", body).await;
    let status = region.settled().await;
    let metrics = get(region.admin, "/metrics").await.text().to_owned();
    let sent = match b.count() {
        0 => Value::Null,
        _ => serde_json::from_slice(&b.last().body).unwrap(),
    };
    Seen { answer, sent, status, metrics }
}

fn counted(metrics: &str, outcome: &str) -> bool {
    let line = format!("meridian_resumes_total{{outcome=\"{outcome}\"}} 1");
    assert_eq!(metrics.matches("meridian_resumes_total{").count(), 1, "{metrics}");
    metrics.contains(&line)
}

// The client sees one stream: one id, one role, the text in one piece, one end, and no half event.
// The other replica is asked to continue, with fewer tokens; counts and metrics agree.
#[tokio::test(start_paused = true)]
async fn goes_on_elsewhere() {
    let Seen { answer, sent, status, metrics } = broken_once(CHAT, |_| {}).await;
    let expected = [role("a"), say("a", "Once"), say("a", " upon"), say("a", " a time"), stop("a")];
    assert_eq!((answer.status, answer.cut), (200, false));
    assert_eq!(answer.text(), expected.concat() + DONE);
    assert_eq!(answer.header("x-meridian-replica"), "r0");
    assert_eq!(
        sent["messages"][1],
        serde_json::json!({"role": "assistant", "content": "Once upon"})
    );
    assert_eq!(
        (&sent["continue_final_message"], &sent["add_generation_prompt"]),
        (&true.into(), &false.into())
    );
    assert_eq!(
        (&sent["max_tokens"], &sent["stream_options"]["include_usage"]),
        (&7.into(), &true.into())
    );
    assert_eq!((status.requests.accepted, status.requests.done), (1, 1));
    assert_eq!((status.replicas[0].failed, status.replicas[1].done), (1, 1));
    assert_eq!(status.ttft_ms.count, 1, "the client had one first token");
    assert!(counted(&metrics, "went_on"), "{metrics}");
}

// A client that asked for usage gets that of the whole, in its own form.
#[tokio::test(start_paused = true)]
async fn usage_is_of_the_whole() {
    let body = CHAT
        .replace("\"stream\":true", "\"stream\":true,\"stream_options\":{\"include_usage\":true}");
    let Seen { answer, .. } = broken_once(&body, |_| {}).await;
    assert!(answer.text().ends_with(&(usage("a", 10, 3) + DONE)), "{}", answer.text());
}

// The engine is asked for the token count in each chunk, which is used; the client does not see it.
// If it asked for usage at the end, it sees nulls before, as from the engine itself.
#[tokio::test(start_paused = true)]
async fn tokens_are_counted() {
    let asks = CHAT
        .replace("\"stream\":true", "\"stream\":true,\"stream_options\":{\"include_usage\":true}");
    for (body, unseen) in [(CHAT, ""), (&asks, ",\"usage\":null")] {
        let (a, b) = (Replica::start().await, Replica::start().await);
        let region = region(&[&a, &b]).await;
        let say = |id: &str, text: &str, more: &str| {
            event(id, &format!(r#"{{"index":0,"delta":{{"content":"{text}"}}}}"#), more)
        };
        let count =
            |n: u32| format!(",\"usage\":{{\"prompt_tokens\":10,\"completion_tokens\":{n}}}");
        a.then(breaks(&[say("a", "Once upon", &count(4))]));
        b.then(whole(&[say("b", " a time", &count(2)), usage("b", 14, 2), DONE.to_owned()]));
        let answer = post(region.listen, "/v1/chat/completions", body).await;
        let mut expected = say("a", "Once upon", unseen) + &say("a", " a time", unseen);
        if !unseen.is_empty() {
            expected += &usage("a", 10, 6);
        }
        assert_eq!(answer.text(), expected + DONE);
        let sent: Value = serde_json::from_slice(&b.last().body).unwrap();
        assert_eq!(sent["max_tokens"], 5);
        let options = serde_json::json!({"include_usage": true, "continuous_usage_stats": true});
        assert_eq!(sent["stream_options"], options);
    }
}

// Off by default: the stream ends with an error event.
#[tokio::test(start_paused = true)]
async fn off_by_default() {
    let Seen { answer, sent, status, metrics } = broken_once(CHAT, |c| c.resume = None).await;
    assert_eq!(sent, Value::Null);
    assert!(answer.text().contains("replica_failed"), "{}", answer.text());
    assert_eq!((status.requests.failed, status.requests.done), (1, 0));
    assert!(!metrics.contains("resumes_total{"), "{metrics}");
}

// A stream that can't be resumed ends as without the feature: exactly one error event, no end mark,
// and a label for the reason.
#[tokio::test(start_paused = true)]
async fn not_every_stream_goes_on() {
    let with = |more: &str| CHAT.replace("\"stream\":true", &format!("\"stream\":true,{more}"));
    for (body, why) in [
        (with("\"tools\":[{\"type\":\"function\"}]"), "request"),
        (with("\"n\":2"), "request"),
        (with("\"logprobs\":true"), "request"),
        (with("\"response_format\":{\"type\":\"json_schema\"}"), "request"),
        (CHAT.replace('9', "2"), "spent"),
    ] {
        let Seen { answer, sent, status, metrics } = broken_once(&body, |_| {}).await;
        assert_eq!(sent, Value::Null, "{body}");
        let events = events(answer.text());
        assert_eq!(events.len(), 4, "{:?}", answer.text());
        assert!(events[3].contains("replica_failed"), "{:?}", answer.text());
        assert_eq!((status.requests.failed, status.requests.done), (1, 0));
        assert!(counted(&metrics, why), "{why}: {metrics}");
    }
    let Seen { metrics, .. } = broken_once(CHAT, |c| {
        c.resume = Some(Resume { text: Size(4) });
    })
    .await;
    assert!(counted(&metrics, "too_long"), "{metrics}");
    // An engine that is not known to continue messages might start over.
    let Seen { metrics, .. } = broken_once(CHAT, |c| {
        c.replicas[1].engine = EngineName::Is(NONE);
    })
    .await;
    assert!(counted(&metrics, "engine"), "{metrics}");
}

// A completion's prompt grows.
#[tokio::test(start_paused = true)]
async fn completions() {
    let (a, b) = (Replica::start().await, Replica::start().await);
    let region = region(&[&a, &b]).await;
    let text = |id: &str, text: &str| event(id, &format!(r#"{{"index":0,"text":"{text}"}}"#), "");
    a.then(breaks(&[text("a", " upon")]));
    b.then(whole(&[text("b", " a time"), DONE.to_owned()]));
    let body = r#"{"model":"m","stream":true,"max_tokens":9,"prompt":"Once"}"#;
    let answer = post(region.listen, "/v1/completions", body).await;
    assert_eq!(answer.text(), text("a", " upon") + &text("a", " a time") + DONE);
    let sent: Value = serde_json::from_slice(&b.last().body).unwrap();
    assert_eq!((&sent["prompt"], &sent["max_tokens"]), (&"Once upon".into(), &8.into()));
    assert_eq!(region.settled().await.requests.done, 1);
}

// A stream that breaks again is resumed again, up to the configured attempts; then it ends with an
// error.
#[tokio::test(start_paused = true)]
async fn broken_again_and_again() {
    let all = [Replica::start().await, Replica::start().await, Replica::start().await];
    let replicas: Vec<&Replica> = all.iter().collect();
    for (attempts, ends_well) in [(3, true), (2, false)] {
        let region = Region::with(&replicas, |c| {
            resumes(c);
            c.attempts = attempts;
        })
        .await;
        all[0].then(breaks(&[role("a"), say("a", "one")]));
        all[1].then(breaks(&[role("b"), say("b", " two")]));
        all[2].then(whole(&[role("c"), say("c", " three"), stop("c"), DONE.to_owned()]));
        let answer = post(region.listen, "/v1/chat/completions", CHAT).await;
        let said = role("a") + &say("a", "one") + &say("a", " two");
        let status = region.settled().await;
        if ends_well {
            assert_eq!(answer.text(), said + &say("a", " three") + &stop("a") + DONE);
            assert!(all[2].last().text().contains("\"one two\""));
            assert_eq!((status.requests.done, status.requests.failed), (1, 0));
        } else {
            let error = answer.text().strip_prefix(&*said).expect("the delivered text comes first");
            assert!(error.contains("no other replica could continue"), "{error}");
            assert_eq!((status.requests.done, status.requests.failed), (0, 1));
        }
    }
}

// A replica that refuses to continue (because of its template) costs the stream, but does not count
// as failed.
#[tokio::test(start_paused = true)]
async fn refused_by_the_engine() {
    let (a, b) = (Replica::start().await, Replica::start().await);
    let region = region(&[&a, &b]).await;
    a.then(breaks(&[role("a"), say("a", "one")]));
    b.then(Script::json(400, "{}"));
    let answer = post(region.listen, "/v1/chat/completions", CHAT).await;
    assert!(answer.text().contains("no other replica could continue"), "{}", answer.text());
    let status = region.settled().await;
    assert_eq!((status.requests.failed, status.requests.accepted), (1, 1));
    assert_eq!((status.replicas[0].failed, status.replicas[1].failed), (1, 0));
}

// Before the first text the request is simply sent again, whatever it asks for; and the first token
// is counted when it arrives.
#[tokio::test(start_paused = true)]
async fn nothing_said_yet() {
    let (a, b) = (Replica::start().await, Replica::start().await);
    let region = region(&[&a, &b]).await;
    a.then(breaks(&[role("a")]));
    b.then(whole(&[role("b"), say("b", "hi"), stop("b"), DONE.to_owned()]));
    let body = CHAT.replace("\"stream\":true", "\"stream\":true,\"tools\":[{\"type\":\"function\"}],\"stream_options\":{\"include_usage\":true}");
    let answer = post(region.listen, "/v1/chat/completions", &body).await;
    assert_eq!(answer.text(), role("b") + &say("b", "hi") + &stop("b") + DONE);
    assert_eq!(b.last().text(), a.last().text());
}

// A replica that falls silent is replaced, too.
#[tokio::test(start_paused = true)]
async fn silence() {
    let (a, b) = (Replica::start().await, Replica::start().await);
    let region = region(&[&a, &b]).await;
    a.then(Script::sse().event(&role("a")).event(&say("a", "one")).hang());
    b.then(whole(&[say("b", " two"), stop("b"), DONE.to_owned()]));
    let answer = post(region.listen, "/v1/chat/completions", CHAT).await;
    assert_eq!(answer.text(), role("a") + &say("a", "one") + &say("a", " two") + &stop("a") + DONE);
}

// The client disconnects during the search for a replica: the request ends, once, and nothing keeps
// running.
#[tokio::test(start_paused = true)]
async fn the_client_hangs_up_meanwhile() {
    let (a, b) = (Replica::start().await, Replica::start().await);
    let region = region(&[&a, &b]).await;
    a.then(breaks(&[role("a"), say("a", "one")]));
    b.then(Script::silence());
    let mut stream = open(region.listen, request("POST", "/v1/chat/completions", CHAT)).await;
    stream.read_to("one").await;
    region.until("the other replica has the request", |s| s.replicas[1].outstanding == 1).await;
    drop(stream);
    let status = region.settled().await;
    assert_eq!((status.requests.cancelled, status.requests.accepted), (1, 1));
    assert_eq!(b.hangups(), 1);
}

// The decision says that it resumes a broken answer.
#[tokio::test(start_paused = true)]
async fn explained() {
    let (a, b) = (Replica::start().await, Replica::start().await);
    let region = region(&[&a, &b]).await;
    a.then(breaks(&[role("a"), say("a", "one")]));
    b.then(whole(&[say("b", " two"), stop("b"), DONE.to_owned()]));
    let answer = post(region.listen, "/v1/chat/completions", CHAT).await;
    let id = answer.header("x-request-id");
    let why = get(region.admin, &format!("/admin/explain/{id}")).await.json();
    assert_eq!((&why["attempt"], &why["resumed"]), (&2.into(), &true.into()), "{why}");
    let all = get(region.admin, "/admin/decisions").await.json();
    assert_eq!(all[0]["resumed"], true, "{all}");
    assert_eq!(all[1].get("resumed"), None, "{all}");
    // Each decision has its own outcome, and the explanation lists the earlier one.
    assert_eq!((&all[0]["outcome"], &all[1]["outcome"]), (&"done".into(), &"replica_error".into()));
    assert_eq!((all[0].get("retried"), &all[1]["retried"]), (None, &true.into()), "{all}");
    assert_eq!(why["outcome"], "done", "{why}");
    assert_eq!(why["earlier"], serde_json::Value::from(vec![all[1].clone()]), "{why}");
}

/// `us`, whose replica is busy, and `eu` with two: a stream of `us` runs in `eu`.
async fn abroad(
    us: &mut impl FnMut(&mut Config),
    eu: &mut impl FnMut(&mut Config),
) -> (Vec<Region>, [Replica; 3]) {
    let all = [Replica::start().await, Replica::start().await, Replica::start().await];
    let mut world = World::of(&[&[&all[0]], &[&all[1], &all[2]]]);
    us(&mut world.configs[0]);
    eu(&mut world.configs[1]);
    (world.start().await, all)
}

// A stream at a peer breaks; the first gateway resumes it at its own replica, which has free
// capacity again.
#[tokio::test(start_paused = true)]
async fn broken_at_a_peer() {
    let (regions, [own, a, b]) = abroad(&mut resumes, &mut |_| {}).await;
    let busy = occupy(&regions[0], &own).await;
    for there in [&a, &b] {
        let said = [role("a"), say("a", "Once")];
        let said = said.iter().fold(Script::sse(), |script, event| script.event(event));
        there.always(said.wait(500 * MS).close());
    }
    own.then(whole(&[role("b"), say("b", " upon"), stop("b"), usage("b", 11, 1), DONE.to_owned()]));
    let mut stream = open(regions[0].listen, request("POST", "/v1/chat/completions", CHAT)).await;
    assert_eq!(stream.head.headers["x-meridian-peer"], "eu/eu-1");
    let start = stream.read_to("Once").await;
    drop(busy);
    let rest = stream.rest().await;
    let expected = role("a") + &say("a", "Once") + &say("a", " upon") + &stop("a") + DONE;
    assert_eq!(start + rest.text(), expected);
    let status = regions[0].settled().await;
    assert_eq!(
        (status.requests.done, status.requests.cancelled, status.requests.failed),
        (1, 1, 0)
    );
    let sent = status.peers[0].sent;
    assert_eq!((sent.failed, sent.done), (1, 0), "{sent:?}");
    let there = regions[1].settled().await;
    assert_eq!((there.requests.failed, there.requests.accepted), (1, 1));
}

// If the peer has `resume` set, it resumes the stream on its own replicas, and the forwarding
// gateway sees one stream, with the usage of the whole in its trailers.
#[tokio::test(start_paused = true)]
async fn the_peer_goes_on_itself() {
    let (regions, [own, a, b]) = abroad(&mut |_| {}, &mut resumes).await;
    let _busy = occupy(&regions[0], &own).await;
    a.then(breaks(&[role("a"), say("a", "one")]));
    b.then(whole(&[role("b"), say("b", " two"), stop("b"), usage("b", 11, 1), DONE.to_owned()]));
    let answer = post(regions[0].listen, "/v1/chat/completions", CHAT).await;
    assert_eq!(answer.text(), role("a") + &say("a", "one") + &say("a", " two") + &stop("a") + DONE);
    let sent = regions[0].status().await.peers[0].sent;
    assert_eq!((sent.done, sent.failed), (1, 0), "{sent:?}");
}

// A peer with replicas that can't continue a message refuses, so no answer that starts over is
// accepted.
#[tokio::test(start_paused = true)]
async fn a_peer_that_cannot_continue() {
    let (regions, [own, a, b]) = abroad(&mut resumes, &mut |c| {
        c.replicas[1].engine = EngineName::Is(NONE);
    })
    .await;
    own.then(breaks(&[role("a"), say("a", "one")]));
    let answer = post(regions[0].listen, "/v1/chat/completions", CHAT).await;
    assert!(answer.text().contains("no other replica could continue"), "{}", answer.text());
    assert_eq!((a.count(), b.count()), (0, 0));
    let status = regions[0].settled().await;
    assert_eq!((status.requests.failed, status.peers[0].sent.refused), (1, 1));
}
