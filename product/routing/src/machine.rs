//! The routing machine: its tables and its five methods. The modules next to it handle replicas
//! joining and leaving, the life of a request, and the release of held requests: each changes the
//! tables by what happened, or applies a choice of `decide.rs`.

mod absent;
mod configure;
mod digest;
mod dispatch;
mod ends;
mod first_token;
mod fleet;
mod forwards;
mod handover;
mod legs;
mod peers;
mod promise;
mod read;
mod release;
mod requests;
mod shadow;
mod siblings;

use alloc::boxed::Box;
use alloc::vec::Vec;
use meridian_base::{RequestId, Time};

use self::forwards::End;
pub use self::handover::MOST_HOLDINGS;
use self::shadow::{Shadow, both};
use crate::active::{Active, Actives};
use crate::config::Config;
use crate::decide::{self, Choice, Scratch, Tables};
use crate::explain::Decision;
use crate::fleet::OwnReplicas;
use crate::input::Input;
use crate::log::Log;
use crate::output::Output;
use crate::queue::WaitingQueue;
use crate::regions::Regions;
use crate::replica::State;
use crate::request::Request;
use crate::rule::{Bounds, PolicyState};
use crate::siblings::SiblingRequests;
use crate::traffic::Traffic;

/// One region's routing decisions. See the crate's documentation for the contract.
pub struct Routing {
    config: Config,
    fleet: OwnReplicas,
    queue: WaitingQueue,
    regions: Regions,
    rule: PolicyState,
    shadow: Option<Box<Shadow>>,
    /// Requests that have arrived and not ended.
    actives: Actives,
    /// Requests of siblings that are at replicas.
    siblings: SiblingRequests,
    traffic: Traffic,
    log: Log,
    buffers: Buffers,
    /// Recomputes matches every time, for tests.
    forgetful: bool,
    /// Compares forwards with their credit, for tests.
    checks_credits: bool,
}

/// Memory that is used again.
#[derive(Debug, Default)]
struct Buffers {
    /// Of the newest decision.
    newest: Scratch,
    /// Of the best decision so far while held requests are compared.
    best: Scratch,
    /// Held requests in serving order.
    order: Vec<RequestId>,
}

impl Routing {
    /// A region without replicas.
    #[must_use]
    pub fn new(config: Config, seed: u64) -> Routing {
        let targets = usize::from(config.max_replicas);
        let bounds = Bounds { entries: config.index_entries, targets };
        let policy = (config.policy, &config.params);
        let mut routing = Routing {
            rule: PolicyState::new(seed, policy, config.admission, bounds),
            shadow: None,
            fleet: OwnReplicas::new(config.admission),
            queue: WaitingQueue::new(config.held),
            regions: Regions::new(config.topology, config.peering),
            actives: Actives::default(),
            siblings: SiblingRequests::default(),
            traffic: Traffic::new(),
            log: Log::new(config.explain_keep),
            buffers: Buffers::default(),
            forgetful: false,
            checks_credits: false,
            config,
        };
        routing.shadow_by(routing.config.shadow.clone());
        routing
    }

    /// Takes one event. `now` never goes back.
    pub fn handle(&mut self, now: Time, input: Input) {
        self.write_dispatch();
        self.before_event(now);
        both(&mut self.rule, &mut self.shadow).for_each(|rule| rule.set_now(now));
        match input {
            Input::Joined { id, spec } => self.joined(now, id, spec),
            Input::Draining(id) => {
                self.update_and_sort(now, id, |r| r.state = State::Draining);
            }
            Input::Resumed(id) => self.resumed(now, id),
            Input::Left(id) => self.left(now, id),
            Input::Inherited { id, holdings } => self.inherited(now, id, &holdings),
            Input::Reported { id, asked, load } => self.reported(now, id, asked, load),
            Input::Adapters { id, report } => self.adapters_reported(now, id, report),
            Input::Contexts { id, contexts } => self.contexts_reported(now, id, contexts),
            Input::Paused { id, pause } => {
                self.fleet.update(now, id, |r| r.pauses(now, pause));
            }
            Input::ProbeFailed(id) => self.probe_failed(now, id),
            Input::Alive { id, asked } => self.alive(now, id, asked),
            Input::Arrived(request) => self.arrived(now, request),
            Input::Prefilled { id, usage } => self.prefilled(now, id, usage),
            Input::PrefillFailed { id, outcome } => self.prefill_failed(now, id, outcome),
            Input::FirstToken(id) => self.first_token(now, id),
            Input::DiedElsewhere(id) => {
                if let Some(active) = self.actives.get_mut(id) {
                    active.died = true;
                }
            }
            Input::Finished { id, outcome, retry, usage, extended, served } => {
                self.finished(now, id, End { outcome, retry, usage, extended, served });
            }
            Input::Cancelled(id) => self.cancelled(now, id),
            Input::PeerJoined { id, spec } => self.peer_joined(now, id, spec),
            Input::PeerLeft(id) => self.peer_left(now, id),
            Input::Digested { peer, sent, rtt, digest } => {
                self.digested(now, peer, sent, rtt, &digest);
            }
            Input::Configured { policy, params, admission } => {
                self.configured(now, policy, params, admission);
            }
            Input::ShadowedBy(config) => self.shadow_by(config),
            Input::Tuned(config) => self.tuned(now, *config),
            Input::Atlas(atlas) => {
                self.regions.known(atlas);
                self.sort_queue(now);
                self.release(now);
            }
            Input::Sibling { from, records } => self.sibling_tells(now, from, records),
            Input::SiblingLost(sibling) => self.sibling_lost(now, sibling),
            Input::StealAsked { by, count } => self.steal_asked(now, by, count),
        }
        self.share_queue(now);
    }

    /// The next action. Once it returns `None`, every dispatch is recorded in the counts, the
    /// journal and the index.
    pub fn poll(&mut self) -> Option<Output> {
        let output = self.log.take();
        if output.is_some() {
            return output;
        }
        self.write_dispatch();
        // The record of the dispatch for siblings.
        self.log.take()
    }

    /// When to call [`Self::handle_timeout`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        [self.fleet.next_probe(), self.queue.next_event()].into_iter().flatten().min()
    }

    /// Runs everything that is due at `now`.
    pub fn handle_timeout(&mut self, now: Time) {
        self.write_dispatch();
        while let Some(id) = self.fleet.due_probe(now) {
            // An engine that reports its load is judged when a report comes.
            if !self.fleet.replicas().reports(id) {
                self.mark_overdue(now, now, id);
            }
            for rule in both(&mut self.rule, &mut self.shadow) {
                rule.expire(now, id);
            }
            if self.fleet.update(now, id, |r| r.probing = true).is_some() {
                self.log.say(Output::Probe(id));
            }
        }
        if self.queue.retick(now) {
            self.release(now);
        }
        while let Some(id) = self.queue.expired(now) {
            let Some(active) = self.actives.take(id) else { break };
            self.expire(now, &active);
        }
        self.share_queue(now);
    }

    /// Decides about `request` as if it arrived now, without changing state: later decisions are
    /// the same as without the call.
    pub fn dry_run(&mut self, now: Time, request: Request) -> Decision {
        let mut active = self.traffic.next(now, request);
        let choice = self.choose(now, &mut active);
        let attempt = active.attempt + 1;
        let (id, resumed, pick) = (active.request.id, active.resumed, choice.pick());
        let mut decision = Decision { id, at: now, attempt, resumed, pick, ..Decision::default() };
        self.tables().describe_pair(&mut decision, choice.prefill());
        self.tables().describe(&active, &self.buffers.newest, usize::MAX, &mut decision);
        self.siblings.describe(&self.fleet, &mut decision);
        if !matches!(choice, Choice::Refuse(_)) {
            let did = choice.pick().map(|(target, _)| (target, choice.prefill()));
            decision.shadow = self.ask_shadow(now, &mut active, attempt, did);
        }
        decision
    }

    /// What a decision reads now.
    #[inline]
    fn tables(&self) -> Tables<'_> {
        Tables::of(&self.fleet, &self.queue, &self.regions, &self.rule)
    }

    /// Decides about one request, changing only buffers.
    fn choose(&mut self, now: Time, active: &mut Active) -> Choice {
        self.write_dispatch();
        self.regions.refresh(&mut active.permitted, &active.request);
        let Routing { fleet, queue, regions, rule, buffers, .. } = self;
        let scratch = &mut buffers.newest;
        scratch.start(active, !self.forgetful);
        let choice = decide::decide(&Tables::of(fleet, queue, regions, rule), now, active, scratch);
        active.recall = scratch.end();
        choice
    }

    /// Checks the invariants that hold between events, in time proportional to the tables. From the
    /// first call on, the machine compares each forward with the credit that its policy grants.
    ///
    /// # Panics
    ///
    /// When one does not hold, which is a defect of the machine.
    pub fn check_invariants(&mut self) {
        self.checks_credits = true;
        self.write_dispatch();
        self.queue.check_invariants(self.actives.held());
        self.check_absent();
        self.fleet.check_invariants(|id| self.actives.legs_at(id));
        let theirs = |id| self.fleet.get(id).map(|replica| replica.of_siblings.outstanding);
        self.siblings.check_invariants(self.fleet.ids(), theirs);
        self.regions.check_invariants(&self.actives.away());
        both(&mut self.rule, &mut self.shadow).for_each(|rule| rule.check_invariants());
        self.log.check_invariants();
    }

    /// Recomputes the matches of held requests every time they are examined, as a reference for
    /// tests.
    #[doc(hidden)]
    pub fn forget_matches(&mut self) {
        self.forgetful = true;
    }
}
