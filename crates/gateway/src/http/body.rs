//! The two bodies of the data plane: what goes to a replica and what goes to a client. Concrete
//! types, so that a chunk costs no virtual call and no box.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use meridian_wire::openai::Pieces;

use crate::replicas::upstream::Flow;
use crate::request::relay::Relay;
use crate::request::silence::Silence;

/// What goes to a client.
pub(crate) enum Body {
    /// The gateway's own answer.
    Whole(Option<Bytes>),
    /// A replica's answer, as it comes.
    Relay(Box<Relay>),
    /// A replica's refusal.
    Pass(Box<Pass>),
}

/// A replica's answer that is not followed.
pub(crate) struct Pass {
    /// A piece that is here already.
    pub(crate) first: Option<Bytes>,
    /// The rest of it.
    pub(crate) rest: Flow,
    pub(crate) silence: Silence,
}

impl Pass {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, CutShort>>> {
        if let Some(piece) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        match http_body::Body::poll_frame(Pin::new(&mut self.rest), cx) {
            Poll::Ready(frame) => {
                self.silence.heard();
                Poll::Ready(frame.map(|frame| frame.map_err(|_| CutShort)))
            }
            Poll::Pending => self.silence.poll(cx).map(|_| Some(Err(CutShort))),
        }
    }
}

impl Body {
    pub(crate) fn whole(bytes: Bytes) -> Body {
        Body::Whole(Some(bytes))
    }
}

/// The answer was cut short after bytes had gone out; the connection is closed to say so.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the replica's answer was cut short")]
pub(crate) struct CutShort;

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = CutShort;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, CutShort>>> {
        match self.get_mut() {
            Body::Whole(bytes) => Poll::Ready(bytes.take().map(|b| Ok(Frame::data(b)))),
            Body::Relay(relay) => relay.poll(cx),
            Body::Pass(pass) => pass.poll(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Body::Whole(bytes) => bytes.is_none(),
            Body::Relay(relay) => relay.is_over(),
            Body::Pass(pass) => pass.first.is_none() && pass.rest.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64))
            }
            Body::Relay(_) | Body::Pass(_) => SizeHint::default(),
        }
    }
}

/// What goes to a replica: a client's bytes in slices, around what splices insert. Cheap to make
/// again for another attempt.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parts {
    parts: Pieces,
    next: usize,
}

impl Parts {
    pub(crate) fn new(parts: Pieces) -> Parts {
        Parts { parts, next: 0 }
    }

    pub(crate) fn whole(bytes: Bytes) -> Parts {
        Parts::new(Pieces::from_iter([bytes]))
    }

    /// Bytes that are not sent yet.
    pub(crate) fn left(&self) -> u64 {
        self.parts[self.next..].iter().map(|p| p.len() as u64).sum()
    }
}

impl http_body::Body for Parts {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        while self.next < self.parts.len() {
            let at = self.next;
            self.next += 1;
            let part = std::mem::take(&mut self.parts[at]);
            if !part.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(part))));
            }
        }
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        self.left() == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left())
    }
}
