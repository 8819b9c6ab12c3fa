//! Whether a replica is alive, for the requests that wait for it.
//!
//! The routing machine decides that a replica is down, and the driver notes it here. A request
//! without an answer is then retried elsewhere at once, and an answer that has started is broken
//! off after a grace period (the timer of each answer). In the other direction, streaming
//! answers count as a sign of life: an engine that answers requests is alive, however slow its
//! status page is.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::lock::Mutex;
use crate::replicas::health::Health;
use crate::replicas::progress::EngineProgress;

/// Whether one replica is alive.
#[derive(Debug, Default)]
pub(crate) struct Life {
    now: Mutex<Now>,
    /// Increases with every piece of an answer. Two threads may count a piece as one: it still
    /// increases.
    pieces: AtomicU64,
    /// What its engine says about itself.
    pub(super) health: Health,
    /// Whether it makes progress.
    pub(super) progress: EngineProgress,
}

#[derive(Debug, Default)]
struct Now {
    /// Cancelled when the replica goes down.
    down: CancellationToken,
    since: Option<Instant>,
}

impl Life {
    /// The machine marked the replica as down.
    pub(crate) fn ends(&self) {
        let mut now = self.now.lock();
        now.since = Some(Instant::now());
        now.down.cancel();
    }

    /// The replica is back.
    pub(crate) fn begins(&self) {
        let mut now = self.now.lock();
        if now.since.take().is_some() {
            now.down = CancellationToken::new();
        }
    }

    /// A token that is cancelled when the replica goes down, or already is.
    pub(crate) fn down(&self) -> CancellationToken {
        let now = self.now.lock();
        let is_down = now.down.is_cancelled();
        assert_eq!(is_down, now.since.is_some(), "requests and timers see one state of a replica");
        now.down.clone()
    }

    /// Since when it has been down.
    pub(crate) fn down_since(&self) -> Option<Instant> {
        self.now.lock().since
    }

    /// A piece of an answer arrived.
    pub(crate) fn answered(&self) {
        self.pieces.store(self.pieces.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// A count that increases with the pieces of answers.
    pub(crate) fn pieces(&self) -> u64 {
        self.pieces.load(Ordering::Relaxed)
    }
}
