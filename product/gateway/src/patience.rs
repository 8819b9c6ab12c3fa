//! Timeouts that a reload may change while others use them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// One timeout, to ns. Its clones change with it.
#[derive(Clone, Debug)]
pub(crate) struct Patience(Arc<AtomicU64>);

impl Patience {
    pub(crate) fn new(limit: Duration) -> Patience {
        let patience = Patience(Arc::default());
        patience.set(limit);
        patience
    }

    pub(crate) fn get(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }

    pub(crate) fn set(&self, limit: Duration) {
        let nanos = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        self.0.store(nanos, Ordering::Relaxed);
    }
}
