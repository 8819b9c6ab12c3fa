//! A client with a connection for each request, and the recorded requests.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{HeaderMap, Request, client::conn::http1::handshake};
use hyper_util::rt::TokioIo;
use meridian_mock::Engine;
use serde_json::Value;
use tokio::net::TcpStream;

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// None if the engine refuses the connection or closes it without an answer.
async fn call(engine: &Engine, request: Request<Full<Bytes>>) -> Option<Answer> {
    let stream = TcpStream::connect(engine.addr()).await.ok()?;
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await.ok()?;
    // In one task: when the caller stops waiting, the connection ends.
    let exchange = async move {
        let response = sender.send_request(request).await.ok()?;
        let (head, body) = response.into_parts();
        let body = body.collect().await.ok()?.to_bytes().to_vec();
        let body = String::from_utf8(body).unwrap();
        Some(Answer { status: head.status.as_u16(), headers: head.headers, body })
    };
    tokio::join!(exchange, connection).0
}

pub(crate) async fn get(engine: &Engine, path: &str) -> Answer {
    call(engine, Request::get(path).body(Full::default()).unwrap()).await.unwrap()
}

pub(crate) async fn post(engine: &Engine, path: &str, body: &Value) -> Option<Answer> {
    let request = Request::post(path).header("content-type", "application/json");
    call(engine, request.body(Full::from(body.to_string())).unwrap()).await
}

/// The body with another value of a member.
pub(crate) fn with(body: &Value, member: &str, value: impl Into<Value>) -> Value {
    let mut body = body.clone();
    body[member] = value.into();
    body
}

/// Sends the recorded prefill leg; returns its parameters and the recorded decode leg's body.
pub(crate) async fn prefill(engine: &Engine, name: &str) -> (Value, Value) {
    let recorded = recording(name);
    let leg = &recorded["prefill_request"];
    let answer = post(engine, leg["path"].as_str().unwrap(), &leg["body"]).await.unwrap();
    (answer.json()["kv_transfer_params"].take(), recorded["decode_request"]["body"].clone())
}

pub(crate) const NAMES: [&str; 8] = [
    "completions",
    "completions-again",
    "chat-stream",
    "chat-logprobs",
    "completions-batch",
    "completions-n2",
    "responses",
    "messages",
];

/// A recording with all that the two folders have of it.
pub(crate) fn recording(name: &str) -> Value {
    let read = |path: &str| {
        let path = format!("{}/{path}", env!("CARGO_MANIFEST_DIR"));
        serde_json::from_str::<Value>(&std::fs::read_to_string(path).unwrap()).unwrap()
    };
    let mut whole = read(&format!("../protocol/src/legs/tests/recorded/{name}.json"));
    let answers = read("recordings/answers.json");
    let own = answers.as_array().unwrap().iter().find(|one| one["name"] == name).unwrap();
    whole.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
    whole
}
