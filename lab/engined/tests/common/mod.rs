//! An engine and a client joined by a pipe in memory, so that there is only paused time.
#![allow(dead_code, reason = "each test file uses its own part")]

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use meridian_engine::{Config, Profile};
use meridian_engined::{Options, Service};
use std::convert::Infallible;

pub(crate) fn options() -> Options {
    Options::new(Config::new(Profile::named("llama-3.1-8b", "l4", 1).unwrap()))
}

/// One connection to an engine.
pub(crate) struct Client(SendRequest<Full<Bytes>>);

impl Client {
    pub(crate) async fn connect(service: &Service) -> Client {
        let (near, far) = tokio::io::duplex(1 << 20);
        let service = service.clone();
        let handler = service_fn(move |request| {
            let service = service.clone();
            async move { Ok::<_, Infallible>(service.handle(request).await) }
        });
        tokio::spawn(async move {
            let server = hyper::server::conn::http1::Builder::new();
            // Some tests disconnect the client in mid-stream.
            let _ = server.serve_connection(TokioIo::new(far), handler).await;
        });
        Client::over(near).await
    }

    pub(crate) async fn over<T>(io: T) -> Client
    where
        T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(io)).await.unwrap();
        tokio::spawn(async move {
            let _ = connection.await;
        });
        Client(sender)
    }

    pub(crate) async fn send(&mut self, request: Request<Full<Bytes>>) -> Response<Incoming> {
        self.0.ready().await.unwrap();
        self.0.send_request(request).await.unwrap()
    }

    pub(crate) async fn post(&mut self, path: &str, body: &str) -> Response<Incoming> {
        let body = Full::new(Bytes::copy_from_slice(body.as_bytes()));
        self.send(Request::post(path).header("host", "engine").body(body).unwrap()).await
    }

    pub(crate) async fn get(&mut self, path: &str) -> (u16, String) {
        let request = Request::get(path).header("host", "engine").body(Full::default()).unwrap();
        read(self.send(request).await).await
    }

    /// Posts, and returns the status and the answer as JSON.
    pub(crate) async fn json(&mut self, path: &str, body: &str) -> (u16, serde_json::Value) {
        let (status, text) = read(self.post(path, body).await).await;
        (status, serde_json::from_str(&text).unwrap())
    }

    /// The value of one sample of the metrics page.
    pub(crate) async fn metric(&mut self, sample: &str) -> f64 {
        let (_, page) = self.get("/metrics").await;
        let line = page.lines().find(|line| line.starts_with(sample));
        let line = line.unwrap_or_else(|| panic!("{sample} is not on the page"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }
}

pub(crate) async fn read(response: Response<Incoming>) -> (u16, String) {
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

/// The events of a stream, each without `data: `.
pub(crate) fn events(stream: &str) -> Vec<&str> {
    stream.split("\n\n").filter_map(|event| event.strip_prefix("data: ")).collect()
}

pub(crate) fn chat(messages: &[(&str, &str)], rest: &str) -> String {
    let messages: Vec<_> = messages
        .iter()
        .map(|(role, content)| serde_json::json!({"role": role, "content": content}))
        .collect();
    format!(
        "{{\"model\":\"llama-3.1-8b\",\"messages\":{}{rest}}}",
        serde_json::Value::from(messages)
    )
}
