//! Requests that siblings sent to a replica. They count as own ones do, and are not in the totals.

use meridian_base::Time;

use super::{Replica, Work};

impl Replica {
    /// Records that a sibling's request was sent here.
    pub(crate) fn sent_by_sibling(&mut self, now: Time, work: Work) {
        self.of_siblings.outstanding += 1;
        self.of_siblings.waiting += 1;
        self.of_siblings.front_tokens += work.prefill;
        self.add(now, work);
    }

    /// Records that a prompt, of ours or a sibling's, is computed or will not be.
    pub(crate) fn prompt_computed(&mut self, unmatched: f32) {
        self.waiting -= 1;
        self.front_tokens = (self.front_tokens - unmatched).max(0.0);
    }

    /// Records that a sibling's prompt is computed or will not be.
    pub(crate) fn sibling_prompt_computed(&mut self, unmatched: f32) {
        let theirs = &mut self.of_siblings;
        theirs.waiting -= 1;
        theirs.front_tokens = match theirs.waiting {
            // Sums of floats do not return to exactly zero.
            0 => 0.0,
            _ => (theirs.front_tokens - unmatched).max(0.0),
        };
        self.prompt_computed(unmatched);
    }

    /// Records the end of a sibling's request.
    pub(crate) fn sibling_ended(&mut self, now: Time, prompt_tokens: f32, reply: f32) {
        assert!(self.of_siblings.outstanding > 0, "a sibling's request ends once");
        self.of_siblings.outstanding -= 1;
        self.ended(now, prompt_tokens, reply);
    }
}
