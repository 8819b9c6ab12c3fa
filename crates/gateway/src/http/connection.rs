//! One client's connection, from its first byte to its last.

use std::sync::Arc;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::Watcher;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, sleep_until};

use super::framing::{Answer, Framing, Turn};
use super::malformed::{End, last_words};
use super::stalled::Streams;
use super::{service, stalled};
use crate::request::plane::Worker;

/// How a connection is served.
pub(crate) struct Serving {
    pub(crate) worker: Arc<Worker>,
    pub(crate) builder: Builder<Streams>,
    pub(crate) watcher: Watcher,
    /// The hash of the client's address.
    pub(crate) client: u64,
    /// When the first request has to have come.
    pub(crate) first_by: Instant,
}

/// Serves `stream` until it ends.
pub(crate) async fn converse<S>(stream: S, serving: Serving)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Serving { worker, builder, watcher, client, first_by } = serving;
    let turn = Arc::new(Turn::default());
    let (framing, mut left) = Framing::new(stream, turn.clone());
    let (of_service, service_turn) = (worker.clone(), turn.clone());
    let service = service_fn(move |request: Request<Incoming>| {
        service_turn.begin();
        let (worker, turn) = (of_service.clone(), service_turn.clone());
        async move {
            let response = service::answer(worker, request, client).await;
            stalled::note(true);
            Ok::<Response<Answer>, std::convert::Infallible>(
                response.map(|body| Answer { body, turn }),
            )
        }
    });
    let http = builder.serve_connection(TokioIo::new(framing), service).into_owned();
    // What is not chosen is dropped here, and the socket comes back.
    let end = tokio::select! {
        ended = watcher.watch(http) => {
            // Errors here are the client's end of the line: hang-ups, timeouts, no HTTP.
            if let Err(error) = &ended {
                tracing::debug!(error = %error, "connection ended");
            }
            End::Http(ended)
        }
        () = silent(first_by, &turn) => {
            tracing::debug!("no request within timeouts.client");
            End::Silent
        }
    };
    if let Ok(left) = left.try_recv() {
        // A future of its own: what it needs is not part of every connection's task.
        Box::pin(last_words(&worker, left, &end)).await;
    }
}

/// Ends when a client has not sent its first request in time. hyper bounds the head of a request,
/// but not the bytes before it that tell HTTP/1 from HTTP/2.
async fn silent(first_by: Instant, turn: &Turn) {
    sleep_until(first_by).await;
    if turn.spoke() {
        std::future::pending::<()>().await;
    }
}
