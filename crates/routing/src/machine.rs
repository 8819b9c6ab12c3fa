//! The machine: inputs in, outputs out, and the life of a request between them.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use meridian_base::{Duration, ModelId, ReplicaId, RequestId, Rng, Time};

use crate::active::{Active, Actives, Place};
use crate::admission::Admission;
use crate::breaker::BreakerConfig;
use crate::decide::{Choice, Record, Scratch};
use crate::explain::{Decision, Journal};
use crate::held::{Held, HeldConfig};
use crate::index::{Insert, PrefixIndex};
use crate::policy::{Params, Policy, Spec};
use crate::probe::{ProbeConfig, Schedule};
use crate::replica::{Load, Replica, ReplicaSpec, Replicas, State};
use crate::request::{Outcome, Request, Usage};
use crate::why::{RejectWhy, Why};

/// How a region decides.
pub struct Config {
    /// The policy and its parameters.
    pub policy: &'static Spec,
    /// Complete parameters of the policy.
    pub params: Params,
    /// When a replica may be given another request.
    pub admission: Admission,
    /// The held queue's bounds.
    pub held: HeldConfig,
    /// Attempts a request gets before it is given up, the first included.
    pub attempts: u32,
    /// When breakers open.
    pub breaker: BreakerConfig,
    /// Pace of probes.
    pub probe: ProbeConfig,
    /// Prefill time to start from, ms a token, until answers teach better.
    pub ms_per_token: f64,
    /// KV size assumed where neither config nor engine tells, tokens.
    pub default_kv_tokens: u64,
    /// Most replicas the region can have.
    pub max_replicas: u16,
    /// Decisions kept for explain.
    pub explain_keep: usize,
    /// Candidates written down with a decision; a dry run writes all.
    pub explain_candidates: usize,
}

impl Config {
    /// `policy` with its published defaults.
    #[must_use]
    pub fn new(policy: &'static Spec) -> Config {
        Config {
            policy,
            params: Params::defaults(policy),
            admission: policy.admission,
            held: HeldConfig::default(),
            attempts: 3,
            breaker: BreakerConfig::default(),
            probe: ProbeConfig::default(),
            ms_per_token: 0.1,
            default_kv_tokens: 500_000,
            max_replicas: 1024,
            explain_keep: 256,
            explain_candidates: 64,
        }
    }
}

/// An event.
#[derive(Clone, Debug)]
pub enum Input {
    /// A replica joins, or an existing one is described anew.
    Joined {
        /// Its id.
        id: ReplicaId,
        /// What it serves.
        spec: ReplicaSpec,
    },
    /// A replica finishes what it has and takes nothing new.
    Draining(ReplicaId),
    /// A replica is gone. Its requests are ended by the driver.
    Left(ReplicaId),
    /// A probe was answered.
    Reported {
        /// Which replica.
        id: ReplicaId,
        /// When the probe was sent: dispatches after this are not in the report.
        asked: Time,
        /// What the engine said; all `None` for an engine that only says that it lives.
        load: Load,
    },
    /// A probe was not answered.
    ProbeFailed(ReplicaId),
    /// A request arrives.
    Arrived(Request),
    /// The first token of a request's answer came.
    FirstToken(RequestId),
    /// An attempt ended.
    Finished {
        /// The request.
        id: RequestId,
        /// How.
        outcome: Outcome,
        /// No byte went to the client yet: it may be tried elsewhere.
        retry: bool,
        /// What the engine counted.
        usage: Option<Usage>,
        /// Block hashes of prompt and reply together, where the driver followed the reply.
        extended: Option<Vec<u64>>,
    },
    /// The client is gone.
    Cancelled(RequestId),
}

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Send the request to the replica.
    Dispatch {
        /// The request.
        id: RequestId,
        /// Where.
        replica: ReplicaId,
        /// Why there.
        why: Why,
        /// Prompt tokens expected in its cache.
        matched_tokens: u32,
        /// Which attempt this is, from 1.
        attempt: u32,
    },
    /// No replica has room: the request waits here. Nothing to do.
    Held(RequestId),
    /// Refuse the request. It is over.
    Reject {
        /// The request.
        id: RequestId,
        /// Why.
        why: RejectWhy,
        /// When trying again may help.
        retry_after: Duration,
    },
    /// Ask a replica how it is; answer with [`Input::Reported`] or [`Input::ProbeFailed`].
    Probe(ReplicaId),
}

/// One region's decisions. See the crate's documentation for the contract.
pub struct Routing {
    pub(crate) config: Config,
    pub(crate) policy: Box<dyn Policy>,
    pub(crate) rng: Rng,
    pub(crate) replicas: Replicas,
    pub(crate) serves: BTreeMap<ModelId, Vec<ReplicaId>>,
    pub(crate) index: Option<PrefixIndex>,
    pub(crate) insert: Insert,
    cap_blocks: Option<usize>,
    pub(crate) actives: Actives,
    pub(crate) held: Held,
    pub(crate) journal: Journal,
    pub(crate) scratch: Scratch,
    schedule: Schedule,
    outputs: VecDeque<Output>,
    /// The newest dispatch, while nothing has been remembered of it.
    unwritten: Option<Sent>,
    last_arrival: Option<Time>,
    released: Vec<RequestId>,
    /// Rate of finished requests, for Retry-After.
    finished: crate::cost::Ewma,
    last_finish: Time,
    /// When held requests are looked at even though nothing happened.
    retick: Option<Time>,
}

/// A dispatch as it was decided.
#[derive(Clone, Copy)]
struct Sent {
    at: Time,
    id: RequestId,
    replica: ReplicaId,
    why: Why,
}

/// Held requests are looked at again at least this often: a policy may wait for time itself.
const RETICK: Duration = Duration::from_millis(50);
/// A region without arrivals for this long is idle.
const IDLE_AFTER: Duration = Duration::from_secs(2);

impl Routing {
    /// A region without replicas.
    #[must_use]
    pub fn new(config: Config, seed: u64) -> Routing {
        let spec = (config.policy.index)(&config.params);
        Routing {
            policy: (config.policy.build)(&config.params),
            rng: Rng::new(seed),
            replicas: Replicas::new(config.admission),
            serves: BTreeMap::new(),
            index: spec.map(|s| {
                PrefixIndex::new(s.total_blocks, usize::from(config.max_replicas), s.evict)
                    .with_ttl(s.ttl)
            }),
            insert: spec.map_or(Insert::OnDispatch, |s| s.insert),
            cap_blocks: spec.and_then(|s| s.per_target_blocks),
            actives: Actives::default(),
            held: Held::new(config.held),
            journal: Journal::new(config.explain_keep),
            scratch: Scratch::default(),
            schedule: Schedule::default(),
            outputs: VecDeque::new(),
            unwritten: None,
            last_arrival: None,
            released: Vec::new(),
            finished: crate::cost::Ewma::new(Duration::from_secs(10)),
            last_finish: Time::ZERO,
            retick: None,
            config,
        }
    }

    /// Takes one event. `now` never goes back.
    pub fn handle(&mut self, now: Time, input: Input) {
        self.write_dispatch();
        if let Some(index) = &mut self.index {
            index.set_now(now);
        }
        match input {
            Input::Joined { id, spec } => self.joined(now, id, spec),
            Input::Draining(id) => {
                self.replicas.update(now, id, |r| r.state = State::Draining);
            }
            Input::Left(id) => self.left(id),
            Input::Reported { id, asked, load } => self.reported(now, id, asked, load),
            Input::ProbeFailed(id) => self.probe_failed(now, id),
            Input::Arrived(request) => self.arrived(now, request),
            Input::FirstToken(id) => self.first_token(now, id),
            Input::Finished { id, outcome, retry, usage, extended } => {
                self.finished(now, id, outcome, retry, usage, extended);
            }
            Input::Cancelled(id) => self.cancelled(now, id),
        }
    }

    /// The next thing to do. With `None`, what was sent is in the books, the journal and the index.
    pub fn poll(&mut self) -> Option<Output> {
        let output = self.outputs.pop_front();
        if output.is_none() {
            self.write_dispatch();
        }
        output
    }

    /// When [`Self::handle_timeout`] wants to be called.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let times = [self.schedule.next(), self.held.next_expiry(), self.retick];
        times.into_iter().flatten().min()
    }

    /// Does what is due at `now`.
    pub fn handle_timeout(&mut self, now: Time) {
        self.write_dispatch();
        while let Some(id) = self.schedule.pop(now) {
            self.mark_overdue(now, id);
            if let Some(index) = &mut self.index {
                index.set_now(now);
                index.expire(id.0);
            }
            if self.replicas.update(now, id, |r| r.probing = true).is_some() {
                self.outputs.push_back(Output::Probe(id));
            }
        }
        if self.retick.is_some_and(|t| t <= now) {
            self.retick = None;
            self.release(now);
        }
        while let Some(id) = self.held.expired(now) {
            let Some(active) = self.actives.take(id) else { break };
            self.held.remove(id, active.request.tenant);
            self.refuse(id, RejectWhy::HeldTooLong { limit: self.config.held.max_wait });
        }
    }

    /// The replica table.
    #[must_use]
    pub fn replicas(&self) -> &Replicas {
        &self.replicas
    }

    /// Requests held now.
    #[must_use]
    pub fn held_len(&self) -> u32 {
        self.held.len()
    }

    /// Requests that entered and have not left.
    #[must_use]
    pub fn active_len(&self) -> usize {
        self.actives.len()
    }

    /// The configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The prefix index, where the policy keeps one.
    #[must_use]
    pub fn index(&self) -> Option<&PrefixIndex> {
        self.index.as_ref()
    }

    /// The newest decision about a request, while it is kept.
    #[must_use]
    pub fn explain(&self, id: RequestId) -> Option<&Decision> {
        self.journal.find(id)
    }

    /// The policy's terms of a candidate's score.
    #[must_use]
    pub fn terms(&self, candidate: &crate::explain::CandidateRow) -> Vec<(&'static str, f64)> {
        self.policy.terms(candidate)
    }

    /// Decides about `request` without sending or remembering anything but the decision.
    pub fn dry_run(&mut self, now: Time, request: Request) -> Option<&Decision> {
        let id = request.id;
        let active = Active::new(now, request);
        self.choose(now, &active, Record::All);
        self.journal.find(id)
    }

    // ---- replicas ----

    fn joined(&mut self, now: Time, id: ReplicaId, spec: ReplicaSpec) {
        if id.0 >= self.config.max_replicas {
            return;
        }
        let known = self.replicas.update(now, id, |r| {
            r.load.kv_tokens = spec.kv_tokens.or(r.load.kv_tokens);
            r.spec = spec.clone();
        });
        if known.is_none() {
            let replica = Replica::new(spec, self.config.breaker, self.config.ms_per_token);
            self.replicas.join(now, id, replica);
            if let Some(teacher) = self.replicas.learned() {
                self.replicas.share_speed(now, teacher);
            }
            self.schedule.enter(now, id, self.config.probe.busy);
        }
        self.set_cap(id);
        self.replicas_changed();
        self.release(now);
    }

    fn left(&mut self, id: ReplicaId) {
        self.schedule.leave(id);
        if let Some(index) = &mut self.index {
            index.remove_target(id.0);
        }
        self.actives.orphan(id);
        self.replicas.leave(id);
        self.replicas_changed();
    }

    fn replicas_changed(&mut self) {
        self.serves.clear();
        for id in self.replicas.ids() {
            for model in self.replicas.spec(*id).map_or(&[][..], |s| &s.models) {
                self.serves.entry(*model).or_default().push(*id);
            }
        }
        self.policy.replicas_changed(&self.replicas);
    }

    fn set_cap(&mut self, id: ReplicaId) {
        let Some(index) = &mut self.index else { return };
        let tokens = self.replicas.kv_tokens(id).unwrap_or(self.config.default_kv_tokens);
        let spec = (self.config.policy.index)(&self.config.params);
        // About 4 bytes a token: a block of B bytes stands for B / 4 tokens.
        let block_tokens = spec.map_or(16, |s| (s.block_bytes / 4).max(1)) as u64;
        index.set_cap(id.0, self.cap_blocks.unwrap_or((tokens / block_tokens).max(1) as usize));
    }

    fn reported(&mut self, now: Time, id: ReplicaId, asked: Time, load: Load) {
        let before = self.replicas.kv_tokens(id);
        let busy = self.is_busy(now, id);
        let probed = self.replicas.update(now, id, |r| {
            r.report(now, asked, load);
            if matches!(r.state, State::Unproven | State::Down) {
                r.state = State::Up;
            }
            core::mem::take(&mut r.probing)
        });
        let Some(probed) = probed else { return };
        if self.replicas.kv_tokens(id) != before {
            self.set_cap(id);
        }
        // Reports also come unasked, in an answer's headers; only an asked one moves the schedule.
        if probed {
            self.next_probe(asked, now, id, busy);
        }
        self.release(now);
    }

    fn probe_failed(&mut self, now: Time, id: ReplicaId) {
        let config = self.config.probe;
        let mut probed = false;
        let went_down = self.replicas.update(now, id, |r| {
            probed = core::mem::take(&mut r.probing);
            r.probe_misses += 1;
            if r.reported.is_some_and(|at| now.since(at) > config.stale) {
                r.forget_report();
            }
            let down = r.probe_misses >= config.down_after
                && matches!(r.state, State::Up | State::Unproven);
            if down {
                r.state = State::Down;
                r.forget_report();
            }
            down
        });
        if went_down == Some(true)
            && let Some(index) = &mut self.index
        {
            // A replica that comes back comes back with an empty cache.
            index.remove_target(id.0);
            self.set_cap(id);
        }
        if probed {
            self.next_probe(now, now, id, true);
        }
    }

    /// Whether a fresh report of this replica can change a choice.
    fn is_busy(&self, now: Time, id: ReplicaId) -> bool {
        let outstanding = self.replicas.row(id).outstanding > 0;
        let coming = self.last_arrival.is_some_and(|at| now.since(at) < IDLE_AFTER);
        self.held.len() > 0 || outstanding || (coming && self.replicas.ids().len() > 1)
    }

    fn next_probe(&mut self, asked: Time, now: Time, id: ReplicaId, busy: bool) {
        let pace = if busy { self.config.probe.busy } else { self.config.probe.idle };
        let at = (asked + pace).max(now);
        self.schedule.set(at, id);
        self.replicas.update(now, id, |r| r.next_probe = at);
    }

    fn mark_overdue(&mut self, now: Time, id: ReplicaId) {
        let actives = &mut self.actives;
        self.replicas.update(now, id, |r| {
            while r.due.front().is_some_and(|(at, _)| *at <= now) {
                let Some((_, request)) = r.due.pop_front() else { break };
                if actives.mark_overdue(request, id) {
                    r.overdue += 1;
                }
            }
        });
    }

    // ---- requests ----

    fn arrived(&mut self, now: Time, request: Request) {
        debug_assert!(!self.actives.contains(request.id), "an id arrives once");
        self.last_arrival = Some(now);
        self.route(now, Box::new(Active::new(now, request)));
    }

    /// Decides about a request that is nowhere, and acts on it.
    fn route(&mut self, now: Time, mut active: Box<Active>) {
        let id = active.request.id;
        match self.choose(now, &active, Record::Unsent) {
            Choice::Send(replica, why) => {
                self.dispatch(now, &mut active, replica, why);
                self.actives.insert(active);
            }
            Choice::Hold => self.hold(now, active),
            Choice::Refuse(why) => self.refuse(id, why),
        }
    }

    fn hold(&mut self, now: Time, mut active: Box<Active>) {
        let (id, request) = (active.request.id, &active.request);
        let model = request.model;
        match self.held.push(
            id,
            request.tenant,
            active.arrived,
            request.deadline,
            request.prompt_tokens,
        ) {
            Ok(()) => {
                active.place = Place::Held;
                self.actives.insert(active);
                self.retick.get_or_insert(now + RETICK);
                self.hasten_probes(now, model);
                self.outputs.push_back(Output::Held(id));
            }
            Err(why) => self.refuse(id, why),
        }
    }

    /// Somebody waits: whoever may have room again shall say so soon, idle or not.
    fn hasten_probes(&mut self, now: Time, model: ModelId) {
        if self.held.len() > 1 {
            return;
        }
        let wanted = now + self.config.probe.busy;
        let schedule = &mut self.schedule;
        for id in self.serves.get(&model).map_or(&[][..], |ids| ids) {
            self.replicas.update(now, *id, |r| {
                if !r.probing {
                    r.next_probe = schedule.hasten(r.next_probe, wanted, *id);
                }
            });
        }
    }

    fn dispatch(&mut self, now: Time, active: &mut Active, replica: ReplicaId, why: Why) {
        let id = active.request.id;
        let row = self.replicas.row(replica);
        active.alone = active.request.streams && row.front_tokens == 0.0 && row.pending == 0;
        active.matched = self.scratch.matched_tokens(replica);
        active.unmatched = (active.request.prompt_tokens as f32 - active.matched).max(0.0);
        active.attempt += 1;
        active.place = Place::At(replica);
        active.dispatched = now;
        active.first_token = false;
        self.outputs.push_back(Output::Dispatch {
            id,
            replica,
            why,
            matched_tokens: active.matched as u32,
            attempt: active.attempt,
        });
        self.policy.dispatched(now, &active.request, replica);
        self.unwritten = Some(Sent { at: now, id, replica, why });
    }

    /// Remembers the newest dispatch: the journal first, which shows the region as it was
    /// decided upon, then its replica's books, then the index. This costs more than deciding
    /// does, so it waits until the driver has taken the dispatch out, and is done before
    /// anything else is decided or changed.
    pub(crate) fn write_dispatch(&mut self) {
        let Some(Sent { at, id, replica, why }) = self.unwritten.take() else { return };
        let Some(active) = self.actives.take(id) else { return };
        self.write_down(at, &active, active.attempt, Some((replica, why)));
        self.book(at, &active, replica);
        if self.insert != Insert::OnAnswer
            && let Some(index) = &mut self.index
        {
            index.insert(replica.0, &active.request.blocks);
        }
        self.actives.insert(active);
    }

    /// Enters a dispatch into its replica's books.
    fn book(&mut self, now: Time, active: &Active, replica: ReplicaId) {
        let (id, unmatched) = (active.request.id, active.unmatched);
        let prompt = active.request.prompt_tokens as f32;
        let wanted = now + self.config.probe.busy;
        let schedule = &mut self.schedule;
        self.replicas.update(now, replica, |r| {
            if r.load.pending.is_none() {
                r.due.push_back((r.first_token_due(now, unmatched), id));
            }
            r.sent(now, prompt, unmatched);
            if !r.probing {
                r.next_probe = schedule.hasten(r.next_probe, wanted, replica);
            }
        });
    }

    fn first_token(&mut self, now: Time, id: RequestId) {
        let Some(active) = self.actives.get_mut(id) else { return };
        let Place::At(replica) = active.place else { return };
        if active.first_token {
            return;
        }
        active.first_token = true;
        let ttft_ms = now.since(active.dispatched).as_secs_f64() * 1e3;
        let (unmatched, alone, overdue) = (active.unmatched, active.alone, active.overdue);
        active.overdue = false;
        let learned = self.replicas.update(now, replica, |r| {
            let knew = r.speed.is_learned();
            r.first_token(unmatched);
            r.overdue -= u32::from(overdue);
            if alone {
                r.speed.sample(ttft_ms, f64::from(unmatched));
            }
            r.prefilled(now, r.speed.ms_per_token() * f64::from(unmatched));
            !knew && r.speed.is_learned()
        });
        if learned == Some(true) {
            self.replicas.share_speed(now, replica);
        }
        self.policy.first_token(now, replica, ttft_ms);
        self.release(now);
    }

    fn finished(
        &mut self,
        now: Time,
        id: RequestId,
        outcome: Outcome,
        retry: bool,
        usage: Option<Usage>,
        extended: Option<Vec<u64>>,
    ) {
        let Some(mut active) = self.actives.take(id) else { return };
        let replica = match active.place {
            Place::At(replica) => Some(replica),
            Place::Orphan => None,
            Place::Held | Place::Nowhere => {
                self.actives.insert(active);
                return;
            }
        };
        if let Some(replica) = replica {
            self.leave_replica(now, &mut active, replica);
            self.settle(now, &active, replica, outcome, usage);
            self.remember(&active, replica, outcome, extended);
        }
        if retry && matches!(outcome, Outcome::Full | Outcome::ReplicaError) {
            self.again(now, active, replica, outcome);
        } else {
            self.count_finish(now);
        }
        self.release(now);
    }

    /// Takes a request off its replica's books.
    fn leave_replica(&mut self, now: Time, active: &mut Active, replica: ReplicaId) {
        active.place = Place::Nowhere;
        let (unmatched, first, overdue) = (active.unmatched, active.first_token, active.overdue);
        let prompt = active.request.prompt_tokens as f32;
        active.overdue = false;
        self.replicas.update(now, replica, |r| {
            if !first {
                r.first_token(unmatched);
            }
            r.overdue -= u32::from(overdue);
            r.ended(prompt);
        });
    }

    /// Draws the consequences of an attempt's end for its replica.
    fn settle(
        &mut self,
        now: Time,
        active: &Active,
        replica: ReplicaId,
        outcome: Outcome,
        usage: Option<Usage>,
    ) {
        let matched = active.matched;
        let learned = self.replicas.update(now, replica, |r| {
            let knew = r.speed.is_learned();
            match outcome {
                Outcome::Done => {
                    r.breaker.success();
                    r.totals.done += 1;
                }
                Outcome::ClientError => r.breaker.neutral(),
                Outcome::Full => {
                    r.breaker.neutral();
                    r.said_full = true;
                    r.totals.full += 1;
                }
                Outcome::ReplicaError => {
                    r.breaker.failure(now);
                    r.totals.failed += 1;
                }
            }
            if let Some(usage) = usage {
                r.account(usage, matched);
            }
            !knew && r.speed.is_learned()
        });
        if learned == Some(true) {
            self.replicas.share_speed(now, replica);
        }
    }

    /// Brings the index to what the replica now holds.
    fn remember(
        &mut self,
        active: &Active,
        replica: ReplicaId,
        outcome: Outcome,
        extended: Option<Vec<u64>>,
    ) {
        let Some(index) = &mut self.index else { return };
        let blocks = &active.request.blocks;
        match outcome {
            Outcome::Done if self.insert != Insert::OnDispatch => {
                index.insert(replica.0, extended.as_deref().unwrap_or(blocks));
            }
            Outcome::Done => {}
            _ if active.first_token => {}
            _ => {
                // It may never have been prefilled: keep only what was there before.
                let keep = active.matched / active.request.block_tokens.max(1e-3);
                index.truncate(replica.0, blocks, keep as u32);
            }
        }
    }

    /// Tries a failed request elsewhere, within its bounds. A full engine is no failure: the
    /// request waits its turn in the held queue for as long as any other, and no attempt is spent.
    fn again(
        &mut self,
        now: Time,
        mut active: Box<Active>,
        replica: Option<ReplicaId>,
        outcome: Outcome,
    ) {
        if outcome == Outcome::Full {
            active.attempt -= 1;
            self.route(now, active);
            return;
        }
        active.tried.extend(replica);
        let attempts = active.attempt;
        if attempts >= self.config.attempts {
            self.refuse(active.request.id, RejectWhy::RetriesExhausted { attempts });
        } else {
            self.route(now, active);
        }
    }

    fn cancelled(&mut self, now: Time, id: RequestId) {
        let Some(mut active) = self.actives.take(id) else { return };
        match active.place {
            Place::Held => {
                self.held.remove(id, active.request.tenant);
            }
            Place::At(replica) => {
                self.leave_replica(now, &mut active, replica);
                self.replicas.update(now, replica, |r| r.breaker.neutral());
                self.remember(&active, replica, Outcome::ClientError, None);
            }
            Place::Orphan | Place::Nowhere => {}
        }
        self.release(now);
    }

    fn refuse(&mut self, id: RequestId, why: RejectWhy) {
        let retry_after = self.retry_after();
        self.outputs.push_back(Output::Reject { id, why, retry_after });
    }

    fn count_finish(&mut self, now: Time) {
        let gap = now.since(self.last_finish).as_secs_f64();
        self.last_finish = now;
        self.finished.add(now, gap);
    }

    /// About as long as the queue in front takes to drain, 1 to 60 s.
    fn retry_after(&self) -> Duration {
        let gap = self.finished.get().unwrap_or(0.1);
        let seconds = libm::ceil(gap * f64::from(self.held.len()));
        Duration::from_secs(seconds.clamp(1.0, 60.0) as u64)
    }

    // ---- the held queue ----

    /// Sends held requests while any of the first ones fits.
    fn release(&mut self, now: Time) {
        while self.held.len() > 0 && self.release_one(now) {}
        self.retick = match self.held.len() {
            0 => None,
            _ => Some(self.retick.unwrap_or(now + RETICK)),
        };
    }

    /// Sends the best fitting of the first held requests; false when none fits.
    ///
    /// With a policy that scores, the lowest score goes; with one that does not, the first that
    /// fits. Whoever waited past patience goes before both.
    fn release_one(&mut self, now: Time) -> bool {
        let mut order = core::mem::take(&mut self.released);
        self.held.front(now, &mut order);
        let impatient = self.held.impatient(now);
        let best = self.best_of(now, &order, impatient);
        self.released = order;
        let Some(mut active) = best.and_then(|id| self.actives.take(id)) else { return false };
        // Decide once more for the one that goes: its matches are the scratch's then, and the
        // journal's last word on it is this decision.
        let choice = self.choose(now, &active, Record::Unsent);
        let Choice::Send(replica, why) = choice else {
            self.actives.insert(active);
            return false;
        };
        self.held.release(active.request.id, active.request.tenant);
        self.dispatch(now, &mut active, replica, why);
        self.actives.insert(active);
        true
    }

    fn best_of(
        &mut self,
        now: Time,
        order: &[RequestId],
        impatient: Option<RequestId>,
    ) -> Option<RequestId> {
        let mut best: Option<(f64, RequestId)> = None;
        for id in order.iter().copied() {
            let Some(active) = self.actives.take(id) else { continue };
            let choice = self.choose(now, &active, Record::No);
            self.actives.insert(active);
            let Choice::Send(_, why) = choice else { continue };
            match why {
                Why::LowestScore(score) if impatient != Some(id) => {
                    if best.is_none_or(|b| score < b.0) {
                        best = Some((score, id));
                    }
                }
                // Without a score to compare, the first that fits goes.
                _ => return Some(id),
            }
        }
        best.map(|b| b.1)
    }
}
