//! Progress reports from the pump to a connection: a slot with the latest state, not a queue.
//!
//! A slow reader finds several tokens at once, and memory per request is constant however slow it
//! is.

use meridian_engine::{Refusal, StopReason, Usage};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// The progress of a request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    /// The engine has accepted the request.
    pub(crate) accepted: bool,
    /// The engine refused it.
    pub(crate) refused: Option<Refusal>,
    /// Tokens generated.
    pub(crate) generated: u32,
    /// It has ended.
    pub(crate) finished: Option<(StopReason, Usage)>,
    /// The pump is gone.
    pub(crate) closed: bool,
}

impl Progress {
    /// Whether no further progress will come.
    pub(crate) fn is_over(&self) -> bool {
        self.finished.is_some() || self.refused.is_some() || self.closed
    }
}

#[derive(Debug, Default)]
struct Inner {
    progress: Progress,
    waker: Option<Waker>,
}

/// The slot. One writer, one reader.
#[derive(Debug)]
pub(crate) struct Mailbox {
    /// Whether the reader should be woken for tokens, or only for the end.
    tokens: bool,
    inner: Mutex<Inner>,
}

impl Mailbox {
    pub(crate) fn new(tokens: bool) -> Mailbox {
        Mailbox { tokens, inner: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No code that can panic runs under the lock.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes progress and wakes the reader if it is waiting for this.
    pub(crate) fn update(&self, change: impl FnOnce(&mut Progress)) {
        let mut inner = self.lock();
        let accepted = inner.progress.accepted;
        change(&mut inner.progress);
        let progress = &inner.progress;
        if self.tokens || progress.is_over() || progress.accepted != accepted {
            let waker = inner.waker.take();
            drop(inner);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    pub(crate) fn progress(&self) -> Progress {
        self.lock().progress
    }

    /// Waits until `ready` holds, or no further progress will come.
    pub(crate) fn poll_until(
        &self,
        cx: &mut Context<'_>,
        ready: impl FnOnce(&Progress) -> bool,
    ) -> Poll<Progress> {
        let mut inner = self.lock();
        if inner.progress.is_over() || ready(&inner.progress) {
            return Poll::Ready(inner.progress);
        }
        match &mut inner.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}
