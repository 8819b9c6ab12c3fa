//! When a replica's list of models was last compared, and the sign that it has changed.

use meridian_base::{Duration, Time};
use tokio::sync::Notify;

use crate::lock::Mutex;

/// The state of the comparisons of one replica.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    compared: Mutex<Option<Time>>,
    changed: Notify,
}

impl Listing {
    /// The list is not what discovery found.
    pub(crate) fn changed(&self) {
        self.changed.notify_one();
    }

    /// Waits for a change since the last call returned.
    pub(crate) async fn until_changed(&self) {
        self.changed.notified().await;
    }

    /// Whether a probe that starts now should compare the list.
    pub(crate) fn is_due(&self, now: Time, pace: Duration) -> bool {
        let mut compared = self.compared.lock();
        let is_due = compared.is_none_or(|at| now.since(at) >= pace);
        if is_due {
            *compared = Some(now);
        }
        is_due
    }
}
