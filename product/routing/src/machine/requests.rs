//! A request arrives: it is decided about, and the choice is applied. It is sent, queued or refused; a
//! failed one is decided about again.

use alloc::boxed::Box;
use meridian_base::{Duration, ModelId, ReplicaId, Time};

use super::Routing;
use super::absent::is_absent;
use crate::active::{Active, RequestStage};
use crate::decide::Choice;
use crate::ending::Ending;
use crate::output::Output;
use crate::request::{Outcome, Request};
use crate::why::RejectWhy;

impl Routing {
    pub(super) fn arrived(&mut self, now: Time, request: Request) {
        let active = self.traffic.arrived(now, request);
        self.route(now, Box::new(active));
    }

    /// Decides about a request that is in no queue or replica, and applies the choice. A choice that
    /// sends nothing is recorded at once, and a dispatch after it has left.
    pub(super) fn route(&mut self, now: Time, mut active: Box<Active>) {
        let choice = self.choose(now, &mut active);
        if choice.pick().is_none() {
            let attempt = active.attempt + 1;
            active.shadowed = None;
            if choice == Choice::Hold {
                self.note_shadow(now, &mut active, attempt, None);
            }
            self.write_down(now, &mut active, attempt, None);
        }
        match choice {
            Choice::Send(to) => {
                self.send(now, &mut active, to);
                self.actives.insert(active);
            }
            // The peer that sent it may queue it or know another region.
            Choice::Hold if goes_back(&active) && !self.rule.forwarding().holds_forwards => {
                self.refuse(now, &active, RejectWhy::NoRoom);
            }
            Choice::Hold => self.hold(now, active),
            Choice::Refuse(why) => self.refuse(now, &active, why),
        }
    }

    fn hold(&mut self, now: Time, mut active: Box<Active>) {
        let (id, request, waited) = (active.request.id, &active.request, active.waited());
        assert!(!active.is_away(), "{id} is queued or sent, and not both");
        let model = request.model;
        let pushed = match is_absent(&self.fleet, &self.regions, &active) {
            true => self.queue.push_absent(now, request, waited),
            false => self.queue.push(now, request, waited),
        };
        match pushed {
            Ok(displaced) => {
                if let Some(active) = displaced.and_then(|id| self.actives.take(id)) {
                    self.refuse(now, &active, RejectWhy::Displaced);
                }
                active.stage = RequestStage::Held;
                active.by_choice = false;
                self.note_wait(now, &mut active);
                self.actives.insert(active);
                self.hasten_probes(now, model);
                self.log.say(Output::Held(id));
            }
            Err(why) => self.refuse(now, &active, why),
        }
    }

    /// Speeds up probes while a request waits: replicas that may have capacity again should report
    /// soon, idle or not.
    fn hasten_probes(&mut self, now: Time, model: ModelId) {
        if self.queue.waiting() > 1 {
            return;
        }
        let wanted = now + self.config.probe.busy;
        self.fleet.hasten_probes(now, model, wanted);
    }

    /// Retries a failed request elsewhere, within its limits. A full engine is not a failure: the
    /// request waits in the held queue like any other, and no attempt is spent. If an engine's
    /// connection broke while serving it, exactly one more engine gets it, whatever the result.
    pub(super) fn again(
        &mut self,
        now: Time,
        mut active: Box<Active>,
        replica: Option<ReplicaId>,
        outcome: Outcome,
    ) {
        // A replica here served its model until now, so another one may come.
        active.request.awaited |= replica.is_some() && outcome != Outcome::NotServed;
        if matches!(outcome, Outcome::Full | Outcome::NoRoom) {
            assert!(active.attempt > 0, "a refused attempt was counted");
            active.attempt -= 1;
            self.route(now, active);
            return;
        }
        active.tried.extend(replica);
        let attempts = active.attempt;
        let why = if active.died && outcome != Outcome::Unreached {
            RejectWhy::EngineDied { attempts }
        } else if attempts.saturating_sub(active.prefills_failed) >= self.config.attempts {
            RejectWhy::RetriesExhausted { attempts }
        } else {
            active.died |= outcome == Outcome::Died;
            return self.route(now, active);
        };
        self.refuse(now, &active, why);
    }

    /// Refuses a request, which ends it. No later attempt can show whether its suspect was to
    /// blame, so the failure counts.
    pub(super) fn refuse(&mut self, now: Time, active: &Active, why: RejectWhy) {
        assert!(!active.is_away(), "{} is refused after it left its replica", active.request.id);
        self.blame_suspect(now, active);
        self.log.ended(now, active.decision, Ending::Refused(why));
        let pause = self.fleet.pause(now, active.request.model);
        let queue = self.traffic.retry_after(self.queue.waiting());
        // In whole seconds, and not too early.
        let whole = |pause: Duration| pause.as_secs() + u64::from(pause.subsec_nanos() > 0);
        let pause = pause.map_or(Duration::ZERO, |pause| Duration::from_secs(whole(pause)));
        let (id, retry_after) = (active.request.id, queue.max(pause));
        self.log.say(Output::Reject { id, why, retry_after });
    }
}

/// Whether a request that fits nowhere may go back to the peer that sent it: not if its state is
/// here.
fn goes_back(active: &Active) -> bool {
    active.request.hops > 0 && active.request.pinned.is_none()
}
