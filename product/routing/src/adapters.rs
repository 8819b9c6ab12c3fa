//! The LoRA adapters on a replica's GPUs, and the time until one that is not there serves.
//!
//! An engine lists more adapters than its GPUs have slots for (vLLM's `--max-loras`), and loads one
//! with the first request for it, in place of the one not used for longest. It reports only the
//! adapters of the requests that it has. So the order of use is followed here: by the reports, and by
//! our own dispatches since.
//!
//! While every slot is in use by requests of other adapters, a request waits until one is free: vLLM's
//! scheduler leaves it in the queue.

use alloc::vec::Vec;
use meridian_base::ModelId;

use crate::row::Row;

/// The load time of an adapter in main memory. Transfer and activation take some 200 ms in vLLM at
/// the end of 2025, and 17 ms with one contiguous copy (vllm-project/vllm pull request 30418).
const LOAD_MS: f32 = 200.0;
/// The longest wait for a slot that is assumed, also if no request has ended yet.
const LONGEST_WAIT_MS: f32 = 10_000.0;

/// An engine's report of its adapters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdapterReport {
    /// The adapters that it lists as models.
    pub listed: Vec<ModelId>,
    /// The adapters that a batch can have.
    pub slots: u32,
    /// The adapters of its running requests.
    pub running: Vec<ModelId>,
    /// The adapters of its waiting requests.
    pub waiting: Vec<ModelId>,
}

/// The known adapters of one replica.
#[derive(Debug, Default)]
pub(crate) struct Adapters {
    report: AdapterReport,
    /// Those in its slots, the one used last at the end.
    loaded: Vec<ModelId>,
}

impl Adapters {
    pub(crate) fn reported(&mut self, report: AdapterReport) {
        self.loaded.retain(|id| report.listed.contains(id));
        self.report = report;
        for at in 0..self.report.running.len() {
            self.used(self.report.running[at]);
        }
    }

    /// A request for a model was sent there.
    pub(crate) fn sent(&mut self, model: ModelId) {
        if self.report.listed.contains(&model) {
            self.used(model);
        }
    }

    /// The engine is gone, and with it its slots.
    pub(crate) fn forget(&mut self) {
        *self = Adapters::default();
    }

    fn used(&mut self, model: ModelId) {
        self.loaded.retain(|id| *id != model);
        self.loaded.push(model);
        let slots = (self.report.slots as usize).max(1);
        self.loaded.drain(..self.loaded.len().saturating_sub(slots));
        assert!(self.loaded.len() <= slots, "a batch has at most {slots} adapters");
    }

    /// The time until an adapter is loaded there, ms; 0 if it is, or if the engine reports nothing.
    pub(crate) fn loading_ms(&self, model: ModelId, row: &Row) -> f32 {
        let AdapterReport { listed, slots, running, waiting } = &self.report;
        if !listed.contains(&model) || running.contains(&model) {
            return 0.0;
        }
        let others = waiting.iter().filter(|id| **id != model && !running.contains(id)).count();
        // The report is of the engine's last step: of an idle one it may be old.
        let is_idle = row.running == 0 && row.outstanding == 0;
        let is_full = !is_idle && running.len() + others >= *slots as usize;
        if is_full && *slots > 0 {
            // All running requests may have to end, at the pace at which they do.
            let wait = row.next_end_ms * row.running.max(1) as f32;
            return LOAD_MS + wait.min(LONGEST_WAIT_MS);
        }
        if self.loaded.contains(&model) { 0.0 } else { LOAD_MS }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    const ALL: [ModelId; 4] = [ModelId(1), ModelId(2), ModelId(3), ModelId(4)];

    fn report(slots: u32, running: &[ModelId], waiting: &[ModelId]) -> AdapterReport {
        let (running, waiting) = (running.to_vec(), waiting.to_vec());
        AdapterReport { listed: ALL.to_vec(), slots, running, waiting }
    }

    fn times(adapters: &Adapters, row: &Row) -> Vec<f32> {
        ALL.iter().map(|id| adapters.loading_ms(*id, row)).collect()
    }

    // An adapter stays in its slot after its requests, until others that were used later need it.
    #[test]
    fn slots_go_to_the_last_used() {
        let [a, b, c, _] = ALL;
        let (mut adapters, row) = (Adapters::default(), Row::default());
        adapters.reported(report(2, &[a], &[]));
        assert_eq!(times(&adapters, &row), [0.0, 200.0, 200.0, 200.0]);
        adapters.reported(report(2, &[], &[]));
        adapters.sent(b);
        assert_eq!(times(&adapters, &row), [0.0, 0.0, 200.0, 200.0]);
        adapters.sent(a);
        adapters.sent(c);
        assert_eq!(times(&adapters, &row), [0.0, 200.0, 0.0, 200.0]);
        // Unloaded and listed again, it is not in a slot.
        adapters.reported(AdapterReport { listed: vec![a, b], ..report(2, &[], &[]) });
        adapters.reported(report(2, &[], &[]));
        assert_eq!(times(&adapters, &row), [0.0, 200.0, 200.0, 200.0]);
        adapters.forget();
        assert_eq!(times(&adapters, &row), [0.0; 4], "nothing is known");
    }

    // While all slots have requests of other adapters, one more waits for their end.
    #[test]
    fn busy_slots_are_awaited() {
        let [a, b, c, _] = ALL;
        let mut adapters = Adapters::default();
        let row = Row { running: 4, next_end_ms: 50.0, ..Row::default() };
        adapters.reported(report(2, &[a], &[b]));
        assert_eq!(times(&adapters, &row), [0.0, 200.0, 400.0, 400.0]);
        adapters.reported(report(2, &[a, c], &[b]));
        assert_eq!(times(&adapters, &row), [0.0, 400.0, 0.0, 400.0]);
        let unknown = Row { next_end_ms: f32::INFINITY, ..row };
        assert_eq!(times(&adapters, &unknown)[1], 10_200.0);
    }
}
