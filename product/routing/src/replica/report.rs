//! The engine's reports: what they say of a replica, and when one is too old to use.

use meridian_base::Time;

use super::{DRIFT_MEMORY, Load, Promise, Replica, State};

impl Replica {
    /// Applies an engine's report that was requested at `asked`.
    pub(crate) fn report(&mut self, now: Time, asked: Time, load: Load) {
        // Figures missing from a partial report keep their values.
        self.load = Load {
            kv_tokens: load.kv_tokens.or(self.load.kv_tokens),
            running: load.running.or(self.load.running),
            ..load
        };
        self.reported = Some(asked);
        self.lives(now);
        let has_room = |p: &Promise| p.by_report && p.at < asked && load.pending == Some(0);
        self.promised = self.promised.filter(|p| !has_room(p));
        self.forget_before(asked);
        if let (Some(running), Some(pending)) = (load.running, load.pending) {
            let ours = i64::from(self.outstanding) - i64::from(self.unreported());
            let drift = i64::from(running) + i64::from(pending) - ours;
            self.slots.report(now, running, pending, load.kv_used.unwrap_or(0.0));
            self.drift.rotate_right(1);
            self.drift[0] = i32::try_from(drift).unwrap_or(i32::MAX);
        }
        let share = self.prefill_share.get();
        let u = f64::from(load.kv_used.unwrap_or(0.0)).max(share).clamp(0.0, 1.0);
        self.utilisation.add(now, u);
    }

    /// Records a sign of life: an answered probe, or a request answered while a probe was not. An
    /// engine that said it was full may have capacity again.
    pub(crate) fn lives(&mut self, now: Time) {
        self.probe_misses = 0;
        self.said_full &= now < self.full_until;
        if matches!(self.state, State::Unproven | State::Down) {
            self.state = State::Up;
        }
    }

    /// Drops own dispatches before `asked`: a report from then includes them, or none will.
    pub(crate) fn forget_before(&mut self, asked: Time) {
        let before = self.recent.len();
        while self.recent.front().is_some_and(|(at, _)| *at < asked) {
            self.recent.pop_front();
        }
        if self.recent.len() < before {
            self.unreported_tokens = self.recent.iter().map(|(_, tokens)| tokens).sum();
        }
    }

    /// Drops a report that is too old to use.
    pub(crate) fn forget_report(&mut self) {
        self.load = Load { kv_tokens: self.load.kv_tokens, ..Load::default() };
        self.reported = None;
        self.drift = [0; DRIFT_MEMORY];
        self.recent.clear();
        self.unreported_tokens = 0.0;
    }

    /// A correction on which all kept reports agree: other clients' requests, or lost ones of ours.
    pub(crate) fn agreed_drift(&self) -> i32 {
        let low = self.drift.iter().copied().min().unwrap_or(0);
        let high = self.drift.iter().copied().max().unwrap_or(0);
        if low > 0 { low } else { high.min(0) }
    }
}
