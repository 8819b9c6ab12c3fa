//! One client's connection, from its first byte to its last.
//!
//! What a connection holds while it is idle counts thousands of times, so its large parts are boxed:
//! a future has room for every value that it once moved.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::framing::{Answer, Framing, Left, Turn, unused};
use super::malformed::{Client, End, last_words, most_fields};
use super::opening::Opening;
use super::stalled::{self, Streams};
use crate::metrics::Metrics;
use crate::settings::Settings;

/// The answers to the requests of a connection.
pub(crate) trait Answers: Send + Sync + 'static {
    /// Body type of the answers.
    type Body: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static;

    /// Answers one request; `client` is the hash of the client's address.
    fn answer(
        &self,
        request: Request<Incoming>,
        client: u64,
    ) -> impl Future<Output = Response<Self::Body>> + Send;

    /// Counts the answers to requests that can't be read.
    fn metrics(&self) -> &Metrics;
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Settings for serving a connection.
pub(crate) struct Serving<A> {
    pub(crate) answers: Arc<A>,
    /// The settings at its start.
    pub(crate) settings: Arc<Settings>,
    /// Changes when the gateway shuts down; the shutdown waits until this is dropped.
    pub(crate) closing: watch::Receiver<()>,
    /// The hash of the client's address.
    pub(crate) client: u64,
    /// Deadline of the first request.
    pub(crate) first_by: Instant,
}

/// Serves `stream` until it ends.
pub(crate) async fn converse<S, A>(mut stream: S, mut serving: Serving<A>)
where
    A: Answers,
    S: AsyncRead + AsyncWrite + Client + Unpin + Send + 'static,
{
    let mut opening = Opening::default();
    let opened = tokio::select! {
        biased;
        opened = timeout_at(serving.first_by, opening.read(&mut stream)) => opened,
        _ = serving.closing.changed() => return,
    };
    let (settings, answers) = (serving.settings.clone(), serving.answers.clone());
    let ended = match opened {
        // Many health checks only connect.
        Ok(Ok(())) if opening.is_empty() => return,
        Ok(Ok(())) => serve(stream, opening, serving).await,
        Ok(Err(error)) => return tracing::debug!(error = %error, "connection ended"),
        Err(_) => {
            tracing::debug!("no request within timeouts.client");
            drop(serving);
            let in_head = !opening.is_empty() && !opening.is_like_http2();
            Some((End::Silent, Left { io: stream, held_back: false, in_head }))
        }
    };
    if let Some((end, left)) = ended {
        // A boxed future, so its state is not part of every connection's task.
        Box::pin(last_words(&settings, answers.metrics(), left, &end)).await;
    }
}

/// Serves requests until the connection's end. Returns how it ended, and the socket if hyper has
/// returned it.
async fn serve<S, A>(stream: S, opening: Opening, serving: Serving<A>) -> Option<(End, Left<S>)>
where
    A: Answers,
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Serving { answers, settings, closing, client, first_by } = serving;
    let (turn, is_http2) = (Arc::new(Turn::default()), opening.is_http2());
    let (framing, mut left) = Framing::new(stream, opening, turn.clone());
    let answering_turn = turn.clone();
    let answer = service_fn(move |request: Request<Incoming>| {
        let served = answering_turn.begin(request.version());
        let answers = answers.clone();
        // Boxed: it has the state of a whole request, some 9 KB, which connections without a request
        // and those that stream an answer do not need.
        Box::pin(async move {
            let response = answers.answer(request, client).await;
            stalled::note(true);
            Ok::<Response<Answer<A::Body>>, std::convert::Infallible>(
                response.map(|body| Answer { body, _served: served }),
            )
        })
    });
    let io = TokioIo::new(framing);
    let limits = Limits { closing, turn, first_by, patience: settings.timeouts.client.0 };
    let end = match is_http2 {
        true => limits.drive(Box::pin(http2(&settings).serve_connection(io, answer))).await,
        false => limits.drive(Box::pin(http1(&settings).serve_connection(io, answer))).await,
    };
    Some((end, left.try_recv().ok()?))
}

fn http1(settings: &Settings) -> http1::Builder {
    let headers = settings.head_bytes;
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(settings.timeouts.client.0)
        .max_buf_size(headers)
        // The buffer alone does not limit a head that arrives in one read.
        .max_header_size(headers)
        .max_headers(most_fields(headers));
    builder
}

fn http2(settings: &Settings) -> http2::Builder<Streams> {
    let mut builder = http2::Builder::new(Streams::new(settings.timeouts.idle.0));
    builder
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(settings.head_bytes).unwrap_or(u32::MAX))
        .max_concurrent_streams(256)
        .keep_alive_interval(Some(Duration::from_secs(30)));
    builder
}

/// What else ends a connection.
struct Limits {
    closing: watch::Receiver<()>,
    turn: Arc<Turn>,
    first_by: Instant,
    /// How long it may be without a request.
    patience: Duration,
}

impl Limits {
    /// Serves a connection to its end. It is dropped here, so that the socket comes back.
    async fn drive<C>(mut self, mut http: Pin<Box<C>>) -> End
    where
        C: GracefulConnection<Error = hyper::Error>,
    {
        let (first_by, turn) = (self.first_by, self.turn.clone());
        tokio::select! {
            ended = self.until_unused(http.as_mut()) => {
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
        }
    }

    /// The connection is closed after its current requests when the gateway shuts down or when it was
    /// idle for `patience`. A client that stays longer than another `patience` is cut off.
    async fn until_unused<C>(&mut self, mut http: Pin<&mut C>) -> hyper::Result<()>
    where
        C: GracefulConnection<Error = hyper::Error>,
    {
        let is_unused = tokio::select! {
            biased;
            ended = http.as_mut() => return ended,
            _ = self.closing.changed() => false,
            () = unused(&self.turn, self.patience) => true,
        };
        http.as_mut().graceful_shutdown();
        tokio::select! {
            ended = http => ended,
            () = unused(&self.turn, self.patience), if is_unused => Ok(()),
        }
    }
}

/// Completes when a client has not sent its first request in time. hyper limits the time for each head
/// of HTTP/1, but not for the frames before HTTP/2's first request.
async fn silent(first_by: Instant, turn: &Turn) {
    sleep_until(first_by).await;
    if turn.spoke() {
        std::future::pending::<()>().await;
    }
}
