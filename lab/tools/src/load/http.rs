//! The HTTP client: one pool of keep-alive connections, TCP_NODELAY, bounded connects.

use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use http::Uri;
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};

/// Largest body read whole (model lists, status pages, plain answers).
pub(crate) const MAX_BODY: usize = 64 << 20;

/// A client for http and https.
pub type Http = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// Makes the client.
pub fn client(connect_timeout: Duration) -> Http {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(connect_timeout));
    let tls = hyper_rustls::HttpsConnectorBuilder::new()
        .with_webpki_roots()
        .https_or_http()
        .enable_http1()
        .wrap_connector(tcp);
    Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(Duration::from_secs(30))
        .pool_max_idle_per_host(usize::MAX)
        .build(tls)
}

/// The address of `path` below `base`.
pub(crate) fn join(base: &str, path: &str) -> anyhow::Result<Uri> {
    let full = format!("{}{path}", base.trim_end_matches('/'));
    let uri: Uri = full
        .parse()
        .with_context(|| format!("{base:?} is not a URL: give it as http://host:port"))?;
    if uri.scheme().is_none() || uri.host().is_none() {
        bail!("{base:?} is not a whole URL: give it as http://host:port");
    }
    Ok(uri)
}

/// Gets a JSON document within `limit`.
pub(crate) async fn get_json(
    http: &Http,
    uri: Uri,
    api_key: Option<&str>,
    limit: Duration,
) -> anyhow::Result<serde_json::Value> {
    let body = get(http, &uri, api_key, limit).await;
    body.and_then(|body| Ok(serde_json::from_slice(&body)?))
        .with_context(|| format!("GET {uri} failed"))
}

/// Gets a page within `limit`; a status of failure is an error.
pub(crate) async fn get(
    http: &Http,
    uri: &Uri,
    api_key: Option<&str>,
    limit: Duration,
) -> anyhow::Result<Bytes> {
    // A kept connection may be closed by the server's idle timeout just as the next page is asked
    // for, so each page has a connection of its own.
    let mut request = http::Request::get(uri).header("connection", "close");
    if let Some(key) = api_key {
        request = request.header("authorization", format!("Bearer {key}"));
    }
    let request = request.body(Full::default()).context("the API key is not a header value")?;
    let work = async {
        let response = http.request(request).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_BODY).collect().await;
        let body = body.map_err(|e| anyhow::anyhow!("reading the body: {e}"))?.to_bytes();
        if !status.is_success() {
            bail!("status {status}");
        }
        Ok(body)
    };
    let done = tokio::time::timeout(limit, work).await;
    done.unwrap_or_else(|_| bail!("no answer within {limit:?}"))
}
