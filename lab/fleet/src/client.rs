//! A small HTTP client for questions to the fleet's processes.
//!
//! Connections are not reused unless the client was made for that: requests are rare, and a kept
//! connection to a killed process would make a later request fail.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as Hyper;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::de::DeserializeOwned;

use crate::sse::{Lines, TooLong};
use crate::{Error, Event, Result, Scrape};

/// Timeout of a cheap request.
const QUESTION_LIMIT: Duration = Duration::from_secs(20);

/// Sends requests to processes over HTTP.
#[derive(Debug, Clone)]
pub struct Client {
    hyper: Hyper<HttpsConnector<HttpConnector>, Full<Bytes>>,
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
    lines: Lines,
    /// Read and not yet taken.
    events: VecDeque<Event>,
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
    pub fn keeping() -> Client {
        Client::with(usize::MAX)
    }

    /// A client that trusts this authority alone.
    ///
    /// # Errors
    /// If the file has no certificate.
    pub fn trusting(ca: &Path) -> Result<Client> {
        let config = meridian_tls::open_client("client", ca, &[])?;
        let builder = HttpsConnectorBuilder::new().with_tls_config(config);
        Ok(Client::over(builder.https_or_http().enable_http1().wrap_connector(tcp()), 0))
    }

    fn with(idle: usize) -> Client {
        // The roots are read once: clients are made for single questions.
        static PUBLIC: LazyLock<HttpsConnector<HttpConnector>> = LazyLock::new(|| {
            let builder = HttpsConnectorBuilder::new().with_webpki_roots();
            builder.https_or_http().enable_http1().wrap_connector(tcp())
        });
        Client::over(PUBLIC.clone(), idle)
    }

    /// A client with its own way to connect, which keeps so many connections.
    pub(crate) fn over(connector: HttpsConnector<HttpConnector>, idle: usize) -> Client {
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

    /// Sends a request, with a JSON body unless it is a GET or the headers name another type; returns when the
    /// answer's head has arrived.
    pub async fn send(
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
        let is_named = headers.iter().any(|(name, _)| *name == "content-type");
        if method != Method::GET && !is_named {
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
            lines: Lines::default(),
            events: VecDeque::new(),
        })
    }
}

impl Answer {
    /// The value of a header, if present and text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The events of a streamed answer.
    pub fn events(&self) -> Vec<Event> {
        let mut events = VecDeque::new();
        // The body is complete, so a line that is too long is the last.
        let _ = read_events(&mut Lines::default(), &self.body, &mut events);
        events.into()
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
            if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            }
            let Some(frame) = self.body.frame().await else { return Ok(None) };
            let frame = frame.map_err(|e| failed(&self.url, e))?;
            if let Some(data) = frame.data_ref() {
                let read = read_events(&mut self.lines, data, &mut self.events);
                read.map_err(|error| failed(&self.url, error))?;
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

/// Adds the events that `bytes` complete.
fn read_events(
    lines: &mut Lines,
    bytes: &[u8],
    events: &mut VecDeque<Event>,
) -> std::result::Result<(), TooLong> {
    lines.push(bytes, &mut |data| {
        events.push_back(Event { data: String::from_utf8_lossy(data).into_owned() });
        true
    })
}

/// TCP below TLS, which checks the schemes.
pub(crate) fn tcp() -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp
}

pub(crate) fn failed(
    url: &str,
    source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> Error {
    Error::Http { method: "asking", url: url.to_owned(), source: source.into() }
}
