//! An engine's answer to a client's mistake, which passes unread: nothing is learned from it.
//!
//! The engine may send its body slowly. Until the last byte is out the request counts as in flight
//! and keeps its place in `limits.requests`.

use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::Frame;
use meridian_routing::Outcome;

use crate::machine::ticket::{Details, Ticket};
use crate::request::answer::incoming::{CutShort, Event, Incoming};
use crate::request::reserved::Reserved;
use crate::request::send::transport::AnsweredBy;

/// An answer that passes unread.
pub(crate) struct Unread {
    incoming: Incoming,
    /// `None` once the answer is out.
    open: Option<Open>,
}

/// The parts that end with the answer.
struct Open {
    ticket: Ticket,
    by: AnsweredBy,
    _reserved: Reserved,
}

impl Unread {
    pub(crate) fn new(
        incoming: Incoming,
        ticket: Ticket,
        by: AnsweredBy,
        reserved: Reserved,
    ) -> Unread {
        Unread { incoming, open: Some(Open { ticket, by, _reserved: reserved }) }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.incoming.is_end_stream()
    }

    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, CutShort>>> {
        let event = ready!(self.incoming.poll(cx));
        // A body of known length may never be polled for its end.
        if self.is_over() || matches!(event, Event::End | Event::Broken(_)) {
            self.end();
        }
        Poll::Ready(match event {
            Event::Piece(piece) => Some(Ok(Frame::data(piece))),
            Event::Trailers(trailers) => Some(Ok(Frame::trailers(trailers))),
            Event::End => None,
            Event::Broken(_) => Some(Err(CutShort)),
        })
    }

    /// Ends the request, even if the client has not read the whole answer.
    fn end(&mut self) {
        let Some(Open { ticket, by, .. }) = self.open.take() else { return };
        by.end(Outcome::ClientError);
        ticket.finish(Outcome::ClientError, Details::default());
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        self.end();
    }
}
