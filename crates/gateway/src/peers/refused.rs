//! Refusing connections at the peer port: the log is told now and then, and a gateway that is not
//! listed is told the remedy.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use meridian_wire::openai::Endpoint;
use meridian_wire::peer::{FOLLOW, Identity};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tokio_rustls::server::TlsStream;
use tonic::Status;
use tonic::body::Body;

use super::dial::PATIENCE;
use crate::http::refusal::Refusal;
use crate::lock::Mutex;

/// Between two lines in the log about one gateway, and about all strangers together.
const PAUSE: Duration = Duration::from_secs(60);
/// Gateways that have lines of their own; further ones count as strangers.
const MOST: usize = 64;

/// When the log was last told, by who was refused; the empty name stands for strangers.
#[derive(Default)]
pub(super) struct Refusals(Mutex<BTreeMap<String, Told>>);

struct Told {
    at: Instant,
    since: u64,
}

impl Refusals {
    /// Whether the log is to be told of a refusal, and of how many before that it was not.
    fn due(&self, who: &str) -> Option<u64> {
        let now = Instant::now();
        let mut told = self.0.lock();
        told.retain(|_, told| now - told.at < 10 * PAUSE);
        let who = if told.len() < MOST || told.contains_key(who) { who } else { "" };
        match told.get_mut(who) {
            Some(told) if now - told.at < PAUSE => {
                told.since += 1;
                None
            }
            Some(told) => {
                told.at = now;
                Some(std::mem::take(&mut told.since))
            }
            None => {
                told.insert(who.to_owned(), Told { at: now, since: 0 });
                Some(0)
            }
        }
    }

    /// Something without a gateway's certificate.
    pub(super) fn stranger(&self, address: &str, error: &dyn std::fmt::Display) {
        if let Some(unlogged) = self.due("") {
            tracing::warn!(%address, %error, unlogged, "a stranger was refused at the peer port");
        }
    }

    /// A gateway that is not listed.
    fn unlisted(&self, address: &str, gateway: &Identity) {
        if let Some(unlogged) = self.due(&gateway.to_string()) {
            tracing::warn!(
                %address, %gateway, unlogged,
                "a gateway that is not listed was refused at the peer port; name it in \
                 peers.gateways or peers.accept, or let both follow one control plane"
            );
        }
    }
}

/// Answers the first request of a gateway that is not listed with the reason, and hangs up.
pub(super) async fn unlisted(
    refusals: &Refusals,
    stream: TlsStream<TcpStream>,
    address: &str,
    own: &Identity,
    from: &Identity,
) {
    refusals.unlisted(address, from);
    let message = format!(
        "gateway {own} does not list {from}; name it there in peers.gateways or peers.accept, or \
         let both follow one control plane"
    );
    let answered = Notify::new();
    let service = service_fn(|request: Request<Incoming>| {
        answered.notify_one();
        let message = message.clone();
        async move {
            let path = request.uri().path();
            Ok::<_, Infallible>(if path == FOLLOW {
                Status::permission_denied(message).into_http::<Body>()
            } else {
                let refusal = Refusal::new(StatusCode::FORBIDDEN, "not_listed", message);
                refusal.response::<Full<Bytes>>(Endpoint::of(path)).map(Body::new)
            })
        }
    });
    let mut http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    http.timer(TokioTimer::new()).max_concurrent_streams(1);
    let mut serving = std::pin::pin!(http.serve_connection(TokioIo::new(stream), service));
    let refusing = async {
        tokio::select! {
            _ = serving.as_mut() => return,
            () = answered.notified() => {}
        }
        serving.as_mut().graceful_shutdown();
        // What breaks now broke on the other side.
        let _ = serving.await;
    };
    let _ = timeout(PATIENCE, refusing).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    // One line a minute for each gateway and one for all strangers, with the number of those left
    // out; a crowd of names stays within the bound.
    #[tokio::test(start_paused = true)]
    async fn the_log_is_told_now_and_then() {
        let refusals = Refusals::default();
        assert_eq!(refusals.due("eu/eu-1"), Some(0));
        assert_eq!(refusals.due("eu/eu-1"), None);
        assert_eq!((refusals.due("uk/uk-1"), refusals.due("")), (Some(0), Some(0)));
        tokio::time::sleep(PAUSE).await;
        assert_eq!(refusals.due("eu/eu-1"), Some(1));
        for n in 0..10 * MOST {
            let _ = refusals.due(&format!("eu/g{n}"));
        }
        assert!(refusals.0.lock().len() <= MOST + 1);
    }
}
