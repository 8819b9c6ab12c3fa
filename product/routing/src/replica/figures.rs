//! The figures of a replica that decisions read, from its state: its row.

use meridian_base::Time;

use super::{Replica, State};
use crate::growth::growth;
use crate::row::Row;
use crate::why::Ineligible;

impl Replica {
    /// Recomputes the row that decisions read.
    pub(crate) fn row(&self, now: Time) -> Row {
        let drift = self.agreed_drift();
        let plus = |n: u32| u32::try_from((i64::from(n) + i64::from(drift)).max(0)).unwrap_or(0);
        let reported_pending = self.load.pending.unwrap_or(0);
        let reports = self.load.pending.is_some();
        let failed = self.failed.count(now);
        Row {
            outstanding: plus(self.outstanding + self.legs.coming) + failed,
            pending: if reports { reported_pending + self.unreported() } else { self.overdue },
            running: plus(self.outstanding - self.waiting + self.legs.fetching + self.legs.coming)
                + failed,
            failed,
            front_tokens: self.front_tokens + self.failed.front_tokens(now),
            outstanding_tokens: self.outstanding_tokens + self.failed.prompt_tokens(now),
            kv_used: self.load.kv_used.unwrap_or(0.0),
            kv_free: self.kv_free(),
            utilisation: self.utilisation.get().unwrap_or(0.0) as f32,
            ms_per_token: self.figures.ms_per_token as f32,
            step_slope_ms: self.figures.step_slope_ms as f32,
            next_end_ms: self.ends.mean_ms().map_or(f32::INFINITY, |ms| ms as f32),
            reported_pending: if reports { reported_pending } else { self.overdue },
            free_slots: self.free_slots(),
            trust: self.trust,
            rtt_ms: self.spec.rtt.as_secs_f32() * 1e3,
            moving_tokens: self.legs.moving_tokens,
            held_tokens: self.legs.held_tokens,
            weight: self.spec.weight,
            pool: self.spec.pool,
            closed: self.closed(now),
        }
    }

    /// KV tokens left for new prompts; infinite if the size or use is unknown.
    fn kv_free(&self) -> f32 {
        let (Some(size), Some(used)) = (self.load.kv_tokens, self.load.kv_used) else {
            return f32::INFINITY;
        };
        let size = size as f32;
        // Held blocks are in the report of an engine that counts them.
        let used = (size * used).max(self.legs.held_tokens);
        let taken = used + self.unreported_tokens + self.legs.coming_tokens;
        // Others may have requests there, too; their replies count as ours do.
        let there = self.load.running.unwrap_or(0) + self.load.pending.unwrap_or(0);
        let n = (there + self.unreported()).max(self.outstanding) + self.legs.coming;
        let n = n.max(1) as f32;
        let reply = self.reply_tokens / self.outstanding.max(1) as f32;
        size - taken - self.reuse.kept(size) - growth(n, reply, taken / n)
    }

    fn free_slots(&self) -> u32 {
        // A request that is still pending although it should have its first token shows that the
        // engine is full, whether of slots, memory or work. Few engines report their slots.
        if self.overdue > 0 && self.load.pending.is_some_and(|pending| pending > 0) {
            return 0;
        }
        match (self.spec.slots.or(self.slots.limit()), self.load.running) {
            (Some(slots), Some(running)) => {
                let sent = self.unreported() + self.legs.coming;
                slots.saturating_sub(running + self.load.pending.unwrap_or(0) + sent)
            }
            (Some(slots), None) => slots.saturating_sub(self.outstanding + self.legs.coming),
            (None, _) => u32::MAX,
        }
    }

    fn closed(&self, now: Time) -> Option<Ineligible> {
        match self.state {
            State::Draining => Some(Ineligible::Draining),
            State::Down => Some(Ineligible::Down),
            _ if self.said_full || self.promised.is_some() => Some(Ineligible::Full),
            _ if !self.breaker.passes(now) => Some(Ineligible::Breaker),
            _ => None,
        }
    }
}
