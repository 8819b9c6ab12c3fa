//! The routing decision. All choices are made here.
//!
//! Builds the policy's view (prefix matches, eligible replicas, full replicas), asks the policy,
//! and records the decision. This takes one pass over the model's replicas and reuses its buffers;
//! of many replicas, the policy sees a sample (`sample.rs`).

mod prefills;
mod sample;

use alloc::boxed::Box;
use alloc::vec::Vec;
use meridian_base::{PeerId, ReplicaId, Time};

use super::Routing;
use super::second_layer::Beyond;
use crate::active::{Active, RequestStage};
use crate::explain::{CandidateRow, Decision, PeerCandidate};
use crate::first_token::FirstToken;
use crate::places::Places;
use crate::policy::{Chosen, Common, Forward, Pick, View};
use crate::recall::Recall;
use crate::request::Request;
use crate::row::Row;
use crate::target::Target;
use crate::why::{Closed, Ineligible, RejectWhy, Why};
use meridian_base::residency::Residence;

/// The decision about a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Choice {
    Send(Sending),
    Hold,
    Refuse(RejectWhy),
}

/// Where a request goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Sending {
    Replica(Chosen),
    Peer(Forward),
}

impl Sending {
    pub(crate) fn score(&self) -> Option<f64> {
        match self {
            Sending::Replica(to) => to.score,
            Sending::Peer(to) => to.score,
        }
    }
}

impl Choice {
    /// The decision if only the first layer is considered.
    pub(crate) fn of(local: Result<Pick, Choice>) -> Choice {
        match local {
            Ok(Pick::Replica(chosen)) => Choice::Send(Sending::Replica(chosen)),
            Ok(Pick::Wait) => Choice::Hold,
            Err(choice) => choice,
        }
    }

    /// The replica that computes the prompt, if it is another one.
    pub(crate) fn prefill(&self) -> Option<ReplicaId> {
        match self {
            Choice::Send(Sending::Replica(to)) => to.prefill,
            _ => None,
        }
    }

    pub(crate) fn pick(&self) -> Option<(Target, Why)> {
        match self {
            Choice::Send(Sending::Replica(to)) => Some((Target::Replica(to.replica), to.why)),
            Choice::Send(Sending::Peer(to)) => Some((Target::Peer(to.peer), to.why)),
            Choice::Hold | Choice::Refuse(_) => None,
        }
    }
}

/// Replicas scanned together.
const LANES: usize = 64;
/// Tag of the second layer's random draws.
const SECOND_LAYER: u64 = 2;

/// Buffers of a decision.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    eligible: Vec<ReplicaId>,
    full: Vec<ReplicaId>,
    /// Prefill replicas for a pair with one of the eligible, and those that pair with the picked.
    prefills: Vec<ReplicaId>,
    partners: Vec<ReplicaId>,
    matched: Vec<u32>,
    /// The time until the request's adapter is loaded, ms, by replica; empty for other models.
    loading: Vec<f32>,
    block_tokens: f32,
    prompt_tokens: f32,
    growth: f32,
    /// Whether the eligible and the full replicas are a sample.
    sampled: bool,
    pub(crate) beyond: Beyond,
    /// The earlier matches of a held request.
    recall: Option<Box<Recall>>,
}

impl Scratch {
    /// Makes the full replicas that `takes` accepts the eligible ones; false if there are none.
    pub(crate) fn offer_full(&mut self, takes: impl Fn(&ReplicaId) -> bool) -> bool {
        self.eligible.extend(self.full.drain(..).filter(takes));
        !self.eligible.is_empty()
    }

    /// Prompt tokens matched at `replica` in the newest decision.
    pub(crate) fn matched_tokens(&self, replica: ReplicaId) -> f32 {
        self.tokens(self.matched.get(replica.index()).copied().unwrap_or(0))
    }

    /// Prompt tokens in this many leading blocks.
    pub(crate) fn tokens(&self, blocks: u32) -> f32 {
        (blocks as f32 * self.block_tokens).min(self.prompt_tokens)
    }
}

impl Routing {
    /// Decides about one request. Records a decision that sends nothing at once, and a dispatch
    /// after it has left.
    pub(crate) fn decide(&mut self, now: Time, active: &mut Active) -> Choice {
        let choice = self.choose(now, active);
        if choice.pick().is_none() {
            let attempt = active.attempt + 1;
            active.shadowed = None;
            if choice == Choice::Hold {
                self.note_shadow(now, active, attempt, None);
            }
            self.write_down(now, active, attempt, None);
        }
        choice
    }

    /// Decides about one request, changing only buffers.
    pub(crate) fn choose(&mut self, now: Time, active: &mut Active) -> Choice {
        self.write_dispatch();
        self.places.refresh(&mut active.permitted, &active.request, &self.peers);
        let mut scratch = core::mem::take(&mut self.scratch);
        scratch.beyond.clear();
        scratch.recall = active.recall.take();
        if active.stage == RequestStage::Held && scratch.recall.is_none() && !self.forgetful {
            scratch.recall = Some(Box::default());
        }
        let choice = self.weigh(now, active, &mut scratch);
        active.recall = scratch.recall.take();
        self.scratch = scratch;
        choice
    }

    /// The choice itself, by the rule in force.
    pub(super) fn weigh(&mut self, now: Time, active: &Active, scratch: &mut Scratch) -> Choice {
        self.match_prefix(active, scratch);
        let local = match self.sort_out(active, scratch) {
            Err(choice) => Err(choice),
            Ok(()) => {
                self.find_prefills(active, scratch);
                Ok(self.ask(now, active, scratch))
            }
        };
        let choice = match self.has_second_layer() {
            false => Choice::of(local),
            true => self.look_beyond(now, active, scratch, local),
        };
        match choice {
            Choice::Refuse(why) => refusal(active, why),
            choice => choice,
        }
    }

    /// Matches a request everywhere without deciding about it.
    pub(crate) fn match_all(&mut self, active: &Active) {
        self.write_dispatch();
        let mut scratch = core::mem::take(&mut self.scratch);
        self.match_prefix(active, &mut scratch);
        self.match_beyond(active, &mut scratch.beyond, &mut None);
        self.scratch = scratch;
    }

    pub(crate) fn match_prefix(&self, active: &Active, scratch: &mut Scratch) {
        scratch.block_tokens = active.request.block_tokens;
        scratch.prompt_tokens = active.request.prompt_tokens as f32;
        scratch.growth = active.growth;
        scratch.matched.resize(self.replicas.width(), 0);
        match &self.rule.index {
            Some(index) => {
                let blocks = &active.request.blocks;
                match &mut scratch.recall {
                    Some(kept) => {
                        index.matches_again(blocks, &mut scratch.matched, &mut kept.here);
                    }
                    None => index.matches(blocks, &mut scratch.matched),
                }
            }
            None => scratch.matched.fill(0),
        }
    }

    /// Sorts the model's replicas into eligible and full; returns early if there is nothing to
    /// choose from.
    pub(crate) fn sort_out(&self, active: &Active, scratch: &mut Scratch) -> Result<(), Choice> {
        scratch.eligible.clear();
        scratch.full.clear();
        scratch.prefills.clear();
        scratch.loading.clear();
        scratch.sampled = false;
        let request = &active.request;
        let Some(candidates) = self.serves.get(&request.model) else {
            return Err(Choice::Refuse(self.no_replica_serves(request)));
        };
        if let Some(pin) = request.pinned
            && !candidates.contains(&pin)
        {
            return Err(Choice::Refuse(RejectWhy::PinnedGone));
        }
        let places = active.permitted.places;
        if request.pinned.is_none() && active.tried.is_empty() && places == u64::MAX {
            if sample::pays(candidates.len()) && self.rule.policy.may_sample() {
                self.sample(active, candidates, scratch);
            }
            // If no replica of the sample can take the request, another one may.
            if scratch.eligible.is_empty() {
                scratch.full.clear();
                scratch.sampled = false;
                self.scan(candidates, scratch);
            }
            if !scratch.eligible.is_empty() {
                return Ok(());
            }
        }
        scratch.full.clear();
        let (mut untried, mut tried, mut forbidden) = (0, 0, 0);
        for id in candidates.iter().copied() {
            match self.standing(active, id, scratch) {
                None => scratch.eligible.push(id),
                Some(Ineligible::Full) => scratch.full.push(id),
                Some(Ineligible::Pinned) => continue,
                Some(Ineligible::Forbidden) => {
                    forbidden += 1;
                    continue;
                }
                // Whatever closed it, it does not get this request again.
                Some(_) if active.tried.contains(&id) => {
                    tried += 1;
                    continue;
                }
                Some(_) => {}
            }
            untried += 1;
        }
        match (scratch.eligible.is_empty(), untried) {
            (false, _) => Ok(()),
            (true, 0) if tried == 0 && forbidden > 0 => {
                Err(Choice::Refuse(RejectWhy::NotPermitted))
            }
            (true, 0) => {
                Err(Choice::Refuse(RejectWhy::RetriesExhausted { attempts: active.attempt }))
            }
            // Full, or briefly closed (breaker, restart): worth a bounded wait.
            (true, _) => Err(Choice::Hold),
        }
    }

    /// Sorts replicas in the ordinary case, when none has been tried and none is pinned: eight
    /// bytes a replica, many at once, without mispredicted branches. If no replica is eligible, the
    /// slower pass finds the reason.
    fn scan(&self, candidates: &[ReplicaId], scratch: &mut Scratch) {
        let Scratch { eligible, full, matched, block_tokens, prompt_tokens, growth, .. } = scratch;
        let rooms = self.replicas.rooms();
        let matched = &matched[..rooms.len()];
        let (block, prompt, growth) = (*block_tokens, *prompt_tokens, *growth);
        let fits = |blocks: u32, room: f32| {
            // Counts stay far below 2^31, and the signed conversion is the one that vectorises.
            let known = blocks as i32 as f32 * block;
            prompt - if known < prompt { known } else { prompt } + growth <= room
        };
        let each = |id: ReplicaId| fits(matched[id.index()], rooms[id.index()]);
        eligible.resize(candidates.len(), ReplicaId(0));
        let mut fitting = 0;
        for ids in candidates.chunks(LANES) {
            let (first, last) = (ids[0].index(), ids[ids.len() - 1].index());
            // Ids ascend, most often without a gap, and most often all fit.
            if last - first == ids.len() - 1 {
                let both = matched[first..=last].iter().zip(&rooms[first..=last]);
                if both.fold(true, |all, (blocks, room)| all & fits(*blocks, *room)) {
                    eligible[fitting..fitting + ids.len()].copy_from_slice(ids);
                    fitting += ids.len();
                    continue;
                }
            }
            // Every slot is written, but the index advances only past replicas that fit.
            for id in ids {
                eligible[fitting] = *id;
                fitting += usize::from(each(*id));
            }
        }
        eligible.truncate(fitting);
        if fitting < candidates.len() {
            let is_full = |id: &ReplicaId| {
                !each(*id) && matches!(self.replicas.row(*id).closed, None | Some(Ineligible::Full))
            };
            full.extend(candidates.iter().copied().filter(is_full));
        }
    }

    /// Why `id` may not be picked for this request; `None` when it may.
    #[inline]
    fn standing(&self, active: &Active, id: ReplicaId, scratch: &Scratch) -> Option<Ineligible> {
        let row: &Row = self.replicas.row(id);
        if active.request.pinned.is_some_and(|pin| pin != id) {
            return Some(Ineligible::Pinned);
        }
        if self.is_forbidden(active.permitted.places, id) {
            return Some(Ineligible::Forbidden);
        }
        match row.closed {
            // A request already there is finished, and a pinned session is there.
            Some(Ineligible::Draining) if active.request.pinned.is_some() => {}
            None => {}
            closed => return closed,
        }
        if active.tried.contains(&id) {
            return Some(Ineligible::Tried);
        }
        let unmatched = scratch.prompt_tokens - scratch.matched_tokens(id);
        // A prefill leg writes one token.
        let growth = if row.pool.role.answers() { scratch.growth } else { 0.0 };
        (unmatched + growth > self.rule.admission.room(row)).then_some(Ineligible::Full)
    }

    /// The conditions that exclude replicas from serving a request.
    pub(crate) fn closed_to(&self, active: &Active) -> Closed {
        let mut closed = Closed::default();
        let request = &active.request;
        for id in self.serves.get(&request.model).map_or(&[][..], |ids| ids).iter().copied() {
            let pinned_elsewhere = request.pinned.is_some_and(|pin| pin != id);
            if pinned_elsewhere || self.is_forbidden(active.permitted.places, id) {
                continue;
            }
            match self.replicas.row(id).closed {
                Some(Ineligible::Down) => closed.down += 1,
                Some(Ineligible::Breaker) => closed.breaker += 1,
                Some(Ineligible::Draining) => closed.draining += 1,
                None if active.tried.contains(&id) => closed.failed += 1,
                _ => closed.full += 1,
            }
        }
        if self.has_second_layer() && request.hops == 0 {
            let serves = |id: &&PeerId| {
                let usable = self.peers.row(**id).is_some_and(|row| row.usable > 0);
                usable && active.peers() & 1 << id.0 != 0
            };
            closed.peers = self.peers.ids().iter().filter(serves).count() as u32;
        }
        closed
    }

    /// Whether `id` may not serve a request that is restricted to `places`.
    #[inline]
    pub(crate) fn is_forbidden(&self, places: u64, id: ReplicaId) -> bool {
        let number = || self.replicas.get(id).map(|replica| replica.place);
        places != u64::MAX && number().is_some_and(|number| !Places::within(number, places))
    }

    /// Whether the rules still permit the decision.
    #[must_use]
    pub fn permits(&self, residence: &Residence, target: Target) -> bool {
        let places = match target {
            Target::Replica(id) => {
                self.replicas.spec(id).map(|spec| core::slice::from_ref(&spec.place))
            }
            Target::Peer(id) => Some(self.peers.places(id)),
        };
        residence.is_free()
            || places.is_some_and(|places| self.places.permit_one(residence, places))
    }

    /// Whether a replica's place has a number. A replica without one serves only requests without
    /// rules.
    #[must_use]
    pub fn is_numbered(&self, id: ReplicaId) -> bool {
        self.replicas.get(id).is_none_or(|replica| Places::is_numbered(replica.place))
    }

    fn no_replica_serves(&self, request: &Request) -> RejectWhy {
        // A replica whose models are not known yet may turn out to serve it.
        let unknown = |id: &ReplicaId| self.replicas.spec(*id).is_some_and(|s| s.models.is_empty());
        let ids = self.replicas.ids();
        let known = request.elsewhere || self.prefills.contains_key(&request.model);
        match known || ids.is_empty() || ids.iter().any(unknown) {
            true => RejectWhy::NoReplica,
            false => RejectWhy::UnknownModel,
        }
    }

    pub(crate) fn ask(&self, now: Time, active: &Active, scratch: &mut Scratch) -> Pick {
        self.note_loading(active, scratch);
        let mut partners = core::mem::take(&mut scratch.partners);
        let (view, mut draw) = (self.view(now, active, scratch), self.draw(active));
        let mut pick = self.rule.policy.pick(&view, &mut draw);
        if let Pick::Replica(chosen) = &mut pick
            && !view.prefills.is_empty()
            && !self.rule.policy.prices_pairs()
        {
            *chosen = self.with_prefill(*chosen, &view, &mut draw, &mut partners);
        }
        scratch.partners = partners;
        let is_eligible = |chosen: Chosen| {
            scratch.eligible.contains(&chosen.replica)
                && chosen.prefill.is_none_or(|from| scratch.prefills.contains(&from))
        };
        debug_assert!(
            !matches!(pick, Pick::Replica(chosen) if !is_eligible(chosen)),
            "a policy picks among the eligible"
        );
        pick
    }

    /// Notes how long each candidate takes to load the request's adapter, if it names one.
    fn note_loading(&self, active: &Active, scratch: &mut Scratch) {
        let model = active.request.model;
        if !self.adapters.contains(&model) {
            return;
        }
        let Scratch { eligible, full, loading, .. } = scratch;
        loading.resize(self.replicas.width(), 0.0);
        for id in eligible.iter().chain(full.iter()) {
            let Some(replica) = self.replicas.get(*id) else { continue };
            loading[id.index()] = replica.adapters.loading_ms(model, self.replicas.row(*id));
        }
    }

    /// The policy's view.
    #[inline]
    fn view<'a>(&'a self, now: Time, active: &'a Active, scratch: &'a Scratch) -> View<'a> {
        View {
            now,
            request: &active.request,
            common: self.common(now, active),
            may_wait: now < self.held.may_wait_until(active.arrived, active.request.deadline),
            eligible: &scratch.eligible,
            full: &scratch.full,
            prefills: &scratch.prefills,
            links: &self.links,
            replicas: &self.replicas,
            matched: &scratch.matched,
            loading: &scratch.loading,
            index: self.rule.index.as_ref(),
            held: self.queue_len(),
            peers: &self.peers,
            available: &scratch.beyond.available,
            reachable: &scratch.beyond.reachable,
            peer_matched: &scratch.beyond.matched,
        }
    }

    /// The figures that are the same for every candidate.
    fn common(&self, now: Time, active: &Active) -> Common {
        let others = self.held.len() - u32::from(active.stage == RequestStage::Held);
        let replicas = self.serves.get(&active.request.model).map_or(0, Vec::len);
        Common {
            reply_tokens: active.reply,
            queued: others as f32 / replicas.max(1) as f32,
            reused: self.rule.hits.share(),
            waited_ms: now.since(active.arrived).as_secs_f32() * 1e3,
        }
    }

    /// Requests in the queue when the decision was made.
    pub(crate) fn queue_len(&self) -> u32 {
        self.held.len() + u32::from(self.just_left)
    }

    /// Asks the policy about forwarding to a peer.
    pub(crate) fn ask_beyond(
        &self,
        now: Time,
        active: &Active,
        scratch: &mut Scratch,
        local: Option<&Pick>,
    ) -> Option<Forward> {
        let rules = self.rule.policy.forwarding();
        if !rules.looks_beyond(&self.view(now, active, scratch), local) {
            return None;
        }
        self.match_beyond(active, &mut scratch.beyond, &mut scratch.recall);
        let mut draw = self.draw(active).fork(SECOND_LAYER);
        let forward = rules.forward(&self.view(now, active, scratch), local, &mut draw);
        debug_assert!(
            forward.is_none_or(|f| scratch.beyond.reachable.contains(&f.peer)),
            "a policy forwards to those who may get it"
        );
        forward
    }

    /// Records the newest decision and its candidates: all of them in an ordinary region, the
    /// picked one and the first `explain_candidates` in a very large one.
    pub(crate) fn write_down(
        &mut self,
        now: Time,
        active: &mut Active,
        attempt: u32,
        pick: Option<(Target, Why)>,
    ) {
        let mut journal = core::mem::take(&mut self.journal);
        journal.decided_again(now, active.decision);
        if let Some((number, decision)) = journal.next() {
            active.decision = number;
            (decision.id, decision.at, decision.attempt) = (active.request.id, now, attempt);
            (decision.resumed, decision.pick) = (active.resumed, pick);
            decision.shadow = active.shadowed;
            self.describe_pair(decision, active.fetch.map(|fetch| fetch.from));
            self.describe_candidates(active, self.config.explain_candidates, decision);
        }
        self.journal = journal;
    }

    /// The newest decision, with all candidates.
    pub(crate) fn decision(
        &self,
        now: Time,
        active: &Active,
        attempt: u32,
        choice: &Choice,
    ) -> Decision {
        let (id, resumed, pick) = (active.request.id, active.resumed, choice.pick());
        let mut decision = Decision { id, at: now, attempt, resumed, pick, ..Decision::default() };
        self.describe_pair(&mut decision, choice.prefill());
        self.describe_candidates(active, usize::MAX, &mut decision);
        decision
    }

    /// Adds the other replica of a pair, and the pace of the link between the two.
    fn describe_pair(&self, decision: &mut Decision, prefill: Option<ReplicaId>) {
        decision.prefill = prefill;
        let end = |id: ReplicaId| (id, self.replicas.row(id).pool);
        decision.pace = match (prefill, decision.pick) {
            (Some(from), Some((Target::Replica(to), _))) => self.links.pace(end(from), end(to)),
            _ => self.links.mean(),
        };
    }

    /// Adds the candidates of the newest decision, up to a limit, and the picked one.
    fn describe_candidates(&self, active: &Active, most: usize, decision: &mut Decision) {
        decision.common = self.common(decision.at, active);
        let rows = &mut decision.candidates;
        let prefills = self.prefills.get(&active.request.model).filter(|_| active.may_split());
        for ids in [self.serves.get(&active.request.model), prefills].into_iter().flatten() {
            rows.extend(ids.iter().take(most).map(|id| self.candidate(active, *id)));
        }
        let picked = match decision.pick {
            Some((Target::Replica(id), _)) => Some(id),
            _ => None,
        };
        for id in picked.into_iter().chain(decision.prefill) {
            if !rows.iter().any(|r| r.replica == id) {
                rows.push(self.candidate(active, id));
            }
        }
        decision.away = match decision.pick {
            Some((Target::Peer(id), _)) => self.first_token_away(active, id),
            _ => None,
        };
        let each = self.peers.ids().iter();
        let at = decision.at;
        decision.peers.extend(each.filter_map(|id| self.peer_candidate(at, active, *id)));
    }

    fn peer_candidate(&self, now: Time, active: &Active, id: PeerId) -> Option<PeerCandidate> {
        let peer = self.peers.get(id)?;
        let row = peer.row();
        let blocks = self.scratch.beyond.matched.get(id.index()).copied().unwrap_or(0);
        Some(PeerCandidate {
            peer: id,
            unavailable: self.peer_standing(now, active, id, peer),
            matched_tokens: self.scratch.tokens(blocks),
            rtt_ms: row.rtt_ms,
            held: row.held,
            eligible: row.eligible,
            since: row.since,
        })
    }

    /// The earliest first token among a peer's eligible replicas, before this forward counts there.
    fn first_token_away(&self, active: &Active, id: PeerId) -> Option<FirstToken> {
        let (row, of) = (self.peers.get(id)?.row(), active.request.prompt_tokens);
        let matched = |slot: Option<u16>| {
            let blocks = slot.and_then(|slot| self.scratch.beyond.matched.get(usize::from(slot)));
            blocks.map_or(0.0, |blocks| self.scratch.tokens(*blocks))
        };
        let eligible = row.replicas.iter().filter(|replica| replica.told.eligible);
        let each = eligible.map(|replica| {
            let (own, matched) = (replica.own_tokens, matched(replica.slot));
            FirstToken::at_peer(row.rtt_ms, &replica.told, own, matched, of)
        });
        each.min_by(|a, b| a.ms.total_cmp(&b.ms))
    }

    fn candidate(&self, active: &Active, id: ReplicaId) -> CandidateRow {
        let scratch = &self.scratch;
        let left_out = || {
            let seen = scratch.eligible.contains(&id)
                || scratch.full.contains(&id)
                || scratch.prefills.contains(&id)
                || !self.replicas.row(id).pool.role.answers();
            (scratch.sampled && !seen).then_some(Ineligible::Unsampled)
        };
        CandidateRow {
            replica: id,
            ineligible: self.standing(active, id, scratch).or_else(left_out),
            matched_tokens: scratch.matched_tokens(id),
            prompt_tokens: active.request.prompt_tokens,
            row: *self.replicas.row(id),
            loading_ms: scratch.loading.get(id.index()).copied().unwrap_or(0.0),
        }
    }
}

/// Handles a request that no replica can serve now. Residency rules leave a request few candidates,
/// so a passing fault may leave it none: a briefly lost peer, a replica that is down or drains, a
/// failed attempt. The request then waits as it would for capacity. It is refused as `NotPermitted`
/// only if its rules permit no place that the configuration or the registry knows.
fn refusal(active: &Active, why: RejectWhy) -> Choice {
    use RejectWhy::{NoReplica, NotPermitted, PinnedGone, UnknownModel};
    let Active { request, permitted, .. } = active;
    let nothing = matches!(why, NoReplica | NotPermitted | UnknownModel);
    if nothing && !request.here {
        let is_forbidden = request.peers == 0;
        return Choice::Refuse(if is_forbidden { NotPermitted } else { PinnedGone });
    }
    let waits = active.is_restricted() && request.pinned.is_none() && request.hops == 0;
    match why {
        _ if !waits || !nothing => Choice::Refuse(why),
        _ if !permitted.somewhere => Choice::Refuse(NotPermitted),
        UnknownModel if request.peers == 0 => Choice::Refuse(why),
        _ => Choice::Hold,
    }
}
