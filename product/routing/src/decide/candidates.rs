//! The candidates of a decision: which replicas may get the request now, which are full, and why the
//! others may not.

use meridian_base::{PeerId, ReplicaId, Time};

use super::choice::Choice;
use super::{Scratch, Tables, sample};
use crate::active::Active;
use crate::request::Request;
use crate::row::Row;
use crate::why::{Closed, Ineligible, RejectWhy};

/// Replicas scanned together.
const LANES: usize = 64;

impl Tables<'_> {
    /// Sorts the model's replicas into eligible and full; returns early if there is nothing to
    /// choose from.
    pub(super) fn sort_out(
        &self,
        now: Time,
        active: &Active,
        scratch: &mut Scratch,
    ) -> Result<(), Choice> {
        scratch.eligible.clear();
        scratch.full.clear();
        scratch.prefills.clear();
        scratch.loading.clear();
        scratch.sampled = false;
        scratch.gives_way = false;
        scratch.least_context = 0;
        let request = &active.request;
        let Some(candidates) = self.fleet.serving(request.model) else {
            return Err(Choice::Refuse(self.no_replica_serves(request)));
        };
        if let Some(pin) = request.pinned
            && !candidates.contains(&pin)
        {
            return Err(Choice::Refuse(RejectWhy::PinnedGone));
        }
        let places = active.permitted.places;
        scratch.least_context = self.least_context(active, candidates);
        scratch.failing_at = self.fleet.is_failing(request.model).then_some(now);
        let is_plain = active.tried.is_empty() && scratch.needs_no_look();
        if request.pinned.is_none() && is_plain && places == u64::MAX {
            if sample::pays(candidates.len()) && self.rule.features().may_sample {
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
                Some(Ineligible::Pinned | Ineligible::Short) => continue,
                Some(Ineligible::Forbidden) => {
                    forbidden += 1;
                    continue;
                }
                // A replica that leaves a model scaled to zero makes no attempt the last: others come.
                Some(Ineligible::Draining | Ineligible::Down)
                    if request.scale_from_zero.is_some() => {}
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
        let rooms = self.rooms;
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
                !each(*id) && matches!(self.fleet.row(*id).closed, None | Some(Ineligible::Full))
            };
            full.extend(candidates.iter().copied().filter(is_full));
        }
    }

    /// Why `id` may not be picked for this request; `None` when it may.
    #[inline]
    pub(super) fn standing(
        &self,
        active: &Active,
        id: ReplicaId,
        scratch: &Scratch,
    ) -> Option<Ineligible> {
        let row: &Row = self.fleet.row(id);
        if active.request.pinned.is_some_and(|pin| pin != id) {
            return Some(Ineligible::Pinned);
        }
        if self.fleet.is_forbidden(active.permitted.places, id) {
            return Some(Ineligible::Forbidden);
        }
        if scratch.least_context > 0
            && scratch.least_context > self.fleet.context(active.request.model, id)
        {
            return Some(Ineligible::Short);
        }
        if scratch.failing_at.is_some_and(|now| !self.fleet.passes(active.request.model, id, now)) {
            return Some(Ineligible::Breaker);
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
        (unmatched + growth > self.rule.admission().room(row)).then_some(Ineligible::Full)
    }

    /// The conditions that exclude replicas from serving a request.
    pub(crate) fn closed_to(&self, now: Time, active: &Active) -> Closed {
        let mut closed = Closed::default();
        let request = &active.request;
        let candidates = self.fleet.serving(request.model).unwrap_or_default();
        let least = self.least_context(active, candidates);
        for id in candidates.iter().copied() {
            let pinned_elsewhere = request.pinned.is_some_and(|pin| pin != id);
            let is_short = least > 0 && least > self.fleet.context(request.model, id);
            let is_forbidden = self.fleet.is_forbidden(active.permitted.places, id);
            if pinned_elsewhere || is_short || is_forbidden {
                continue;
            }
            match self.fleet.row(id).closed {
                None if !self.fleet.passes(request.model, id, now) => closed.breaker += 1,
                Some(Ineligible::Down) => closed.down += 1,
                Some(Ineligible::Breaker) => closed.breaker += 1,
                Some(Ineligible::Draining) => closed.draining += 1,
                None if active.tried.contains(&id) => closed.failed += 1,
                _ => closed.full += 1,
            }
        }
        if self.regions.are_open() && request.hops == 0 {
            let serves = |id: &&PeerId| {
                let usable = self.regions.row(**id).is_some_and(|row| row.usable > 0);
                usable && active.peers() & 1 << id.0 != 0
            };
            closed.peers = self.regions.ids().iter().filter(serves).count() as u32;
        }
        closed
    }

    fn no_replica_serves(&self, request: &Request) -> RejectWhy {
        // A replica whose models are not known yet may turn out to serve it.
        let unknown =
            |id: &ReplicaId| self.fleet.replicas().spec(*id).is_some_and(|s| s.models.is_empty());
        let ids = self.fleet.ids();
        let known = request.elsewhere || self.fleet.prefilling(request.model).is_some();
        match known || ids.is_empty() || ids.iter().any(unknown) {
            true => RejectWhy::NoReplica,
            false => RejectWhy::UnknownModel,
        }
    }
}
