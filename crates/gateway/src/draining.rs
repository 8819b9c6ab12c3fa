//! Whether this gateway is shutting down.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set once, when the shutdown starts: no request is accepted after that.
#[derive(Clone, Debug, Default)]
pub(crate) struct Draining(Arc<AtomicBool>);

impl Draining {
    pub(crate) fn begin(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
