//! The body of an answer to a request. A concrete type, so a chunk costs no virtual call and no
//! box.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

use crate::request::answer::incoming::CutShort;
use crate::request::answer::keep_alive::KeptAlive;
use crate::request::answer::relay::Relay;
use crate::request::answer::unread::Unread;

/// The body sent to a client.
pub(crate) enum AnswerBody {
    /// The gateway's own answer.
    Whole(Option<Bytes>),
    /// A replica's or a peer's answer, scanned on its way.
    Relay(Box<Relay>),
    /// A stream with comments in its silences.
    KeptAlive(Box<KeptAlive>),
    /// An error answer, which passes unread.
    Unread(Box<Unread>),
}

impl From<Bytes> for AnswerBody {
    fn from(bytes: Bytes) -> AnswerBody {
        AnswerBody::Whole(Some(bytes))
    }
}

impl http_body::Body for AnswerBody {
    type Data = Bytes;
    type Error = CutShort;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, CutShort>>> {
        match self.get_mut() {
            AnswerBody::Whole(bytes) => Poll::Ready(bytes.take().map(|b| Ok(Frame::data(b)))),
            AnswerBody::Relay(relay) => relay.poll(cx),
            AnswerBody::KeptAlive(kept) => kept.poll(cx),
            AnswerBody::Unread(unread) => unread.poll(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            AnswerBody::Whole(bytes) => bytes.is_none(),
            AnswerBody::Relay(relay) => relay.is_over(),
            AnswerBody::KeptAlive(kept) => kept.is_over(),
            AnswerBody::Unread(unread) => unread.is_over(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            AnswerBody::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            AnswerBody::Relay(_) | AnswerBody::KeptAlive(_) | AnswerBody::Unread(_) => {
                SizeHint::default()
            }
        }
    }
}
