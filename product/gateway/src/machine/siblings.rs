//! The records for the gateways of this region that follow this one, until they are sent.
//!
//! The machine's records go into one queue for each of them, under the machine's lock, so each gets them
//! in their order. A queue that gets too long is emptied, and its gateway gets everything about the
//! requests in flight instead. A new queue begins like that.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use http::uri::Authority;
use meridian_routing::SiblingRecord;
use tokio::sync::Notify;

use crate::inputs::rate::Units;
use crate::lock::Mutex;

/// Most records in one queue.
const MOST_RECORDS: usize = 8192;
/// Most blocks of their prompts: 4 MB.
const MOST_BLOCKS: usize = 1 << 19;

/// A record, and the replica that it names.
#[derive(Clone, Debug)]
pub(crate) struct QueuedRecord {
    pub(crate) record: Arc<SiblingRecord>,
    pub(crate) replica: Option<Authority>,
}

impl QueuedRecord {
    fn blocks(&self) -> usize {
        match &*self.record {
            SiblingRecord::Sent(request) => request.blocks.len(),
            SiblingRecord::Ended { cached, .. } => cached.as_ref().map_or(0, |c| c.blocks.len()),
            SiblingRecord::FirstToken { .. } | SiblingRecord::Queue(_) => 0,
        }
    }
}

/// What one gateway is yet to be told.
#[derive(Debug)]
pub(crate) struct SiblingQueue {
    state: Mutex<QueueState>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct QueueState {
    records: Vec<QueuedRecord>,
    blocks: usize,
    /// What waits in the queue, if that has changed.
    queue: Option<QueuedRecord>,
    /// What tenants took from their limits, by the hash of each name.
    units: BTreeMap<u64, Units>,
    /// The requests in flight are to be told instead.
    restarts: bool,
}

impl SiblingQueue {
    fn new() -> SiblingQueue {
        let state = QueueState { restarts: true, ..QueueState::default() };
        let queue = SiblingQueue { state: Mutex::new(state), wake: Notify::new() };
        queue.wake.notify_one();
        queue
    }

    /// Waits until there is something to tell.
    pub(crate) async fn changed(&self) {
        self.wake.notified().await;
    }

    /// Whether the requests in flight are to be told.
    pub(crate) fn restarts(&self) -> bool {
        self.state.lock().restarts
    }

    /// Has the requests in flight told, instead of what is queued.
    pub(crate) fn restart(&self) {
        self.state.lock().restart();
        self.wake.notify_one();
    }

    /// The queued records, oldest first; none if the requests in flight are to be told.
    pub(super) fn take(&self) -> Option<Vec<QueuedRecord>> {
        let mut state = self.state.lock();
        if state.restarts {
            return None;
        }
        state.blocks = 0;
        let mut records = std::mem::take(&mut state.records);
        records.extend(state.queue.take());
        Some(records)
    }

    /// Notes that the requests in flight were read for it. The machine is locked.
    pub(super) fn restarted(&self) {
        let mut state = self.state.lock();
        (state.restarts, state.units) = (false, BTreeMap::new());
    }

    /// What tenants took since the last call, by the hash of each name.
    pub(crate) fn take_units(&self) -> BTreeMap<u64, Units> {
        std::mem::take(&mut self.state.lock().units)
    }

    fn push_units(&self, taken: &[(u64, Units)]) {
        let mut state = self.state.lock();
        for (tenant, units) in taken {
            state.units.entry(*tenant).or_default().add(*units);
        }
        self.wake.notify_one();
    }

    fn push(&self, record: &QueuedRecord) {
        let mut state = self.state.lock();
        if state.restarts {
            return;
        }
        state.blocks += record.blocks();
        if matches!(*record.record, SiblingRecord::Queue(_)) {
            // Only the newest counts.
            state.queue = Some(record.clone());
        } else if state.records.len() >= MOST_RECORDS || state.blocks > MOST_BLOCKS {
            state.restart();
        } else {
            state.records.push(record.clone());
        }
        self.wake.notify_one();
    }
}

impl QueueState {
    fn restart(&mut self) {
        *self = QueueState { restarts: true, ..QueueState::default() };
    }
}

/// The queues of all gateways that get records.
#[derive(Debug, Default)]
pub(crate) struct SiblingQueues(Mutex<Vec<Weak<SiblingQueue>>>);

impl SiblingQueues {
    /// A queue for one more gateway; it ends when it is dropped.
    pub(crate) fn add(&self) -> Arc<SiblingQueue> {
        let queue = Arc::new(SiblingQueue::new());
        let mut all = self.0.lock();
        all.retain(|queue| queue.strong_count() > 0);
        all.push(Arc::downgrade(&queue));
        queue
    }

    /// Queues what tenants took, for all.
    pub(crate) fn push_units(&self, taken: &[(u64, Units)]) {
        self.0.lock().iter().filter_map(Weak::upgrade).for_each(|queue| queue.push_units(taken));
    }

    /// Queues a record, and the replica that it names, for all. The machine is locked.
    pub(super) fn push(&self, record: SiblingRecord, replica: Option<Authority>) {
        let all = self.0.lock();
        if all.is_empty() {
            return;
        }
        let record = QueuedRecord { record: Arc::new(record), replica };
        all.iter().filter_map(Weak::upgrade).for_each(|queue| queue.push(&record));
    }
}

#[cfg(test)]
mod tests {
    use meridian_base::RequestId;

    use super::*;

    fn record(id: u64) -> SiblingRecord {
        SiblingRecord::FirstToken { id: RequestId(id), prompt: None }
    }

    fn ids(queue: &SiblingQueue) -> Option<Vec<u64>> {
        let id = |record: &QueuedRecord| match &*record.record {
            SiblingRecord::FirstToken { id, .. } => id.0,
            other => panic!("{other:?}"),
        };
        queue.take().map(|records| records.iter().map(id).collect())
    }

    // A new queue begins with the requests in flight. After that each one gets what is new, in order.
    #[test]
    fn records_stay_in_order() {
        let queues = SiblingQueues::default();
        let (a, b) = (queues.add(), queues.add());
        queues.push(record(1), None);
        assert_eq!(ids(&a), None);
        a.restarted();
        queues.push(record(2), None);
        queues.push(record(3), None);
        assert_eq!(ids(&a), Some(vec![2, 3]));
        assert_eq!(ids(&a), Some(vec![]));
        assert!(b.restarts());
        drop(a);
        queues.push(record(4), None);
        b.restarted();
        drop(queues.add());
        assert_eq!(queues.0.lock().len(), 2, "those that ended go with the next one");
    }

    // A queue that gets too long is emptied: the requests in flight come instead.
    #[test]
    fn a_long_queue_restarts() {
        let queues = SiblingQueues::default();
        let queue = queues.add();
        queue.restarted();
        for id in 0..MOST_RECORDS as u64 {
            queues.push(record(id), None);
        }
        assert!(!queue.restarts());
        queues.push(record(0), None);
        queues.push(record(1), None);
        assert!(queue.restarts() && queue.take().is_none());
        assert!(queue.state.lock().records.is_empty());
    }
}
