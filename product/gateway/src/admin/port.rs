//! Accepts connections to the admin port, over TLS if certificates are configured.

use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::pages::{Admin, Answer, answer};
use super::tls::{AdminTls, Caller};
use crate::http::connection_slots::ConnectionSlots;
use crate::rarely::Rarely;

/// Timeout for a client's TLS handshake, and for the head of a request.
const HEAD: Duration = Duration::from_secs(5);
/// How long a client may leave its answer unread.
const UNREAD: Duration = Duration::from_secs(10);
/// Most connections to the admin port whose clients have not been admitted, from other machines and
/// from this one each.
const STRANGERS: usize = 64;
/// Most connections of admitted clients.
const ADMITTED: usize = 128;

/// Serves the admin port over TLS if certificates are configured. It accepts connections until the
/// shutdown starts, so that a successor can listen on the address while this gateway drains, and
/// serves the accepted ones until `over` is cancelled.
pub(crate) async fn serve(
    admin: Arc<Admin>,
    tls: Option<Arc<AdminTls>>,
    listener: TcpListener,
    over: CancellationToken,
) {
    let (places, log) = (ConnectionSlots::new(STRANGERS, ADMITTED), Rarely::each_second());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = admin.replicas.region.draining.started() => return,
        };
        let Ok((stream, address)) = accepted else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let (place, is_full) = places.enter(address.ip().is_loopback());
        if is_full && let Some(unlogged) = log.due("") {
            tracing::warn!(
                limit = STRANGERS, %address, unlogged,
                "too many silent connections to the admin port; closed the oldest"
            );
        }
        let (admin, tls, over) = (admin.clone(), tls.clone(), over.clone());
        let port = stream.local_addr().map_or(0, |own| own.port());
        let _ = sockopt::set_tcp_user_timeout(&stream, UNREAD.as_millis() as u32);
        tokio::spawn(async move {
            let talk = async {
                let caller =
                    Caller { address, port, tls: false, party: None, place: place.clone() };
                match &tls {
                    None => answer_connection(&admin, stream, caller).await,
                    Some(tls) => {
                        let Some(met) = tls.meet(stream, HEAD).await else { return };
                        let revoked = tls.revoked(&met);
                        let caller = Caller { tls: true, party: met.party, ..caller };
                        tokio::select! {
                            // Checked first: the list may have changed during the handshake.
                            biased;
                            () = revoked => {
                                tracing::warn!(%address, "closed a connection to the admin port: its certificate is revoked");
                            }
                            () = answer_connection(&admin, met.stream, caller) => {}
                        }
                    }
                }
            };
            tokio::select! {
                () = talk => {}
                () = place.lost() => {}
                () = over.cancelled() => {}
            }
        });
    }
}

/// Answers one connection to the admin port.
async fn answer_connection<S>(admin: &Arc<Admin>, stream: S, caller: Caller)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let caller = Arc::new(caller);
    let service = service_fn(move |request: Request<Incoming>| {
        let (admin, caller) = (admin.clone(), caller.clone());
        async move {
            let answer = answer(&admin, &caller, request).await;
            Ok::<Response<Answer>, std::convert::Infallible>(answer)
        }
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD);
    // An error ends the connection.
    let _ = http.serve_connection(TokioIo::new(stream), service).await;
}
