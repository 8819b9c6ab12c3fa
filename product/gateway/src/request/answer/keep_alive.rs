//! Comments for a client that waits for a stream.
//!
//! A stream whose first token takes minutes looks dead to a proxy that allows 60 s of silence, since
//! nothing leaves the gateway before the engine's first content, not even a head. With
//! `stream_keep_alive`, the head and a comment leave after that interval, and a comment follows each
//! further one without a byte. From then on the status is 200: a refusal or an engine's error becomes
//! an error event, and the headers that name the replica are not sent.
//!
//! A comment stands only between two events.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};
use http_body::{Body as _, Frame};
use meridian_protocol::openai::{Endpoint, error_event, error_event_of};
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};

use crate::http::headers;
use crate::request::answer::body::AnswerBody;
use crate::request::answer::incoming::CutShort;

const COMMENT: &[u8] = b": keep-alive\n\n";
/// Most bytes of an error that becomes an event.
const MAX_ERROR: usize = 64 << 10;

/// The response to a request, once its answer starts.
type Response200 = Pin<Box<dyn Future<Output = Response<AnswerBody>> + Send>>;

/// What the response to a stream's request needs.
pub(crate) struct Waiting {
    pub(crate) endpoint: Endpoint,
    /// When the request was read.
    pub(crate) began: Instant,
    pub(crate) every: Duration,
    pub(crate) shown_id: HeaderValue,
}

/// A stream with comments in its silences.
pub(crate) struct KeptAlive {
    source: Source,
    endpoint: Endpoint,
    every: Duration,
    silent: Pin<Box<Sleep>>,
    /// The end of the bytes that were sent, as far as it shows whether an event has ended.
    end: [u8; 2],
}

enum Source {
    /// No answer has started.
    Waiting(Response200),
    Answer(AnswerBody),
    /// A refusal or an engine's error, which becomes an event.
    Error(StatusCode, AnswerBody, BytesMut),
    Over,
}

/// Waits for the response, and answers with comments from the interval on.
pub(crate) async fn kept_alive(
    waiting: Waiting,
    mut response: Response200,
) -> Response<AnswerBody> {
    let Waiting { endpoint, began, every, shown_id } = waiting;
    let first = began + every;
    let body = |source, at| {
        let silent = Box::pin(sleep_until(at));
        let kept = KeptAlive { source, endpoint, every, silent, end: *b"\n\n" };
        AnswerBody::KeptAlive(Box::new(kept))
    };
    if let Ok(response) = timeout_at(first, &mut response).await {
        let (head, answer) = response.into_parts();
        let is_stream = head.status.is_success() && !headers::is_json(&head.headers);
        let answer = match is_stream {
            true => body(Source::Answer(answer), Instant::now() + every),
            false => answer,
        };
        return Response::from_parts(head, answer);
    }
    let mut early = Response::new(body(Source::Waiting(response), first));
    let head = early.headers_mut();
    head.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    head.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    head.insert(headers::REQUEST_ID, shown_id);
    early
}

type Piece = Option<Result<Frame<Bytes>, CutShort>>;

impl KeptAlive {
    pub(crate) fn is_over(&self) -> bool {
        match &self.source {
            Source::Over => true,
            Source::Answer(answer) => answer.is_end_stream(),
            Source::Waiting(_) | Source::Error(..) => false,
        }
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Piece> {
        if let Poll::Ready(piece) = self.poll_source(cx) {
            if let Some(Ok(frame)) = &piece {
                self.sent(frame.data_ref().map_or(b"", |data| data));
            }
            return Poll::Ready(piece);
        }
        loop {
            ready!(self.silent.as_mut().poll(cx));
            self.silent.as_mut().reset(Instant::now() + self.every);
            if self.end.ends_with(b"\n\n") {
                return Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(COMMENT)))));
            }
        }
    }

    fn poll_source(&mut self, cx: &mut Context<'_>) -> Poll<Piece> {
        loop {
            self.source = match &mut self.source {
                Source::Waiting(response) => {
                    let (head, answer) = ready!(response.as_mut().poll(cx)).into_parts();
                    match head.status.is_success() && !headers::is_json(&head.headers) {
                        true => Source::Answer(answer),
                        false => Source::Error(head.status, answer, BytesMut::new()),
                    }
                }
                Source::Answer(answer) => return Pin::new(answer).poll_frame(cx),
                Source::Error(status, answer, said) => {
                    let frame = ready!(Pin::new(answer).poll_frame(cx));
                    if let Some(Ok(frame)) = frame {
                        let data = frame.data_ref().map_or(b"" as &[u8], |data| data);
                        let room = MAX_ERROR - said.len();
                        said.extend_from_slice(&data[..data.len().min(room)]);
                        continue;
                    }
                    let event = event(self.endpoint, *status, said);
                    self.source = Source::Over;
                    return Poll::Ready(Some(Ok(Frame::data(event))));
                }
                Source::Over => return Poll::Ready(None),
            };
        }
    }

    /// These bytes were sent: the next comment is due an interval later.
    fn sent(&mut self, data: &[u8]) {
        // A carriage return is no part of the end of a line.
        let mut last = data.iter().rev().filter(|b| **b != b'\r').take(2).copied();
        match (last.next(), last.next()) {
            (Some(last), Some(before)) => self.end = [before, last],
            (Some(last), None) => self.end = [self.end[1], last],
            _ => {}
        }
        self.silent.as_mut().reset(Instant::now() + self.every);
    }
}

/// The event of a response that is not a stream.
fn event(endpoint: Endpoint, status: StatusCode, said: &[u8]) -> Bytes {
    if status.is_success() {
        let message = "the engine answered with one object in place of a stream; retry the request";
        return error_event(endpoint, 502, "not_a_stream", message);
    }
    let code = status.as_u16();
    error_event_of(endpoint, said).unwrap_or_else(|| {
        let message = format!("the engine answered {status}; retry the request");
        error_event(endpoint, code, "engine_error", &message)
    })
}
