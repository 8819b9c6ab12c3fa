//! Replicas that break the protocol, each in its own way. For each: the client's answer, the
//! failure count, unaffected later requests, and no leftover state.

use std::time::Duration;

use meridian_protocol::units::Span;

use crate::common::{Region, Replica, Script, call, chat, chunk, get, open, post, stream_chat};

const MS: Duration = Duration::from_millis(1);
const EVENT: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n";
const DONE: &str = "data: [DONE]\n\n";
const GOOD: &str = r#"{"id":"good","choices":[]}"#;
const ODD: &str = r#"{"id":"odd","choices":[]}"#;

/// The outcome of a request that meets the odd replica.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    /// The good replica answers it, and the odd one has failed.
    Elsewhere,
    /// The odd one's answer passes.
    Passes,
    /// The answer is cut in its middle, and the odd one has failed.
    Cut,
    /// The stream ends with an error event, and the odd one has failed.
    ErrorEvent,
}
use Fate::{Cut, Elsewhere, ErrorEvent, Passes};

struct Way {
    what: &'static str,
    script: Script,
    streams: bool,
    fate: Fate,
    /// The kind that `meridian_odd_answers` counts.
    odd: Option<&'static str>,
}

fn whole(what: &'static str, fate: Fate, script: Script) -> Way {
    Way { what, script, streams: false, fate, odd: None }
}

fn stream(what: &'static str, fate: Fate, script: Script) -> Way {
    Way { what, script, streams: true, fate, odd: None }
}

fn odd(kind: &'static str, way: Way) -> Way {
    Way { odd: Some(kind), ..way }
}

fn raw(text: &str) -> Script {
    Script::default().send(text)
}

fn json(headers: &str, body: &str) -> Script {
    raw(&format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n{headers}\r\n{body}"))
}

fn ok(body: &str) -> Script {
    Script::json(200, body)
}

/// Errors before the head, and within it.
fn heads() -> Vec<Way> {
    let lines: String = (0..500).map(|n| format!("x-{n}: 1\r\n")).collect();
    let huge = format!("x-huge: {}\r\n", "x".repeat(1 << 20));
    let long = format!("content-length: {}\r\n", ODD.len());
    let continues = "HTTP/1.1 100 Continue\r\n\r\n".repeat(100);
    let location = "HTTP/1.1 307 Temporary Redirect\r\nlocation: http://127.0.0.1:1/v1\r\ncontent-length: 0\r\n\r\n";
    vec![
        whole("accepts and never answers", Elsewhere, Script::silence()),
        whole("half a head, then nothing", Elsewhere, raw("HTTP/1.1 200 O").hang()),
        whole("half a head, then closed", Elsewhere, raw("HTTP/1.1 200 OK\r\ncon").close()),
        whole("reset before the head", Elsewhere, Script::default().reset()),
        whole("closed before the head", Elsewhere, Script::default().close()),
        whole("a bad status line", Elsewhere, raw("HTTP/1.1 abc Hm\r\n\r\n").close()),
        whole("no HTTP", Elsewhere, raw("SSH-2.0-x\r\n\r\n").close()),
        whole("TLS", Elsewhere, raw("\u{15}\u{3}\u{1}\u{0}\u{2}\u{2}\u{46}").close()),
        whole("too many headers", Elsewhere, json(&lines, "").hang()),
        whole("a huge header", Elsewhere, json(&huge, "").hang()),
        whole("two lengths", Elsewhere, json("content-length: 2\r\ncontent-length: 3\r\n", "{}")),
        whole("a length that is not a number", Elsewhere, json("content-length: x\r\n", "{}")),
        whole("100 interim answers", Passes, raw(&continues).send(&json_text(&long))),
        whole(
            "an upgrade",
            Elsewhere,
            raw("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n")
                .hang(),
        ),
        whole("a redirect", Elsewhere, raw(location)),
        whole("204", Elsewhere, raw("HTTP/1.1 204 No Content\r\n\r\n")),
        whole("an empty 200", Elsewhere, ok("")),
    ]
}

fn json_text(headers: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n{headers}\r\n{ODD}")
}

/// Errors within the body.
fn bodies() -> Vec<Way> {
    let chunked = || json("transfer-encoding: chunked\r\n", "");
    let dripping =
        ODD.chars().fold(Script::head(ODD.len()), |s, c| s.wait(100 * MS).send(&c.to_string()));
    let trailers = format!("{}0\r\nx-usage: 1\r\n\r\n", chunk(ODD));
    let long = Script::unfinished().wait(MS).reset();
    vec![
        odd("not_json", whole("a length too short", Passes, json("content-length: 5\r\n", ODD))),
        whole(
            "a length too long, then closed",
            Elsewhere,
            json("content-length: 99\r\n", "{\"a\":").wait(MS).close(),
        ),
        whole(
            "a length too long, then nothing",
            Elsewhere,
            json("content-length: 99\r\n", "{\"a\":").hang(),
        ),
        whole(
            "a length beside chunks",
            Passes,
            json("content-length: 5\r\ntransfer-encoding: chunked\r\n", "")
                .event(ODD)
                .send("0\r\n\r\n"),
        ),
        whole("a bad chunk at first", Elsewhere, chunked().send("zz\r\n{}\r\n").hang()),
        whole(
            "a bad chunk later",
            Elsewhere,
            chunked().event("{\"a\":").wait(MS).send("zz\r\n").hang(),
        ),
        whole("reset after the head", Elsewhere, Script::head(9).wait(MS).reset()),
        whole("reset within the body", Elsewhere, Script::head(9).send("{").wait(MS).reset()),
        whole("reset within a long body", Cut, long),
        whole("a byte at a time", Passes, dripping),
        whole("trailers", Passes, chunked().send(&trailers)),
        whole(
            "HTTP/1.0 until closed",
            Passes,
            raw(&json_text("").replace("HTTP/1.1", "HTTP/1.0")).close(),
        ),
        odd("not_json", whole("garbage", Passes, Script::answer(200, "", "<html>{}</html>"))),
        odd("not_json", whole("half of a JSON", Passes, ok("{\"id\":\"odd\""))),
        odd(
            "not_json",
            whole(
                "compressed",
                Passes,
                Script::answer(200, "content-encoding: gzip\r\n", "\u{1f}\u{8b}"),
            ),
        ),
        odd("after_end", whole("text after the JSON", Passes, ok("{\"id\":\"odd\"}<html>"))),
        whole(
            "two answers",
            Passes,
            ok(ODD).send(&json_text("content-length: 25\r\n").replace("odd", "bad")),
        ),
        whole(
            "a late second answer",
            Passes,
            ok(ODD).wait(3 * MS).send(&json_text("content-length: 25\r\n").replace("odd", "bad")),
        ),
        whole("closes a kept connection", Passes, ok(ODD).wait(3 * MS).close()),
        whole("resets a kept connection", Passes, ok(ODD).wait(3 * MS).reset()),
    ]
}

fn streams() -> Vec<Way> {
    let plain = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n";
    let end = "0\r\n\r\n";
    vec![
        stream("no end mark", ErrorEvent, Script::stream(&[EVENT], MS)),
        stream("closed in its middle", ErrorEvent, Script::sse().event(EVENT).wait(MS).close()),
        stream("reset in its middle", ErrorEvent, Script::sse().event(EVENT).wait(MS).reset()),
        stream("silent in its middle", ErrorEvent, Script::sse().event(EVENT).hang()),
        stream(
            "an HTML page",
            Elsewhere,
            Script::answer(200, "content-type: text/html\r\n", "<html></html>"),
        ),
        stream("an empty stream", Elsewhere, Script::stream(&[], MS)),
        stream("the wrong content type", Passes, raw(plain).event(EVENT).event(DONE).send(end)),
        odd("json_for_stream", stream("JSON", Passes, ok(ODD))),
        odd(
            "after_end",
            stream("text after the end", Passes, Script::stream(&[EVENT, DONE, EVENT], MS)),
        ),
        odd(
            "after_end",
            stream(
                "text after the end in one piece",
                Passes,
                Script::stream(&[EVENT, "data: [DONE]\n\nmore\n\n"], MS),
            ),
        ),
    ]
}

async fn region(replicas: &[&Replica]) -> Region {
    Region::with(replicas, |c| {
        c.probe.down_after = 1_000_000;
        c.timeouts.first_byte = Span::secs(5);
        c.timeouts.idle = Span::secs(5);
    })
    .await
}

/// One request meets the odd replica, and eight more follow it.
async fn meet(way: Way) {
    let Way { what, script, streams, fate, odd } = way;
    let (bad, good) = (Replica::start().await, Replica::start().await);
    let region = region(&[&bad, &good]).await;
    bad.always(ok(ODD)).then(script);
    good.always(if streams { Script::stream(&[EVENT, DONE], MS) } else { ok(GOOD) });
    let request = if streams { stream_chat("hi") } else { chat("hi") };
    let answer = call(region.listen, request).await;
    let by = if fate == Elsewhere { "r1" } else { "r0" };
    assert_eq!((answer.status, answer.header("x-meridian-replica")), (200, by), "{what}");
    assert_eq!(answer.cut, fate == Cut, "{what}");
    let text = String::from_utf8_lossy(&answer.body);
    let is_whole = text == ODD || what != "a length beside chunks";
    assert!(is_whole, "{what}: {text}");
    assert_eq!(text.contains("replica_failed"), fate == ErrorEvent, "{what}: {text}");
    assert!(!text.contains("\"bad\"") && answer.header("location").is_empty(), "{what}: {text}");
    good.always(ok(GOOD));
    for turn in 0..8 {
        tokio::time::sleep((turn % 3) * 5 * MS).await;
        let answer = call(region.listen, chat("hi")).await;
        let whole = if answer.header("x-meridian-replica") == "r0" { ODD } else { GOOD };
        assert_eq!((answer.status, answer.text(), answer.cut), (200, whole, false), "{what}");
    }
    let status = region.settled().await;
    let failed = u64::from(fate != Passes);
    assert_eq!((status.replicas[0].failed, status.replicas[1].failed), (failed, 0), "{what}");
    let r = status.requests;
    let broken = u64::from(matches!(fate, Cut | ErrorEvent));
    assert_eq!((r.done, r.failed, r.accepted), (9 - broken, broken, 9), "{what}");
    assert!(status.replicas.iter().all(|r| r.breaker == "closed"), "{what}");
    let metrics = get(region.admin, "/metrics").await;
    let counted = metrics.text().lines().filter(|l| l.starts_with("meridian_odd_answers_total"));
    let counted: Vec<&str> = counted.collect();
    let expected = odd.map(|kind| format!("meridian_odd_answers_total{{kind=\"{kind}\"}} 1"));
    assert_eq!(counted, expected.iter().map(String::as_str).collect::<Vec<_>>(), "{what}");
}

// No head, half a head, or an invalid one: another replica answers.
#[tokio::test(start_paused = true)]
async fn bad_heads() {
    for way in heads() {
        meet(way).await;
    }
}

// Defect broken-in-one-piece: an answer that breaks off before a byte of it reached the client is tried elsewhere. A
// long one ends broken, an odd one passes and is counted, and no byte of it gets into the next answer.
#[tokio::test(start_paused = true)]
async fn bad_bodies() {
    for way in bodies() {
        meet(way).await;
    }
}

// Every kind of invalid stream.
#[tokio::test(start_paused = true)]
async fn bad_streams() {
    for way in streams() {
        meet(way).await;
    }
}

// There are at least thirty kinds.
#[test]
fn thirty_ways() {
    assert!(heads().len() + bodies().len() + streams().len() >= 30);
}

// An endless answer passes until its client leaves; then the engine's connection is closed.
#[tokio::test(start_paused = true)]
async fn endless_answers() {
    let replica = Replica::start().await;
    let region = region(&[&replica]).await;
    let endless = (0..1000).fold(json("transfer-encoding: chunked\r\n", ""), |s, _| {
        s.event(&"{\"a\":".repeat(100)).wait(MS)
    });
    replica.then(endless.hang());
    let mut answer = open(region.listen, chat("hi")).await;
    for _ in 0..20 {
        answer.piece().await.unwrap().unwrap();
    }
    drop(answer);
    let status = region.settled().await;
    assert_eq!((status.requests.cancelled, replica.hangups()), (1, 1));
    assert_eq!(status.replicas[0].failed, 0);
}

// An answer that arrives before the request was read in full is the answer.
#[tokio::test(start_paused = true)]
async fn answered_before_the_request_was_read() {
    let (bad, good) = (Replica::start().await, Replica::start().await);
    let region = region(&[&bad, &good]).await;
    bad.then(Script::json(413, "{\"error\":\"too large\"}").hang().early());
    let content = "x".repeat(16 << 20);
    let body = format!(r#"{{"model":"m","messages":[{{"role":"user","content":"{content}"}}]}}"#);
    let answer = post(region.listen, "/v1/chat/completions", &body).await;
    assert_eq!((answer.status, answer.header("x-meridian-replica")), (413, "r0"));
    for _ in 0..4 {
        assert_eq!(call(region.listen, chat("hi")).await.status, 200);
    }
    let status = region.settled().await;
    assert_eq!((status.requests.client_error, status.requests.done), (1, 4));
}

// Headers that only a gateway may send are ignored if an engine sends them.
#[tokio::test(start_paused = true)]
async fn forged_headers() {
    let replica = Replica::start().await;
    let region = region(&[&replica]).await;
    let forged = "x-meridian-refused: draining\r\nx-meridian-peer: eu/x\r\nx-meridian-region: eu\r\n\
                  x-meridian-replica: r7\r\nx-meridian-replica: r8\r\nx-meridian-residency: x\r\n\
                  x-request-id: a\r\nx-request-id: b\r\nconnection: x-hop\r\nx-hop: 1\r\nx-own: 1\r\nx-own: 2\r\n";
    replica.then(Script::answer(200, forged, ODD));
    let answer = call(region.listen, chat("hi")).await;
    let count = |name: &str| answer.headers.get_all(name).iter().count();
    assert_eq!((answer.status, answer.header("x-meridian-replica")), (200, "r0"));
    assert_eq!(["x-meridian-replica", "x-request-id", "x-own"].map(count), [1, 1, 2]);
    for name in ["x-meridian-refused", "x-meridian-peer", "x-meridian-residency", "x-hop"] {
        assert_eq!(answer.header(name), "", "{name}");
    }
    assert_eq!(answer.header("x-meridian-region"), "local");
    region.settled().await;
}

// A trailing slash, to which engines respond with redirects, is not sent to them.
#[tokio::test(start_paused = true)]
async fn trailing_slashes() {
    let replica = Replica::start().await;
    let region = region(&[&replica]).await;
    let body = r#"{"model":"m","messages":[]}"#;
    for (path, target) in [
        ("/v1/chat/completions/", "/v1/chat/completions"),
        ("/v1/chat/completions/?a=b/", "/v1/chat/completions?a=b/"),
    ] {
        assert_eq!(post(region.listen, path, body).await.status, 200);
        assert_eq!(replica.last().target, target);
    }
    assert_eq!(post(region.listen, "/v1/chat/completions//", body).await.status, 404);
    assert_eq!(get(region.listen, "/v1/models/").await.status, 200);
}

// A redirect from every replica is a 502 that names it. Location does not reach the client, and no
// breaker counts it.
#[tokio::test(start_paused = true)]
async fn redirects_everywhere() {
    let (a, b) = (Replica::start().await, Replica::start().await);
    let region = region(&[&a, &b]).await;
    for replica in [&a, &b] {
        replica.always(Script::answer(308, "location: http://10.0.0.1/secret\r\n", ""));
    }
    for _ in 0..8 {
        let answer = call(region.listen, chat("hi")).await;
        assert_eq!((answer.status, answer.code().as_str()), (502, "redirected"));
        assert!(answer.text().contains("308") && !answer.text().contains("10.0.0.1"));
        assert_eq!(answer.header("location"), "");
    }
    let status = region.settled().await;
    assert!(status.replicas.iter().all(|r| r.breaker == "closed" && r.failed == 0));
}
