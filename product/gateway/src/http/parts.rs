//! The body of a request to a replica or a peer. A concrete type, so a piece costs no virtual call
//! and no box.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use meridian_protocol::openai::Pieces;

/// The body sent to a replica: slices of the client's bytes, around the splices' insertions. Cheap
/// to make again for another attempt.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parts {
    parts: Pieces,
    next: usize,
    taken: Option<Taken>,
}

/// Whether any byte of a body was taken to be sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Taken(Arc<AtomicBool>);

impl Taken {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_any(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Parts {
    pub(crate) fn new(parts: Pieces) -> Parts {
        Parts { parts, next: 0, taken: None }
    }

    /// The same, which notes in `taken` that it is being sent.
    pub(crate) fn noting(self, taken: Option<Taken>) -> Parts {
        assert_eq!(self.next, 0, "the first byte may be sent already, and was not noted");
        Parts { taken, ..self }
    }

    pub(crate) fn single(bytes: Bytes) -> Parts {
        Parts::new(Pieces::from_iter([bytes]))
    }

    /// All parts, and the note to make when their first byte is sent.
    pub(crate) fn parts(&self) -> (Pieces, Option<Taken>) {
        (self.parts.clone(), self.taken.clone())
    }

    /// Bytes not sent yet.
    pub(crate) fn left(&self) -> u64 {
        assert!(self.next <= self.parts.len(), "more parts are sent than there are");
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
        if let Some(taken) = &self.taken {
            taken.set();
        }
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
