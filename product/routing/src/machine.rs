//! The routing machine: its inputs, its outputs and its five methods. The modules next to it handle
//! replicas joining and leaving, the life of a request, and the release of held requests.

mod configure;
mod decide;
mod digest;
mod fleet;
mod forwards;
mod handover;
mod legs;
mod peers;
mod promise;
mod release;
mod requests;
mod rule;
mod search;
mod second_layer;
mod shadow;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use meridian_base::{
    Digest, Duration, Holdings, ModelId, PeerId, ReplicaId, RequestId, Rng, Time, mix, residency,
};

use self::decide::{Choice, Scratch};
use self::forwards::End;
pub use self::handover::MOST_HOLDINGS;
use self::rule::{Bounds, PolicyState};
use self::search::Search;
pub use self::shadow::ShadowConfig;
use self::shadow::{Shadow, both};
use crate::active::{Active, Actives};
use crate::adapters::AdapterReport;
use crate::admission::Admission;
use crate::breaker::BreakerConfig;
use crate::explain::{CandidateRow, Decision, Journal};
use crate::growth::Replies;
use crate::held::{Held, HeldConfig};
use crate::index::PrefixIndex;
use crate::links::Links;
use crate::peer::Peers;
use crate::places::Places;
use crate::policy::{Params, Spec};
use crate::probe::{ProbeConfig, Schedule};
use crate::replica::{Load, ReplicaSpec, State};
use crate::replicas::Replicas;
use crate::request::{Outcome, Request, Usage};
use crate::snapshot::Snapshot;
use crate::topology::{PeerSpec, Peering, Topology};
use crate::why::{RejectWhy, Why};

/// Configuration of a region's routing decisions.
#[derive(Clone, Debug)]
pub struct Config {
    /// The policy and its parameters.
    pub policy: &'static Spec,
    /// Complete parameters of the policy.
    pub params: Params,
    /// When a replica may receive another request.
    pub admission: Admission,
    /// Which peers a request may be forwarded to, and when.
    pub topology: Topology,
    /// Thresholds for judging peers.
    pub peering: Peering,
    /// The held queue's bounds.
    pub held: HeldConfig,
    /// Attempts a request gets before it fails, including the first.
    pub attempts: u32,
    /// When circuit breakers open.
    pub breaker: BreakerConfig,
    /// Pace of probes.
    pub probe: ProbeConfig,
    /// Initial prefill time, ms a token, until answers provide a measurement.
    pub ms_per_token: f64,
    /// KV size assumed if neither the config nor the engine reports it, tokens.
    pub default_kv_tokens: u64,
    /// Most entries that the prefix index reserves memory for, even if the policy asks for more:
    /// for a driver that knows how much all replicas can hold, including the peers'. The peers'
    /// index reserves twice as many.
    pub index_entries: usize,
    /// Most replicas the region can have. Ids from this number on are ignored; the driver refuses
    /// such a replica before.
    pub max_replicas: u16,
    /// Decisions kept for explain.
    pub explain_keep: usize,
    /// Candidates recorded with a decision; a dry run records all.
    pub explain_candidates: usize,
    /// A second policy whose decisions are only recorded; `None` for none.
    pub shadow: Option<ShadowConfig>,
}

impl Config {
    /// `policy` with its published defaults.
    #[must_use]
    pub fn new(policy: &'static Spec) -> Config {
        Config {
            policy,
            params: Params::defaults(policy),
            admission: policy.admission,
            topology: Topology::default(),
            peering: Peering::default(),
            held: HeldConfig::default(),
            attempts: 3,
            breaker: BreakerConfig::default(),
            probe: ProbeConfig::default(),
            ms_per_token: 0.1,
            default_kv_tokens: 500_000,
            index_entries: usize::MAX,
            max_replicas: 1024,
            explain_keep: 256,
            explain_candidates: 64,
            shadow: None,
        }
    }
}

/// An event.
#[derive(Clone, Debug)]
pub enum Input {
    /// A replica joins, or the description of an existing one changes. Ids from
    /// [`Config::max_replicas`] on are ignored.
    Joined {
        /// Its id.
        id: ReplicaId,
        /// Its description.
        spec: ReplicaSpec,
    },
    /// A replica drains: it finishes its requests and receives no new ones.
    Draining(ReplicaId),
    /// A draining replica receives requests again. Its known cache contents stay valid.
    Resumed(ReplicaId),
    /// A replica is gone. The driver ends its requests.
    Left(ReplicaId),
    /// Another gateway that serves or served the replica sends its cache contents.
    Inherited {
        /// Which replica.
        id: ReplicaId,
        /// The result of [`Routing::holdings`] on that gateway.
        holdings: Holdings,
    },
    /// A probe was answered.
    Reported {
        /// Which replica.
        id: ReplicaId,
        /// When the probe was sent: dispatches after this are not in the report.
        asked: Time,
        /// The engine's figures; all `None` for an engine that reports only that it is alive.
        load: Load,
    },
    /// The adapters of a replica, as far as its engine reports them.
    Adapters {
        /// Which replica.
        id: ReplicaId,
        /// The report.
        report: AdapterReport,
    },
    /// A probe was not answered.
    ProbeFailed(ReplicaId),
    /// A probe was not answered, but the replica kept streaming answers: it is alive, with unknown
    /// load.
    Alive {
        /// Which replica.
        id: ReplicaId,
        /// When the probe was sent.
        asked: Time,
    },
    /// A request arrives.
    Arrived(Request),
    /// The prefill leg of a request succeeded. For legs that begin together, the first token of the
    /// answer may come first; this is then ignored.
    Prefilled {
        /// The request.
        id: RequestId,
        /// The token counts that the prefill engine reported.
        usage: Option<Usage>,
    },
    /// The prefill leg of a request failed, before its answer began. The driver has ended the other
    /// leg, if it began.
    PrefillFailed {
        /// The request.
        id: RequestId,
        /// The result. A client error sends the request whole to a replica that answers, and so
        /// does [`Outcome::NoKv`].
        outcome: Outcome,
    },
    /// The first token of a request's answer came.
    FirstToken(RequestId),
    /// An attempt ended.
    Finished {
        /// The request.
        id: RequestId,
        /// The result.
        outcome: Outcome,
        /// Whether it may be retried elsewhere: no byte has reached the client yet, or the answer
        /// can be resumed.
        retry: bool,
        /// The token counts that the engine reported.
        usage: Option<Usage>,
        /// Block hashes of prompt and reply together, if the driver followed the reply. With
        /// `retry`, the answer broke off after this much of it, and this is now the prompt.
        extended: Option<Vec<u64>>,
        /// For a forward: the peer's own id of the replica that served it, if the peer reported it.
        served: Option<ReplicaId>,
    },
    /// The client disconnected.
    Cancelled(RequestId),
    /// A peer joins, or the description of an existing one changes. At most 64: ids from 64 on are
    /// ignored.
    PeerJoined {
        /// Its id.
        id: PeerId,
        /// Its description.
        spec: PeerSpec,
    },
    /// A peer is gone. The driver ends the requests forwarded to it.
    PeerLeft(PeerId),
    /// A peer's digest arrived.
    Digested {
        /// Which peer.
        peer: PeerId,
        /// Its sequence number: a digest that is not newer than the last is ignored.
        sent: u64,
        /// A round trip measured since the last digest.
        rtt: Option<Duration>,
        /// The digest.
        digest: Arc<Digest>,
    },
    /// The policy or its weights changed; they apply to decisions from now on. The driver
    /// fingerprints prompts as the policy requires.
    Configured {
        /// The policy.
        policy: &'static Spec,
        /// Complete parameters of it.
        params: Params,
        /// When a replica may receive another request.
        admission: Admission,
    },
    /// The shadow policy changed, or ends with `None`. Its counts then start at 0.
    ShadowedBy(Option<ShadowConfig>),
    /// Other settings changed; they apply from now on. The policy, its parameters, the admission mode
    /// and the shadow policy in it are ignored.
    Tuned(Box<Config>),
    /// Everything that the configuration and the registry say about regions. Residency rules are
    /// checked against it from now on, also for requests in progress.
    Atlas(Arc<residency::Atlas>),
    /// A peer is idle and asks for held requests.
    StealAsked {
        /// Which peer.
        by: PeerId,
        /// The most requests that it takes.
        count: u32,
    },
}

/// An action for the driver.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Send the request to the replica.
    Dispatch {
        /// The request.
        id: RequestId,
        /// The replica that answers.
        replica: ReplicaId,
        /// The replica that computes the prompt, if it is another one: the driver reports the end of
        /// that leg with [`Input::Prefilled`] or [`Input::PrefillFailed`].
        prefill: Option<ReplicaId>,
        /// Why they were chosen.
        why: Why,
        /// Prompt tokens expected in the cache of the replica that computes the prompt.
        matched_tokens: u32,
        /// Which attempt this is, from 1.
        attempt: u32,
    },
    /// Forward the request to the peer, with `hops` one higher. The driver reports its first token,
    /// its end or its cancellation as after an [`Output::Dispatch`]; if the peer refuses it, that
    /// is [`Outcome::Full`].
    Forward {
        /// The request.
        id: RequestId,
        /// The peer.
        peer: PeerId,
        /// Why it was chosen.
        why: Why,
        /// Prompt tokens expected in its caches.
        matched_tokens: u32,
        /// Which attempt this is, from 1.
        attempt: u32,
    },
    /// Ask a peer for some of its held requests; the peer gets [`Input::StealAsked`].
    Steal {
        /// Which peer.
        from: PeerId,
        /// The most requests to take.
        count: u32,
    },
    /// No replica has free capacity: the request waits in the queue. Nothing to do.
    Held(RequestId),
    /// Refuse the request, which ends it.
    Reject {
        /// The request.
        id: RequestId,
        /// Why.
        why: RejectWhy,
        /// When a retry may succeed.
        retry_after: Duration,
    },
    /// Probe a replica; answer with [`Input::Reported`], [`Input::ProbeFailed`] or
    /// [`Input::Alive`].
    Probe(ReplicaId),
    /// A replica missed its probes: stop waiting for its answers.
    Down(ReplicaId),
    /// A replica that was down is alive again.
    Up(ReplicaId),
}

/// One region's routing decisions. See the crate's documentation for the contract.
pub struct Routing {
    pub(crate) config: Config,
    pub(crate) rule: PolicyState,
    pub(crate) shadow: Option<Box<Shadow>>,
    /// The shadow is asked about a request that has just left the queue.
    just_left: bool,
    /// The seed for the random draws of every decision.
    seed: u64,
    /// Number of requests that have arrived.
    arrivals: u64,
    pub(crate) replicas: Replicas,
    /// The replicas that answer requests for a model, and those that only prefill for it.
    pub(crate) serves: BTreeMap<ModelId, Vec<ReplicaId>>,
    pub(crate) prefills: BTreeMap<ModelId, Vec<ReplicaId>>,
    /// The models that are adapters, as far as engines report them.
    pub(crate) adapters: BTreeSet<ModelId>,
    pub(crate) links: Links,
    pub(crate) actives: Actives,
    pub(crate) held: Held,
    pub(crate) journal: Journal,
    pub(crate) scratch: Scratch,
    /// Buffers of the best decision so far while held requests are compared.
    best_scratch: Scratch,
    pub(crate) peers: Peers,
    pub(crate) places: Places,
    replies: Replies,
    pub(crate) snapshot: Option<Snapshot>,
    /// Whether there are peers, and a topology that uses them.
    pub(crate) second_layer: bool,
    schedule: Schedule,
    outputs: VecDeque<Output>,
    /// The newest dispatch, until it has been recorded.
    unwritten: Option<Sent>,
    last_arrival: Option<Time>,
    released: Vec<RequestId>,
    search: Search,
    /// Rate of finished requests, for `Retry-After`.
    finished: crate::cost::Ewma,
    last_finish: Time,
    /// When held requests are examined again without any event.
    retick: Option<Time>,
    /// Recomputes matches every time, for tests.
    pub(crate) forgetful: bool,
    /// Compares forwards with their credit, for tests.
    checks_credits: bool,
}

/// A dispatch as it was decided.
#[derive(Clone, Copy)]
struct Sent {
    at: Time,
    id: RequestId,
    replica: ReplicaId,
    why: Why,
}

/// Held requests are examined at least this often: a policy may depend on time alone.
const RETICK: Duration = Duration::from_millis(50);
/// The interval while no replica has free capacity: only an event can free some.
const CLOSED_RETICK: Duration = Duration::from_secs(1);
/// A region without arrivals for this long is idle.
const IDLE_AFTER: Duration = Duration::from_secs(2);

impl Routing {
    /// A region without replicas.
    #[must_use]
    pub fn new(config: Config, seed: u64) -> Routing {
        let targets = usize::from(config.max_replicas);
        let bounds = Bounds { entries: config.index_entries, targets };
        let mut routing = Routing {
            rule: PolicyState::new((config.policy, &config.params), config.admission, bounds),
            shadow: None,
            just_left: false,
            seed,
            arrivals: 0,
            replicas: Replicas::new(config.admission),
            serves: BTreeMap::new(),
            prefills: BTreeMap::new(),
            adapters: BTreeSet::new(),
            links: Links::default(),
            actives: Actives::default(),
            held: Held::new(config.held),
            journal: Journal::new(config.explain_keep),
            scratch: Scratch::default(),
            best_scratch: Scratch::default(),
            peers: Peers::default(),
            places: Places::new(),
            replies: Replies::default(),
            snapshot: None,
            second_layer: false,
            schedule: Schedule::default(),
            outputs: VecDeque::new(),
            unwritten: None,
            last_arrival: None,
            released: Vec::new(),
            search: Search::default(),
            finished: crate::cost::Ewma::new(Duration::from_secs(10)),
            last_finish: Time::ZERO,
            retick: None,
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
                self.replicas.update(now, id, |r| r.state = State::Draining);
            }
            Input::Resumed(id) => self.resumed(now, id),
            Input::Left(id) => self.left(now, id),
            Input::Inherited { id, holdings } => self.inherited(now, id, &holdings),
            Input::Reported { id, asked, load } => self.reported(now, id, asked, load),
            Input::Adapters { id, report } => self.adapters_reported(now, id, report),
            Input::ProbeFailed(id) => self.probe_failed(now, id),
            Input::Alive { id, asked } => self.alive(now, id, asked),
            Input::Arrived(request) => self.arrived(now, request),
            Input::Prefilled { id, usage } => self.prefilled(now, id, usage),
            Input::PrefillFailed { id, outcome } => self.prefill_failed(now, id, outcome),
            Input::FirstToken(id) => self.first_token(now, id),
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
                self.places.known(atlas);
                self.release(now);
            }
            Input::StealAsked { by, count } => self.steal_asked(now, by, count),
        }
    }

    /// The next action. Once it returns `None`, every dispatch is recorded in the counts, the
    /// journal and the index.
    pub fn poll(&mut self) -> Option<Output> {
        let output = self.outputs.pop_front();
        if output.is_none() {
            self.write_dispatch();
        }
        output
    }

    /// When to call [`Self::handle_timeout`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let times = [self.schedule.next(), self.held.next_expiry(), self.retick];
        times.into_iter().flatten().min()
    }

    /// Runs everything that is due at `now`.
    pub fn handle_timeout(&mut self, now: Time) {
        self.write_dispatch();
        while let Some(id) = self.schedule.pop(now) {
            // An engine that reports its load is judged when a report comes.
            if !self.replicas.reports(id) {
                self.mark_overdue(now, now, id);
            }
            for rule in both(&mut self.rule, &mut self.shadow) {
                rule.expire(now, id);
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
            self.held.remove(&active.request);
            let limit = self.config.held.max_wait;
            let closed = self.closed_to(&active);
            self.refuse(now, &active, RejectWhy::HeldTooLong { limit, closed });
        }
    }

    /// The replica table.
    #[must_use]
    pub fn replicas(&self) -> &Replicas {
        &self.replicas
    }

    /// The peer table.
    #[must_use]
    pub fn peers(&self) -> &Peers {
        &self.peers
    }

    /// The pace of KV between replicas.
    #[must_use]
    pub fn links(&self) -> &Links {
        &self.links
    }

    /// Requests held now.
    #[must_use]
    pub fn held_len(&self) -> u32 {
        self.held.len()
    }

    /// Requests that have arrived and not ended.
    #[must_use]
    pub fn active_len(&self) -> usize {
        self.actives.len()
    }

    /// The configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The prefix index, if the policy uses one.
    #[must_use]
    pub fn index(&self) -> Option<&PrefixIndex> {
        self.rule.index.as_ref()
    }

    /// The newest decision about a request, while it is kept.
    #[must_use]
    pub fn explain(&self, id: RequestId) -> Option<&Decision> {
        self.journal.find(id)
    }

    /// The kept decisions, newest first.
    pub fn decisions(&self) -> impl Iterator<Item = &Decision> {
        self.journal.newest()
    }

    /// Decisions recorded since the start, kept or not. The newest `n` of [`Routing::decisions`] are
    /// those after number `decided() - n`.
    #[must_use]
    pub fn decided(&self) -> u64 {
        self.journal.number()
    }

    /// The policy's terms of a candidate's score in a decision.
    #[must_use]
    pub fn terms(&self, candidate: &CandidateRow, of: &Decision) -> Vec<(&str, f64)> {
        self.rule.policy.terms(candidate, of)
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
        assert_eq!(self.held.len() as usize, self.actives.held(), "a held request has not left");
        self.check_legs();
        if self.peers.is_empty() {
            return;
        }
        let away = self.actives.away();
        for id in self.peers.ids().iter().copied() {
            let Some(peer) = self.peers.get(id) else { continue };
            peer.check(id);
            let here = away[id.index()];
            assert_eq!(peer.row().outstanding, here, "forwards to {id} end once");
        }
    }

    /// Recomputes the matches of held requests every time they are examined, as a reference for
    /// tests.
    #[doc(hidden)]
    pub fn forget_matches(&mut self) {
        self.forgetful = true;
    }

    /// Decides about `request` as if it arrived now, without changing state: later decisions are
    /// the same as without the call.
    pub fn dry_run(&mut self, now: Time, request: Request) -> Decision {
        let mut active = self.activate(now, request);
        let choice = self.choose(now, &mut active);
        let attempt = active.attempt + 1;
        let mut decision = self.decision(now, &active, attempt, &choice);
        if !matches!(choice, Choice::Refuse(_)) {
            let did = choice.pick().map(|(target, _)| (target, choice.prefill()));
            decision.shadow = self.ask_shadow(now, &mut active, attempt, did);
        }
        decision
    }

    /// A request that arrives now.
    fn activate(&self, now: Time, request: Request) -> Active {
        let reply = self.replies.expected(&request);
        Active::new(now, self.arrivals, request, reply)
    }

    /// The random stream of one decision, separate for each attempt of a request. It does not
    /// depend on other requests, on how often the queue is examined, or on the client's choice of
    /// id.
    pub(crate) fn draw(&self, active: &Active) -> Rng {
        let seed = self.seed ^ self.rule.stream;
        Rng::new(mix(mix(seed, active.number), u64::from(active.attempt)))
    }
}
