//! One small request, for commands that ask a gateway or a control plane something.

use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

/// The longest wait for an answer that costs nothing.
const PATIENCE: Duration = Duration::from_secs(20);

/// The status and the text of `GET url`.
pub(crate) fn get(url: &str) -> anyhow::Result<(u16, String)> {
    ask("GET", url, None, String::new())
}

/// The status and the text of what `url` answers to a request with JSON.
pub(crate) fn ask(
    method: &str,
    url: &str,
    token: Option<&str>,
    body: String,
) -> anyhow::Result<(u16, String)> {
    let uri: http::Uri =
        url.parse().with_context(|| format!("`{url}` is no URL; write http://host:port"))?;
    let mut request = http::Request::builder().method(method).uri(uri);
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let request = request.body(Full::new(Bytes::from(body)));
    let request = request.with_context(|| format!("`{url}` can't be asked"))?;
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let client: Client<_, Full<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
        let asked = async {
            let response = client.request(request).await?;
            let status = response.status().as_u16();
            let body = response.into_body().collect().await?.to_bytes();
            anyhow::Ok((status, String::from_utf8_lossy(&body).into_owned()))
        };
        let limit = || format!("no answer within {PATIENCE:?}");
        tokio::time::timeout(PATIENCE, asked).await.with_context(limit)?
    })
}

/// The message of an error in OpenAI's form.
pub(crate) fn message(body: &str) -> String {
    let value: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
    value["error"]["message"].as_str().unwrap_or(body).to_owned()
}
