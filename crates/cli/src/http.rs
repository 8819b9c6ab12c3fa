//! One small request, for commands that ask a gateway something.

use anyhow::Context;
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

/// The status and the text of `GET url`.
pub(crate) fn get(url: &str) -> anyhow::Result<(u16, String)> {
    let uri = url.parse().with_context(|| format!("`{url}` is no URL; write http://host:port"))?;
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let client: Client<_, Empty<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
        let response = client.get(uri).await?;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await?.to_bytes();
        Ok((status, String::from_utf8_lossy(&body).into_owned()))
    })
}
