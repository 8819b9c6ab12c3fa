//! A small HTTP client for the fleet's own processes on loopback.
//!
//! Connections are not reused unless the client was made for that: requests are rare, and a kept
//! connection to a killed process would make a later request fail.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client as Hyper;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::de::DeserializeOwned;

use crate::sse::Events;
use crate::{Error, Event, Result, Scrape};

/// Timeout of a cheap request.
const QUESTION_LIMIT: Duration = Duration::from_secs(20);

/// Sends requests to processes over HTTP.
#[derive(Debug, Clone)]
pub struct Client {
    hyper: Hyper<HttpConnector, Full<Bytes>>,
}

/// A complete answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body's bytes, unchanged.
    pub body: Bytes,
}

/// An answer that is still streaming.
#[derive(Debug)]
pub struct Stream {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    url: String,
    body: Incoming,
    events: Events,
}

impl Default for Client {
    fn default() -> Client {
        Client::new()
    }
}

impl Client {
    /// A client without any connection.
    pub fn new() -> Client {
        Client::with(0)
    }

    /// A client that reuses its connections, as clients of an API do.
    pub(crate) fn keeping() -> Client {
        Client::with(usize::MAX)
    }

    fn with(idle: usize) -> Client {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let builder = &mut Hyper::builder(TokioExecutor::new());
        Client { hyper: builder.pool_max_idle_per_host(idle).build(connector) }
    }

    /// GET, as JSON; any status but 200 is an error.
    pub async fn json<T: DeserializeOwned>(&self, url: &str) -> Result<T> {
        let answer = self.get(url).await?;
        serde_json::from_slice(&answer.body).map_err(|source| Error::Answer {
            url: url.to_owned(),
            what: format!("unexpected JSON: {source}"),
        })
    }

    /// GET of a metrics page.
    pub async fn scrape(&self, url: &str) -> Result<Scrape> {
        let url = format!("{url}/metrics");
        let answer = self.get(&url).await?;
        Ok(Scrape::new(String::from_utf8_lossy(&answer.body).into_owned()))
    }

    /// GET, complete; any status but 200 is an error.
    pub async fn get(&self, url: &str) -> Result<Answer> {
        let ask = async { self.send(Method::GET, url, Bytes::new(), &[]).await?.whole().await };
        let answer =
            tokio::time::timeout(QUESTION_LIMIT, ask).await.map_err(|_| Error::Http {
                method: "GET",
                url: url.to_owned(),
                source: format!("no answer within {QUESTION_LIMIT:?}").into(),
            })??;
        if answer.status != 200 {
            let what = format!("status {}", answer.status);
            return Err(Error::Answer { url: url.to_owned(), what });
        }
        Ok(answer)
    }

    /// GET; returns when the answer's head has arrived.
    pub async fn follow(&self, url: &str) -> Result<Stream> {
        self.send(Method::GET, url, Bytes::new(), &[]).await
    }

    /// POST of a JSON body; returns the complete answer, whatever its status.
    pub async fn post(&self, url: &str, body: impl Into<Bytes>) -> Result<Answer> {
        self.open(url, body, &[]).await?.whole().await
    }

    /// PUT of a JSON body; returns the complete answer, whatever its status.
    pub async fn put(&self, url: &str, body: impl Into<Bytes>) -> Result<Answer> {
        self.send(Method::PUT, url, body.into(), &[]).await?.whole().await
    }

    /// POST of a JSON body with additional headers; returns when the answer's head has arrived.
    pub async fn open(
        &self,
        url: &str,
        body: impl Into<Bytes>,
        headers: &[(&str, &str)],
    ) -> Result<Stream> {
        self.send(Method::POST, url, body.into(), headers).await
    }

    async fn send(
        &self,
        method: Method,
        url: &str,
        body: Bytes,
        headers: &[(&str, &str)],
    ) -> Result<Stream> {
        let mut request = Request::builder().method(&method).uri(url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if method != Method::GET {
            request = request.header("content-type", "application/json");
        }
        let request = request.body(Full::new(body)).map_err(|e| failed(url, e))?;
        let answer = self.hyper.request(request).await.map_err(|e| failed(url, e))?;
        let (head, body) = answer.into_parts();
        Ok(Stream {
            status: head.status.as_u16(),
            headers: head.headers,
            url: url.to_owned(),
            body,
            events: Events::default(),
        })
    }
}

impl Answer {
    /// The value of a header, if present and text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The body as JSON; null if it is not JSON.
    pub fn value(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

impl Stream {
    /// The value of a header, if present and text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The next event; none when the stream has ended properly, an error if it broke off.
    pub async fn next(&mut self) -> Result<Option<Event>> {
        loop {
            if let Some(event) = self.events.next() {
                return Ok(Some(event));
            }
            let Some(frame) = self.body.frame().await else { return Ok(None) };
            let frame = frame.map_err(|e| failed(&self.url, e))?;
            if let Some(data) = frame.data_ref() {
                self.events.push(data);
            }
        }
    }

    /// The next bytes, as they come; none when the stream has ended properly.
    pub async fn bytes(&mut self) -> Result<Option<Bytes>> {
        while let Some(frame) = self.body.frame().await {
            let frame = frame.map_err(|e| failed(&self.url, e))?;
            if let Ok(data) = frame.into_data() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }

    /// The rest of the answer in one piece.
    pub async fn whole(self) -> Result<Answer> {
        let body = self.body.collect().await.map_err(|e| failed(&self.url, e))?.to_bytes();
        Ok(Answer { status: self.status, headers: self.headers, body })
    }
}

fn failed(url: &str, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::Http { method: "asking", url: url.to_owned(), source: source.into() }
}
