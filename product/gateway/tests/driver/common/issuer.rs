//! An identity provider: serves its discovery document and its keys, exchanges them, goes down and
//! comes back.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use meridian_config::{Gateway as Config, Issuer as Section};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::tokens::Signer;

struct State {
    keys: Vec<Value>,
    is_down: bool,
    /// Fetches of the keys.
    fetched: usize,
}

pub(crate) struct Issuer {
    addr: SocketAddr,
    scheme: &'static str,
    state: Arc<Mutex<State>>,
}

impl Issuer {
    pub(crate) async fn start(signers: &[&Signer]) -> Issuer {
        Issuer::over(None, signers).await
    }

    /// Over https, if there is a server's side of TLS.
    pub(crate) async fn over(tls: Option<TlsAcceptor>, signers: &[&Signer]) -> Issuer {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let state = State { keys: Vec::new(), is_down: false, fetched: 0 };
        let state = Arc::new(Mutex::new(state));
        let scheme = if tls.is_some() { "https" } else { "http" };
        let issuer = Issuer { addr, scheme, state };
        issuer.publish(signers);
        tokio::spawn(serve(listener, tls, issuer.url(), issuer.state.clone()));
        issuer
    }

    pub(crate) fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.addr)
    }

    /// Exchanges its keys.
    pub(crate) fn publish(&self, signers: &[&Signer]) {
        self.state.lock().unwrap().keys = signers.iter().map(|signer| signer.jwk()).collect();
    }

    pub(crate) fn goes_down(&self, is_down: bool) {
        self.state.lock().unwrap().is_down = is_down;
    }

    pub(crate) fn fetched(&self) -> usize {
        self.state.lock().unwrap().fetched
    }

    /// Its section of a gateway's configuration, with further fields.
    pub(crate) fn section(&self, more: &str) -> Section {
        let yaml = format!(
            "version: 1\ntenants: [{{name: acme}}, {{name: other}}]\noidc: [{{issuer: '{}', audience: [meridian], {more}}}]\n",
            self.url()
        );
        Config::read(&yaml).unwrap().oidc.remove(0)
    }

    /// The claims of a good token for a tenant.
    pub(crate) fn claims(&self, tenant: &str) -> Value {
        #[expect(clippy::disallowed_methods, reason = "the gateway compares the dates of tokens")]
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        json!({"iss": self.url(), "aud": ["meridian"], "sub": tenant, "iat": now, "exp": now + 3600})
    }
}

async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    url: String,
    state: Arc<Mutex<State>>,
) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        if state.lock().unwrap().is_down {
            continue;
        }
        let (tls, url, state) = (tls.clone(), url.clone(), state.clone());
        tokio::spawn(async move {
            match tls {
                None => answer(stream, url, state).await,
                Some(tls) => {
                    if let Ok(stream) = tls.accept(stream).await {
                        answer(stream, url, state).await;
                    }
                }
            }
        });
    }
}

async fn answer<S>(stream: S, url: String, state: Arc<Mutex<State>>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let page = match request.uri().path() {
            "/.well-known/openid-configuration" => {
                json!({"issuer": url, "jwks_uri": format!("{url}/keys")})
            }
            "/keys" => {
                let mut state = state.lock().unwrap();
                state.fetched += 1;
                json!({"keys": state.keys})
            }
            _ => json!({}),
        };
        let answer = Response::new(Full::new(Bytes::from(page.to_string())));
        async move { Ok::<_, Infallible>(answer) }
    });
    let _ = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}
