//! Replicas join, report, go silent and leave.

use alloc::vec::Vec;
use meridian_base::{ModelId, ReplicaId, Time};

use super::Routing;
use super::shadow::both;
use crate::active::Due;
use crate::adapters::AdapterReport;
use crate::output::Output;
use crate::places::Places;
use crate::policy::PolicyEvent;
use crate::replica::{Load, Replica, ReplicaSpec, State};

impl Routing {
    pub(super) fn joined(&mut self, now: Time, id: ReplicaId, spec: ReplicaSpec) {
        // One that was there before the limit became lower stays, and its description may change.
        if id.0 >= self.config.max_replicas && self.fleet.get(id).is_none() {
            return;
        }
        let place = spec.place.clone();
        let before = self.fleet.update(now, id, |r| {
            r.load.kv_tokens = spec.kv_tokens.or(r.load.kv_tokens);
            r.of_models.keep(&spec.models);
            core::mem::replace(&mut r.spec, spec.clone()).place
        });
        if before.is_none() {
            let replica = Replica::new(spec, self.config.breaker, self.config.ms_per_token);
            self.fleet.join(now, id, replica, self.config.probe.busy);
        } else {
            self.fleet.sort(now, id);
        }
        if before.as_ref() != Some(&place) {
            self.moved(now, id, before.is_some());
        }
        self.set_cap(id);
        self.replicas_changed(now);
        self.release(now);
    }

    /// Handles a replica whose spec now names another place than `before`.
    fn moved(&mut self, now: Time, id: ReplicaId, before: bool) {
        if before {
            self.leave_place(now, id);
        }
        let place = self.fleet.replicas().spec(id).map(|spec| spec.place.clone());
        let number = place.map(|place| self.regions.enter_place(&place));
        self.fleet.update(now, id, |r| r.place = number.unwrap_or(r.place));
    }

    /// Releases the number of a replica's place. If that frees it, replicas of a place without a
    /// number get it.
    fn leave_place(&mut self, now: Time, id: ReplicaId) {
        let Some(number) =
            self.fleet.update(now, id, |r| core::mem::replace(&mut r.place, u8::MAX))
        else {
            return;
        };
        if !self.regions.leave_place(number) {
            return;
        }
        let waits = |other: &ReplicaId| {
            *other != id && self.fleet.get(*other).is_some_and(|r| !Places::is_numbered(r.place))
        };
        let waiting: Vec<ReplicaId> = self.fleet.ids().iter().copied().filter(waits).collect();
        for other in waiting {
            self.moved(now, other, false);
        }
    }

    /// A replica that stops draining is treated as new: it receives requests, and its next report
    /// gives its load.
    pub(super) fn resumed(&mut self, now: Time, id: ReplicaId) {
        self.update_and_sort(now, id, |r| {
            if r.state == State::Draining {
                r.state = State::Unproven;
            }
        });
        self.release(now);
    }

    pub(super) fn left(&mut self, now: Time, id: ReplicaId) {
        self.leave_place(now, id);
        both(&mut self.rule, &mut self.shadow).for_each(|rule| rule.clear(id));
        self.legs_left(now, id);
        self.actives.orphan(id);
        self.siblings.replica_left(id);
        self.fleet.leave(id);
        self.replicas_changed(now);
    }

    pub(super) fn replicas_changed(&mut self, now: Time) {
        self.fleet.list_models();
        self.sort_queue(now);
        for rule in both(&mut self.rule, &mut self.shadow) {
            rule.report(PolicyEvent::Replicas(self.fleet.replicas()));
        }
    }

    pub(super) fn set_cap(&mut self, id: ReplicaId) {
        let tokens = self.fleet.replicas().kv_tokens(id).unwrap_or(self.config.default_kv_tokens);
        both(&mut self.rule, &mut self.shadow).for_each(|rule| rule.set_cap(id, tokens));
    }

    pub(super) fn reported(&mut self, now: Time, id: ReplicaId, asked: Time, load: Load) {
        // A report can arrive from a replica that is not yet, or no longer, in the fleet.
        if self.fleet.get(id).is_none() {
            return;
        }
        let busy = self.is_busy(now, id);
        let before = self.fleet.replicas().kv_tokens(id);
        let probed = self.update_and_sort(now, id, |r| {
            r.report(now, asked, load);
            core::mem::take(&mut r.probing)
        });
        let Some(probed) = probed else { return };
        self.mark_overdue(now, asked, id);
        self.say_up(now, id);
        if self.fleet.replicas().kv_tokens(id) != before {
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
        if self.fleet.get(id).is_some() {
            self.fleet.learn_adapters(&report.listed);
            self.fleet.update(now, id, |r| r.adapters.reported(report));
        }
    }

    pub(super) fn contexts_reported(
        &mut self,
        now: Time,
        id: ReplicaId,
        contexts: Vec<(ModelId, u32)>,
    ) {
        let is_news = self.fleet.get(id).is_some_and(|r| r.contexts != contexts);
        if is_news {
            self.fleet.update(now, id, |r| r.contexts = contexts);
            self.fleet.list_models();
            self.release(now);
        }
    }

    pub(super) fn probe_failed(&mut self, now: Time, id: ReplicaId) {
        let config = self.config.probe;
        let (mut probed, mut silent) = (false, false);
        let went_down = self.update_and_sort(now, id, |r| {
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
            }
            if down || silent {
                r.adapters.forget();
            }
            down
        });
        if went_down == Some(true) || silent {
            // A replica that returns has an empty cache, also one that drained and was not let go.
            both(&mut self.rule, &mut self.shadow).for_each(|rule| rule.clear(id));
        }
        if went_down == Some(true) {
            self.set_cap(id);
        }
        if silent {
            self.log.say(Output::Down(id));
        }
        if probed {
            self.next_probe(now, now, id, true);
        }
    }

    /// Handles a replica whose status page is silent while it still answers requests.
    pub(super) fn alive(&mut self, now: Time, id: ReplicaId, asked: Time) {
        let stale = self.config.probe.stale;
        let probed = self.update_and_sort(now, id, |r| {
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
        if self.fleet.update(now, id, |r| core::mem::take(&mut r.silent)) == Some(true) {
            self.log.say(Output::Up(id));
        }
    }

    /// Whether a fresh report of this replica can change a decision.
    fn is_busy(&self, now: Time, id: ReplicaId) -> bool {
        let outstanding = self.fleet.row(id).outstanding > 0;
        let coming = self.traffic.is_coming(now);
        self.queue.waiting() > 0 || outstanding || (coming && self.fleet.ids().len() > 1)
    }

    pub(super) fn next_probe(&mut self, asked: Time, now: Time, id: ReplicaId, busy: bool) {
        let pace = if busy { self.config.probe.busy } else { self.config.probe.idle };
        let at = (asked + pace).max(now);
        self.fleet.probe_at(now, id, at);
    }

    /// Moves a replica's next probe after a change of the pace, unless one is in flight.
    pub(super) fn pace_probes(&mut self, now: Time, id: ReplicaId) {
        let busy = self.is_busy(now, id);
        let pace = if busy { self.config.probe.busy } else { self.config.probe.idle };
        self.fleet.pace_probe(now, id, pace);
    }

    /// Counts the requests at a replica whose first token was due at `due`.
    pub(super) fn mark_overdue(&mut self, now: Time, due: Time, id: ReplicaId) {
        let actives = &mut self.actives;
        let begun = self.fleet.update(now, id, |r| {
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
