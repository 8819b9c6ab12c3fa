//! Policies: the one place where a choice between replicas is made.
//!
//! A policy is one file here and one line in [`ALL`]; the config schema, the CLI's list, the
//! simulator's sweep and the documentation follow from that line. It sees the eligible candidates
//! and their rows, picks one, and says why. It keeps only what the decision rule itself needs
//! (a rotation counter, a ring); load, prefixes and eligibility are the machine's.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use meridian_base::{Duration, PeerId, ReplicaId, Rng, Time};

use crate::admission::Admission;
use crate::forward::Forward;
use crate::index::{IndexSpec, PrefixIndex};
use crate::peer::{PeerRow, Peers};
use crate::replicas::Replicas;
use crate::request::Request;
use crate::why::Why;

mod active_blocks;
mod aibrix_prefix;
mod choose;
mod chwbl;
mod consistent_hash;
mod dynamo_kv;
mod gorgo;
mod least_outstanding;
mod llmd_default;
mod meridian;
mod p2c;
mod preble;
mod prefix_aware;
mod prefix_trie;
mod random;
mod round_robin;
mod saturation;
mod sglang_cache_aware;
mod skywalker;
mod skywalker_ch;
mod skywalker_steal;
mod stargate_wait_and_widen;
mod window;

/// Every policy, in the order the CLI lists them.
pub static ALL: &[&Spec] = &[
    &meridian::SPEC,
    &random::SPEC,
    &round_robin::SPEC,
    &least_outstanding::SPEC,
    &p2c::SPEC,
    &consistent_hash::SPEC,
    &chwbl::SPEC,
    &prefix_aware::SPEC,
    &prefix_trie::SPEC,
    &sglang_cache_aware::SPEC,
    &skywalker::SPEC,
    &skywalker_ch::SPEC,
    &skywalker_steal::SPEC,
    &gorgo::SPEC,
    &preble::SPEC,
    &aibrix_prefix::SPEC,
    &dynamo_kv::SPEC,
    &llmd_default::SPEC,
    &stargate_wait_and_widen::SPEC,
];

/// Bound on all prefix indexes, in blocks times targets, where the published system has none:
/// some hundred megabytes, and above what 100 replicas of 40,000 blocks (640,000 tokens) hold.
const TOTAL_BLOCKS: usize = 1 << 22;

/// The policy called `name`.
#[must_use]
pub fn find(name: &str) -> Option<&'static Spec> {
    ALL.iter().find(|s| s.name == name).copied()
}

/// What a policy declares of itself.
pub struct Spec {
    /// Its name in config, metrics and headers.
    pub name: &'static str,
    /// One line for the CLI's list and the docs.
    pub summary: &'static str,
    /// Where the rule comes from: paper and section, or project and version.
    pub source: &'static str,
    /// Its knobs, with their published defaults.
    pub params: &'static [Param],
    /// Admission mode it runs with unless the config says otherwise.
    pub admission: Admission,
    /// The prefix index it wants; `None` for policies without one.
    pub index: fn(&Params) -> Option<IndexSpec>,
    /// Bytes of the prompt that [`Request::head`] shall cover; 0 for none.
    pub head_bytes: fn(&Params) -> usize,
    /// Makes one. Parameters were checked against `params` before.
    pub build: fn(&Params) -> Box<dyn Policy>,
}

impl core::fmt::Debug for Spec {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Spec").field(&self.name).finish()
    }
}

/// One knob of a policy.
pub struct Param {
    /// Its key in the config.
    pub name: &'static str,
    /// What it does, with its unit.
    pub doc: &'static str,
    /// Its published default.
    pub default: Value,
    /// Smallest and largest number allowed.
    pub range: (f64, f64),
    /// Words allowed instead of a number (`off`, `auto`).
    pub words: &'static [&'static str],
}

/// A parameter's value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A number; whole where the knob counts something.
    Number(f64),
    /// One of the knob's words.
    Word(&'static str),
}

/// A policy's parameters, complete: defaults filled in, every value within its range.
#[derive(Clone, Debug)]
pub struct Params(Vec<(&'static str, Value)>);

/// A value for a parameter, as a config gives it.
#[derive(Clone, Debug, PartialEq)]
pub enum Given {
    /// A number.
    Number(f64),
    /// A word.
    Word(String),
}

/// Why given parameters do not fit a policy.
#[derive(Clone, Debug, PartialEq)]
pub enum ParamError {
    /// The policy has no such knob; carries the name.
    Unknown(String),
    /// The value is outside what the knob allows; carries the knob's name.
    Invalid(&'static str),
}

impl Params {
    /// Completes `given` with the defaults of `spec`.
    ///
    /// # Errors
    /// Every unknown name and every value out of range, all at once.
    pub fn complete(
        spec: &'static Spec,
        given: &[(String, Given)],
    ) -> Result<Params, Vec<ParamError>> {
        let mut values: Vec<_> = spec.params.iter().map(|p| (p.name, p.default)).collect();
        let mut errors = Vec::new();
        for (name, value) in given {
            match spec.params.iter().position(|p| p.name == name) {
                None => errors.push(ParamError::Unknown(name.clone())),
                Some(i) => match spec.params[i].accept(value) {
                    Some(v) => values[i].1 = v,
                    None => errors.push(ParamError::Invalid(spec.params[i].name)),
                },
            }
        }
        if errors.is_empty() { Ok(Params(values)) } else { Err(errors) }
    }

    /// The defaults of `spec`.
    #[must_use]
    pub fn defaults(spec: &'static Spec) -> Params {
        Params(spec.params.iter().map(|p| (p.name, p.default)).collect())
    }

    /// The number under `name`, `None` where a word stands.
    ///
    /// # Panics
    /// When the policy declared no such knob.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<f64> {
        match self.value(name) {
            Value::Number(n) => Some(n),
            Value::Word(_) => None,
        }
    }

    /// The value under `name`.
    ///
    /// # Panics
    /// When the policy declared no such knob.
    #[must_use]
    pub fn value(&self, name: &str) -> Value {
        let found = self.0.iter().find(|(n, _)| *n == name);
        found.expect("a policy reads only the knobs that it declares").1
    }

    /// The number under `name`, for knobs that take no words.
    fn f32(&self, name: &str) -> f32 {
        self.number(name).expect("asked of a knob without words") as f32
    }

    /// The whole number under `name`, for knobs that count something and take no words.
    fn count(&self, name: &str) -> u32 {
        self.number(name).expect("asked of a knob without words") as u32
    }

    /// The time under `name`, given in seconds, for knobs that take no words.
    fn seconds(&self, name: &str) -> Duration {
        Duration::from_secs_f64(self.number(name).expect("asked of a knob without words"))
    }

    /// Whether `word` stands under `name`.
    fn is(&self, name: &str, word: &str) -> bool {
        matches!(self.value(name), Value::Word(w) if w == word)
    }

    /// All names and values, in the order declared.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, Value)> + '_ {
        self.0.iter().copied()
    }
}

impl Param {
    /// A knob that takes a number within a range.
    #[must_use]
    pub const fn number(
        name: &'static str,
        default: f64,
        range: (f64, f64),
        doc: &'static str,
    ) -> Param {
        Param { name, doc, default: Value::Number(default), range, words: &[] }
    }

    /// A knob that takes a number within a range or one of `words`, by default the number.
    #[must_use]
    pub const fn number_or(
        name: &'static str,
        default: f64,
        range: (f64, f64),
        words: &'static [&'static str],
        doc: &'static str,
    ) -> Param {
        Param { name, doc, default: Value::Number(default), range, words }
    }

    /// A knob that takes one of `words`, by default the first; its range is empty.
    #[must_use]
    pub const fn word(
        name: &'static str,
        words: &'static [&'static str],
        doc: &'static str,
    ) -> Param {
        Param { name, doc, default: Value::Word(words[0]), range: (1.0, 0.0), words }
    }

    /// Whether the knob takes numbers at all.
    #[must_use]
    pub fn takes_numbers(&self) -> bool {
        self.range.0 <= self.range.1
    }

    fn accept(&self, given: &Given) -> Option<Value> {
        match given {
            Given::Number(n) => {
                (*n >= self.range.0 && *n <= self.range.1).then_some(Value::Number(*n))
            }
            Given::Word(w) => self.words.iter().find(|x| *x == w).map(|x| Value::Word(x)),
        }
    }
}

/// What a policy sees when it picks.
pub struct View<'a> {
    /// The time of the decision.
    pub now: Time,
    /// The request.
    pub request: &'a Request,
    /// How long the request has been held so far; zero on arrival.
    pub waited: Duration,
    /// Whether it may be held although somebody is eligible: it is early enough.
    pub may_wait: bool,
    /// The candidates: eligible replicas in ascending id. Never empty in [`Policy::pick`].
    pub eligible: &'a [ReplicaId],
    /// Replicas that could serve it but are full by the admission mode, in ascending id.
    pub full: &'a [ReplicaId],
    /// Every replica of the region, by id.
    pub replicas: &'a Replicas,
    /// Matched prompt blocks by replica id (whole table, zero where nothing matches). All zero
    /// for policies without an index.
    pub matched: &'a [u32],
    /// The prefix index itself, for rules that weigh how much a replica holds.
    pub index: Option<&'a PrefixIndex>,
    /// Requests held here.
    pub held: u32,
    /// Every peer.
    pub peers: &'a Peers,
    /// Peers that may get the request and have room, in ascending id. The lists of peers are for
    /// [`Policy::forward`] and empty in [`Policy::pick`].
    pub available: &'a [PeerId],
    /// Peers that may get the request, room or not, in ascending id.
    pub reachable: &'a [PeerId],
    /// Prompt blocks matched by what was sent away, by peer id and by
    /// [`RemoteRow::slot`](crate::RemoteRow::slot).
    pub peer_matched: &'a [u32],
    /// By peer id, the replica that the peer itself says holds most of the prompt, and how many
    /// blocks of it; empty where the policy shares no prefixes.
    pub shared: &'a [Option<(ReplicaId, u32)>],
}

impl View<'_> {
    /// Prompt tokens already cached at `replica`, never more than the prompt has.
    #[must_use]
    #[inline]
    pub fn matched_tokens(&self, replica: ReplicaId) -> f32 {
        let tokens = self.matched[replica.index()] as f32 * self.request.block_tokens;
        tokens.min(self.request.prompt_tokens as f32)
    }

    /// Share of the prompt already cached at `replica`, 0 to 1; 0 for an empty prompt.
    #[must_use]
    #[inline]
    pub fn match_ratio(&self, replica: ReplicaId) -> f32 {
        self.matched_tokens(replica) / (self.request.prompt_tokens as f32).max(1.0)
    }

    /// Prompt tokens matched by what was sent to a peer, or meant for one of its replicas (the
    /// target is the peer's id or the replica's slot).
    #[must_use]
    pub fn peer_tokens(&self, target: u16) -> f32 {
        self.tokens(self.peer_matched.get(usize::from(target)).copied().unwrap_or(0))
    }

    /// Prompt tokens that the peer says its `replica` holds.
    #[must_use]
    pub fn shared_tokens(&self, peer: PeerId, replica: ReplicaId) -> f32 {
        match self.shared.get(peer.index()) {
            Some(Some((at, blocks))) if *at == replica => self.tokens(*blocks),
            _ => 0.0,
        }
    }

    fn tokens(&self, blocks: u32) -> f32 {
        let tokens = blocks as f32 * self.request.block_tokens;
        tokens.min(self.request.prompt_tokens as f32)
    }

    /// Whether `replica` is a candidate.
    #[must_use]
    #[inline]
    pub fn is_eligible(&self, replica: ReplicaId) -> bool {
        self.eligible.binary_search(&replica).is_ok()
    }
}

/// A policy's choice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pick {
    /// Send it there.
    Replica(ReplicaId, Why),
    /// Better wait: an ineligible replica is worth waiting for (delay scheduling).
    Wait,
}

/// A decision rule.
pub trait Policy: Send {
    /// Picks among `view.eligible`. Ties that the rule leaves open are broken with `rng`, which
    /// the machine seeds.
    fn pick(&mut self, view: &View<'_>, rng: &mut Rng) -> Pick;

    /// Whether the request may be better elsewhere, before the prompt is matched against what was
    /// sent there. `local` is what [`Policy::pick`] chose; `None` when nothing here is eligible.
    /// As published for most: only then, and only with a peer that has room.
    fn looks_beyond(&self, view: &View<'_>, local: Option<&Pick>) -> bool {
        local.is_none() && !view.available.is_empty()
    }

    /// Chooses whether the request leaves the region, and for which of `view.reachable`, once
    /// [`Policy::looks_beyond`]. By default to the nearest peer with room.
    fn forward(
        &mut self,
        view: &View<'_>,
        _local: Option<&Pick>,
        _rng: &mut Rng,
    ) -> Option<Forward> {
        choose::nearest(view)
    }

    /// Whether [`Policy::forward`] may choose this peer for any request that fits nowhere here, or
    /// draws from chance to tell; `has_room`: the peer would be in `view.available`. False spares
    /// looking at every held request for such a peer.
    fn may_forward(&self, _peer: &PeerRow, has_room: bool) -> bool {
        has_room
    }

    /// Whether [`Policy::forward`] looks at single remote replicas and wants their matches.
    fn follows_remotes(&self) -> bool {
        false
    }

    /// Whether what it holds waits for room alone, not for a time that it reckons with.
    fn waits_for_room(&self) -> bool {
        false
    }

    /// Whether regions tell each other which prefixes they hold.
    fn shares_prefixes(&self) -> bool {
        false
    }

    /// How many forwards a peer may get between two digests; `None` where the rule sets no bound.
    fn credit(&self, _peer: &PeerRow) -> Option<f32> {
        None
    }

    /// Whether what a peer sends and no replica has room for is held here; it goes back otherwise.
    fn holds_forwards(&self) -> bool {
        true
    }

    /// The peers' held requests beyond which an idle region asks for some; `None`: it never does.
    fn steals_above(&self) -> Option<u32> {
        None
    }

    /// The set of peers changed.
    fn peers_changed(&mut self, _peers: &Peers) {}

    /// The terms behind a candidate's score, for the explain endpoint. `row` and the rest are as
    /// they stood at the decision. Pure; off the hot path.
    fn terms(&self, _candidate: &crate::explain::CandidateRow) -> Vec<(&'static str, f64)> {
        Vec::new()
    }

    /// A request was sent to `replica` by this policy's pick.
    fn dispatched(&mut self, _now: Time, _request: &Request, _replica: ReplicaId) {}

    /// The first token of an answer came after `ttft_ms` at the gateway: rules that tune
    /// themselves by observed latency (saturation `auto`) learn from it.
    fn first_token(&mut self, _now: Time, _replica: ReplicaId, _ttft_ms: f64) {}

    /// A request that `dispatched` told of is over at `replica`, however it ended.
    fn ended(&mut self, _request: &Request, _replica: ReplicaId) {}

    /// The set of replicas changed: rings are rebuilt here, never in `pick`.
    fn replicas_changed(&mut self, _replicas: &Replicas) {}
}
