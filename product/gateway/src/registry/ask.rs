//! Sends single requests to the control plane, each on its own connection: they are rare, and a
//! kept connection to a restarted process would make the next request fail.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use meridian_config as config;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::lost::Lost;
use super::planes::Planes;
use super::secured::Secured;

/// Largest answer, bytes: the registry of a hundred thousand replicas.
const MOST: usize = 64 << 20;
/// Characters kept of a refusal.
const MOST_SAID: usize = 400;

/// The head of an answer, and the rest as it streams.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Incoming,
    _connection: Connection,
}

/// A connection's task, which ends with its answer.
struct Connection(tokio::task::JoinHandle<()>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Addresses and certificates of the control planes. Each request names one by its place in the
/// configuration.
pub(super) struct ControlPlane {
    pub(super) planes: Planes,
    pub(super) config: config::Registry,
    /// Set for https.
    pub(super) tls: Option<Secured>,
}

impl ControlPlane {
    /// Sends a request and waits for the head of the answer.
    pub(super) async fn open(
        &self,
        at: usize,
        method: Method,
        path: &str,
        body: Bytes,
        limit: Duration,
    ) -> Result<Answer, Lost> {
        let asked = timeout(limit, self.send(at, method, path, body)).await;
        asked.map_err(|_| Lost::Late(limit))?
    }

    /// Sends a request and parses the answer.
    pub(super) async fn ask<T: DeserializeOwned>(
        &self,
        at: usize,
        method: Method,
        path: &str,
        body: Bytes,
        limit: Duration,
    ) -> Result<T, Lost> {
        let asked = async {
            let answer = self.send(at, method, path, body).await?;
            let Answer { status, body, _connection } = answer;
            read_body(status, body).await
        };
        let bytes = timeout(limit, asked).await.map_err(|_| Lost::Late(limit))??;
        serde_json::from_slice(&bytes).map_err(|error| Lost::Form(error.to_string()))
    }

    async fn send(
        &self,
        at: usize,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Answer, Lost> {
        let authority = self.planes.authority(at);
        let stream = TcpStream::connect(authority.as_str()).await.map_err(Lost::Connect)?;
        stream.set_nodelay(true).map_err(Lost::Connect)?;
        let (mut sender, connection) = match &self.tls {
            None => begin(stream, std::future::pending()).await?,
            Some(tls) => {
                let (stream, revoked) = tls.connect(stream).await.map_err(Lost::Connect)?;
                begin(stream, revoked).await?
            }
        };
        let mut request =
            Request::builder().method(method).uri(path).header(header::HOST, authority.as_str());
        if !body.is_empty() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        if let Some(token) = &self.config.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {}", token.expose()));
        }
        let request = request.body(Full::new(body));
        let request = request.expect("names, numbers and a checked token make a request");
        let (head, body) = sender.send_request(request).await?.into_parts();
        Ok(Answer { status: head.status.as_u16(), body, _connection: connection })
    }
}

/// Speaks HTTP over a connection, until its certificate is `revoked`.
async fn begin<S>(
    stream: S,
    revoked: impl Future<Output = ()> + Send + 'static,
) -> Result<(SendRequest<Full<Bytes>>, Connection), hyper::Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let task = tokio::spawn(async move {
        tokio::select! {
            // The request itself reports the error.
            _ = connection => {}
            () = revoked => {}
        }
    });
    Ok((sender, Connection(task)))
}

/// The body of an answer, unless it is a refusal.
pub(super) async fn read_body(status: u16, body: Incoming) -> Result<Bytes, Lost> {
    let bytes = Limited::new(body, MOST).collect().await;
    let bytes = bytes.map_err(|error| Lost::Form(error.to_string()))?.to_bytes();
    if (200..300).contains(&status) { Ok(bytes) } else { Err(refused(status, &bytes)) }
}

fn refused(status: u16, body: &[u8]) -> Lost {
    let said: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let word = |name: &str| {
        let text = said["error"][name].as_str().unwrap_or_default();
        text.chars().take(MOST_SAID).collect()
    };
    Lost::Refused { status, code: word("code"), message: word("message") }
}
