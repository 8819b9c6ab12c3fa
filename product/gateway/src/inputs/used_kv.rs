//! KV that prefill engines handed over, and the prompt that it was used for.
//!
//! A decode engine answers from any KV that it is asked to fetch. If a prefill engine hands over the
//! same KV for two prompts, the second client would get an answer to the first one's. So the gateway
//! remembers for which prompt KV was used, and uses it for no other.

use std::collections::{HashMap, VecDeque};

use crate::lock::Mutex;

/// Most KV remembered; the oldest is forgotten first, and its lease has ended long before.
const MOST: usize = 16_384;

/// The newest KV, by its hash, with the hash of its prompt.
#[derive(Default)]
pub(crate) struct UsedKv(Mutex<Newest>);

#[derive(Default)]
struct Newest {
    prompts: HashMap<u64, u64>,
    order: VecDeque<u64>,
}

impl UsedKv {
    /// Whether KV may be used for a prompt: it was used for none before, or for the same.
    pub(crate) fn is_for(&self, kv: u64, prompt: u64) -> bool {
        let Newest { prompts, order } = &mut *self.0.lock();
        if let Some(used) = prompts.get(&kv) {
            return *used == prompt;
        }
        if order.len() >= MOST
            && let Some(oldest) = order.pop_front()
        {
            prompts.remove(&oldest);
        }
        prompts.insert(kv, prompt);
        order.push_back(kv);
        assert!(prompts.len() == order.len() && order.len() <= MOST, "KV is remembered once");
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Defect kv-twice: KV that was used for one prompt is used for no other one. A bounded number is
    // remembered.
    #[test]
    fn for_one_prompt() {
        let used = UsedKv::default();
        assert!(used.is_for(1, 10) && used.is_for(1, 10) && !used.is_for(1, 11));
        assert!(used.is_for(2, 11) && !used.is_for(2, 10));
        for kv in 0..2 * MOST as u64 {
            used.is_for(100 + kv, kv);
        }
        let newest = used.0.lock();
        assert_eq!((newest.prompts.len(), newest.order.len()), (MOST, MOST));
    }
}
