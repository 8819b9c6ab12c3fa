//! The routing decision. All choices are made here.
//!
//! [`decide`] builds the policy's view (prefix matches, eligible replicas, full replicas), asks the
//! policy, and considers the peers. It reads the tables and writes only buffers: to apply its choice
//! is the step of the machine that asked (`machine/requests.rs`). It takes one pass over the model's
//! replicas and allocates nothing; of many replicas, the policy sees a sample (`sample.rs`).

mod beyond;
mod candidates;
mod choice;
mod context;
mod describe;
mod prefills;
mod sample;
mod scratch;

use meridian_base::{Priority, ReplicaId, Time};

pub(crate) use self::choice::{Choice, Sending};
pub(crate) use self::scratch::Scratch;
use crate::active::{Active, RequestStage};
use crate::common::Common;
use crate::fleet::OwnReplicas;
use crate::policy::{Chosen, Forward, Pick, View};
use crate::queue::WaitingQueue;
use crate::regions::Regions;
use crate::rule::PolicyState;

/// Tag of the second layer's random draws.
const SECOND_LAYER: u64 = 2;

/// A step of an engine, in prompt tokens.
const STEP_TOKENS: f32 = 2048.0;

/// The tables that a decision reads.
#[derive(Clone, Copy)]
pub(crate) struct Tables<'a> {
    pub(crate) fleet: &'a OwnReplicas,
    pub(crate) queue: &'a WaitingQueue,
    pub(crate) regions: &'a Regions,
    pub(crate) rule: &'a PolicyState,
    /// The free capacity of each replica, by the rule's admission mode.
    pub(crate) rooms: &'a [f32],
    /// Whether the request has just left the queue, and counts there.
    pub(crate) just_left: bool,
}

impl<'a> Tables<'a> {
    /// The tables of a region, by the rule in force.
    #[inline]
    pub(crate) fn of(
        fleet: &'a OwnReplicas,
        queue: &'a WaitingQueue,
        regions: &'a Regions,
        rule: &'a PolicyState,
    ) -> Tables<'a> {
        Tables { fleet, queue, regions, rule, rooms: fleet.rooms(), just_left: false }
    }
}

/// Decides about a request by the tables.
pub(crate) fn decide(
    tables: &Tables<'_>,
    now: Time,
    active: &Active,
    scratch: &mut Scratch,
) -> Choice {
    tables.match_prefix(active, scratch);
    let local = match tables.sort_out(now, active, scratch) {
        Err(choice) => Err(choice),
        Ok(()) => {
            assert!(!scratch.eligible.is_empty(), "a policy has a candidate to pick");
            tables.find_prefills(active, scratch);
            let pick = tables.ask(now, active, scratch);
            scratch.gives_way = tables.gives_way(now, active, &pick);
            Ok(if scratch.gives_way { Pick::Wait } else { pick })
        }
    };
    scratch.by_choice = local == Ok(Pick::Wait);
    let choice = match tables.regions.are_open() {
        false => Choice::of(local),
        true => tables.look_beyond(now, active, scratch, local),
    };
    scratch.is_left = tables.is_left(now, active, &choice);
    match choice {
        Choice::Refuse(why) => choice::refusal(active, why),
        Choice::Send(_) if scratch.is_left => Choice::Hold,
        choice => choice,
    }
}

/// Picks the best of the full replicas that `takes` accepts, if all that could serve the request are
/// full; `None` if none is.
pub(crate) fn pick_full(
    tables: &Tables<'_>,
    now: Time,
    active: &Active,
    scratch: &mut Scratch,
    takes: impl Fn(&ReplicaId) -> bool,
) -> Option<Chosen> {
    tables.match_prefix(active, scratch);
    let sorted = tables.sort_out(now, active, scratch);
    if sorted != Err(Choice::Hold) || !scratch.offer_full(takes) {
        return None;
    }
    tables.find_prefills(active, scratch);
    match tables.ask(now, active, scratch) {
        Pick::Replica(chosen) => Some(chosen),
        Pick::Wait => None,
    }
}

/// Matches a request everywhere without deciding about it.
pub(crate) fn match_all(tables: &Tables<'_>, active: &Active, scratch: &mut Scratch) {
    tables.match_prefix(active, scratch);
    tables.match_beyond(active, &mut scratch.beyond, &mut None);
}

impl Tables<'_> {
    pub(super) fn match_prefix(&self, active: &Active, scratch: &mut Scratch) {
        scratch.block_tokens = active.request.block_tokens;
        scratch.prompt_tokens = active.request.prompt_tokens as f32;
        scratch.growth = active.growth;
        scratch.matched.resize(self.fleet.replicas().width(), 0);
        match self.rule.index() {
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

    pub(super) fn ask(&self, now: Time, active: &Active, scratch: &mut Scratch) -> Pick {
        self.note_loading(active, scratch);
        let mut partners = core::mem::take(&mut scratch.partners);
        let (view, mut draw) = (self.view(now, active, scratch), self.rule.draw(active));
        let mut pick = self.rule.policy().pick(&view, &mut draw);
        if let Pick::Replica(chosen) = &mut pick
            && !view.prefills.is_empty()
            && !self.rule.features().prices_pairs
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

    /// Whether a request waits for the prompts of others at the picked replica, since its session was served much more
    /// than they. Engines compute prompts in their order: a session that sends 30 at once would else be before all
    /// others that come. The highest class waits for none: those prompts may be of a lower one.
    fn gives_way(&self, now: Time, active: &Active, pick: &Pick) -> bool {
        let Pick::Replica(chosen) = pick else { return false };
        let request = &active.request;
        let prefills = self.fleet.row(chosen.prefill.unwrap_or(chosen.replica));
        prefills.front_tokens >= STEP_TOKENS
            && request.hops == 0
            && request.priority < Priority::High
            && self.queue.was_served_much(request)
            && self.may_be_held(now, active)
    }

    /// Whether capacity that a request could have is left to a sibling whose turn it is.
    fn is_left(&self, now: Time, active: &Active, choice: &Choice) -> bool {
        let request = &active.request;
        matches!(choice, Choice::Send(Sending::Replica(_)))
            && request.hops == 0
            && request.pinned.is_none()
            && self
                .queue
                .left_until(now, request, active.arrived, || self.fleet.rooms_open())
                .is_some()
            && self.may_be_held(now, active)
    }

    /// Whether a request that would fit somewhere may wait in the queue.
    fn may_be_held(&self, now: Time, active: &Active) -> bool {
        let request = &active.request;
        now < self.queue.may_wait_until(active.waits_from, request.deadline)
            && (active.stage == RequestStage::Held || self.queue.has_place(request.tenant))
    }

    /// Notes how long each candidate takes to load the request's adapter, if it names one.
    fn note_loading(&self, active: &Active, scratch: &mut Scratch) {
        let model = active.request.model;
        if !self.fleet.is_adapter(model) {
            return;
        }
        let Scratch { eligible, full, loading, .. } = scratch;
        loading.resize(self.fleet.replicas().width(), 0.0);
        for id in eligible.iter().chain(full.iter()) {
            let Some(replica) = self.fleet.get(*id) else { continue };
            loading[id.index()] = replica.adapters.loading_ms(model, self.fleet.row(*id));
        }
    }

    /// The policy's view.
    #[inline]
    fn view<'a>(&'a self, now: Time, active: &'a Active, scratch: &'a Scratch) -> View<'a> {
        View {
            now,
            request: &active.request,
            common: self.common(now, active),
            may_wait: now < self.queue.may_wait_until(active.waits_from, active.request.deadline),
            eligible: &scratch.eligible,
            full: &scratch.full,
            prefills: &scratch.prefills,
            links: self.fleet.links(),
            replicas: self.fleet.replicas(),
            matched: &scratch.matched,
            loading: &scratch.loading,
            index: self.rule.index(),
            held: self.queue_len(),
            peers: self.regions.peers(),
            available: &scratch.beyond.available,
            reachable: &scratch.beyond.reachable,
            peer_matched: &scratch.beyond.matched,
        }
    }

    /// The figures that are the same for every candidate.
    pub(super) fn common(&self, now: Time, active: &Active) -> Common {
        let others =
            self.queue.waiting().saturating_sub(u32::from(active.stage == RequestStage::Held));
        let replicas = self.fleet.serving(active.request.model).map_or(0, <[_]>::len);
        Common {
            reply_tokens: active.reply,
            queued: others as f32 / replicas.max(1) as f32,
            reused: self.rule.reused(),
            waited_ms: now.since(active.arrived).as_secs_f32() * 1e3,
        }
    }

    /// Requests in the queue when the decision was made.
    pub(super) fn queue_len(&self) -> u32 {
        self.queue.waiting() + u32::from(self.just_left)
    }

    /// Asks the policy about forwarding to a peer.
    pub(super) fn ask_beyond(
        &self,
        now: Time,
        active: &Active,
        scratch: &mut Scratch,
        local: Option<&Pick>,
    ) -> Option<Forward> {
        let view = self.view(now, active, scratch);
        if !self.rule.forwarding().looks_beyond(&view, local) {
            return None;
        }
        self.match_beyond(active, &mut scratch.beyond, &mut scratch.recall);
        let mut draw = self.rule.draw(active).fork(SECOND_LAYER);
        let view = self.view(now, active, scratch);
        let forward = self.rule.policy().forward(&view, local, &mut draw);
        assert!(
            forward.is_none_or(|f| scratch.beyond.reachable.contains(&f.peer)),
            "a policy forwards to those who may get it"
        );
        forward
    }
}
