//! Replicas join, report, go silent and leave.

use alloc::vec::Vec;
use meridian_base::{ReplicaId, Time};

use super::shadow::both;
use super::{IDLE_AFTER, Output, Routing};
use crate::active::Due;
use crate::adapters::AdapterReport;
use crate::places::Places;
use crate::replica::{Load, Replica, ReplicaSpec, State};

impl Routing {
    pub(super) fn joined(&mut self, now: Time, id: ReplicaId, spec: ReplicaSpec) {
        // One that was there before the limit became lower stays, and its description may change.
        if id.0 >= self.config.max_replicas && self.replicas.get(id).is_none() {
            return;
        }
        let place = spec.place.clone();
        let before = self.replicas.update(now, id, |r| {
            r.load.kv_tokens = spec.kv_tokens.or(r.load.kv_tokens);
            core::mem::replace(&mut r.spec, spec.clone()).place
        });
        if before.is_none() {
            let replica = Replica::new(spec, self.config.breaker, self.config.ms_per_token);
            self.replicas.join(now, id, replica);
            if let Some(teacher) = self.replicas.learned() {
                self.replicas.share_speed(now, teacher);
            }
            self.schedule.enter(now, id, self.config.probe.busy);
        }
        if before.as_ref() != Some(&place) {
            self.moved(now, id, before.is_some());
        }
        self.set_cap(id);
        self.replicas_changed();
        self.release(now);
    }

    /// Handles a replica whose spec now names another place than `before`.
    fn moved(&mut self, now: Time, id: ReplicaId, before: bool) {
        if before {
            self.leave_place(now, id);
        }
        let place = self.replicas.spec(id).map(|spec| spec.place.clone());
        let number = place.map(|place| self.places.enter(&place));
        self.replicas.update(now, id, |r| r.place = number.unwrap_or(r.place));
    }

    /// Releases the number of a replica's place. If that frees it, replicas of a place without a
    /// number get it.
    fn leave_place(&mut self, now: Time, id: ReplicaId) {
        let Some(number) =
            self.replicas.update(now, id, |r| core::mem::replace(&mut r.place, u8::MAX))
        else {
            return;
        };
        if !self.places.leave(number) {
            return;
        }
        let waits = |other: &ReplicaId| {
            *other != id && self.replicas.get(*other).is_some_and(|r| !Places::is_numbered(r.place))
        };
        let waiting: Vec<ReplicaId> = self.replicas.ids().iter().copied().filter(waits).collect();
        for other in waiting {
            self.moved(now, other, false);
        }
    }

    /// A replica that stops draining is treated as new: it receives requests, and its next report
    /// gives its load.
    pub(super) fn resumed(&mut self, now: Time, id: ReplicaId) {
        self.replicas.update(now, id, |r| {
            if r.state == State::Draining {
                r.state = State::Unproven;
            }
        });
        self.release(now);
    }

    pub(super) fn left(&mut self, now: Time, id: ReplicaId) {
        self.schedule.leave(id);
        self.leave_place(now, id);
        both(&mut self.rule, &mut self.shadow).for_each(|rule| rule.clear(id));
        self.legs_left(now, id);
        self.actives.orphan(id);
        self.replicas.leave(id);
        self.replicas_changed();
    }

    pub(super) fn replicas_changed(&mut self) {
        self.serves.clear();
        self.prefills.clear();
        for id in self.replicas.ids() {
            let Some(spec) = self.replicas.spec(*id) else { continue };
            let answers = spec.pool.role.answers();
            let of = if answers { &mut self.serves } else { &mut self.prefills };
            for model in &spec.models {
                of.entry(*model).or_default().push(*id);
            }
        }
        for rule in both(&mut self.rule, &mut self.shadow) {
            rule.policy.on_replicas_changed(&self.replicas);
        }
    }

    pub(super) fn set_cap(&mut self, id: ReplicaId) {
        let tokens = self.replicas.kv_tokens(id).unwrap_or(self.config.default_kv_tokens);
        both(&mut self.rule, &mut self.shadow).for_each(|rule| rule.set_cap(id, tokens));
    }

    pub(super) fn reported(&mut self, now: Time, id: ReplicaId, asked: Time, load: Load) {
        // A report can arrive from a replica that is not yet, or no longer, in the fleet.
        if self.replicas.get(id).is_none() {
            return;
        }
        let busy = self.is_busy(now, id);
        let before = self.replicas.kv_tokens(id);
        let probed = self.replicas.update(now, id, |r| {
            r.report(now, asked, load);
            core::mem::take(&mut r.probing)
        });
        let Some(probed) = probed else { return };
        self.mark_overdue(now, asked, id);
        self.say_up(now, id);
        if self.replicas.kv_tokens(id) != before {
            self.set_cap(id);
        }
        // Reports also arrive unasked, in an answer's headers; only a probed one moves the
        // schedule.
        if probed {
            self.next_probe(asked, now, id, busy);
        }
        self.release(now);
    }

    pub(super) fn adapters_reported(&mut self, now: Time, id: ReplicaId, report: AdapterReport) {
        if self.replicas.get(id).is_some() {
            self.adapters.extend(&report.listed);
            self.replicas.update(now, id, |r| r.adapters.reported(report));
        }
    }

    pub(super) fn probe_failed(&mut self, now: Time, id: ReplicaId) {
        let config = self.config.probe;
        let (mut probed, mut silent) = (false, false);
        let went_down = self.replicas.update(now, id, |r| {
            probed = core::mem::take(&mut r.probing);
            r.probe_misses = r.probe_misses.saturating_add(1);
            if r.reported.is_some_and(|at| now.since(at) > config.stale) {
                r.forget_report();
            }
            let missed = r.probe_misses >= config.down_after;
            // This applies to a draining replica too: its last requests must not wait for it.
            silent = missed && !r.silent;
            r.silent |= missed;
            let down = missed && matches!(r.state, State::Up | State::Unproven);
            if down {
                r.state = State::Down;
                r.forget_report();
                r.adapters.forget();
            }
            down
        });
        if went_down == Some(true) {
            // A replica that returns has an empty cache.
            both(&mut self.rule, &mut self.shadow).for_each(|rule| rule.clear(id));
            self.set_cap(id);
        }
        if silent {
            self.outputs.push_back(Output::Down(id));
        }
        if probed {
            self.next_probe(now, now, id, true);
        }
    }

    /// Handles a replica whose status page is silent while it still answers requests.
    pub(super) fn alive(&mut self, now: Time, id: ReplicaId, asked: Time) {
        let stale = self.config.probe.stale;
        let probed = self.replicas.update(now, id, |r| {
            r.lives(now);
            if r.reported.is_some_and(|at| now.since(at) > stale) {
                r.forget_report();
            }
            if r.reported.is_none() {
                r.forget_before(asked);
            }
            core::mem::take(&mut r.probing)
        });
        let Some(probed) = probed else { return };
        self.say_up(now, id);
        if probed {
            self.next_probe(now, now, id, true);
        }
        self.release(now);
    }

    /// Reports to the driver that a replica that was down is alive.
    fn say_up(&mut self, now: Time, id: ReplicaId) {
        if self.replicas.update(now, id, |r| core::mem::take(&mut r.silent)) == Some(true) {
            self.outputs.push_back(Output::Up(id));
        }
    }

    /// Whether a fresh report of this replica can change a decision.
    fn is_busy(&self, now: Time, id: ReplicaId) -> bool {
        let outstanding = self.replicas.row(id).outstanding > 0;
        let coming = self.last_arrival.is_some_and(|at| now.since(at) < IDLE_AFTER);
        self.held.len() > 0 || outstanding || (coming && self.replicas.ids().len() > 1)
    }

    pub(super) fn next_probe(&mut self, asked: Time, now: Time, id: ReplicaId, busy: bool) {
        let pace = if busy { self.config.probe.busy } else { self.config.probe.idle };
        let at = (asked + pace).max(now);
        self.schedule.set(at, id);
        self.replicas.update(now, id, |r| r.next_probe = at);
    }

    /// Moves a replica's next probe after a change of the pace, unless one is in flight.
    pub(super) fn pace_probes(&mut self, now: Time, id: ReplicaId) {
        if self.replicas.get(id).is_some_and(|r| !r.probing) {
            self.schedule.leave(id);
            let busy = self.is_busy(now, id);
            let pace = if busy { self.config.probe.busy } else { self.config.probe.idle };
            let at = self.schedule.enter(now, id, pace);
            self.replicas.update(now, id, |r| r.next_probe = at);
        }
    }

    /// Counts the requests at a replica whose first token was due at `due`.
    pub(super) fn mark_overdue(&mut self, now: Time, due: Time, id: ReplicaId) {
        let actives = &mut self.actives;
        let begun = self.replicas.update(now, id, |r| {
            // An answer that does not stream shows no first token before its end, so reports are
            // the better sign: if nothing is pending, its prompt is computed.
            let reports = r.load.pending.is_some();
            let runs = r.load.pending == Some(0);
            let (mut begun, mut pending) = (Vec::new(), Vec::new());
            while r.due.front().is_some_and(|(at, _)| *at <= due) {
                let Some(entry) = r.due.pop_front() else { break };
                match actives.due(entry.1, id, reports) {
                    Some(Due::Overdue) => r.overdue += 1,
                    Some(Due::Unseen { unmatched }) if runs => {
                        actives.has_begun(entry.1);
                        r.first_token(entry.1, unmatched);
                        begun.push(entry.1);
                    }
                    // A later report will tell.
                    Some(Due::Unseen { .. }) => pending.push(entry),
                    None => {}
                }
            }
            pending.into_iter().rev().for_each(|entry| r.due.push_front(entry));
            begun
        });
        for request in begun.into_iter().flatten() {
            self.presume_fetched(now, request);
        }
    }
}
