//! The fleet table: the region's replicas, the models that each serves, the links between them, and
//! when each is probed next.
//!
//! Decisions read it and cannot write it. The machine's steps change it through the functions here,
//! which keep its parts in agreement: the lists by model name present replicas only, and a replica
//! has at most one scheduled probe.
//!
//! Not here: what happens when a replica joins, reports or leaves (`machine/fleet.rs`), and the state
//! of one replica (`replica.rs`).

mod check;
#[cfg(test)]
mod tests;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use meridian_base::{Duration, ModelId, ReplicaId, RequestId, Time};

use crate::admission::Admission;
use crate::kind::{Kind, Own};
use crate::links::Links;
use crate::places::Places;
use crate::probe::Schedule;
use crate::replica::{Replica, Work};
use crate::replicas::Replicas;
use crate::row::Row;
use crate::why::Ineligible;

#[derive(Debug)]
pub(crate) struct OwnReplicas {
    replicas: Replicas,
    /// The replicas that answer requests for a model, and those that only prefill for it, ascending.
    serves: BTreeMap<ModelId, Vec<ReplicaId>>,
    prefills: BTreeMap<ModelId, Vec<ReplicaId>>,
    /// The models that are adapters, as far as engines report them.
    adapters: BTreeSet<ModelId>,
    /// The shortest context of each model whose replicas have contexts of several lengths.
    shortest: BTreeMap<ModelId, u32>,
    /// The models whose breaker is open or half open at a replica that serves several.
    failing: BTreeSet<ModelId>,
    links: Links,
    probes: Schedule,
}

/// What decisions and reports read.
impl OwnReplicas {
    pub(crate) fn new(admission: Admission) -> OwnReplicas {
        OwnReplicas {
            replicas: Replicas::new(admission),
            serves: BTreeMap::new(),
            prefills: BTreeMap::new(),
            adapters: BTreeSet::new(),
            shortest: BTreeMap::new(),
            failing: BTreeSet::new(),
            links: Links::default(),
            probes: Schedule::default(),
        }
    }

    #[inline]
    pub(crate) fn replicas(&self) -> &Replicas {
        &self.replicas
    }

    pub(crate) fn links(&self) -> &Links {
        &self.links
    }

    pub(crate) fn ids(&self) -> &[ReplicaId] {
        self.replicas.ids()
    }

    pub(crate) fn get(&self, id: ReplicaId) -> Option<&Replica> {
        self.replicas.get(id)
    }

    #[inline]
    pub(crate) fn row(&self, id: ReplicaId) -> &Row {
        self.replicas.row(id)
    }

    /// The free capacity of each replica, by id.
    #[inline]
    pub(crate) fn rooms(&self) -> &[f32] {
        self.replicas.rooms()
    }

    /// How many replicas that answer have free capacity.
    pub(crate) fn rooms_open(&self) -> usize {
        self.open_rooms().count()
    }

    /// Whether any replica that answers has free capacity.
    pub(crate) fn is_room(&self) -> bool {
        self.open_rooms().next().is_some()
    }

    fn open_rooms(&self) -> impl Iterator<Item = &f32> {
        let rooms = self.rooms().iter().zip(self.replicas.rows());
        rooms.filter(|(room, row)| **room >= 0.0 && row.pool.role.answers()).map(|(room, _)| room)
    }

    /// The replicas that answer requests for a model, ascending; `None` if there are none.
    #[inline]
    pub(crate) fn serving(&self, model: ModelId) -> Option<&[ReplicaId]> {
        self.serves.get(&model).map(Vec::as_slice)
    }

    /// The replicas that only prefill for a model, ascending; `None` if there are none.
    #[inline]
    pub(crate) fn prefilling(&self, model: ModelId) -> Option<&[ReplicaId]> {
        self.prefills.get(&model).map(Vec::as_slice)
    }

    /// Whether any replica only prefills.
    pub(crate) fn has_prefills(&self) -> bool {
        !self.prefills.is_empty()
    }

    /// Whether a model is an adapter.
    #[inline]
    pub(crate) fn is_adapter(&self, model: ModelId) -> bool {
        self.adapters.contains(&model)
    }

    /// The shortest context of a model, if its replicas have contexts of several lengths.
    #[inline]
    pub(crate) fn shortest_context(&self, model: ModelId) -> Option<u32> {
        if self.shortest.is_empty() { None } else { self.shortest.get(&model).copied() }
    }

    /// The longest context of a model at a replica, in tokens.
    pub(crate) fn context(&self, model: ModelId, id: ReplicaId) -> u32 {
        self.get(id).map_or(u32::MAX, |replica| replica.context(model))
    }

    /// Whether `id` may not serve a request that is restricted to `places`.
    #[inline]
    pub(crate) fn is_forbidden(&self, places: u64, id: ReplicaId) -> bool {
        let number = || self.get(id).map(|replica| replica.place);
        places != u64::MAX && number().is_some_and(|number| !Places::within(number, places))
    }

    /// Mean utilisation of the replicas that take requests; 1 without any.
    pub(crate) fn mean_utilisation(&self) -> f32 {
        let rows = self.ids().iter().map(|id| self.row(*id));
        let usable = rows.filter(|r| matches!(r.closed, None | Some(Ineligible::Full)));
        let (n, sum) = usable.fold((0, 0.0), |(n, sum), r| (n + 1, sum + r.utilisation));
        if n == 0 { 1.0 } else { sum / n as f32 }
    }

    /// Whether the breaker of a model is open or half open at some replica. Decisions then look at each replica.
    #[inline]
    pub(crate) fn is_failing(&self, model: ModelId) -> bool {
        !self.failing.is_empty() && self.failing.contains(&model)
    }

    /// Whether the breaker of a model at a replica lets a request pass.
    pub(crate) fn passes(&self, model: ModelId, id: ReplicaId, now: Time) -> bool {
        self.get(id).is_none_or(|replica| replica.of_models.passes(model, now))
    }

    /// Notes whether a model is failing, after the end of a request for it.
    pub(crate) fn note_failing(&mut self, model: ModelId) {
        match is_failing(&self.replicas, model) {
            true => self.failing.insert(model),
            false => self.failing.remove(&model),
        };
    }

    /// Whether another replica in the place of `id` takes requests for one of its models.
    pub(crate) fn has_others(&self, id: ReplicaId) -> bool {
        let Some(spec) = self.replicas.spec(id) else { return false };
        let pool = if spec.pool.role.answers() { &self.serves } else { &self.prefills };
        let takes = |other: &ReplicaId| {
            *other != id && matches!(self.row(*other).closed, None | Some(Ineligible::Full))
        };
        spec.models.iter().filter_map(|model| pool.get(model)).flatten().any(takes)
    }

    /// When the first replica of a model ends the pause that it asked for, if all those that could take
    /// requests have asked for one.
    pub(crate) fn pause(&self, now: Time, model: ModelId) -> Option<Duration> {
        let could = |id: &&ReplicaId| {
            matches!(self.row(**id).closed, None | Some(Ineligible::Full | Ineligible::Breaker))
        };
        let ids = self.serving(model)?.iter().filter(could);
        let pauses = ids.map(|id| self.get(*id)?.pause(now));
        pauses.reduce(|a, b| Some(a?.min(b?)))?
    }

    /// Whether a replica in one of these places takes requests for a model, with free capacity or not.
    pub(crate) fn is_there(&self, model: ModelId, places: u64) -> bool {
        let takes = |id: &ReplicaId| self.is_in_use(*id) && !self.is_forbidden(places, *id);
        self.serving(model).is_some_and(|ids| ids.iter().any(takes))
    }

    /// Whether a replica is here, and neither draining nor down.
    pub(crate) fn is_in_use(&self, id: ReplicaId) -> bool {
        let is_out =
            || matches!(self.row(id).closed, Some(Ineligible::Draining | Ineligible::Down));
        self.get(id).is_some() && !is_out()
    }

    /// Whether any of these replicas takes requests.
    pub(crate) fn any_open(&self, ids: &[ReplicaId]) -> bool {
        ids.iter().any(|id| self.row(*id).closed.is_none())
    }

    /// When the next probe is due.
    pub(crate) fn next_probe(&self) -> Option<Time> {
        self.probes.next()
    }
}

/// What the machine's steps change.
impl OwnReplicas {
    /// Changes a replica and updates its row; `None` if it is not here.
    pub(crate) fn update<T>(
        &mut self,
        now: Time,
        id: ReplicaId,
        change: impl FnOnce(&mut Replica) -> T,
    ) -> Option<T> {
        self.replicas.update(now, id, change)
    }

    /// Adds a replica, with its first probe somewhere in the coming interval. It serves no model
    /// until [`OwnReplicas::list_models`].
    pub(crate) fn join(&mut self, now: Time, id: ReplicaId, replica: Replica, interval: Duration) {
        self.replicas.join(now, id, replica);
        self.probes.enter(now, id, interval);
    }

    /// Removes a replica, its probe and its links. It is in the lists by model until
    /// [`OwnReplicas::list_models`].
    pub(crate) fn leave(&mut self, id: ReplicaId) {
        self.probes.leave(id);
        self.links.leave(id);
        self.replicas.leave(id);
    }

    /// Lists the replicas by model again, after one of their descriptions changed.
    pub(crate) fn list_models(&mut self) {
        self.serves.clear();
        self.prefills.clear();
        for id in self.replicas.ids() {
            let Some(spec) = self.replicas.spec(*id) else { continue };
            let answers = spec.pool.role.answers();
            let of = if answers { &mut self.serves } else { &mut self.prefills };
            for model in &spec.models {
                of.entry(*model).or_default().push(*id);
            }
        }
        self.failing.retain(|model| is_failing(&self.replicas, *model));
        let mut lengths: BTreeMap<ModelId, (u32, u32)> = BTreeMap::new();
        for (model, ids) in self.serves.iter().chain(&self.prefills) {
            let (least, most) = lengths.entry(*model).or_insert((u32::MAX, 0));
            for context in ids.iter().map(|id| self.context(*model, *id)) {
                (*least, *most) = ((*least).min(context), (*most).max(context));
            }
        }
        let differs = |(model, (least, most)): (ModelId, (u32, u32))| {
            (least != most).then_some((model, least))
        };
        self.shortest = lengths.into_iter().filter_map(differs).collect();
    }

    /// Sets the admission mode; it applies to each replica from its next update on.
    pub(crate) fn admit_by(&mut self, admission: Admission) {
        self.replicas.admit_by(admission);
    }

    /// Records models that an engine reported as adapters.
    pub(crate) fn learn_adapters(&mut self, listed: &[ModelId]) {
        self.adapters.extend(listed);
    }

    pub(crate) fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }

    /// Learns from an answer of a replica, for itself and for its kind.
    pub(crate) fn learn(
        &mut self,
        now: Time,
        id: ReplicaId,
        learn: impl FnOnce(&mut Kind, &mut Own),
    ) {
        self.replicas.learn(now, id, learn);
    }

    /// Puts a replica whose description changed among its kind.
    pub(crate) fn sort(&mut self, now: Time, id: ReplicaId) {
        self.replicas.sort(now, id);
    }

    /// Sets this speed on all replicas if none has a measurement.
    pub(crate) fn assume_speed(&mut self, now: Time, ms_per_token: f32) {
        if ms_per_token > 0.0 && !self.replicas.is_any_learned() {
            self.replicas.assume_speed(now, ms_per_token.into());
        }
    }

    /// Adds a request to the counts of a replica that it is sent to, which is probed by `probed`.
    pub(crate) fn book(
        &mut self,
        now: Time,
        request: RequestId,
        replica: ReplicaId,
        work: Work,
        probed: Time,
    ) {
        let probes = &mut self.probes;
        self.replicas.update(now, replica, |r| {
            r.due.push_back((r.first_token_due(now, work.prefill), request));
            r.sent(now, work);
            if !r.probing {
                r.next_probe = probes.hasten(r.next_probe, probed, replica);
            }
        });
    }
}

/// Probes.
impl OwnReplicas {
    /// Removes and returns a replica whose probe is due.
    pub(crate) fn due_probe(&mut self, now: Time) -> Option<ReplicaId> {
        self.probes.pop(now)
    }

    /// Brings forward the probes of the replicas of a model.
    pub(crate) fn hasten_probes(&mut self, now: Time, model: ModelId, wanted: Time) {
        let (replicas, probes) = (&mut self.replicas, &mut self.probes);
        let pools = [self.serves.get(&model), self.prefills.get(&model)];
        for id in pools.into_iter().flatten().flatten() {
            replicas.update(now, *id, |r| {
                if !r.probing {
                    r.next_probe = probes.hasten(r.next_probe, wanted, *id);
                }
            });
        }
    }

    /// Schedules the next probe of a replica whose probe was answered or missed.
    pub(crate) fn probe_at(&mut self, now: Time, id: ReplicaId, at: Time) {
        self.probes.set(at, id);
        self.replicas.update(now, id, |r| r.next_probe = at);
    }

    /// Moves a replica's next probe after a change of the pace, unless one is in flight.
    pub(crate) fn pace_probe(&mut self, now: Time, id: ReplicaId, interval: Duration) {
        if self.get(id).is_some_and(|r| !r.probing) {
            self.probes.leave(id);
            let at = self.probes.enter(now, id, interval);
            self.replicas.update(now, id, |r| r.next_probe = at);
        }
    }
}

/// Whether the breaker of a model is open or half open at some replica.
fn is_failing(replicas: &Replicas, model: ModelId) -> bool {
    let of = |id: &ReplicaId| replicas.get(*id).is_some_and(|r| !r.of_models.is_closed(model));
    replicas.ids().iter().any(of)
}
