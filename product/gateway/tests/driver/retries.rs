//! Failed attempts: retried on another replica before anything was sent to the client, never after.

use std::time::Duration;

use meridian_protocol::admin::Status;

use crate::common::{Region, Replica, Script, call, chat, events, post, request, stream_chat};

const MS: Duration = Duration::from_millis(1);
const GOOD: &str = r#"{"id":"good","choices":[]}"#;

/// In these tests probes never take a replica out of service: only attempts matter.
async fn region(replicas: &[&Replica]) -> Region {
    Region::with(replicas, |c| c.probe.down_after = 1_000_000).await
}

/// Each failure before the first byte leads to the other replica, and the client sees one clean
/// answer.
async fn elsewhere(what: &str, script: Script, streams: bool) -> Status {
    let (bad, good) = (Replica::start().await, Replica::start().await);
    let region = region(&[&bad, &good]).await;
    bad.always(script);
    let stream = ["data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n", "data: [DONE]\n\n"];
    let whole = if streams { stream.concat() } else { GOOD.to_owned() };
    good.always(if streams { Script::stream(&stream, MS) } else { Script::json(200, GOOD) });
    for _ in 0..2 {
        let request = if streams { stream_chat("hi") } else { chat("hi") };
        let answer = call(region.listen, request).await;
        assert_eq!(
            (answer.status, answer.text(), answer.cut),
            (200, whole.as_str(), false),
            "{what}"
        );
        assert_eq!(answer.header("x-meridian-replica"), "r1", "{what}");
    }
    assert!(bad.count() >= 1, "{what}: the bad one was tried");
    assert_eq!(good.count(), 2, "{what}");
    let status = region.settled().await;
    assert_eq!(status.requests.done, 2, "{what}: {:?}", status.requests);
    status
}

// A connection closed before, within or after the head, or an engine's 500: each comes before the
// first byte of the answer, so another replica answers, with or without streaming.
#[tokio::test(start_paused = true)]
async fn failures_before_the_first_byte() {
    let ways = [
        ("closed at once", Script::default().close()),
        ("within the head", Script::default().send("HTTP/1.1 200 O").close()),
        ("after the head, length", Script::head(10).wait(MS).close()),
        ("after the head, chunked", Script::sse().wait(MS).close()),
        ("no HTTP", Script::default().send("SSH-2.0-x\r\n\r\n").close()),
        ("500", Script::json(500, "{}")),
        ("502", Script::json(502, "{}")),
        ("504", Script::answer(504, "", "")),
    ];
    for (what, script) in ways {
        for streams in [false, true] {
            let status = elsewhere(what, script.clone(), streams).await;
            assert!(status.replicas[0].failed >= 1, "{what}");
            assert_eq!(status.replicas[1].failed, 0, "{what}");
        }
    }
}

// A stream that ends cleanly without a single byte is a failure too, and nothing has been sent yet.
#[tokio::test(start_paused = true)]
async fn an_empty_stream_is_repeated() {
    let status = elsewhere("empty stream", Script::stream(&[], MS), true).await;
    assert!(status.replicas[0].failed >= 1);
}

// A replica that refuses connections is skipped.
#[tokio::test(start_paused = true)]
async fn connection_refused() {
    let (gone, good) = (Replica::start().await, Replica::start().await);
    let region = region(&[&gone, &good]).await;
    gone.stop().await;
    for _ in 0..4 {
        let answer = call(region.listen, chat("hi")).await;
        assert_eq!((answer.status, answer.header("x-meridian-replica")), (200, "r1"));
    }
    let status = region.settled().await;
    assert_eq!(status.requests.done, 4);
    assert!(status.replicas[0].failed >= 1);
}

// An engine that reports to be full has not failed: the request is retried elsewhere, and the
// circuit breaker stays closed however often.
#[tokio::test(start_paused = true)]
async fn full_engines_are_no_failures() {
    for code in [429, 503] {
        let (full, good) = (Replica::start().await, Replica::start().await);
        let region = region(&[&full, &good]).await;
        full.always(Script::json(code, "{}"));
        for _ in 0..20 {
            let answer = call(region.listen, chat("hi")).await;
            assert_eq!((answer.status, answer.header("x-meridian-replica")), (200, "r1"));
            // A report in between allows another attempt.
            tokio::time::sleep(250 * MS).await;
        }
        let status = region.settled().await;
        let full = &status.replicas[0];
        assert!(full.full >= 5, "tried {} times", full.full);
        assert_eq!((full.breaker.as_str(), full.failed), ("closed", 0));
        assert_eq!(status.requests.done, 20);
    }
}

// When every replica fails, the client gets 502 with the last cause, after exactly the configured
// number of attempts.
#[tokio::test(start_paused = true)]
async fn all_fail() {
    let replicas = [Replica::start().await, Replica::start().await, Replica::start().await];
    let all: Vec<&Replica> = replicas.iter().collect();
    for attempts in [1, 2, 3, 9] {
        let region = Region::with(&all, |c| {
            c.attempts = attempts;
            c.probe.down_after = 1_000_000;
        })
        .await;
        // Each with a different message: the same from two would mean that the request is the
        // cause.
        for (n, replica) in all.iter().enumerate() {
            replica.always(Script::json(500, &format!("{{\"error\":{n}}}")));
        }
        let before: usize = all.iter().map(|r| r.count()).sum();
        let answer = call(region.listen, chat("hi")).await;
        let after: usize = all.iter().map(|r| r.count()).sum();
        assert_eq!(answer.status, 502);
        assert_eq!(answer.code(), "retries_exhausted");
        assert!(answer.text().contains("the engine answered 500"), "{}", answer.text());
        assert!(!answer.header("x-request-id").is_empty());
        // No replica is tried twice for one request.
        assert_eq!(after - before, (attempts as usize).min(3), "attempts: {attempts}");
        let status = region.settled().await;
        assert_eq!((status.requests.failed, status.requests.accepted), (1, 1));
    }
}

// Consecutive failures open a circuit breaker; client mistakes never do.
#[tokio::test(start_paused = true)]
async fn breakers() {
    let (bad, good) = (Replica::start().await, Replica::start().await);
    let region = region(&[&bad, &good]).await;
    bad.always(Script::json(400, "{}"));
    for _ in 0..40 {
        let answer = call(region.listen, chat("hi")).await;
        assert!(matches!(
            (answer.status, answer.header("x-meridian-replica")),
            (400, "r0") | (200, "r1")
        ));
    }
    let status = region.settled().await;
    assert_eq!((status.requests.client_error, status.requests.done), (20, 20));
    assert_eq!((status.replicas[0].breaker.as_str(), status.replicas[0].failed), ("closed", 0));
    assert_eq!(bad.count() + good.count(), 40, "nothing was repeated");
    bad.always(Script::json(500, "{}"));
    for _ in 0..20 {
        assert_eq!(call(region.listen, chat("hi")).await.status, 200);
    }
    let status = region.settled().await;
    assert_eq!(status.replicas[0].failed, 5, "open from then on");
    assert_eq!(status.replicas[0].breaker, "open");
    // After its time one request tries the replica, and its success closes the breaker.
    bad.always(Script::json(200, GOOD));
    tokio::time::sleep(1100 * MS).await;
    assert_eq!(region.status().await.replicas[0].breaker, "half_open");
    for _ in 0..4 {
        assert_eq!(call(region.listen, chat("hi")).await.status, 200);
    }
    assert_eq!(region.settled().await.replicas[0].breaker, "closed");
}

/// A stream broken off in the middle: its last event is an error in the endpoint's form.
async fn broken_stream(path: &str, body: &str, event: &str) -> String {
    let (a, b) = (Replica::start().await, Replica::start().await);
    let region = region(&[&a, &b]).await;
    for replica in [&a, &b] {
        replica.always(Script::sse().event(event).wait(MS).close());
    }
    let answer = post(region.listen, path, body).await;
    assert_eq!((answer.status, answer.cut), (200, false), "{path}");
    assert_eq!(a.count() + b.count(), 1, "{path}: not repeated after the first byte");
    let rest = answer.text().strip_prefix(event).expect("the first event comes first");
    let status = region.settled().await;
    assert_eq!((status.requests.failed, status.requests.done), (1, 0), "{path}");
    assert_eq!(status.replicas[0].failed + status.replicas[1].failed, 1, "{path}");
    rest.to_owned()
}

// After the first byte nothing is retried: chats and completions end with OpenAI's error object.
#[tokio::test(start_paused = true)]
async fn broken_openai_streams() {
    for (path, body) in [
        ("/v1/chat/completions", r#"{"model":"m","stream":true,"messages":[]}"#),
        ("/v1/completions", r#"{"model":"m","stream":true,"prompt":"hi"}"#),
    ] {
        let rest = broken_stream(path, body, "data: {\"choices\":[{\"text\":\"a\"}]}\n\n").await;
        let last: serde_json::Value = serde_json::from_str(events(&rest)[0]).unwrap();
        assert_eq!(last["error"]["code"], "replica_failed", "{rest}");
        assert!(last["error"]["message"].as_str().unwrap().contains("retry"));
    }
}

// `/v1/responses` and `/v1/messages` name the event, and the latter has Anthropic's form.
#[tokio::test(start_paused = true)]
async fn broken_named_streams() {
    let event = "event: response.output_text.delta\ndata: {\"delta\":\"a\"}\n\n";
    let body = r#"{"model":"m","stream":true,"input":"hi"}"#;
    let rest = broken_stream("/v1/responses", body, event).await;
    assert!(rest.trim_start().starts_with("event: error\n"), "{rest}");
    let event = "event: content_block_delta\ndata: {\"delta\":{\"text\":\"a\"}}\n\n";
    let body = r#"{"model":"m","stream":true,"max_tokens":1,"messages":[]}"#;
    let rest = broken_stream("/v1/messages", body, event).await;
    assert!(rest.trim_start().starts_with("event: error\n"), "{rest}");
    let last: serde_json::Value = serde_json::from_str(events(&rest)[0]).unwrap();
    assert_eq!(last["type"], "error");
    assert_eq!(last["error"]["type"], "api_error");
}

// An event broken off in its middle is ended first, so that the error is a separate event.
#[tokio::test(start_paused = true)]
async fn a_half_event_is_closed() {
    let replica = Replica::start().await;
    let region = region(&[&replica]).await;
    for sent in [
        stream_chat("hi"),
        request("POST", "/v1/chat/completions", r#"{"model":"m","stream":true,"messages":[]}"#),
    ] {
        replica.then(
            Script::sse()
                .event("data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\ndata: {\"cho")
                .wait(MS)
                .close(),
        );
        let answer = call(region.listen, sent).await;
        let events: Vec<&str> =
            answer.text().split("\n\n").filter(|e| !e.trim().is_empty()).collect();
        assert_eq!(events[1], "data: {\"cho", "{:?}", answer.text());
        assert!(events[2].starts_with("data: {\"error\""), "{:?}", answer.text());
    }
}

// A non-streamed answer that breaks off is tried elsewhere, with a length or without: its client has no byte of it.
#[tokio::test(start_paused = true)]
async fn broken_json() {
    let (bad, good) = (Replica::start().await, Replica::start().await);
    let region = region(&[&bad, &good]).await;
    let chunked = Script::default().send(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n",
    );
    let until_close = Script::default()
        .send("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n");
    for script in [
        Script::head(100).send("{\"a\":"),
        chunked.event("{\"a\":"),
        until_close.clone().send("{\"a\":"),
    ] {
        bad.then(script.wait(MS).close());
        let answer = call(region.listen, chat("hi")).await;
        assert_eq!((answer.header("x-meridian-replica"), answer.cut), ("r1", false));
        // The other replica's turn.
        call(region.listen, chat("hi")).await;
    }
    let status = region.settled().await;
    assert_eq!((status.requests.failed, status.requests.done), (0, 6));
    assert_eq!((status.replicas[0].failed, status.replicas[1].failed), (3, 0));
}

// Without a length, the last brace tells that an answer is complete.
#[tokio::test(start_paused = true)]
async fn json_until_close() {
    let replica = Replica::start().await;
    let region = region(&[&replica]).await;
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n";
    replica.then(Script::default().send(head).send("{\"a\":1}\n").wait(MS).close());
    let answer = call(region.listen, chat("hi")).await;
    assert_eq!((answer.text(), answer.cut), ("{\"a\":1}\n", false));
    assert_eq!(region.settled().await.requests.done, 1);
}

// A long one ends with a broken connection.
#[tokio::test(start_paused = true)]
async fn broken_long_json() {
    let replica = Replica::start().await;
    let region = region(&[&replica]).await;
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n";
    let until_close = Script::default().send(head).send(&format!("{{{}", " ".repeat(1 << 17)));
    for script in [Script::unfinished(), until_close] {
        replica.then(script.wait(MS).close());
        assert!(call(region.listen, chat("hi")).await.cut);
    }
    let status = region.settled().await;
    assert_eq!((status.requests.failed, replica.count()), (2, 2));
}

// A replica that closes an idle connection costs no attempt: the dead connection is not used.
#[tokio::test(start_paused = true)]
async fn closed_idle_connections() {
    let replica = Replica::start().await;
    let region = region(&[&replica]).await;
    replica.always(Script::json(200, GOOD).wait(10 * MS).close());
    for _ in 0..5 {
        assert_eq!(call(region.listen, chat("hi")).await.status, 200);
        tokio::time::sleep(100 * MS).await;
    }
    let status = region.settled().await;
    assert_eq!((status.requests.done, status.replicas[0].failed), (5, 0));
}

// A request that a replica received on a pooled connection and did not answer is sent there once
// more, on a fresh one. If that ends as well, the attempt has failed, and the next one goes elsewhere
// without such a repetition.
#[tokio::test(start_paused = true)]
async fn kept_connections_send_once() {
    let (a, b) = (Replica::start().await, Replica::start().await);
    let region = region(&[&a, &b]).await;
    for _ in 0..2 {
        assert_eq!(call(region.listen, chat("warm")).await.status, 200);
    }
    for replica in [&a, &b] {
        replica.always(Script::default().wait(MS).close());
    }
    let answer = call(region.listen, chat("hi")).await;
    assert_eq!(answer.status, 502);
    assert_eq!((a.count(), b.count()), (3, 2), "the first received it twice");
    let status = region.settled().await;
    assert_eq!((status.replicas[0].failed, status.replicas[1].failed), (1, 1));
}

// Defect closed-while-idle: a replica that resets a kept connection answers the request over a new one, and has not failed.
#[tokio::test(start_paused = true)]
async fn a_kept_connection_that_is_reset() {
    let replica = Replica::start().await;
    let region = region(&[&replica]).await;
    for _ in 0..6 {
        replica.then(Script::json(200, GOOD)).then(Script::default().reset());
    }
    for _ in 0..6 {
        let answer = call(region.listen, chat("hi")).await;
        assert_eq!((answer.status, answer.text()), (200, GOOD));
    }
    let status = region.settled().await;
    assert_eq!((status.replicas[0].failed, status.requests.done), (0, 6));
}

// Defect retry-after: an engine that refuses with `Retry-After` gets no request for that time, whatever its probes say.
// If all engines do, the client gets the shortest time.
#[tokio::test(start_paused = true)]
async fn engines_say_when_to_come_back() {
    for code in [429, 503] {
        let (full, good) = (Replica::start().await, Replica::start().await);
        let region = Region::with(&[&full, &good], |c| {
            c.held.max_wait = meridian_protocol::units::Span::secs(1);
        })
        .await;
        full.always(Script::answer(code, "retry-after: 20\r\n", "{}"));
        for _ in 0..10 {
            let answer = call(region.listen, chat("hi")).await;
            assert_eq!((answer.status, answer.header("x-meridian-replica")), (200, "r1"));
            tokio::time::sleep(500 * MS).await;
        }
        assert_eq!(full.count(), 1);
        good.always(Script::answer(code, "retry-after: 7\r\n", "{}"));
        let answer = call(region.listen, chat("hi")).await;
        let wait: u64 = answer.header("retry-after").parse().unwrap();
        assert_eq!((answer.status, (6..=7).contains(&wait)), (503, true), "{wait}");
        assert_eq!((full.count(), good.count()), (1, 11));
    }
}
