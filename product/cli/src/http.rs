//! One small HTTP request, for commands that ask a gateway or a control plane.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::client::legacy::{self, Client};
use hyper_util::rt::TokioExecutor;
use meridian_protocol::peer::control_name;
use meridian_tls::Files;
use rustls::pki_types::ServerName;
use tokio::time::error::Elapsed;

/// Timeout of a request, whose answer is cheap for the server.
const PATIENCE: Duration = Duration::from_secs(20);
/// Timeout for connecting: a machine that is switched off does not even refuse.
const CONNECT: Duration = Duration::from_secs(5);
const _: () = assert!(CONNECT.as_secs() < PATIENCE.as_secs(), "time is left for the answer");

/// The server answered, and the answer did not arrive whole.
#[derive(Clone, Copy, Debug)]
struct BrokenOff;

impl fmt::Display for BrokenOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the answer broke off")
    }
}

/// Whether the request may have reached the server before this error: a change may have been made.
pub fn may_have_arrived(error: &anyhow::Error) -> bool {
    let failed = error.downcast_ref::<legacy::Error>();
    failed.is_some_and(|error| !error.is_connect())
        || error.is::<Elapsed>()
        || error.is::<BrokenOff>()
}

/// How the server of an https address is verified.
pub enum Secured<'a> {
    /// The control plane of the fleet in our own certificate, at any address.
    Control(&'a Files),
    /// A gateway, whose certificate names the host of the address.
    Gateway { ca: &'a Path, own: Option<&'a Files> },
}

/// Sends a request with a JSON body to `url`; returns the status and the body of the answer.
pub fn ask(
    method: &str,
    url: &str,
    token: Option<&str>,
    secured: Option<Secured<'_>>,
    body: String,
) -> anyhow::Result<(u16, String)> {
    let uri: http::Uri =
        url.parse().with_context(|| format!("`{url}` is not a URL; write http://host:port"))?;
    let mut request = http::Request::builder().method(method).uri(uri);
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    if !body.is_empty() {
        request = request.header("content-type", "application/json");
    }
    let request = request.body(Full::new(Bytes::from(body)));
    let request =
        request.with_context(|| format!("`{url}` can't be requested; write http://host:port"))?;
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let builder = Client::builder(TokioExecutor::new());
        let limit = || format!("no answer within {PATIENCE:?}");
        let asked = async {
            match secured {
                None => answer(builder.build(tcp()), request).await,
                Some(secured) => answer(builder.build(connector(&secured)?), request).await,
            }
        };
        tokio::time::timeout(PATIENCE, asked).await.with_context(limit)?
    })
}

async fn answer<C>(
    client: Client<C, Full<Bytes>>,
    request: http::Request<Full<Bytes>>,
) -> anyhow::Result<(u16, String)>
where
    C: Connect + Clone + Send + Sync + 'static,
{
    let response = client.request(request).await?;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.context(BrokenOff)?.to_bytes();
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}

fn connector(secured: &Secured<'_>) -> anyhow::Result<HttpsConnector<HttpConnector>> {
    let files = match secured {
        Secured::Control(files) => files,
        Secured::Gateway { ca, own } => {
            let config = match own {
                Some(files) => meridian_tls::client(files, files.read()?, &[])?,
                None => meridian_tls::open_client("-", ca, &[])?,
            };
            let builder = HttpsConnectorBuilder::new().with_tls_config(config);
            return Ok(builder.https_only().enable_http1().wrap_connector(tcp()));
        }
    };
    let named = files.read()?;
    let own = meridian_tls::party(named.certificate());
    let own = own.map_err(|error| files.error("certificate", error))?;
    let config = meridian_tls::client(files, named, &[])?;
    let name = ServerName::try_from(control_name(own.fleet())).context("the fleet's name")?;
    Ok(HttpsConnectorBuilder::new()
        .with_tls_config(config)
        .https_only()
        .with_server_name_resolver(FixedServerNameResolver::new(name))
        .enable_http1()
        .wrap_connector(tcp()))
}

fn tcp() -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.set_connect_timeout(Some(CONNECT));
    // Schemes are checked around it.
    tcp.enforce_http(false);
    tcp
}

/// The message of an error in OpenAI's form.
pub fn message(body: &str) -> String {
    let value: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
    value["error"]["message"].as_str().unwrap_or(body).to_owned()
}
