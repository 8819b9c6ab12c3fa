//! The port for peers: mutual TLS, then HTTP/2.
//!
//! The peer's identity is known before any HTTP is read, and applies to the whole connection. The
//! windows are large enough to send a prompt of a megabyte without waiting for the other side of an
//! ocean.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use meridian_protocol::peer::{Ask, FOLLOW, Identity, MOST_MESSAGE, Tell, WARM};
use meridian_tls::NameError;
use rustls::pki_types::CertificateDer;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::server::TlsStream;
use tonic::body::Body;

use super::all::Peers;
use super::codec::Messages;
use super::dial::{PATIENCE, remedy};
use super::follow::FollowService;
use super::inbound::Forwards;
use super::{inbound, refused};
use crate::descriptors::PEER_CONNECTIONS;
use crate::http::connection_slots::{ConnectionSlot, ConnectionSlots};
use crate::http::limits::Bound;
use crate::rarely::Rarely;
use crate::replicas::region::Region;

/// Most unread bytes of a request in transit.
const STREAM_WINDOW: u32 = 4 << 20;
/// The same for all requests of a connection.
const CONNECTION_WINDOW: u32 = 64 << 20;
/// Most concurrent requests of a connection.
const STREAMS: u32 = 1024;
/// Most cancelled requests that are not handled yet. Against untrusted clients this limit would
/// have to be small; here it must suffice for a gateway many of whose clients leave at once.
const RESETS: usize = STREAMS as usize;
/// Most connections whose certificate has not been seen, from other machines and from this one each.
const STRANGERS: usize = 64;
/// Most bytes of padding accepted to warm a connection.
const MOST_WARM: usize = 16 << 20;

/// The port and its handlers.
#[derive(Clone)]
pub(super) struct Port<F> {
    pub(super) peers: Arc<Peers>,
    pub(super) region: Arc<Region>,
    pub(super) forwards: F,
}

/// Accepts peers until the shutdown starts, so that a successor can listen on the address while
/// this gateway drains. Accepted connections stay open.
pub(super) async fn serve<F: Forwards>(port: Port<F>, listener: TcpListener) {
    let listed = usize::from(PEER_CONNECTIONS) - 2 * STRANGERS;
    let (places, log) = (ConnectionSlots::new(STRANGERS, listed), Rarely::each_second());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = port.region.draining.started() => return,
        };
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(error = %error, "cannot accept a peer");
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            }
        };
        let (place, is_full) = places.enter(address.ip().is_loopback());
        if is_full && let Some(unlogged) = log.due("") {
            tracing::warn!(
                limit = STRANGERS, %address, unlogged,
                "too many connections to the peer port without a certificate; closed the oldest"
            );
        }
        tokio::spawn(one(port.clone(), stream, place));
    }
}

/// One connection, from its first byte to its last.
async fn one<F: Forwards>(port: Port<F>, stream: TcpStream, place: Arc<ConnectionSlot>) {
    let (peers, over) = (port.peers.clone(), port.region.over.clone());
    let address = stream.peer_addr().map(|a| a.to_string()).unwrap_or_default();
    let _ = stream.set_nodelay(true);
    let serving = async {
        let shaken = timeout(PATIENCE, peers.tls.acceptor().accept(stream)).await;
        let stream = match shaken {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => match remedy(&error) {
                Some(remedy) => return peers.refusals.stranger(&address, &remedy),
                None => return peers.refusals.stranger(&address, &error),
            },
            Err(_) => return,
        };
        let (from, certificate) = match certified(&stream) {
            Ok(certified) => certified,
            Err(error) => return peers.refusals.stranger(&address, &error),
        };
        if !peers.listed.has(&from) {
            let own = &peers.tls.identity;
            return refused::unlisted(&peers.refusals, stream, &address, own, &from).await;
        }
        place.prove();
        let revoked = peers.tls.revoked(certificate);
        tokio::select! {
            // Checked first: the list may have changed during the handshake.
            biased;
            () = revoked => {
                tracing::warn!(peer = %from, "closed a peer's connection: its certificate is revoked");
            }
            () = talk(port, stream, from.clone()) => {}
        }
    };
    tokio::select! {
        () = serving => {}
        () = place.lost() => {}
        () = over.cancelled() => {}
    }
}

/// The identity in the other side's certificate, and the certificate.
fn certified(
    stream: &TlsStream<TcpStream>,
) -> Result<(Identity, CertificateDer<'static>), NameError> {
    let (_, session) = stream.get_ref();
    let shown = session.peer_certificates().and_then(|chain| chain.first());
    let identity = meridian_tls::identity(shown)?;
    Ok((identity, shown.ok_or(NameError::None)?.clone().into_owned()))
}

async fn talk<F: Forwards>(port: Port<F>, stream: TlsStream<TcpStream>, from: Identity) {
    let mut http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    http.timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_concurrent_streams(STREAMS)
        .max_pending_accept_reset_streams(RESETS)
        .max_header_list_size(u32::try_from(port.forwards.header_bytes()).unwrap_or(u32::MAX))
        .keep_alive_interval(port.peers.config.gone.0)
        .keep_alive_timeout(port.peers.config.gone.0);
    let peer = from.clone();
    let streams = Bound::new(1);
    let service = service_fn(move |request: Request<Incoming>| {
        let (port, from, streams) = (port.clone(), from.clone(), streams.clone());
        async move {
            let Port { peers, region, forwards, .. } = port;
            Ok::<_, Infallible>(match request.uri().path() {
                FOLLOW => {
                    let follow = FollowService { region, peers, from, permit: streams.take(1) };
                    let mut grpc = tonic::server::Grpc::new(Messages::<Tell, Ask>::default())
                        .max_decoding_message_size(MOST_MESSAGE);
                    grpc.streaming(follow, request).await
                }
                WARM => warmed(request.into_body()).await,
                _ => inbound::take(&forwards, &peers, &from, request).await.map(Body::new),
            })
        }
    });
    if let Err(error) = http.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(%peer, error = %error, "a peer's connection ended");
    }
}

/// Reads and discards a peer's padding.
async fn warmed(body: Incoming) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    let mut left = Limited::new(body, MOST_WARM);
    while let Some(frame) = left.frame().await {
        if frame.is_err() {
            *response.status_mut() = StatusCode::PAYLOAD_TOO_LARGE;
            return response;
        }
    }
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}
