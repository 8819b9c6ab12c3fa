//! Whether a replica is alive, for the requests that wait for it.
//!
//! The routing machine decides that a replica is down, and the driver notes it here. A request
//! without an answer then goes elsewhere at once, and an answer that has begun is broken off after a
//! grace ([`crate::request::silence`]). In the other direction answers leave a mark as they flow: an engine
//! that answers requests is alive, however slow its status page is.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::lock::Mutex;

/// The life of one replica.
#[derive(Debug, Default)]
pub(crate) struct Life {
    now: Mutex<Now>,
    /// Grows with every piece of an answer. Two threads may count a piece as one: it still grows.
    pieces: AtomicU64,
}

#[derive(Debug, Default)]
struct Now {
    /// Cancelled when the replica goes down.
    down: CancellationToken,
    since: Option<Instant>,
}

impl Life {
    /// The machine set the replica down.
    pub(crate) fn ends(&self) {
        let mut now = self.now.lock();
        now.since = Some(Instant::now());
        now.down.cancel();
    }

    /// It is back.
    pub(crate) fn begins(&self) {
        let mut now = self.now.lock();
        if now.since.take().is_some() {
            now.down = CancellationToken::new();
        }
    }

    /// Cancelled when the replica goes down, or cancelled already.
    pub(crate) fn down(&self) -> CancellationToken {
        self.now.lock().down.clone()
    }

    /// Since when it is down.
    pub(crate) fn down_since(&self) -> Option<Instant> {
        self.now.lock().since
    }

    /// A piece of an answer came.
    pub(crate) fn answered(&self) {
        self.pieces.store(self.pieces.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// A count that grows with the pieces of answers.
    pub(crate) fn pieces(&self) -> u64 {
        self.pieces.load(Ordering::Relaxed)
    }
}
