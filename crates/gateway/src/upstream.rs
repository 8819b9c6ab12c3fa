//! Connections to replicas: pooled, TCP_NODELAY, cancelled by being dropped.

use std::time::Duration;

use http::{HeaderMap, Method, Request, Response, Uri, uri::Authority};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};

use crate::body::Parts;
use crate::error::AttemptError;

#[derive(Clone)]
pub(crate) struct Upstream {
    client: Client<HttpConnector, Parts>,
}

/// A pooled connection unused for this long is closed: below the 60 s after which engines'
/// servers close theirs, so that a request seldom meets a connection that is just going away.
const POOL_IDLE: Duration = Duration::from_secs(30);

impl Upstream {
    pub(crate) fn new(connect: Duration) -> Upstream {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(connect));
        connector.set_keepalive(Some(Duration::from_secs(60)));
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(POOL_IDLE)
            .build(connector);
        Upstream { client }
    }

    /// Sends a request and waits for the head of its answer.
    pub(crate) async fn send(
        &self,
        replica: &Authority,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: Parts,
    ) -> Result<Response<Incoming>, AttemptError> {
        let uri =
            Uri::builder().scheme("http").authority(replica.clone()).path_and_query(path).build();
        let uri =
            uri.map_err(|e| AttemptError::replica(format!("{path} cannot be sent on: {e}")))?;
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        self.client.request(request).await.map_err(|e| AttemptError::replica(describe(&e)))
    }

    /// Gets a small page within `limit`.
    pub(crate) async fn get(
        &self,
        replica: &Authority,
        path: &str,
        limit: Duration,
    ) -> Result<Page, AttemptError> {
        let whole = async {
            let empty = Parts::new(Default::default());
            let response = self.send(replica, Method::GET, path, HeaderMap::new(), empty).await?;
            let status = response.status();
            let body = Limited::new(response.into_body(), MOST_PAGE).collect().await;
            let body =
                body.map_err(|e| AttemptError::replica(format!("GET {path}: {e}")))?.to_bytes();
            Ok(Page { status, body })
        };
        match tokio::time::timeout(limit, whole).await {
            Ok(page) => page,
            Err(_) => Err(AttemptError::replica(format!(
                "GET {path}: no answer within {} ms",
                limit.as_millis()
            ))),
        }
    }
}

/// Largest status page read, bytes: vLLM's metrics with many LoRA labels stay well below.
const MOST_PAGE: usize = 8 << 20;

pub(crate) struct Page {
    pub(crate) status: http::StatusCode,
    pub(crate) body: bytes::Bytes,
}

/// An error with its innermost cause: hyper's outermost says little.
fn describe(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    format!("{error}: {cause}")
}
