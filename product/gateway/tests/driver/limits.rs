//! Every limit holds, and its error names it.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use meridian_config::AdmissionMode;
use meridian_protocol::units::{Size, Span};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::common::{Pieces, Region, Replica, Script, call, chat, get, open, post, request};

const MS: Duration = Duration::from_millis(1);
const CHAT: &str = "/v1/chat/completions";

/// The gateway's complete output for these bytes, until it closes the connection.
async fn raw(region: &Region, sent: &[u8]) -> String {
    let mut client = TcpStream::connect(region.listen).await.unwrap();
    // The gateway may refuse before it has read everything.
    let _ = client.write_all(sent).await;
    let mut said = Vec::new();
    let _ = client.read_to_end(&mut said).await;
    String::from_utf8_lossy(&said).into_owned()
}

// A body over limits.body is refused by its announced length, or by counting if there is none.
#[tokio::test(start_paused = true)]
async fn body_size() {
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], |c| c.limits.body = Size::kib(64)).await;
    let long = "x".repeat(65 << 10);
    let announced = call(region.listen, chat(&long)).await;
    let pieces: Vec<Bytes> = vec![Bytes::from("x".repeat(10 << 10)); 7];
    let counted = Request::post(CHAT).header("host", "x").body(Pieces::from(pieces)).unwrap();
    for answer in [announced, call(region.listen, counted).await] {
        assert_eq!((answer.status, answer.code().as_str()), (413, "body_too_large"));
        assert!(answer.text().contains("limits.body"), "{}", answer.text());
    }
    assert_eq!(call(region.listen, chat(&"x".repeat(60 << 10))).await.status, 200);
    assert_eq!(region.settled().await.requests.accepted, 1);
}

// At limits.requests the next request is refused with a time to retry; when one ends, there is
// capacity again.
#[tokio::test(start_paused = true)]
async fn requests() {
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], |c| c.limits.requests = 2).await;
    replica.always(Script::unfinished().wait(1000 * MS).send("}"));
    let mut both = [open(region.listen, chat("1")).await, open(region.listen, chat("2")).await];
    both[0].read_to("{").await;
    both[1].read_to("{").await;
    let full = call(region.listen, chat("3")).await;
    assert_eq!((full.status, full.code().as_str()), (429, "gateway_full"));
    assert_eq!(full.header("retry-after"), "1");
    assert!(full.text().contains("limits.requests"));
    for one in both {
        assert_eq!(one.rest().await.text().trim(), "}");
    }
    assert_eq!(call(region.listen, chat("4")).await.status, 200);
    assert_eq!(region.settled().await.requests.accepted, 3);
}

// An engine's 4xx counts in limits.requests, and as a request in flight, until its body is out.
#[tokio::test(start_paused = true)]
async fn passed_on_errors_count() {
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], |c| c.limits.requests = 1).await;
    let head =
        "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{";
    replica.then(Script::default().send(head).wait(1000 * MS).send("}"));
    let mut first = open(region.listen, chat("1")).await;
    first.read_to("{").await;
    assert_eq!(call(region.listen, chat("2")).await.code(), "gateway_full");
    assert_eq!(region.status().await.requests.in_flight, 1);
    let answer = first.rest().await;
    assert_eq!((answer.status, answer.text()), (400, "}"));
    assert_eq!(call(region.listen, chat("3")).await.status, 200);
    let requests = region.settled().await.requests;
    assert_eq!((requests.client_error, requests.done, requests.cancelled), (1, 1, 0));
}

// Limit on the bytes of all bodies in the gateway.
#[tokio::test(start_paused = true)]
async fn bodies() {
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], |c| {
        (c.limits.body, c.limits.bodies) = (Size::kib(100), Size::kib(100));
    })
    .await;
    replica.always(Script::unfinished().wait(1000 * MS).send("}"));
    let long = "x".repeat(60 << 10);
    let mut first = open(region.listen, chat(&long)).await;
    first.read_to("{").await;
    let pieces = Pieces::from(vec![Bytes::from("x".repeat(20 << 10)); 3]);
    let counted = Request::post(CHAT).header("host", "x").body(pieces).unwrap();
    for full in [call(region.listen, chat(&long)).await, call(region.listen, counted).await] {
        assert_eq!((full.status, full.code().as_str()), (429, "gateway_full"));
        assert!(full.text().contains("limits.bodies") && full.header("retry-after") == "1");
    }
    assert_eq!(first.rest().await.text().trim(), "}");
    assert_eq!(call(region.listen, chat(&long)).await.status, 200);
    region.settled().await;
}

// Defect probes-starved: beyond limits.connections, health checks are still answered. Every other
// request is refused with 503 and its connection closed; when one ends, the next is accepted. Silent
// connections beyond the limit keep no check out.
#[tokio::test(start_paused = true)]
async fn connections() {
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], |c| c.limits.connections = 2).await;
    let kept = [
        TcpStream::connect(region.listen).await.unwrap(),
        TcpStream::connect(region.listen).await.unwrap(),
    ];
    let head = b"GET /v1/models HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let refused = raw(&region, head).await;
    assert!(refused.starts_with("HTTP/1.1 503 ") && refused.contains("limits.connections"));
    assert!(refused.contains("connection: close"), "{refused}");
    let mut silent = Vec::new();
    for _ in 0..40 {
        silent.push(TcpStream::connect(region.listen).await.unwrap());
    }
    for path in ["/health", "/ready"] {
        let check = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
        let said = raw(&region, check.as_bytes()).await;
        assert!(said.starts_with("HTTP/1.1 200 "), "{said}");
    }
    drop((kept, silent));
    tokio::time::sleep(10 * MS).await;
    assert!(raw(&region, head).await.starts_with("HTTP/1.1 200 "));
}

// A header block over limits.headers is refused with 431.
#[tokio::test(start_paused = true)]
async fn headers() {
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], |c| c.limits.headers = Size::kib(16)).await;
    let with = |n: usize| {
        let long = "y".repeat(n);
        format!("GET /v1/models HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-long: {long}\r\n\r\n")
    };
    let said = raw(&region, with(40 << 10).as_bytes()).await;
    assert!(said.starts_with("HTTP/1.1 431 "), "{said}");
    assert!(said.contains("limits.headers") && said.contains("16384 bytes"), "{said}");
    assert!(raw(&region, with(10 << 10).as_bytes()).await.starts_with("HTTP/1.1 200 "));
    // The limit is exact, also for a head that arrives at once, and behind another request.
    let longest = (16 << 10) - with(0).len();
    let first = "GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n";
    for before in ["", first] {
        for (n, status) in [(longest, "200"), (longest + 1, "431")] {
            let said = raw(&region, [before, &with(n)].concat().as_bytes()).await;
            let last = said.rfind("HTTP/1.1 ").map(|at| &said[at + 9..at + 12]);
            assert_eq!(last, Some(status), "{n} bytes after {before:?}: {said}");
        }
    }
}

// A full queue refuses with 429, a request queued too long gets 503; both name a time to retry.
#[tokio::test(start_paused = true)]
async fn held() {
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], |c| {
        c.admission = Some(AdmissionMode::Outstanding(1));
        c.held.max = 1;
        c.held.max_wait = Span::secs(3);
    })
    .await;
    replica.always(Script::unfinished().wait(60_000 * MS).send("}"));
    let mut served = open(region.listen, chat("served")).await;
    served.read_to("{").await;
    replica.load(0, 1, 0.1);
    let listen = region.listen;
    let began = tokio::time::Instant::now();
    let held = tokio::spawn(async move { call(listen, chat("held")).await });
    region.until("it is held", |s| s.held == 1).await;
    let full = call(listen, chat("one too many")).await;
    assert_eq!((full.status, full.code().as_str()), (429, "held_full"));
    assert!(full.header("retry-after").parse::<u32>().unwrap() >= 1);
    let late = held.await.unwrap();
    assert_eq!((late.status, late.code().as_str()), (503, "held_too_long"));
    assert!(late.header("retry-after").parse::<u32>().unwrap() >= 1);
    assert!(began.elapsed() >= 3000 * MS && began.elapsed() < 3100 * MS);
    served.rest().await;
    let status = region.settled().await;
    assert_eq!((status.requests.rejected, status.requests.done), (2, 1));
}

// Queued requests are sent in order as soon as there is capacity.
#[tokio::test(start_paused = true)]
async fn held_and_served() {
    let replica = Replica::start().await;
    let region =
        Region::with(&[&replica], |c| c.admission = Some(AdmissionMode::Outstanding(1))).await;
    let json = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
    replica.always(Script::default().wait(100 * MS).send(json));
    let listen = region.listen;
    let mut calls = Vec::new();
    for n in 0..5 {
        calls.push(tokio::spawn(async move { call(listen, chat(&format!("n{n}"))).await.status }));
        region.until("it is accepted", |s| s.requests.accepted == n + 1).await;
    }
    for call in calls {
        assert_eq!(call.await.unwrap(), 200);
    }
    let order: Vec<_> = replica.seen().iter().map(|s| s.text().find("n4").is_some()).collect();
    assert_eq!(order, [false, false, false, false, true]);
    assert_eq!(region.settled().await.requests.done, 5);
}

// Unreadable bodies and unknown models are refused here, with the field.
#[tokio::test(start_paused = true)]
async fn bad_requests() {
    let replica = Replica::start().await;
    let region = Region::of(&[&replica]).await;
    for (body, status, code, param) in [
        ("", 400, "invalid_request", None),
        ("{", 400, "invalid_request", None),
        ("[]", 400, "invalid_request", None),
        ("{\"model\":\"m\"} x", 400, "invalid_request", None),
        (r#"{"model":7,"messages":[]}"#, 400, "invalid_request", Some("model")),
        (r#"{"model":"m","stream":[],"messages":[]}"#, 400, "invalid_request", Some("stream")),
        (r#"{"model":"m","messages":7}"#, 400, "invalid_request", Some("messages")),
        (r#"{"model":"other","messages":[]}"#, 404, "model_not_found", Some("model")),
    ] {
        let answer = post(region.listen, CHAT, body).await;
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{body}");
        assert_eq!(answer.json()["error"]["param"].as_str(), param, "{body}");
    }
    // Anthropic's endpoint refuses in Anthropic's form.
    let answer = post(region.listen, "/v1/messages", "{}").await;
    assert_eq!((answer.status, &answer.json()["type"]), (400, &"error".into()));
    assert_eq!(answer.json()["error"]["type"], "invalid_request_error");
    assert_eq!(replica.count(), 0, "no replica got a request");
    region.settled().await;
}

// A known path with the wrong method is 405 and names the right one.
#[tokio::test(start_paused = true)]
async fn wrong_methods() {
    let replica = Replica::start().await;
    let region = Region::of(&[&replica]).await;
    for (method, path, allowed) in [
        ("GET", CHAT, "POST"),
        ("DELETE", "/v1/embeddings", "POST"),
        ("PUT", "/v1/responses", "POST"),
        ("POST", "/v1/models", "GET, HEAD"),
        ("DELETE", "/v1/models/m", "GET, HEAD"),
    ] {
        let answer = call(region.listen, request(method, path, "")).await;
        assert_eq!((answer.status, answer.code().as_str()), (405, "method_not_allowed"), "{path}");
        assert_eq!(answer.header("allow"), allowed, "{method} {path}");
    }
    assert_eq!(replica.count(), 0);
}

// Invalid HTTP does no harm: the connection ends and the gateway keeps serving.
#[tokio::test(start_paused = true)]
async fn garbage() {
    let replica = Replica::start().await;
    let region = Region::of(&[&replica]).await;
    let mut noise = meridian_base::Rng::new(7);
    let random: Vec<u8> = (0..4096).map(|_| noise.next_u64() as u8).collect();
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let after_preface = [&preface[..], &random].concat();
    let bad_frame = [&preface[..], b"\x00\x00\x04\x04\x00\x00\x00\x00\x01abcd"].concat();
    let cases: [&[u8]; 9] = [
        b"\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        &random,
        &after_preface,
        &bad_frame,
    ];
    for sent in cases {
        let said = raw(&region, sent).await;
        assert!(!said.contains("HTTP/1.1 200"), "{said}");
    }
    assert_eq!(get(region.listen, "/v1/models").await.status, 200);
    assert_eq!(region.settled().await.requests.accepted, 0);
}

// An upload that ends before its announced length becomes no request.
#[tokio::test(start_paused = true)]
async fn cut_uploads() {
    let replica = Replica::start().await;
    let region = Region::of(&[&replica]).await;
    let head = format!("POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{{\"model");
    let mut client = TcpStream::connect(region.listen).await.unwrap();
    client.write_all(head.as_bytes()).await.unwrap();
    client.shutdown().await.unwrap();
    let mut said = Vec::new();
    let _ = client.read_to_end(&mut said).await;
    assert_eq!(replica.count(), 0);
    assert_eq!(region.settled().await.requests.accepted, 0);
    let page = get(region.admin, "/metrics").await;
    assert!(page.text().contains("meridian_body_bytes 0"), "its permits are back");
}

// Pipelined requests on one connection are answered in order.
#[tokio::test(start_paused = true)]
async fn pipelining() {
    let replica = Replica::start().await;
    let region = Region::of(&[&replica]).await;
    let mut sent = String::new();
    for n in 0..3 {
        let json = format!("{{\"n\":{n}}}");
        replica.then(Script::json(200, &json));
        let body = r#"{"model":"m","messages":[]}"#;
        let close = if n == 2 { "connection: close\r\n" } else { "" };
        let length = body.len();
        sent += &format!(
            "POST {CHAT} HTTP/1.1\r\nhost: x\r\n{close}content-length: {length}\r\n\r\n{body}"
        );
    }
    let said = raw(&region, sent.as_bytes()).await;
    let at: Vec<_> =
        (0..3).map(|n| said.find(&format!("{{\"n\":{n}}}")).expect("answered")).collect();
    assert!(at[0] < at[1] && at[1] < at[2], "{said}");
    assert_eq!(said.matches("HTTP/1.1 200 ").count(), 3);
    assert_eq!(region.settled().await.requests.done, 3);
}
