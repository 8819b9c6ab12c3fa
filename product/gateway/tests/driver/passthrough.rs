//! Requests and answers pass through unchanged.

use std::time::Duration;

use bytes::Bytes;
use http::Request;

use crate::common::{Pieces, Region, Replica, Script, call, chat, chunk, get, open, post, request};

const CHAT: &str = "/v1/chat/completions";
const MS: Duration = Duration::from_millis(1);

/// The upstream body of a request is the client's.
async fn same(replica: &Replica, region: &Region, path: &str, body: &str) {
    let answer = post(region.listen, path, body).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    let seen = replica.last();
    assert_eq!((seen.method.as_str(), seen.target.as_str()), ("POST", path));
    assert_eq!(seen.text(), body);
    assert_eq!(seen.header("content-length"), Some(body.len().to_string().as_str()));
}

// Unknown fields, odd spacing, escapes and duplicate-looking strings arrive byte for byte.
#[tokio::test(start_paused = true)]
async fn bodies_arrive_as_sent() {
    let replica = Replica::start().await;
    let region = Region::of(&[&replica]).await;
    for body in [
        r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#,
        "\n { \"messages\" :\t[ {\"role\":\"user\" , \"content\" : \"\\u00e9\\ud83d\\ude00 é😀\"} ],\r\n\"x_unknown\":{\"a\":[1e400,-0.0,null]}, \"model\" : \"\\u006d\" }\n\n",
        r#"{"seed":18446744073709551615,"model":"m","stream":false,"messages":[]}"#,
        r#"{"model":"m","stream":true,"stream_options":{"include_usage":true,"x":1},"messages":[{"role":"user","content":"\"stream_options\":null"}]}"#,
    ] {
        same(&replica, &region, CHAT, body).await;
    }
    region.settled().await;
}

// Every endpoint of the API reaches the engine, at its own path and with its own body.
#[tokio::test(start_paused = true)]
async fn every_endpoint_reaches_the_engine() {
    let replica = Replica::start().await;
    let region = Region::of(&[&replica]).await;
    for (path, body) in [
        ("/v1/completions", r#"{"model":"m","prompt":"hi"}"#),
        ("/v1/embeddings", r#"{"model":"m","input":["hi","there"]}"#),
        ("/v1/responses", r#"{"model":"m","input":"hi"}"#),
        (
            "/v1/messages",
            r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#,
        ),
    ] {
        same(&replica, &region, path, body).await;
    }
    let status = region.settled().await;
    assert_eq!(status.requests.done, 4);
}

// Two megabytes in pieces and without a length arrive complete, with a length.
#[tokio::test(start_paused = true)]
async fn a_large_upload_in_pieces() {
    let replica = Replica::start().await;
    let region = Region::of(&[&replica]).await;
    let content = "0123456789abcdef".repeat(128 << 10);
    let whole = format!(r#"{{"model":"m","messages":[{{"role":"user","content":"{content}"}}]}}"#);
    assert!(whole.len() > 2 << 20);
    let bytes = Bytes::from(whole.clone());
    let pieces: Vec<_> = (0..bytes.len())
        .step_by(100_001)
        .map(|at| bytes.slice(at..bytes.len().min(at + 100_001)))
        .collect();
    let upload = Request::post(CHAT).header("host", "gateway").body(Pieces::from(pieces));
    let answer = call(region.listen, upload.unwrap()).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let seen = replica.last();
    assert!(seen.text() == whole, "the body differs");
    same(&replica, &region, CHAT, &whole).await;
}

// All headers of a request pass except hop-by-hop headers, including those that `connection` names.
#[tokio::test(start_paused = true)]
async fn request_headers() {
    let replica = Replica::start().await;
    let region = Region::of(&[&replica]).await;
    let mut sent = chat("hi");
    for (name, value) in [
        ("authorization", "Bearer secret"),
        ("openai-organization", "org"),
        ("x-custom", "kept"),
        ("cookie", "a=b"),
        ("accept", "text/event-stream"),
        ("connection", "keep-alive, x-hop"),
        ("x-hop", "dropped"),
        ("keep-alive", "timeout=5"),
        ("proxy-connection", "keep-alive"),
        ("proxy-authorization", "Basic x"),
        ("te", "trailers"),
        ("upgrade", "websocket"),
        ("accept-encoding", "gzip"),
    ] {
        sent.headers_mut().append(name, value.parse().unwrap());
    }
    assert_eq!(call(region.listen, sent).await.status, 200);
    let seen = replica.last();
    for (name, value) in [
        ("authorization", "Bearer secret"),
        ("openai-organization", "org"),
        ("x-custom", "kept"),
        ("cookie", "a=b"),
        ("accept", "text/event-stream"),
    ] {
        assert_eq!(seen.header(name), Some(value));
    }
    assert_eq!(seen.header("host"), Some(replica.addr.to_string().as_str()));
    for name in [
        "connection",
        "x-hop",
        "keep-alive",
        "proxy-connection",
        "proxy-authorization",
        "te",
        "upgrade",
        "accept-encoding",
    ] {
        assert_eq!(seen.header(name), None, "{name}");
    }
}

// The replica's headers pass likewise; the gateway's own say where the request went and why.
#[tokio::test(start_paused = true)]
async fn answer_headers() {
    let replica = Replica::start().await;
    let region = Region::of(&[&replica]).await;
    let headers = "content-type: application/json\r\nx-engine: kept\r\nset-cookie: a=1\r\n\
                   set-cookie: b=2\r\nkeep-alive: timeout=5\r\nconnection: x-hop\r\nx-hop: 1\r\n\
                   endpoint-load-metrics: TEXT cpu_utilization=0.1\r\nx-request-id: theirs\r\n";
    replica.always(Script::answer(200, headers, "{}"));
    let answer = call(region.listen, chat("hi")).await;
    assert_eq!(answer.header("x-engine"), "kept");
    assert_eq!(answer.header("content-type"), "application/json");
    assert_eq!(answer.headers.get_all("set-cookie").iter().count(), 2);
    for name in ["keep-alive", "x-hop", "endpoint-load-metrics"] {
        assert_eq!(answer.header(name), "", "{name}");
    }
    assert_eq!(answer.header("x-meridian-replica"), "r0");
    assert_eq!(answer.header("x-meridian-prefix-match"), "0.00");
    assert!(!answer.header("x-meridian-reason").is_empty());
    // A client that asked for the load report gets it.
    let mut asking = chat("hi");
    asking.headers_mut().insert("endpoint-load-metrics-format", "TEXT".parse().unwrap());
    let answer = call(region.listen, asking).await;
    assert_eq!(answer.header("endpoint-load-metrics"), "TEXT cpu_utilization=0.1");
}

// The client's own request id is kept on both sides; requests without one get a new one each.
#[tokio::test(start_paused = true)]
async fn request_ids() {
    let replica = Replica::start().await;
    let region = Region::of(&[&replica]).await;
    let mut named = chat("hi");
    named.headers_mut().insert("x-request-id", "my own".parse().unwrap());
    assert_eq!(call(region.listen, named).await.header("x-request-id"), "my own");
    assert_eq!(replica.last().header("x-request-id"), Some("my own"));
    let first = call(region.listen, chat("hi")).await.header("x-request-id").to_owned();
    assert_eq!(replica.last().header("x-request-id"), Some(first.as_str()));
    let second = call(region.listen, chat("hi")).await.header("x-request-id").to_owned();
    assert!(first.starts_with("req-") && second.starts_with("req-") && first != second);
}

// A query string stays on the path.
#[tokio::test(start_paused = true)]
async fn queries_pass() {
    let replica = Replica::start().await;
    let region = Region::of(&[&replica]).await;
    let body = r#"{"model":"m","messages":[]}"#;
    same(&replica, &region, "/v1/chat/completions?beta=true&x=%2F", body).await;
}

// A JSON answer passes byte for byte, with the engine's length.
#[tokio::test(start_paused = true)]
async fn json_answers_pass() {
    let replica = Replica::start().await;
    let region = Region::of(&[&replica]).await;
    let body = "{ \"id\":\"x\",\n \"choices\":[ {\"message\":{\"content\":\"} \\u00e9 é\"}} ],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":2} }\n";
    replica.always(Script::json(200, body));
    let answer = call(region.listen, chat("hi")).await;
    assert_eq!(answer.text(), body);
    assert_eq!(answer.header("content-length"), body.len().to_string());
    assert_eq!(region.settled().await.requests.done, 1);
}

// A stream passes byte for byte, comments, CRLF and all, however it is cut into pieces.
#[tokio::test(start_paused = true)]
async fn streams_pass() {
    let replica = Replica::start().await;
    let region = Region::of(&[&replica]).await;
    let stream = ": hello\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\r\n\r\ndata:{\"choices\":[]}\n\nid: 7\ndata: [DONE]\n\n";
    for size in [1, 2, 3, 7, 1000] {
        let pieces: Vec<&str> =
            stream.as_bytes().chunks(size).map(|c| std::str::from_utf8(c).unwrap()).collect();
        replica.then(Script::stream(&pieces, MS));
        let answer = call(region.listen, crate::common::stream_chat("hi")).await;
        assert_eq!(answer.text(), stream, "pieces of {size}");
        assert_eq!(answer.header("content-type"), "text/event-stream");
        assert!(!answer.cut);
    }
    assert_eq!(region.settled().await.requests.done, 5);
}

/// vLLM's stream, with and without requested usage.
fn vllm_stream(usage: bool) -> Vec<String> {
    let null = if usage { r#","usage":null"# } else { "" };
    let mut events: Vec<String> = ["Hel", "lo"]
        .iter()
        .map(|t| format!("data: {{\"id\":\"c\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{t}\"}}}}]{null}}}\n\n"))
        .collect();
    if usage {
        events.push("data: {\"id\":\"c\",\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"total_tokens\":11,\"completion_tokens\":2,\"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\n".to_owned());
    }
    events.push("data: [DONE]\n\n".to_owned());
    events
}

// The gateway asks for usage if the client did not; the client gets the stream it would have
// received otherwise, and the status page gets the numbers.
#[tokio::test(start_paused = true)]
async fn usage_is_asked_for_and_taken_out() {
    let replica = Replica::start().await;
    let region = Region::of(&[&replica]).await;
    let events = vllm_stream(true);
    let events: Vec<&str> = events.iter().map(String::as_str).collect();
    replica.always(Script::stream(&events, MS));
    let body = r#"{"model":"m", "stream":true,"messages":[{"role":"user","content":"hi"}]}"#;
    let answer = post(region.listen, CHAT, body).await;
    let upstream: serde_json::Value = serde_json::from_slice(&replica.last().body).unwrap();
    assert_eq!(upstream["stream_options"]["include_usage"], true);
    assert!(replica.last().text().ends_with(&body[1..]), "the rest of the body is as it was");
    assert_eq!(answer.text(), vllm_stream(false).concat());
    let status = region.settled().await;
    assert_eq!((status.prefix.known_prompt_tokens, status.prefix.cached_tokens), (9, 4));
    // A client that asks for usage itself gets all of it.
    let answer = call(region.listen, crate::common::stream_chat("hi")).await;
    assert_eq!(answer.text(), vllm_stream(true).concat());
}

// Pieces reach the client as they arrive, not when the answer is complete.
#[tokio::test(start_paused = true)]
async fn pieces_are_not_gathered() {
    let replica = Replica::start().await;
    let region = Region::of(&[&replica]).await;
    let script = Script::sse()
        .event("data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n")
        .wait(60_000 * MS);
    replica.then(script.event("data: [DONE]\n\n").send("0\r\n\r\n"));
    let began = tokio::time::Instant::now();
    let mut stream = open(region.listen, crate::common::stream_chat("hi")).await;
    stream.read_to("choices").await;
    assert!(began.elapsed() < 30_000 * MS, "the first piece waited for the second");
    stream.read_to("[DONE]").await;
    assert!(began.elapsed() >= 60_000 * MS);
    region.settled().await;
}

// An engine's error about a client's mistake is returned with its message, and not retried.
#[tokio::test(start_paused = true)]
async fn an_engines_refusal_passes() {
    let (a, b) = (Replica::start().await, Replica::start().await);
    let region = Region::of(&[&a, &b]).await;
    for status in [400, 401, 404, 413, 422] {
        let body = format!("{{\"detail\":\"no {status}\"}}");
        let script =
            Script::answer(status, "content-type: application/json\r\nx-why: y\r\n", &body);
        a.always(script.clone());
        b.always(script);
        let answer = call(region.listen, chat("hi")).await;
        assert_eq!((answer.status, answer.text()), (status, body.as_str()));
        assert_eq!(answer.header("x-why"), "y");
    }
    assert_eq!(a.count() + b.count(), 5, "no attempt was repeated");
    assert_eq!(region.settled().await.requests.client_error, 5);
}

// Configured engine paths pass, with any method and any body; others are not served.
#[tokio::test(start_paused = true)]
async fn configured_paths() {
    let replica = Replica::start().await;
    let region =
        Region::with(&[&replica], |c| c.paths = vec!["/tokenize".into(), "/version".into()]).await;
    same(&replica, &region, "/tokenize?x=1", r#"{"model":"m","prompt":"hi"}"#).await;
    same(&replica, &region, "/tokenize", "no JSON at all").await;
    assert_eq!(get(region.listen, "/version").await.status, 200);
    let seen = replica.last();
    assert_eq!((seen.method.as_str(), seen.target.as_str()), ("GET", "/version"));
    let sent = replica.count();
    for path in ["/tokenize/x", "/tokeniz", "/", "/v1", "/metrics", "/admin/status", "/v1/files"] {
        let answer = post(region.listen, path, "{}").await;
        assert_eq!((answer.status, answer.code().as_str()), (404, "unknown_path"), "{path}");
    }
    assert_eq!(replica.count(), sent);
}

// An answer on a configured path has an unknown format: it passes in full, whatever it contains.
#[tokio::test(start_paused = true)]
async fn foreign_answers_pass_whole() {
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], |c| c.paths = vec!["/generate".into()]).await;
    let events = ["data:{\"token\":{\"id\":1}}\n\n", "data:{\"token\":{\"id\":2}}\n\n"];
    for body in [r#"{"inputs":"hi"}"#, r#"{"inputs":"hi","stream":true}"#] {
        replica.then(Script::stream(&events, MS));
        let answer = post(region.listen, "/generate", body).await;
        assert_eq!(answer.text(), events.concat(), "{body}");
        assert!(!answer.cut);
        // If cut after its first event, it does not end as if it were complete.
        replica.then(Script::sse().event(events[0]).wait(MS).close());
        let answer = post(region.listen, "/generate", body).await;
        assert!(answer.cut, "{body}: {:?}", answer.text());
    }
    let status = region.settled().await;
    assert_eq!((status.requests.done, status.requests.failed), (2, 2));
}

// A client that asks for a stream and is answered with one JSON object gets that object.
#[tokio::test(start_paused = true)]
async fn a_json_answer_to_a_stream_request() {
    let replica = Replica::start().await;
    let region = Region::of(&[&replica]).await;
    let body = r#"{"object":"list","data":[{"embedding":[0.5]}]}"#;
    replica.always(Script::json(200, body));
    for (path, sent) in [
        ("/v1/embeddings", r#"{"model":"m","stream":true,"input":"hi"}"#),
        (CHAT, r#"{"model":"m","stream":true,"messages":[]}"#),
    ] {
        let answer = post(region.listen, path, sent).await;
        assert_eq!((answer.text(), answer.cut), (body, false), "{path}");
    }
    assert_eq!(region.settled().await.requests.done, 2);
}

// Two replicas with different models: one list, each request to the one that serves its model.
#[tokio::test(start_paused = true)]
async fn models_are_merged_and_routed() {
    let (a, b) = (Replica::of(&["m", "left"]).await, Replica::of(&["m", "right"]).await);
    let region = Region::of(&[&a, &b]).await;
    let list = get(region.listen, "/v1/models").await.json();
    let ids: Vec<_> = list["data"].as_array().unwrap().iter().map(|m| m["id"].clone()).collect();
    assert_eq!(ids, ["m", "left", "right"]);
    let one = get(region.listen, "/v1/models/right").await;
    assert_eq!((one.status, &one.json()["id"]), (200, &"right".into()));
    assert_eq!(get(region.listen, "/v1/models/none").await.code(), "model_not_found");
    for (model, at) in [("left", &a), ("right", &b), ("left", &a), ("right", &b)] {
        let before = at.count();
        let body = format!(r#"{{"model":"{model}","messages":[]}}"#);
        assert_eq!(post(region.listen, CHAT, &body).await.status, 200);
        assert_eq!(at.count(), before + 1, "{model}");
    }
}

// The head of a chunked answer contains no length, and its trailer does no harm.
#[tokio::test(start_paused = true)]
async fn trailers_end_an_answer() {
    let replica = Replica::start().await;
    let region = Region::of(&[&replica]).await;
    let json = r#"{"choices":[]}"#;
    replica.then(
        Script::default()
            .send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n")
            .send(&chunk(json))
            .send("0\r\nx-sum: 1\r\n\r\n"),
    );
    let answer = call(region.listen, request("POST", CHAT, r#"{"model":"m","messages":[]}"#)).await;
    assert_eq!((answer.text(), answer.cut), (json, false));
    assert_eq!(region.settled().await.requests.done, 1);
}

// Defect command-line: a request that is refused has an id, too; a 400 for bad JSON had none.
#[tokio::test(start_paused = true)]
async fn refusals_have_ids() {
    let replica = Replica::start().await;
    let region = Region::of(&[&replica]).await;
    let mut ids = Vec::new();
    for (path, body, status) in [(CHAT, "{", 400), ("/no/such/path", "{}", 404)] {
        let answer = post(region.listen, path, body).await;
        assert_eq!(answer.status, status, "{}", answer.text());
        ids.push(answer.header("x-request-id").to_owned());
    }
    assert!(ids.iter().all(|id| id.starts_with("req-")) && ids[0] != ids[1], "{ids:?}");
    let mut named = request("POST", CHAT, "{");
    named.headers_mut().insert("x-request-id", "my own".parse().unwrap());
    assert_eq!(call(region.listen, named).await.header("x-request-id"), "my own");
}
