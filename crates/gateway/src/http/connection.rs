//! One client's connection, from its first byte to its last.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulConnection;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::framing::{Answer, Framing, Turn, unused};
use super::malformed::{End, last_words};
use super::service::Service;
use super::stalled::{self, Streams};
use crate::request::settings::Settings;

/// Settings for serving a connection.
pub(crate) struct Serving {
    pub(crate) service: Arc<Service>,
    /// The settings at its start.
    pub(crate) settings: Arc<Settings>,
    pub(crate) builder: Builder<Streams>,
    /// Changes when the gateway shuts down; the shutdown waits until this is dropped.
    pub(crate) closing: watch::Receiver<()>,
    /// The hash of the client's address.
    pub(crate) client: u64,
    /// Deadline of the first request.
    pub(crate) first_by: Instant,
}

/// Serves `stream` until it ends.
pub(crate) async fn converse<S>(stream: S, serving: Serving)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Serving { service, settings, builder, closing, client, first_by } = serving;
    let turn = Arc::new(Turn::default());
    let (framing, mut left) = Framing::new(stream, turn.clone());
    let (answering, answering_turn) = (service.clone(), turn.clone());
    let answer = service_fn(move |request: Request<Incoming>| {
        let served = answering_turn.begin(request.version());
        let service = answering.clone();
        // Boxed: it has the state of a whole request, some 9 KB, which connections without a request
        // and those that stream an answer do not need.
        Box::pin(async move {
            let response = service.answer(request, client).await;
            stalled::note(true);
            Ok::<Response<Answer>, std::convert::Infallible>(
                response.map(|body| Answer { body, _served: served }),
            )
        })
    });
    let http = builder.serve_connection(TokioIo::new(framing), answer).into_owned();
    let patience = settings.timeouts.client.0;
    // The branch that is not chosen is dropped here, and the socket comes back.
    let end = tokio::select! {
        ended = until_unused(http, closing, &turn, patience) => {
            // These errors are on the client's side: hang-ups, timeouts, invalid HTTP.
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
        // A boxed future, so its state is not part of every connection's task.
        Box::pin(last_words(&settings, &service.metrics, left, &end)).await;
    }
}

/// Serves a connection to its end. The connection is closed after its current requests when the
/// gateway shuts down or when it was idle for `patience`. A client that stays longer than another
/// `patience` is cut off.
async fn until_unused<C: GracefulConnection>(
    http: C,
    mut closing: watch::Receiver<()>,
    turn: &Turn,
    patience: Duration,
) -> Result<(), C::Error> {
    let mut http = pin!(http);
    let is_unused = tokio::select! {
        biased;
        ended = http.as_mut() => return ended,
        _ = closing.changed() => false,
        () = unused(turn, patience) => true,
    };
    http.as_mut().graceful_shutdown();
    tokio::select! {
        ended = http => ended,
        () = unused(turn, patience), if is_unused => Ok(()),
    }
}

/// Completes when a client has not sent its first request in time. hyper limits the time for a
/// request's head, but not for the bytes before it that tell HTTP/1 from HTTP/2.
async fn silent(first_by: Instant, turn: &Turn) {
    sleep_until(first_by).await;
    if turn.spoke() {
        std::future::pending::<()>().await;
    }
}
