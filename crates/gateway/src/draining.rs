//! Whether this gateway is shutting down.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set once, when the shutdown begins: from then on no request is accepted.
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
