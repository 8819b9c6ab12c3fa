//! Fetches the keys of an issuer by HTTP: the discovery document (OpenID Connect Discovery 1.0),
//! then the JWKS that it names.
//!
//! Redirects are not followed, and nothing is sent but the path. The CA file is read for each
//! fetch, so a replaced one is used from the next fetch on.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use meridian_config::issuer_url;
use meridian_tls::{of_machine, open_client};
use rustls::pki_types::ServerName;
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::issuer::Site;

/// Time for both documents.
const PATIENCE: Duration = Duration::from_secs(10);
/// Largest document, bytes.
const MOST: usize = 1 << 20;

const PROTOCOLS: &[&[u8]] = &[b"http/1.1"];

/// The discovery document, as far as it is read.
#[derive(Deserialize)]
struct Discovery {
    issuer: String,
    jwks_uri: String,
}

/// The JWKS of an issuer.
///
/// # Errors
/// The reason why there is none, for the log and the status page.
pub(super) async fn key_set(site: &Site) -> Result<Bytes, String> {
    let fetched = timeout(PATIENCE, fetch(site)).await;
    fetched.unwrap_or_else(|_| Err(format!("no answer within {} s", PATIENCE.as_secs())))
}

async fn fetch(site: &Site) -> Result<Bytes, String> {
    let ca = site.ca.clone();
    let client = tokio::task::spawn_blocking(move || match ca {
        Some(ca) => open_client("oidc", &ca, PROTOCOLS)
            .map_err(|error| format!("{}: {}", ca.display(), error.problem)),
        None => of_machine(PROTOCOLS),
    });
    let client = client.await.map_err(|_| "the CA file cannot be read".to_owned())??;
    let tls = TlsConnector::from(Arc::new(client));
    let keys = match &site.keys {
        Some(keys) => keys.clone(),
        None => discovered(site, &get(&tls, &site.discovery).await?)?,
    };
    get(&tls, &keys).await
}

/// The URL of the keys in the discovery document.
fn discovered(site: &Site, json: &[u8]) -> Result<String, String> {
    let url = &site.discovery;
    let found: Discovery = serde_json::from_slice(json)
        .map_err(|_| format!("{url}: the answer is not an OpenID configuration"))?;
    // Section 4.3: otherwise one issuer could speak for another.
    if found.issuer != site.issuer {
        let named: String = found.issuer.chars().take(200).collect();
        return Err(format!("{url}: names the issuer `{named}`; write that in `oidc`"));
    }
    issuer_url(&found.jwks_uri).map_err(|problem| format!("{url}: jwks_uri: {problem}"))?;
    Ok(found.jwks_uri)
}

/// The body of a page.
async fn get(tls: &TlsConnector, url: &str) -> Result<Bytes, String> {
    let of = |problem: String| format!("{url}: {problem}");
    // The configuration or the discovery document was checked.
    let uri = issuer_url(url).map_err(of)?;
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let is_tls = uri.scheme_str() == Some("https");
    let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
    let stream = TcpStream::connect((host.as_str(), port)).await;
    let stream = stream.map_err(|e| of(format!("cannot connect: {e}")))?;
    if !is_tls {
        return page(stream, &uri).await.map_err(of);
    }
    let name = ServerName::try_from(host).map_err(|_| of("the host is not a name".to_owned()))?;
    let stream = tls.connect(name, stream).await;
    let stream = stream.map_err(|e| of(format!("no TLS: {e}; name its CA in `ca`")))?;
    page(stream, &uri).await.map_err(of)
}

async fn page<S>(stream: S, uri: &Uri) -> Result<Bytes, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let request = Request::get(path)
        .header(header::HOST, authority)
        .header(header::ACCEPT, "application/json")
        .header(header::USER_AGENT, concat!("meridian/", env!("CARGO_PKG_VERSION")))
        .body(Empty::<Bytes>::new())
        .map_err(|e| e.to_string())?;
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await.map_err(plain)?;
    let exchange = async {
        let answer = sender.send_request(request).await.map_err(plain)?;
        let status = answer.status();
        if status.is_redirection() {
            return Err(format!("answers {status}; redirects are not followed, name the target"));
        }
        if status != StatusCode::OK {
            return Err(format!("answers {status}"));
        }
        let body = Limited::new(answer.into_body(), MOST).collect().await;
        Ok(body.map_err(|e| format!("the answer cannot be read: {e}"))?.to_bytes())
    };
    let mut connection = std::pin::pin!(connection);
    let mut exchange = std::pin::pin!(exchange);
    tokio::select! {
        biased;
        answer = &mut exchange => answer,
        ended = &mut connection => match ended {
            // The whole answer may have arrived.
            Ok(()) => exchange.await,
            Err(error) => Err(plain(error)),
        },
    }
}

fn plain(error: hyper::Error) -> String {
    format!("no answer: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    // The discovery document has to be the issuer's own, and its keys have to be safe on their way.
    #[test]
    fn discovery_is_checked() {
        let site = Site {
            issuer: "https://a.example".to_owned(),
            discovery: "https://a.example/.well-known/openid-configuration".to_owned(),
            keys: None,
            ca: None,
        };
        let of = |json: &str| discovered(&site, json.as_bytes());
        let good = r#"{"issuer":"https://a.example","jwks_uri":"https://a.example/k","x":1}"#;
        assert_eq!(of(good).as_deref(), Ok("https://a.example/k"));
        for (json, says) in [
            ("<html>", "the answer is not an OpenID configuration"),
            (r#"{"issuer":"https://a.example"}"#, "is not an OpenID configuration"),
            (r#"{"issuer":"https://a.example/","jwks_uri":"https://a/k"}"#, "names the issuer"),
            (r#"{"issuer":"https://a.example","jwks_uri":"http://a/k"}"#, "is not https"),
        ] {
            let error = of(json).expect_err(json);
            assert!(error.contains(says), "{error}");
        }
    }
}
