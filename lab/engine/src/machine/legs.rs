//! Prefill and decode on different engines: held blocks on the one, deferred requests on the other.
//!
//! vLLM's rules (its NIXL connector). A decode leg is scheduled like any request, with KV for its
//! whole prompt, but then waits outside the batch for the blocks that are not cached. It takes no
//! sequence slot and no token budget, and requests behind it are admitted. When the blocks are
//! there, it goes to the front, and only the last token of the prompt is computed, to get the first
//! token of the reply.
//!
//! Held and deferred blocks can't be preempted. If they leave too little KV for the first pending
//! request of an otherwise idle engine, the engine stalls until blocks are freed.

use super::Engine;
use crate::kv::blocks_for;
use crate::leg::Leg;
use crate::output::{Output, StopReason};
use crate::sequence::{QueuePlace, Sequence};
use core::ops::Range;
use meridian_base::{RequestId, Time};

impl Engine {
    /// Numbers of the blocks held under this id, in the order of their tokens. The model stores no
    /// KV, so the numbers are only names; those of another request differ.
    #[must_use]
    pub fn held_blocks(&self, id: RequestId) -> Option<Range<u32>> {
        self.held.numbers(id)
    }

    /// Holds the blocks of a prefill leg that has ended. The rest of its table stays for release.
    pub(super) fn hold(&mut self, at: Time, sequence: &mut Sequence, why: StopReason) {
        let Leg::Prefill { lease } = sequence.leg else { return };
        if !matches!(why, StopReason::Stop | StopReason::Length) {
            return;
        }
        let (id, tokens, until) = (sequence.id, sequence.computed, at + lease);
        let (table, hashes) = (&mut sequence.table, &sequence.hashes);
        let rest = self.kv.split_off(table, blocks_for(tokens), hashes);
        let table = core::mem::replace(table, rest);
        self.held.insert(id, until, table, self.kv.total());
        self.outputs.push_back(Output::Held { id, at, until, tokens });
    }

    pub(super) fn release(&mut self, now: Time, id: RequestId) {
        match self.held.contains(id) {
            true => self.unhold(now, id, false),
            false => self.counters.late_releases += 1,
        }
    }

    /// Releases the blocks whose lease ends at `now`.
    pub(super) fn expire(&mut self, now: Time) {
        while let Some(id) = self.held.first().filter(|_| self.held.next_expiry() == Some(now)) {
            self.counters.leases_expired += 1;
            self.unhold(now, id, true);
        }
    }

    fn unhold(&mut self, at: Time, id: RequestId, expired: bool) {
        let Some(mut table) = self.held.remove(id) else { return };
        self.cut(at);
        self.kv.release(&mut table);
        self.tables.push(table);
        self.freed(at);
        self.outputs.push_back(Output::Released { id, at, expired });
    }

    /// Blocks have been freed, so a stalled engine schedules again.
    pub(super) fn freed(&mut self, now: Time) {
        if core::mem::take(&mut self.stalled) {
            self.wake = self.wake.max(now);
        }
    }

    /// Defers a decode leg whose cached prefix of `cached` tokens is in its table.
    pub(super) fn defer(&mut self, now: Time, slot: u32, cached: u32) {
        let s = self.slots[slot as usize].as_mut().expect("a queue names slots in use");
        let (cached_blocks, needed) = (s.table.len(), blocks_for(s.prompt));
        let taken = self.kv.grow(&mut s.table, needed);
        assert!(taken, "take_prefix made sure that the whole prompt fits");
        s.place = QueuePlace::Deferred;
        s.cached = cached;
        s.computed = cached;
        let (id, missing_blocks) = (s.id, needed - cached_blocks);
        self.deferred.push(slot);
        self.outputs.push_back(Output::Deferred { id, at: now, cached_blocks, missing_blocks });
    }

    pub(super) fn fetched(&mut self, now: Time, id: RequestId) {
        let Some(slot) = self.deferred_slot(id) else { return };
        self.cut(now);
        self.undefer(slot);
        let s = self.sequence_mut(slot);
        s.place = QueuePlace::Fetched;
        s.computed = s.prompt - 1;
        let filled = s.computed / crate::BLOCK_TOKENS;
        self.kv_name(slot, filled);
        self.fetched.push_back(slot);
        self.wake = self.wake.max(now);
    }

    pub(super) fn fetch_failed(&mut self, now: Time, id: RequestId, recompute: bool) {
        let Some(slot) = self.deferred_slot(id) else { return };
        self.cut(now);
        self.undefer(slot);
        if !recompute {
            self.retire(now, slot, StopReason::Error);
            return;
        }
        let s = self.slots[slot as usize].as_mut().expect("a queue names slots in use");
        self.kv.release(&mut s.table);
        s.place = QueuePlace::Pending;
        s.leg = Leg::Whole;
        s.computed = 0;
        self.pending.push_front(slot);
        self.stalled = false;
        self.wake = self.wake.max(now);
    }

    /// Admits a decode leg whose KV has arrived. Returns its tokens to compute: the last one of the
    /// prompt.
    pub(super) fn admit_fetched(&mut self, now: Time, slot: u32) -> u32 {
        let s = self.slots[slot as usize].as_mut().expect("a queue names slots in use");
        s.place = QueuePlace::Running;
        s.leg = Leg::Whole;
        s.admitted = Some(now);
        let (id, waited, cached_tokens) = (s.id, now.since(s.pending_since), s.cached);
        let (prompt, new) = (s.prompt, s.tokens() - s.computed);
        self.running.push(slot);
        self.outputs.push_back(Output::Admitted { id, at: now, waited, cached_tokens });
        self.counters.prompt_tokens += u64::from(prompt);
        self.counters.prefix_queries += u64::from(prompt);
        self.counters.prefix_hits += u64::from(cached_tokens);
        self.counters.fetched_tokens += u64::from(prompt - cached_tokens);
        new
    }

    /// Takes a sequence out of the queues of decode legs.
    pub(super) fn undefer(&mut self, slot: u32) {
        self.deferred.retain(|deferred| *deferred != slot);
        self.fetched.retain(|fetched| *fetched != slot);
    }

    fn deferred_slot(&self, id: RequestId) -> Option<u32> {
        let slot = *self.by_id.get(&id.0)?;
        (self.sequence(slot).place == QueuePlace::Deferred).then_some(slot)
    }
}
