//! What an answer says decides how it ended: errors inside a 200, streams without an end mark,
//! comments, silences, and clients that leave.

use std::time::Duration;

use meridian_protocol::units::Span;

use crate::common::{Region, Replica, Script, call, chat, get, open, post, stream_chat};
use crate::records::{Files, stopped};

const MS: Duration = Duration::from_millis(1);
const ROLE: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\n";
const TEXT: &str =
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":null}]}\n\n";
const STOP: &str =
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
const DONE: &str = "data: [DONE]\n\n";
const DIED: &str = "data: {\"error\":{\"message\":\"EngineCore encountered an issue.\",\"type\":\"InternalServerError\",\"code\":500}}\n\n";
const REFUSED: &str =
    "data: {\"error\":{\"message\":\"too long\",\"type\":\"BadRequestError\",\"code\":400}}\n\n";

fn good() -> Script {
    Script::stream(&[ROLE, TEXT, STOP, DONE], MS)
}

/// A replica that answers with `script`, and one that serves.
async fn beside(script: &Script) -> (Replica, Replica, Region) {
    let (bad, well) = (Replica::start().await, Replica::start().await);
    let region = Region::with(&[&bad, &well], |c| c.probe.down_after = 1_000_000).await;
    bad.always(script.clone());
    well.always(good());
    (bad, well, region)
}

// Defect error-in-200: an engine's error inside a 200, before any token, is a failed attempt: another
// replica answers, and the breaker of the one that failed opens.
#[tokio::test(start_paused = true)]
async fn errors_before_the_first_token() {
    let role = [ROLE, DIED, DONE];
    let ends = [
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\"},\"finish_reason\":\"abort\"}]}\n\n",
        DONE,
    ];
    for script in
        [Script::stream(&[DIED, DONE], MS), Script::stream(&role, MS), Script::stream(&ends, MS)]
    {
        let (bad, well, region) = beside(&script).await;
        for _ in 0..20 {
            let answer = call(region.listen, stream_chat("hi")).await;
            assert_eq!((answer.status, answer.header("x-meridian-replica")), (200, "r1"));
            assert!(!answer.text().contains("error"), "{}", answer.text());
        }
        let status = region.settled().await;
        assert_eq!((status.replicas[0].failed, status.replicas[0].breaker.as_str()), (5, "open"));
        assert_eq!((status.requests.done, bad.count(), well.count()), (20, 5, 20));
    }
}

// Defect error-in-200: events that call themselves JSON, and events behind a byte order mark, are read as events.
#[tokio::test(start_paused = true)]
async fn events_by_another_name() {
    let (marked, died) = (format!("\u{feff}{DIED}"), format!("{ROLE}{DIED}{DONE}"));
    for script in [Script::json(200, &died), Script::stream(&[&marked, DONE], MS)] {
        let (bad, _well, region) = beside(&script).await;
        for _ in 0..20 {
            let answer = call(region.listen, stream_chat("hi")).await;
            assert_eq!((answer.status, answer.header("x-meridian-replica")), (200, "r1"));
        }
        assert_eq!((region.settled().await.replicas[0].failed, bad.count()), (5, 5));
    }
    let (_bad, _well, region) =
        beside(&Script::json(200, &[ROLE, TEXT, STOP, DONE].concat())).await;
    let answer = call(region.listen, stream_chat("hi")).await;
    assert_eq!(answer.header("content-type"), "text/event-stream");
    assert_eq!(
        (answer.text(), region.settled().await.requests.done),
        ([ROLE, TEXT, STOP, DONE].concat().as_str(), 1)
    );
}

// Defect error-in-200: the same of answers in one piece, in the forms of several engines.
#[tokio::test(start_paused = true)]
async fn errors_in_one_piece() {
    for body in [
        r#"{"object":"error","message":"EngineCore died","type":"InternalServerError","code":500}"#,
        r#"{"error":{"message":"out of memory","code":500}}"#,
        r#"{"error":"Request failed during generation","error_type":"generation"}"#,
        r#"{"id":"x","choices":[{"index":0,"message":{"content":""},"finish_reason":"error"}]}"#,
    ] {
        let (bad, well, region) = beside(&Script::json(200, body)).await;
        well.always(Script::json(200, r#"{"id":"good","choices":[]}"#));
        for _ in 0..20 {
            let answer = call(region.listen, chat("hi")).await;
            assert_eq!((answer.status, answer.header("x-meridian-replica")), (200, "r1"), "{body}");
        }
        let status = region.settled().await;
        assert_eq!((status.replicas[0].failed, bad.count()), (5, 5), "{body}");
    }
}

// Two engines report the same error inside a 200: the request is the cause, and its client gets the
// error with the status that it names.
#[tokio::test(start_paused = true)]
async fn the_same_error_twice() {
    let (_bad, well, region) = beside(&Script::stream(&[DIED, DONE], MS)).await;
    well.always(Script::stream(&[DIED, DONE], MS));
    let answer = call(region.listen, stream_chat("hi")).await;
    assert_eq!(answer.status, 500);
    assert!(answer.text().contains("EngineCore encountered an issue."), "{}", answer.text());
    let status = region.settled().await;
    assert!(status.replicas.iter().all(|r| r.failed == 0 && r.breaker == "closed"));
    assert_eq!(status.requests.client_error, 1);
}

// Defect error-in-200: a client's error inside a 200 passes, counts as one, and touches no breaker.
#[tokio::test(start_paused = true)]
async fn errors_of_the_client() {
    let whole = r#"{"object":"error","message":"too long","type":"BadRequestError","code":400}"#;
    for (script, request) in [
        (Script::stream(&[REFUSED, DONE], MS), stream_chat as fn(&str) -> _),
        (Script::stream(&[ROLE, TEXT, REFUSED, DONE], MS), stream_chat),
        (Script::json(200, whole), chat),
    ] {
        let (bad, _well, region) = beside(&script).await;
        let answer = call(region.listen, request("hi")).await;
        assert_eq!((answer.status, answer.header("x-meridian-replica")), (200, "r0"));
        assert!(answer.text().contains("too long"), "{}", answer.text());
        let status = region.settled().await;
        let r = status.requests;
        assert_eq!((r.client_error, r.done, r.failed, bad.count()), (1, 0, 0, 1));
        assert_eq!(status.replicas[0].failed, 0);
    }
}

// Defect error-in-200: an engine's error after the first token ends the request as failed; the client
// gets the engine's own event.
#[tokio::test(start_paused = true)]
async fn errors_after_the_first_token() {
    let (_bad, _well, region) = beside(&Script::stream(&[ROLE, TEXT, DIED, DONE], MS)).await;
    let answer = call(region.listen, stream_chat("hi")).await;
    let all = [ROLE, TEXT, DIED, DONE].concat();
    assert_eq!((answer.status, answer.text()), (200, &*all));
    let status = region.settled().await;
    assert_eq!((status.requests.failed, status.requests.done), (1, 0));
    assert_eq!(status.replicas[0].failed, 1);
}

// With `resume`, another replica continues the stream after an engine's error, which the client does
// not see.
#[tokio::test(start_paused = true)]
async fn errors_are_resumed() {
    let (bad, well) = (Replica::start().await, Replica::start().await);
    for replica in [&bad, &well] {
        replica.page("/metrics", Script::json(200, ""));
    }
    let region = Region::with(&[&bad, &well], |c| {
        c.probe.down_after = 1_000_000;
        c.resume = Some(meridian_config::Resume::default());
    })
    .await;
    bad.always(Script::stream(&[ROLE, DIED, DONE], MS));
    well.always(good());
    let answer = call(region.listen, stream_chat("hi")).await;
    assert!(!answer.text().contains("error"), "{}", answer.text());
    assert_eq!(region.settled().await.requests.done, 1);
}

// Defect no-done-mark: a stream whose choices have all finished, and whose transfer is complete, is
// complete without `[DONE]`.
#[tokio::test(start_paused = true)]
async fn streams_without_an_end_mark() {
    let unended = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n";
    for last in [STOP, unended] {
        let (_bad, _well, region) = beside(&Script::stream(&[TEXT, last], MS)).await;
        for _ in 0..12 {
            let answer = call(region.listen, stream_chat("hi")).await;
            assert!(!answer.text().contains("error"), "{}", answer.text());
        }
        let status = region.settled().await;
        assert_eq!((status.requests.done, status.replicas[0].failed), (12, 0));
    }
    // One of two choices has finished.
    let (_bad, _well, region) = beside(&Script::stream(&[TEXT, STOP], MS)).await;
    let body = r#"{"model":"m","stream":true,"n":2,"messages":[{"role":"user","content":"hi"}]}"#;
    let answer = post(region.listen, "/v1/chat/completions", body).await;
    assert!(answer.text().contains("replica_failed"), "{}", answer.text());
}

// Defect comments-commit: a replica that sends comments or a chat's role, and then closes, has failed
// before the first token: another replica answers.
#[tokio::test(start_paused = true)]
async fn comments_commit_to_nothing() {
    for start in [": keep-alive\n\n", "\n\n", ROLE] {
        let (_bad, _well, region) = beside(&Script::stream(&[start, start], MS)).await;
        for _ in 0..10 {
            let answer = call(region.listen, stream_chat("hi")).await;
            assert_eq!((answer.status, answer.header("x-meridian-replica")), (200, "r1"));
            assert!(!answer.text().contains("error"), "{}", answer.text());
        }
        assert_eq!(region.settled().await.requests.done, 10);
    }
}

/// A region whose streams are kept alive every five seconds.
async fn kept_alive(replica: &Replica) -> Region {
    Region::with(&[replica], |c| {
        c.probe.down_after = 1_000_000;
        c.stream_keep_alive = Some(Span::secs(5));
        c.timeouts.first_byte = Span::secs(600);
        c.timeouts.idle = Span::secs(600);
    })
    .await
}

// Defect silent-wait: with `stream_keep_alive`, a client that waits for its first token gets comments
// from that interval on, and then the answer unchanged.
#[tokio::test(start_paused = true)]
async fn comments_while_a_client_waits() {
    let replica = Replica::start().await;
    let region = kept_alive(&replica).await;
    replica.then(
        Script::sse()
            .wait(12_000 * MS)
            .event(TEXT)
            .wait(12_000 * MS)
            .event(STOP)
            .event(DONE)
            .send("0\r\n\r\n"),
    );
    let answer = call(region.listen, stream_chat("hi")).await;
    let comment = ": keep-alive\n\n";
    let expected = [comment, comment, TEXT, comment, comment, STOP, DONE].concat();
    assert_eq!((answer.status, answer.text()), (200, &*expected));
    assert_eq!(answer.header("content-type"), "text/event-stream; charset=utf-8");
    assert_ne!(answer.header("x-request-id"), "");
    assert_eq!(region.settled().await.requests.done, 1);
    // An answer that starts in time has the usual head, and no comment.
    replica.then(good());
    let answer = call(region.listen, stream_chat("hi")).await;
    assert_eq!(
        (answer.text(), answer.header("x-meridian-replica")),
        (&*[ROLE, TEXT, STOP, DONE].concat(), "r0")
    );
}

// Defect silent-wait: after the first comment a refusal is an error event, and a client that leaves
// cancels its request.
#[tokio::test(start_paused = true)]
async fn refusals_after_a_comment() {
    let replica = Replica::start().await;
    let region = kept_alive(&replica).await;
    replica.then(Script::default().wait(7_000 * MS).send(
        "HTTP/1.1 400 Word\r\ncontent-type: application/json\r\ncontent-length: 34\r\n\r\n{\"error\":\n{\"message\":\"no wonder\"}}",
    ));
    let answer = call(region.listen, stream_chat("hi")).await;
    assert_eq!(answer.status, 200);
    assert!(answer.text().starts_with(": keep-alive\n\n"), "{}", answer.text());
    let event = "data: {\"error\":\ndata: {\"message\":\"no wonder\"}}\n\n";
    assert!(answer.text().ends_with(event), "{}", answer.text());
    assert_eq!(region.settled().await.requests.client_error, 1);
    replica.then(Script::silence());
    let mut waiting = open(region.listen, stream_chat("hi")).await;
    assert_eq!(waiting.piece().await.unwrap().unwrap(), ": keep-alive\n\n");
    drop(waiting);
    assert_eq!((region.settled().await.requests.cancelled, replica.hangups()), (1, 1));
}

// A comment never stands within an event.
#[tokio::test(start_paused = true)]
async fn no_comment_within_an_event() {
    let replica = Replica::start().await;
    let region = kept_alive(&replica).await;
    let (half, rest) = STOP.split_at(20);
    let script = Script::sse().event(TEXT).event(half).wait(30_000 * MS).event(rest).event(DONE);
    replica.then(script.send("0\r\n\r\n"));
    let answer = call(region.listen, stream_chat("hi")).await;
    assert_eq!(answer.text(), [TEXT, STOP, DONE].concat());
}

// Defect cancelled-tokens: the tokens of a stream whose client leaves are counted as they passed, and
// marked as an estimate.
#[tokio::test(start_paused = true)]
async fn tokens_of_cancelled_streams() {
    let files = Files::new("cancelled-tokens");
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], |c| files.set(c)).await;
    let events = vec![TEXT; 200];
    replica.then(Script::stream(&events, 10 * MS));
    let mut answer = open(region.listen, stream_chat("hi")).await;
    for _ in 0..30 {
        answer.piece().await.unwrap().unwrap();
    }
    drop(answer);
    region.settled().await;
    let metrics = get(region.admin, "/metrics").await;
    let completion = metrics.text().lines().find(|line| {
        line.starts_with("meridian_tokens_total") && line.contains("kind=\"completion\"")
    });
    let counted: u64 =
        completion.and_then(|l| l.rsplit(' ').next()?.parse().ok()).expect("a count");
    assert!((30..=32).contains(&counted), "{counted}");
    stopped(region).await;
    let line = files.log().remove(0);
    assert_eq!(
        (line["outcome"].as_str(), line["tokens_estimated"].as_bool()),
        (Some("cancelled"), Some(true))
    );
    assert_eq!(line["completion_tokens"].as_u64(), Some(counted));
}
