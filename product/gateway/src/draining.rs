//! Whether this gateway is shutting down.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::CancellationToken;

/// Set once, when the shutdown starts: no request and no connection is accepted after that.
#[derive(Clone, Debug, Default)]
pub(crate) struct Draining(Arc<DrainingState>);

#[derive(Debug, Default)]
struct DrainingState {
    /// Read for every request, without a lock.
    has_started: AtomicBool,
    started: CancellationToken,
}

impl Draining {
    pub(crate) fn begin(&self) {
        self.0.has_started.store(true, Ordering::Relaxed);
        self.0.started.cancel();
    }

    pub(crate) fn has_started(&self) -> bool {
        self.0.has_started.load(Ordering::Relaxed)
    }

    /// Completes when the shutdown starts.
    pub(crate) async fn started(&self) {
        self.0.started.cancelled().await;
    }
}
