//! The shadow policy decides beside the policy in force (see `crate::shadow`).
//!
//! It decides by the same tables, with its own rule, index, buffers and random draws. Its turn is
//! when a decision is recorded: the driver has taken a dispatch by then, and the region is still as
//! it was. So it can't change a decision.
//!
//! It is not asked where no policy decided: about a refusal, a promise, or a request that a peer
//! pulled.

use alloc::boxed::Box;
use alloc::vec::Vec;
use meridian_base::{ReplicaId, RequestId, Time};

use super::Routing;
use crate::active::Active;
use crate::alternatives::handed_over;
use crate::config::ShadowConfig;
use crate::decide::{self, Choice, Scratch, Tables};
use crate::explain::CandidateRow;
use crate::first_token::FirstToken;
use crate::policy::{Dispatched, PolicyEvent};
use crate::rule::{Bounds, PolicyState};
use crate::shadow::{Compared, Placed, ShadowTotals, Shadowed, Would};
use crate::target::Target;
use crate::why::Why;

/// The stream of a shadow's random draws, if it is another policy than the one in force.
const STREAM: u64 = 0x5348_4144_4F57;

pub(super) struct Shadow {
    config: ShadowConfig,
    rule: PolicyState,
    scratch: Scratch,
    /// Free capacity by its admission mode, by replica.
    rooms: Vec<f32>,
    totals: ShadowTotals,
}

/// The rule in force and that of the shadow.
pub(super) fn both<'a>(
    rule: &'a mut PolicyState,
    shadow: &'a mut Option<Box<Shadow>>,
) -> impl Iterator<Item = &'a mut PolicyState> {
    core::iter::once(rule).chain(shadow.as_mut().map(|shadow| &mut shadow.rule))
}

impl Routing {
    /// The configuration of the shadow policy, and the sums over its decisions.
    #[must_use]
    pub fn shadow(&self) -> Option<(&ShadowConfig, &ShadowTotals)> {
        self.shadow.as_ref().map(|shadow| (&shadow.config, &shadow.totals))
    }

    /// The shadow's newest decision about a request that has not ended.
    #[must_use]
    pub fn shadowed(&self, id: RequestId) -> Option<Shadowed> {
        self.actives.get(id)?.shadowed
    }

    /// Sets or removes the shadow policy, and starts its counts. Its index stays if it is of the same
    /// kind as the one before, and else starts empty.
    pub(super) fn shadow_by(&mut self, config: Option<ShadowConfig>) {
        self.config.shadow.clone_from(&config);
        let before = self.shadow.take();
        let Some(config) = config else { return };
        // The same policy draws the same numbers, so only other parameters make a difference.
        let is_same = config.policy.name == self.config.policy.name;
        let seed = self.rule.seed() ^ if is_same { 0 } else { STREAM };
        let policy = (config.policy, &config.params);
        let mut rule = PolicyState::new(seed, policy, config.admission, self.bounds());
        if let Some(mut before) = before {
            rule.inherit(&mut before.rule);
        }
        rule.report(PolicyEvent::Replicas(self.fleet.replicas()));
        rule.report(PolicyEvent::Peers(self.regions.peers()));
        rule.replay(&self.actives, self.fleet.replicas());
        let (scratch, rooms, totals) = (Scratch::default(), Vec::new(), ShadowTotals::default());
        self.shadow = Some(Box::new(Shadow { config, rule, scratch, rooms, totals }));
        for id in self.fleet.ids().to_vec() {
            self.set_cap(id);
        }
    }

    pub(super) fn bounds(&self) -> Bounds {
        let highest = self.fleet.ids().iter().map(|id| id.index() + 1).max();
        let targets = usize::from(self.config.max_replicas).max(highest.unwrap_or(0));
        Bounds { entries: self.config.index_entries, targets }
    }

    /// Asks the shadow about the newest decision, which placed the request at `did`, or queued it. The
    /// scratch belongs to the decision.
    pub(super) fn ask_shadow(
        &mut self,
        now: Time,
        active: &mut Active,
        attempt: u32,
        did: Option<Placed>,
    ) -> Option<Shadowed> {
        let mut shadow = self.shadow.take()?;
        let counted = core::mem::replace(&mut active.attempt, attempt.saturating_sub(1));
        let just_left = did.is_some() && active.left_queue;
        let choice = self.choose_as(now, active, &mut shadow, just_left);
        active.attempt = counted;
        let prefill = choice.prefill();
        let pick = choice.pick();
        let would = pick.map(|(target, _)| (target, prefill));
        let seen = Shadowed {
            policy: shadow.config.policy.name,
            would: Would::of(did, would),
            pick,
            prefill,
            compared: self.compared(active, &shadow.scratch, did, would),
        };
        self.shadow = Some(shadow);
        Some(seen)
    }

    /// As [`Self::ask_shadow`], about a decision that takes effect: the answer is counted.
    pub(super) fn note_shadow(
        &mut self,
        now: Time,
        active: &mut Active,
        attempt: u32,
        pick: Option<(Target, Why)>,
    ) {
        if self.shadow.is_none() {
            return;
        }
        active.shadowed = match pick {
            Some((_, Why::Promised { .. } | Why::Stolen)) => None,
            pick => {
                let prefill = active.fetch.map(|fetch| fetch.from);
                let did = pick.map(|(target, _)| (target, prefill));
                self.ask_shadow(now, active, attempt, did)
            }
        };
        if let (Some(shadow), Some(seen)) = (&mut self.shadow, &active.shadowed) {
            shadow.totals.add(seen.would, seen.compared.as_ref());
        }
    }

    /// The choice by the shadow's rule about a request that may have `just_left` the queue.
    fn choose_as(
        &self,
        now: Time,
        active: &Active,
        shadow: &mut Shadow,
        just_left: bool,
    ) -> Choice {
        let Shadow { rule, scratch, rooms, .. } = shadow;
        let mut tables = Tables { rule, just_left, ..self.tables() };
        if rule.admission() != self.rule.admission() {
            self.fleet.replicas().rooms_by(rule.admission(), rooms);
            tables.rooms = rooms;
        }
        scratch.start_afresh();
        decide::decide(&tables, now, active, scratch)
    }

    /// The figures of both picks, if both are replicas of this region.
    fn compared(
        &self,
        active: &Active,
        shadow: &Scratch,
        did: Option<Placed>,
        would: Option<Placed>,
    ) -> Option<Compared> {
        let by = if self.rule.index().is_some() { &self.buffers.newest } else { shadow };
        let (matched, first) = self.promised(active, by, did?)?;
        let (shadow_matched, shadow_first) = self.promised(active, by, would?)?;
        let is_known = first.ms.is_finite() && shadow_first.ms.is_finite();
        is_known.then_some(Compared {
            prompt_tokens: active.request.prompt_tokens,
            matched_tokens: matched as u32,
            shadow_matched_tokens: shadow_matched as u32,
            first_token_ms: first.ms,
            shadow_first_token_ms: shadow_first.ms,
        })
    }

    /// The matched tokens and the first token of a placement in this region.
    fn promised(&self, active: &Active, by: &Scratch, to: Placed) -> Option<(f32, FirstToken)> {
        let (Target::Replica(replica), prefill) = to else { return None };
        let row = |id: ReplicaId| CandidateRow {
            replica: id,
            ineligible: None,
            matched_tokens: by.matched_tokens(id),
            prompt_tokens: active.request.prompt_tokens,
            row: *self.fleet.row(id),
            of_siblings: Default::default(),
            loading_ms: 0.0,
        };
        let (to, from) = (row(replica), prefill.map(row));
        Some(match from {
            None => (to.matched_tokens, to.first_token()),
            Some(from) => {
                let ends = ((from.replica, from.row.pool), (to.replica, to.row.pool));
                let pace = self.fleet.links().pace(ends.0, ends.1);
                (from.matched_tokens, handed_over(&from, &to, pace))
            }
        })
    }

    /// Tells the shadow about a dispatch: its index learns what the replicas got.
    pub(super) fn shadow_dispatch(&mut self, at: Time, active: &mut Active, replica: ReplicaId) {
        let Some(shadow) = &mut self.shadow else { return };
        let request = &active.request;
        let prompt = request.prompt_tokens as f32;
        let from = active.fetch.map(|fetch| fetch.from);
        for (leg, to) in [from, Some(replica)].into_iter().enumerate() {
            let Some(to) = to else { continue };
            let index = shadow.rule.index();
            let kept = index.map_or(0, |index| index.longest(&request.blocks, to.0));
            active.shadow_kept[leg] = kept;
            let matched = (kept as f32 * request.block_tokens).min(prompt);
            let computes = leg == 0 || from.is_none();
            if shadow.rule.sent(to, &request.blocks).is_some() && computes {
                shadow.rule.count_hits(matched, prompt + active.reply);
            }
            let unmatched_tokens = if computes { prompt - matched } else { 0.0 };
            let prefill_ms = unmatched_tokens * self.fleet.row(to).ms_per_token;
            let sent = Dispatched { at, request, replica: to, unmatched_tokens, prefill_ms };
            shadow.rule.report(PolicyEvent::Dispatched(sent));
        }
    }

    /// Removes from the shadow's index what a replica may never have computed, except for the blocks
    /// that it had before.
    pub(super) fn shadow_forget(&mut self, active: &Active, replica: ReplicaId, is_prefill: bool) {
        if let Some(shadow) = &mut self.shadow {
            let keep = active.shadow_kept[usize::from(!is_prefill)];
            shadow.rule.forget(replica, &active.request.blocks, keep);
        }
    }
}
