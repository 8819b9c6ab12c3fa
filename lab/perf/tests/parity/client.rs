//! A client of text completions. A prompt is one string, so its blocks are those of the program's
//! segments, without a chat's roles in between.

use std::net::SocketAddr;

use http::Request;
use http_body_util::BodyExt;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use meridian_workload::{Piece, Walk, write_text};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::Instant;

/// A complete answer.
pub(crate) struct Answer {
    /// The replica's number in the region that answered.
    pub(crate) replica: u32,
    /// The number of the replica that computed the prompt, if that was another one.
    pub(crate) prefill: Option<u32>,
    /// The region of the peer that answered; `None` if the gateway's own region did.
    pub(crate) peer: Option<String>,
    /// The reason for this replica.
    pub(crate) reason: String,
    /// In percent.
    pub(crate) matched: u32,
    pub(crate) prompt: u32,
    pub(crate) cached: u32,
    pub(crate) text: String,
    /// When the first token arrived.
    pub(crate) first: Instant,
}

/// The request for a program's node.
pub(crate) fn body(walk: &Walk<String>, node: usize) -> String {
    let mut prompt = String::new();
    for piece in walk.prompt(node) {
        match piece {
            Piece::Text(segment) => write_text(&mut prompt, segment.id, segment.bytes),
            Piece::Reply(reply) => prompt.push_str(reply),
        }
    }
    let max_tokens = walk.program().nodes[node].max_tokens;
    let options = json!({"include_usage": true});
    json!({
        "model": "llama-3.1-8b", "prompt": prompt, "max_tokens": max_tokens,
        "stream": true, "stream_options": options,
    })
    .to_string()
}

/// A connection of its own for one request.
async fn connect(to: SocketAddr) -> SendRequest<String> {
    let stream = TcpStream::connect(to).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let (sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(async move {
        // A broken connection shows in the answer.
        let _ = connection.await;
    });
    sender
}

/// The attempts that failed at a gateway, by its own counters.
pub(crate) async fn failed_attempts(admin: SocketAddr) -> f64 {
    let request = Request::get("/metrics").header("host", "localhost").body(String::new()).unwrap();
    let response = connect(admin).await.send_request(request).await.unwrap();
    assert_eq!(response.status(), 200);
    let page = response.into_body().collect().await.unwrap().to_bytes();
    let page = std::str::from_utf8(&page).unwrap();
    let sum = |name: &str| -> f64 {
        let value = |line: &str| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap();
        page.lines().filter(|line| line.starts_with(name)).map(value).sum()
    };
    // A counter that nothing has counted yet is not on the page.
    assert!(sum("meridian_requests_total") > 0.0, "{page}");
    sum("meridian_retries_total") + sum("meridian_prefill_fallbacks_total")
}

/// Sends a request and reads the stream to its end.
pub(crate) async fn ask(gateway: SocketAddr, session: &str, body: String) -> Answer {
    let mut sender = connect(gateway).await;
    let request = Request::post("/v1/completions")
        .header("host", "gateway")
        .header("x-session-id", session)
        .body(body)
        .unwrap();
    let response = sender.send_request(request).await.unwrap();
    assert_eq!(response.status(), 200);
    let header = |name| response.headers()[name].to_str().unwrap().to_owned();
    let number = |name: &str| {
        let label = response.headers().get(name)?.to_str().unwrap();
        Some(label.strip_prefix('r').unwrap().parse().unwrap())
    };
    let (replica, prefill) = (number("x-meridian-replica"), number("x-meridian-prefill-replica"));
    let matched = header("x-meridian-prefix-match");
    let reason = header("x-meridian-reason");
    let peer = response.headers().get("x-meridian-peer").map(|peer| {
        let (region, _) = peer.to_str().unwrap().split_once('/').unwrap();
        region.to_owned()
    });
    let (mut first, mut events, mut body) = (None, Vec::new(), response.into_body());
    while let Some(frame) = body.frame().await {
        first.get_or_insert_with(Instant::now);
        events.extend_from_slice(&frame.unwrap().into_data().unwrap());
    }
    let (text, usage) = read(std::str::from_utf8(&events).unwrap());
    let count = |value: &Value| u32::try_from(value.as_u64().unwrap()).unwrap();
    Answer {
        replica: replica.unwrap(),
        prefill,
        peer,
        reason,
        matched: (matched.parse::<f64>().unwrap() * 100.0).round() as u32,
        prompt: count(&usage["prompt_tokens"]),
        cached: count(&usage["prompt_tokens_details"]["cached_tokens"]),
        text,
        first: first.unwrap(),
    }
}

/// Text and usage of a stream.
fn read(events: &str) -> (String, Value) {
    let (mut text, mut usage) = (String::new(), Value::Null);
    let data = events.split("\n\n").filter_map(|event| event.strip_prefix("data: "));
    for event in data.filter(|event| *event != "[DONE]") {
        let event: Value = serde_json::from_str(event).unwrap();
        text.push_str(event["choices"][0]["text"].as_str().unwrap_or_default());
        if event["usage"].is_object() {
            usage = event["usage"].clone();
        }
    }
    (text, usage)
}
