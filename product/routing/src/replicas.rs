//! The replica table: the state of each replica, and the rows that decisions read.
//!
//! Every change goes through [`Replicas::update`], which rewrites the row. Decisions read only the
//! rows, capacities and columns, which are contiguous for many replicas.

mod columns;

use alloc::vec;
use alloc::vec::Vec;
use meridian_base::{ReplicaId, Time};

pub(crate) use self::columns::Columns;
use crate::admission::Admission;
use crate::breaker::BreakerConfig;
use crate::kind::{self, Kind, KindKey, Own};
use crate::replica::{Replica, ReplicaSpec, Status};
use crate::row::Row;

/// The most replicas that a region can have: an id has 16 bits, and so does the prefix index's name
/// of it.
pub const MOST_REPLICA_IDS: u16 = u16::MAX;

/// The replica table. Rows are indexed by [`ReplicaId`].
#[derive(Debug, Default)]
pub struct Replicas {
    slots: Vec<Option<Replica>>,
    kinds: Vec<Kind>,
    rows: Vec<Row>,
    /// The most unmatched prompt tokens that each may receive now; negative when closed. Separate
    /// from the rows, so that the scan for eligible replicas reads four bytes per replica.
    rooms: Vec<f32>,
    columns: Columns,
    admission: Option<Admission>,
    ids: Vec<ReplicaId>,
}

impl Replicas {
    pub(crate) fn new(admission: Admission) -> Replicas {
        Replicas { admission: Some(admission), ..Replicas::default() }
    }

    /// Sets the admission mode; it applies to each replica from its next update on.
    pub(crate) fn admit_by(&mut self, admission: Admission) {
        self.admission = Some(admission);
    }

    /// Whether a replica could show that a promise to a request was kept.
    pub(crate) fn shows_room(&self, id: ReplicaId, streams: bool) -> bool {
        let slot = self.slots.get(id.index()).and_then(Option::as_ref);
        streams || slot.is_some_and(|r| r.load.pending.is_some())
    }

    /// Writes the free capacity of each replica under another admission mode.
    pub(crate) fn rooms_by(&self, admission: Admission, rooms: &mut Vec<f32>) {
        let open = |row: &Row| row.closed.is_none();
        rooms.clear();
        rooms
            .extend(self.rows.iter().map(|row| if open(row) { admission.room(row) } else { -1.0 }));
    }

    /// The free capacity of each replica, by id.
    pub(crate) fn rooms(&self) -> &[f32] {
        &self.rooms
    }

    /// The rows' figures for scoring, by id.
    pub(crate) fn columns(&self) -> &Columns {
        &self.columns
    }

    fn refresh(&mut self, at: usize, row: Row) {
        self.columns.set(at, &row);
        self.rows[at] = row;
        self.rooms[at] = match (row.closed, self.admission) {
            (Some(_), _) => -1.0,
            (None, Some(admission)) => admission.room(&row),
            (None, None) => f32::INFINITY,
        };
    }

    /// The rows, by id. Rows of absent replicas are default.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// One replica's row.
    #[must_use]
    #[inline]
    pub fn row(&self, id: ReplicaId) -> &Row {
        &self.rows[id.index()]
    }

    /// The ids present, ascending.
    #[must_use]
    pub fn ids(&self) -> &[ReplicaId] {
        &self.ids
    }

    /// A replica's configuration.
    #[must_use]
    pub fn spec(&self, id: ReplicaId) -> Option<&ReplicaSpec> {
        self.get(id).map(|r| &r.spec)
    }

    /// Size of the table: one more than the highest id ever used.
    #[must_use]
    pub fn width(&self) -> usize {
        self.rows.len()
    }

    /// The KV size in tokens that an engine reported or the config gave.
    #[must_use]
    pub fn kv_tokens(&self, id: ReplicaId) -> Option<u64> {
        self.get(id).and_then(|r| r.load.kv_tokens)
    }

    /// Whether the engine reports its load.
    #[must_use]
    pub fn reports(&self, id: ReplicaId) -> bool {
        self.get(id).is_some_and(|r| r.load.pending.is_some())
    }

    /// The status of a replica, for a status page.
    #[must_use]
    pub fn status(&self, id: ReplicaId, now: Time) -> Option<Status> {
        self.get(id).map(|r| Status {
            state: r.state,
            breaker: r.breaker.state(now),
            row: self.rows[id.index()],
            load: r.load,
            totals: r.totals,
            own_outstanding: r.outstanding - r.of_siblings.outstanding,
            of_siblings: r.of_siblings.outstanding,
            legs: r.legs.coming + r.legs.held,
            drift: r.agreed_drift(),
        })
    }

    /// A table of bare rows, for tests and benchmarks of policies.
    #[doc(hidden)]
    #[must_use]
    pub fn of_rows(rows: &[Row]) -> Replicas {
        let ids = (0..rows.len()).map(|i| ReplicaId(i as u16)).collect();
        let slots = rows.iter().map(|_| None).collect();
        let rooms = rows.iter().map(|_| f32::INFINITY).collect();
        let columns = Columns::of_rows(rows);
        let kinds = Vec::new();
        Replicas { slots, kinds, rows: rows.to_vec(), rooms, columns, admission: None, ids }
    }

    /// As `of_rows`, with the configuration of each; every engine reports its load.
    #[doc(hidden)]
    #[must_use]
    pub fn of_specs(of: &[(ReplicaSpec, Row)]) -> Replicas {
        let rows: Vec<Row> = of.iter().map(|(_, row)| *row).collect();
        let replica = |(spec, row): &(ReplicaSpec, Row)| {
            let speed = f64::from(row.ms_per_token);
            let mut replica = Replica::new(spec.clone(), BreakerConfig::default(), speed);
            replica.load.pending = Some(row.reported_pending);
            Some(replica)
        };
        Replicas { slots: of.iter().map(replica).collect(), ..Replicas::of_rows(&rows) }
    }

    pub(crate) fn get(&self, id: ReplicaId) -> Option<&Replica> {
        self.slots.get(id.index()).and_then(Option::as_ref)
    }

    /// Changes a replica and updates its row.
    pub(crate) fn update<T>(
        &mut self,
        now: Time,
        id: ReplicaId,
        change: impl FnOnce(&mut Replica) -> T,
    ) -> Option<T> {
        let replica = self.slots.get_mut(id.index())?.as_mut()?;
        let result = change(replica);
        let row = replica.row(now);
        replica.steps.running(now, row.running - row.failed);
        self.refresh(id.index(), row);
        Some(result)
    }

    /// Whether the kind of a replica has a measured prefill speed.
    pub(crate) fn is_learned(&self, id: ReplicaId) -> bool {
        let kind = self.get(id).and_then(|replica| self.kinds.get(usize::from(replica.kind)));
        kind.is_some_and(Kind::is_learned)
    }

    /// The measured prefill speed of a replica's kind.
    pub(crate) fn learned_ms_per_token(&self, id: ReplicaId) -> Option<f64> {
        let kind = self.kinds.get(usize::from(self.get(id)?.kind))?;
        kind.is_learned().then(|| kind.ms_per_token())
    }

    /// Learns from an answer of a replica, for itself and for its kind.
    pub(crate) fn learn(
        &mut self,
        now: Time,
        id: ReplicaId,
        learn: impl FnOnce(&mut Kind, &mut Own),
    ) {
        let Some(replica) = self.slots.get_mut(id.index()).and_then(Option::as_mut) else { return };
        let at = replica.kind;
        let Some(kind) = self.kinds.get_mut(usize::from(at)) else { return };
        let knew = kind.is_learned();
        learn(kind, &mut replica.own);
        if !knew && kind.is_learned() {
            self.assume_speed(now, self.kinds[usize::from(at)].ms_per_token());
        }
        let kind = &mut self.kinds[usize::from(at)];
        match kind.start_review(now) {
            Some(seconds) => self.review(now, at, seconds),
            None if kind.publish(now) => self.inform(now, at),
            None => self.figure(now, id),
        }
    }

    /// Reviews the evidence of a kind's replicas: it ages, and what most of them have in common is the
    /// kind's.
    fn review(&mut self, now: Time, at: u16, seconds: f64) {
        let of_kind = self.slots.iter().flatten().filter(|replica| replica.kind == at);
        let common = kind::common(of_kind.map(|replica| &replica.own));
        for replica in self.slots.iter_mut().flatten().filter(|replica| replica.kind == at) {
            replica.own.shift(common);
            replica.own.age(seconds);
        }
        let kind = &mut self.kinds[usize::from(at)];
        kind.shift(common);
        kind.publish_all(now);
        self.inform(now, at);
    }

    /// Sets this speed on kinds without a measurement. With the constant they would look several times
    /// faster or slower than the others for no reason.
    pub(crate) fn assume_speed(&mut self, now: Time, ms_per_token: f64) {
        for at in 0..self.kinds.len() {
            let kind = &mut self.kinds[at];
            if !kind.is_learned() {
                kind.assume(ms_per_token);
                if kind.publish(now) {
                    self.inform(now, at as u16);
                }
            }
        }
    }

    /// Whether any kind has a measured prefill speed.
    pub(crate) fn is_any_learned(&self) -> bool {
        self.kinds.iter().any(Kind::is_learned)
    }

    /// Gives each replica of a kind its figures.
    fn inform(&mut self, now: Time, kind: u16) {
        for at in 0..self.slots.len() {
            if self.slots[at].as_ref().is_some_and(|replica| replica.kind == kind) {
                self.figure(now, ReplicaId(at as u16));
            }
        }
    }

    /// Gives a replica its figures.
    fn figure(&mut self, now: Time, id: ReplicaId) {
        let Some(replica) = self.get(id) else { return };
        let Some(kind) = self.kinds.get(usize::from(replica.kind)) else { return };
        let figures = kind.figures(&replica.own);
        if figures != replica.figures {
            self.update(now, id, |replica| replica.figures = figures);
        }
    }

    /// The number of the kind of a replica. A new kind is assumed to be as fast as a known one, of the
    /// same model if there is one. It takes the place of a kind that has no replica any more, so there
    /// are no more kinds than replicas.
    fn kind_of(&mut self, replica: &Replica) -> u16 {
        let key = KindKey::of(&replica.spec);
        if let Some(at) = self.kinds.iter().position(|kind| kind.is_of(key)) {
            return at as u16;
        }
        let mut kind = Kind::new(key, replica.figures.ms_per_token);
        let known = || self.kinds.iter().filter(|kind| kind.is_learned());
        if let Some(other) = known().find(|kind| kind.serves_as(key)).or(known().next()) {
            kind.start_as(other);
        }
        let mut used = vec![false; self.kinds.len()];
        let kinds = self.slots.iter().flatten().map(|replica| usize::from(replica.kind));
        kinds.for_each(|at| used.get_mut(at).into_iter().for_each(|used| *used = true));
        match used.iter().position(|used| !used) {
            Some(at) => {
                self.kinds[at] = kind;
                at as u16
            }
            None => {
                self.kinds.push(kind);
                assert!(self.kinds.len() <= usize::from(u16::MAX), "a kind has a replica");
                (self.kinds.len() - 1) as u16
            }
        }
    }

    /// Puts a replica whose description changed among its kind.
    pub(crate) fn sort(&mut self, now: Time, id: ReplicaId) {
        let Some(mut replica) = self.slots.get_mut(id.index()).and_then(Option::take) else {
            return;
        };
        let kind = self.kind_of(&replica);
        if replica.kind != kind {
            (replica.kind, replica.own) = (kind, Own::NONE);
        }
        self.slots[id.index()] = Some(replica);
        self.figure(now, id);
    }

    pub(crate) fn join(&mut self, now: Time, id: ReplicaId, replica: Replica) {
        if self.slots.len() <= id.index() {
            self.slots.resize_with(id.index() + 1, || None);
            self.rows.resize(id.index() + 1, Row::default());
            self.rooms.resize(id.index() + 1, -1.0);
            self.columns.resize(id.index() + 1);
        }
        self.refresh(id.index(), replica.row(now));
        let before = self.slots[id.index()].replace(replica);
        assert!(before.is_none(), "{id} joins once");
        self.list();
        self.sort(now, id);
    }

    pub(crate) fn leave(&mut self, id: ReplicaId) {
        if let Some(slot) = self.slots.get_mut(id.index()) {
            *slot = None;
            self.rows[id.index()] = Row::default();
            self.columns.set(id.index(), &Row::default());
            self.rooms[id.index()] = -1.0;
        }
        self.list();
    }

    /// Checks that the columns, capacities and rows belong to the replicas that are here.
    pub(crate) fn check(&self) {
        assert_eq!(self.slots.len(), self.rows.len(), "each slot has a row");
        assert_eq!(self.rooms.len(), self.rows.len(), "each row has a free capacity");
        assert_eq!(self.columns.front_tokens.len(), self.rows.len(), "each row has its columns");
        assert!(self.ids.is_sorted(), "ids ascend");
        let present = self.slots.iter().filter(|slot| slot.is_some()).count();
        assert_eq!(present, self.ids.len(), "each replica is listed");
        for (at, slot) in self.slots.iter().enumerate() {
            assert!(slot.is_some() || self.rooms[at] < 0.0, "an absent replica has no capacity");
            assert_eq!(self.columns.trust[at], self.rows[at].trust, "columns follow the rows");
        }
    }

    fn list(&mut self) {
        let present = self.slots.iter().enumerate().filter(|(_, s)| s.is_some());
        self.ids = present.map(|(i, _)| ReplicaId(i as u16)).collect();
    }
}
