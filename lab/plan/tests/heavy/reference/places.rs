//! Placements of instances. Many sets of instances leave the same free seats, so the ways of
//! placing one more are computed once and cached, and each instance is rated once.

use std::collections::BTreeMap;
use std::rc::Rc;

use meridian_plan::{GpuId, Instance, Parallel, Phase, Rated, Task};

use super::Choice;
use super::deal::Dealt;
use super::seats::Seats;

/// Seats and servers that equal the previous ones and have contributed the same so far: of such the
/// former contributes no less.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ties {
    pub(super) seats: Vec<bool>,
    pub(super) servers: Vec<bool>,
}

/// The key of an instance, with its GPUs stage by stage.
type Key = (Phase, Parallel, Vec<Vec<GpuId>>);

/// The free GPUs after placing instances.
#[derive(Clone)]
pub(super) struct Place {
    /// Of each seat.
    pub(super) left: Vec<u8>,
    /// Of each kind of server.
    pub(super) kinds: Vec<u8>,
    ties: Ties,
}

/// One more instance.
pub(super) struct Placed {
    /// Its number, unique to its GPUs.
    pub(super) id: usize,
    pub(super) rated: Rc<Rated>,
    /// The place after it.
    pub(super) leaves: usize,
}

pub(super) struct Places<'a> {
    task: &'a Task<'a>,
    seats: &'a Seats,
    all: Vec<Place>,
    ids: BTreeMap<(Vec<u8>, Ties), usize>,
    instances: BTreeMap<Key, (usize, Rc<Rated>)>,
    /// By place, phase, and the choice's number.
    known: BTreeMap<(usize, Phase, usize), Rc<[Placed]>>,
}

impl<'a> Places<'a> {
    /// The first is the one without instances.
    pub(super) fn new(task: &'a Task<'a>, seats: &'a Seats) -> Places<'a> {
        let (ids, instances, known) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let mut places = Places { task, seats, all: Vec::new(), ids, instances, known };
        let like = |at: usize| at > 0 && seats.like(at) == seats.like(at - 1);
        let servers = (0..seats.servers()).map(like).collect();
        let ties =
            Ties { seats: (0..seats.count()).map(|at| seats.as_before(at)).collect(), servers };
        places.id(seats.full(), ties);
        places
    }

    pub(super) fn at(&self, place: usize) -> &Place {
        &self.all[place]
    }

    /// The `nth` choice of its phase on every free set of seats of a place.
    pub(super) fn with(
        &mut self,
        place: usize,
        (nth, one): (usize, &Choice),
        dealt: &Dealt,
    ) -> Rc<[Placed]> {
        let key = (place, one.phase, nth);
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let Place { left, ties, .. } = self.all[place].clone();
        let placements = self.seats.placements(dealt, &ties, &left);
        let placed = placements.iter().map(|dealt| self.placed(one, dealt, (&left, &ties)));
        let placed: Rc<[Placed]> = placed.collect();
        self.known.insert(key, placed.clone());
        placed
    }

    fn placed(&mut self, one: &Choice, dealt: &Dealt, (left, ties): (&[u8], &Ties)) -> Placed {
        let full = self.seats.full();
        let taken = full.iter().zip(left).map(|(full, left)| usize::from(full - left));
        let stages = self.seats.members(dealt, &mut taken.collect::<Vec<usize>>());
        let rest = left.iter().zip(dealt.counts()).map(|(left, count)| left - count).collect();
        let leaves = self.id(rest, self.tied(ties, dealt));
        let (id, rated) =
            self.instance(Instance { phase: one.phase, parallel: one.parallel, stages });
        Placed { id, rated, leaves }
    }

    fn tied(&self, ties: &Ties, Dealt(columns): &Dealt) -> Ties {
        let same = |at: usize| ties.seats[at] && columns[at] == columns[at - 1];
        let of = |server| &columns[self.seats.range(server)];
        let equal = |at: usize| ties.servers[at] && of(at) == of(at - 1);
        Ties {
            seats: (0..columns.len()).map(same).collect(),
            servers: (0..self.seats.servers()).map(equal).collect(),
        }
    }

    fn id(&mut self, left: Vec<u8>, ties: Ties) -> usize {
        let (all, seats) = (&mut self.all, self.seats);
        let next = |(left, ties): &(Vec<u8>, Ties)| {
            all.push(Place { left: left.clone(), kinds: seats.by_kind(left), ties: ties.clone() });
            all.len() - 1
        };
        *self.ids.entry((left, ties)).or_insert_with_key(next)
    }

    fn instance(&mut self, instance: Instance) -> (usize, Rc<Rated>) {
        let next = self.instances.len();
        let key = (instance.phase, instance.parallel, instance.stages.clone());
        let rated = || Rated::new(self.task, instance).expect("its like was rated before");
        self.instances.entry(key).or_insert_with(|| (next, Rc::new(rated()))).clone()
    }
}
