//! Test clients. Each request has its own connection, which ends with it.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

/// A complete answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// The connection broke before the end.
    pub(crate) cut: bool,
}

impl Answer {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.text()))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |v| v.to_str().unwrap())
    }

    /// `error.code` of OpenAI's error form; checks that the other members are present.
    pub(crate) fn code(&self) -> String {
        let json = self.json();
        let error = json.get("error").unwrap_or_else(|| panic!("no error: {json}"));
        assert!(error["message"].is_string() && error["type"].is_string(), "{json}");
        assert!(error.get("param").is_some(), "{json}");
        error["code"].as_str().unwrap().to_owned()
    }
}

/// An answer that has started. Dropping it disconnects the client.
pub(crate) struct Open {
    pub(crate) head: http::response::Parts,
    body: Incoming,
    _connection: HangUp,
}

impl Open {
    /// The next piece; none at the end, an error if cut short.
    pub(crate) async fn piece(&mut self) -> Option<Result<Bytes, hyper::Error>> {
        let frame = self.body.frame().await?;
        Some(frame.map(|f| f.into_data().unwrap_or_default()))
    }

    /// Reads until the text contains `end`.
    pub(crate) async fn read_to(&mut self, end: &str) -> String {
        let mut text = String::new();
        while !text.contains(end) {
            let piece = self.piece().await.unwrap_or_else(|| panic!("ended after {text:?}"));
            text.push_str(std::str::from_utf8(&piece.unwrap()).unwrap());
        }
        text
    }

    pub(crate) async fn rest(mut self) -> Answer {
        let (mut body, mut cut) = (Vec::new(), false);
        while let Some(piece) = self.piece().await {
            match piece {
                Ok(piece) => body.extend_from_slice(&piece),
                Err(_) => {
                    cut = true;
                    break;
                }
            }
        }
        let Open { head, .. } = self;
        Answer { status: head.status.as_u16(), headers: head.headers, body: body.into(), cut }
    }
}

pub(crate) async fn open<B>(addr: SocketAddr, request: Request<B>) -> Open
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: std::error::Error + Send + Sync,
{
    let stream = TcpStream::connect(addr).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    let connection = HangUp(tokio::spawn(async move {
        // A broken connection shows in the answer.
        let _ = connection.await;
    }));
    let response: Response<Incoming> =
        sender.send_request(request).await.unwrap_or_else(|e| panic!("no answer: {e:?}"));
    let (head, body) = response.into_parts();
    Open { head, body, _connection: connection }
}

/// Closes a connection when its client is dropped, before the answer's head or after.
struct HangUp(JoinHandle<()>);

impl Drop for HangUp {
    fn drop(&mut self) {
        self.0.abort();
    }
}

pub(crate) async fn call<B>(addr: SocketAddr, request: Request<B>) -> Answer
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: std::error::Error + Send + Sync,
{
    open(addr, request).await.rest().await
}

pub(crate) fn request(method: &str, path: &str, body: &str) -> Request<Full<Bytes>> {
    let builder = Request::builder().method(method).uri(path).header("host", "localhost");
    builder.body(Full::new(Bytes::copy_from_slice(body.as_bytes()))).unwrap()
}

pub(crate) async fn get(addr: SocketAddr, path: &str) -> Answer {
    call(addr, request("GET", path, "")).await
}

pub(crate) async fn post(addr: SocketAddr, path: &str, body: &str) -> Answer {
    call(addr, request("POST", path, body)).await
}

/// A chat of one message for model `m`.
pub(crate) fn chat(text: &str) -> Request<Full<Bytes>> {
    let body = format!(r#"{{"model":"m","messages":[{{"role":"user","content":"{text}"}}]}}"#);
    request("POST", "/v1/chat/completions", &body)
}

/// The same, answered as a stream; it asks for usage itself, so nothing is spliced.
pub(crate) fn stream_chat(text: &str) -> Request<Full<Bytes>> {
    let body = format!(
        r#"{{"model":"m","stream":true,"stream_options":{{"include_usage":true}},"messages":[{{"role":"user","content":"{text}"}}]}}"#
    );
    request("POST", "/v1/chat/completions", &body)
}

/// The events of a stream, without `data: `.
pub(crate) fn events(stream: &str) -> Vec<&str> {
    let data = |event: &str| event.find("data: ").map(|at| at + 6);
    stream.split("\n\n").filter_map(|e| data(e).map(|at| &e[at..])).collect()
}

/// A body in pieces, without a length.
pub(crate) struct Pieces(pub(crate) std::collections::VecDeque<Bytes>);

impl From<Vec<Bytes>> for Pieces {
    fn from(pieces: Vec<Bytes>) -> Pieces {
        Pieces(pieces.into())
    }
}

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        std::task::Poll::Ready(self.0.pop_front().map(|piece| Ok(http_body::Frame::data(piece))))
    }
}
