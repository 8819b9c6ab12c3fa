//! Keeps the connection for requests to a peer open: dialled before the first request, and warmed
//! up.
//!
//! Requests and the peer's news use separate connections. A megabyte ahead of a heartbeat would
//! look like a longer round trip, and would make every digest old. A request of a megabyte crosses
//! an ocean without delay only if three windows are open: HTTP/2's, which the peer's port and this
//! side set large; the kernel's buffers, which grow automatically; and TCP's congestion window,
//! which starts at some 15 KB and doubles each round trip. So a new connection first carries
//! padding (`peers.warm`). The kernel closes the window again on an idle connection unless
//! `net.ipv4.tcp_slow_start_after_idle` is 0 (docs/regions.md).

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use meridian_base::Rng;
use meridian_protocol::peer::WARM;
use tokio::time::{Instant, timeout};

use super::all::Peers;
use super::dial::{DialError, Dialled, PATIENCE, PAUSES, dial};
use super::error_chain::error_chain;
use super::line::Line;
use super::link::Link;
use crate::cause;
use crate::http::parts::Parts;
use crate::rarely::Rarely;

/// Most unread bytes of one answer in transit.
const STREAM_WINDOW: u32 = 1 << 20;
/// The same for all answers together: enough for all streams, so a client that stops reading does
/// not block the others.
const CONNECTION_WINDOW: u32 = 1 << 30;
/// Bytes of one request that are buffered ahead of the network.
const SEND_BUFFER: usize = 4 << 20;
/// Bytes of the first padding: about a new connection's window.
const WARM_FIRST: usize = 16 << 10;
/// Most cancelled requests whose last frames may still arrive.
const RESETS: usize = 1024;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error("{0}")]
    Http(#[from] hyper::Error),
    #[error("no answer within 5 s")]
    Silent,
    #[error("its certificate is revoked")]
    Revoked,
    #[error("{0}")]
    Refused(String),
}

/// Characters kept of a refusal.
const MOST_SAID: usize = 400;

/// Keeps the connection open; never returns.
pub(super) async fn keep(peers: Arc<Peers>, link: Arc<Link>, seed: u64) {
    let mut rng = Rng::new(seed);
    let (first, most) = PAUSES;
    let mut pause = first;
    let log = Rarely::default();
    loop {
        let mut opened = None;
        let problem = match one(&peers, &link, &mut opened).await {
            Ok(()) => "it was closed".to_owned(),
            Err(broken) => error_chain(&broken),
        };
        // A peer that accepts connections and closes them soon is no better than one that is down.
        let lasted = opened.is_some_and(|at: Instant| at.elapsed() > most);
        pause = if lasted { first } else { (pause * 2).min(most) };
        if let Some(unlogged) = log.due(&cause::undated(&problem)) {
            tracing::warn!(
                peer = %link.identity, error = problem, unlogged, "cannot open a connection for requests"
            );
        }
        link.rest(pause, &mut rng).await;
    }
}

/// One connection, from dialling to its end; `opened` gets the time at which it was ready.
async fn one(peers: &Peers, link: &Link, opened: &mut Option<Instant>) -> Result<(), Broken> {
    let opening = async {
        let Dialled { stream, certificate } =
            dial(&peers.tls, &link.identity, &link.address).await?;
        let revoked = peers.tls.revoked(certificate);
        let gone = peers.config.gone.0;
        let opened = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_send_buf_size(SEND_BUFFER)
            .max_concurrent_reset_streams(RESETS)
            .keep_alive_interval(gone)
            .keep_alive_timeout(gone * 2)
            .keep_alive_while_idle(true)
            .handshake(TokioIo::new(stream))
            .await?;
        Ok::<_, Broken>((opened, revoked))
    };
    let ((sender, connection), revoked) =
        timeout(PATIENCE, opening).await.map_err(|_| Broken::Silent)??;
    *opened = Some(Instant::now());
    let mut warming = std::pin::pin!(warm(sender.clone(), link, peers.config.warm.bytes()));
    link.line.set(Some(sender));
    let _down = Down(&link.line);
    let (mut connection, mut revoked) = (std::pin::pin!(connection), std::pin::pin!(revoked));
    tokio::select! {
        ended = &mut connection => {
            // The peer may have sent its reason before it closed the connection.
            warming.await?;
            return Ok(ended?);
        }
        () = &mut revoked => return Err(Broken::Revoked),
        warm = &mut warming => warm?,
    }
    tokio::select! {
        ended = &mut connection => Ok(ended?),
        () = &mut revoked => Err(Broken::Revoked),
    }
}

/// However the connection ends, it gets no request afterwards.
struct Down<'a>(&'a Line);

impl Drop for Down<'_> {
    fn drop(&mut self) {
        self.0.set(None);
    }
}

/// Sends padding, each time about as much as the window allows, so a request that arrives meanwhile
/// waits behind little of it. An older peer answers that it does not know the path, and has read
/// the bytes up to then.
async fn warm(mut sender: SendRequest<Parts>, link: &Link, bytes: usize) -> Result<(), Broken> {
    let zeros = Bytes::from(vec![0; bytes]);
    let (mut sent, mut step) = (0, WARM_FIRST);
    while sent < bytes {
        let end = bytes.min(sent + step);
        let body = Parts::single(zeros.slice(sent..end));
        let request = Request::post(link.uri(WARM)).body(body);
        let request = request.expect("the parts of a URI are fixed");
        // A broken connection reports its own error.
        let Ok(answer) = sender.send_request(request).await else { return Ok(()) };
        if answer.status() == StatusCode::FORBIDDEN {
            return Err(refused(answer).await);
        }
        if sent == 0 {
            tracing::info!(peer = %link.identity, "the connection for requests is open");
        }
        (sent, step) = (end, step * 2);
    }
    tracing::debug!(peer = %link.identity, bytes, "the connection for requests is warm");
    Ok(())
}

/// The peer rejects this gateway, and says why.
async fn refused(answer: Response<Incoming>) -> Broken {
    let body = Limited::new(answer.into_body(), 16 << 10).collect().await;
    let body = body.map(|body| body.to_bytes()).unwrap_or_default();
    let said: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
    let said = said["error"]["message"].as_str().unwrap_or("the peer refuses this gateway");
    Broken::Refused(said.chars().take(MOST_SAID).collect())
}
