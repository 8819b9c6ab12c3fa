//! Refuses connections at the peer port. It logs refusals at a limited rate, and answers a gateway
//! that is not listed with the remedy.

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

/// Interval between two log lines about one gateway, and about all unidentified clients together.
const PAUSE: Duration = Duration::from_secs(60);
/// Gateways with log lines of their own; further ones count as unidentified.
const MOST: usize = 64;

/// Time of the last log line, by name; the empty name stands for unidentified clients.
#[derive(Default)]
pub(super) struct Refusals(Mutex<BTreeMap<String, Told>>);

struct Told {
    at: Instant,
    since: u64,
}

impl Refusals {
    /// Whether to log a refusal now, and how many earlier ones were not logged.
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

    /// A client without a gateway's certificate.
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

/// Answers the first request of a gateway that is not listed with the reason, and closes the
/// connection.
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
        // Errors from here on are the other side's.
        let _ = serving.await;
    };
    let _ = timeout(PATIENCE, refusing).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    // One line per minute for each gateway and one for all unidentified clients, with the number of
    // omitted ones; many different names stay within the limit.
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
