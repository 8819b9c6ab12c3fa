//! Refuses connections at the peer port. It logs refusals at a limited rate, and answers a gateway
//! that is not listed with the remedy.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use meridian_protocol::openai::Endpoint;
use meridian_protocol::peer::{FOLLOW, Identity};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_rustls::server::TlsStream;
use tonic::Status;
use tonic::body::Body;

use super::dial::PATIENCE;
use crate::rarely::Rarely;
use crate::refusal::Refusal;

/// Log lines by gateway; the empty name stands for unidentified clients.
#[derive(Default)]
pub(super) struct Refusals(Rarely);

impl Refusals {
    /// A client without a gateway's certificate.
    pub(super) fn stranger(&self, address: &str, error: &dyn std::fmt::Display) {
        if let Some(unlogged) = self.0.due("") {
            tracing::warn!(%address, %error, unlogged, "refused a connection without a valid certificate at the peer port");
        }
    }

    /// A gateway that is not listed.
    fn unlisted(&self, address: &str, gateway: &Identity) {
        if let Some(unlogged) = self.0.due(&gateway.to_string()) {
            tracing::warn!(
                %address, %gateway, unlogged,
                "refused a gateway that is not listed; add it to peers.gateways or peers.accept, or let both follow one control plane"
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
        "gateway {own} does not list {from}; add it there to peers.gateways or peers.accept, or let both follow one control plane"
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
