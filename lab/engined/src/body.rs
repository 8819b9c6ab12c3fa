//! Response bodies: complete ones, and streams that follow a request's mailbox.

use crate::chat::Ticket;
use crate::render::{self, DONE, Shape};
use crate::reply::Reply;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use meridian_engine::StopReason;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// The body of any response.
#[derive(Debug)]
pub enum ReplyBody {
    /// The complete body.
    Whole(Option<Bytes>),
    /// Server-sent events, as tokens are generated.
    Stream(Box<Events>),
}

impl ReplyBody {
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> ReplyBody {
        ReplyBody::Whole(Some(bytes.into()))
    }
}

/// The events of one streamed response. If dropped before the end, it aborts the request.
#[derive(Debug)]
pub struct Events {
    pub(crate) ticket: Ticket,
    pub(crate) shape: Shape,
    pub(crate) reply: Reply,
    pub(crate) usage: bool,
    /// Tokens of the prompt, if each event should contain the usage so far.
    pub(crate) counts: Option<u32>,
    /// Tokens written.
    pub(crate) written: u32,
    pub(crate) over: bool,
    /// Tokens after which it ends with an error.
    pub(crate) fails_after: Option<u32>,
}

impl Events {
    /// The next events, all that are due in one piece.
    fn poll_events(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.over {
            return Poll::Ready(None);
        }
        let written = self.written;
        let progress = ready!(self.ticket.poll_until(cx, |p| p.generated > written));
        let fails = self.fails_after.is_some_and(|tokens| written >= tokens);
        if fails || matches!(progress.finished, Some((StopReason::Error, _))) {
            self.over = true;
            return Poll::Ready(Some(Bytes::from(render::internal_error_event())));
        }
        let mut out = String::with_capacity(512);
        if written == 0 {
            self.shape.opening(self.counts, &mut out);
        }
        let why = progress.finished.map(|(why, _)| why);
        let range = (written, progress.generated);
        if progress.generated > written || why.is_some() {
            self.shape.tokens(&self.reply, range, why, self.counts, &mut out);
            self.written = progress.generated;
        }
        if progress.is_over() {
            self.over = true;
            if let Some((_, usage)) = progress.finished {
                if self.usage {
                    self.shape.usage(&usage, &mut out);
                }
                out.push_str(DONE);
            }
        }
        Poll::Ready(Some(Bytes::from(out)))
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let bytes = match self.get_mut() {
            ReplyBody::Whole(bytes) => bytes.take(),
            ReplyBody::Stream(events) => ready!(events.poll_events(cx)),
        };
        Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            ReplyBody::Whole(bytes) => bytes.is_none(),
            ReplyBody::Stream(events) => events.over,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ReplyBody::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            ReplyBody::Stream(_) => SizeHint::default(),
        }
    }
}
