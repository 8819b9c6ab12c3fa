//! Requests that siblings sent to a replica. They count as own ones do, and are not in the totals.

use meridian_base::Time;

use super::{Replica, Work};

impl Replica {
    /// Records that a sibling's request was sent here.
    pub(crate) fn sent_by_sibling(&mut self, now: Time, work: Work) {
        self.of_siblings += 1;
        self.add(now, work);
    }

    /// Records that a prompt, of ours or a sibling's, is computed or will not be.
    pub(crate) fn prompt_computed(&mut self, unmatched: f32) {
        self.waiting -= 1;
        self.front_tokens = (self.front_tokens - unmatched).max(0.0);
    }

    /// Records the end of a sibling's request.
    pub(crate) fn sibling_ended(&mut self, now: Time, prompt_tokens: f32, reply: f32) {
        assert!(self.of_siblings > 0, "a sibling's request ends once");
        self.of_siblings -= 1;
        self.ended(now, prompt_tokens, reply);
    }
}
