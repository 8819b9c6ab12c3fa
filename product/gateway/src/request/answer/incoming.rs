//! An answer as it arrives from a replica or a peer: pieces, trailers, its end, or a break.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use http_body::Body as _;

use crate::replicas::upstream::Flow;
use crate::request::answer::odd::{Odd, Oddity};
use crate::request::answer::silence::Silence;

/// An answer whose head has arrived.
pub(crate) struct Incoming {
    flow: Flow,
    /// The first piece, until it is sent.
    first: Option<Bytes>,
    silence: Silence,
    /// Checks the answers of replicas; a peer's gateway checks its own.
    oddity: Option<Oddity>,
}

/// The next event of an answer.
pub(crate) enum Event {
    Piece(Bytes),
    Trailers(HeaderMap),
    End,
    /// It broke off, for this reason.
    Broken(&'static str),
}

/// The answer was cut short after bytes were sent; the connection is closed to signal that.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the replica's answer was cut off")]
pub(crate) struct CutShort;

impl Incoming {
    pub(crate) fn new(
        flow: Flow,
        first: Option<Bytes>,
        silence: Silence,
        oddity: Option<Oddity>,
    ) -> Incoming {
        Incoming { flow, first, silence, oddity }
    }

    #[inline]
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        if let Some(piece) = self.first.take() {
            self.silence.heard();
            return Poll::Ready(Event::Piece(piece));
        }
        Poll::Ready(match Pin::new(&mut self.flow).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                self.silence.heard();
                match frame.into_data() {
                    Ok(data) => Event::Piece(data),
                    Err(frame) => Event::Trailers(frame.into_trailers().unwrap_or_default()),
                }
            }
            Poll::Ready(None) => Event::End,
            Poll::Ready(Some(Err(_))) => Event::Broken("the replica's answer stopped early"),
            Poll::Pending => Event::Broken(ready!(self.silence.poll(cx))),
        })
    }

    /// A body of known length may never be polled for its end.
    pub(crate) fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.flow.is_end_stream()
    }

    /// Checks for anything odd; none in a peer's answer.
    pub(crate) fn odd(&mut self, look: impl FnOnce(&mut Oddity) -> Option<Odd>) -> Option<Odd> {
        self.oddity.as_mut().and_then(look)
    }
}
