//! Plans a cell: some servers whose prefill and decode instances exchange KV.
//!
//! First every shape of an instance is rated once, on servers of its class. Then shapes are packed
//! (`pack.rs`), ignoring links between instances. Then the promising packings are placed on real
//! GPUs and judged in full, best bound first, until no bound exceeds the best plan found.

use core::cmp::Ordering;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::fleet::{Fleet, Verdict};
use crate::group::arranged;
use crate::improve::improved;
use crate::instance::{Parallel, Phase, Rated};
use crate::laying::{Free, Order, places, servers_of};
use crate::pack::{Class, Packing, Piece, Shape, packings};
use crate::shape::shapes;
use crate::splits::parallels;
use crate::task::Task;
use crate::topology::{GpuId, Server, Topology};

/// A fleet with its verdict.
#[derive(Clone, Debug)]
pub struct Ranked {
    /// The fleet.
    pub fleet: Fleet,
    /// Its verdict.
    pub verdict: Verdict,
}

/// The results for a cell.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Plans, best first.
    pub plans: Vec<Ranked>,
    /// The lowest unloaded TTFT of any instance, in seconds.
    pub least_ttft: Option<f64>,
    /// The lowest unloaded TPOT.
    pub least_tpot: Option<f64>,
    /// Whether any instance fits into memory.
    pub fits: bool,
    /// The smallest instance of each phase that serves any load within the objectives.
    pub smallest: Smallest,
}

/// The split of the smallest instance of each phase.
pub type Smallest = BTreeMap<Phase, Parallel>;

/// Most packings that are judged.
const JUDGED: usize = 3000;
/// GPUs of a small topology, for which planning time is not a concern.
pub(crate) const SMALL_TOPOLOGY: u32 = 64;
/// A plan this close to its bound is good enough in a large topology; in a small one any
/// improvement counts.
const NEAR: f64 = 0.995;
const SAME: f64 = 0.999_999;
/// Number of plans kept.
const KEPT: usize = 5;
/// GPUs of a cell in which more packings get the exchange of GPUs.
const SMALL: u32 = 16;
const PROMISING: usize = 12;

/// Servers of a cell by class.
pub(crate) struct Cell<'a> {
    task: &'a Task<'a>,
    pub(crate) classes: Vec<(Class, Vec<u32>)>,
    cache: BTreeMap<Key, Option<Rc<Rated>>>,
}

type Key = (Phase, Parallel, Vec<GpuId>);

/// Whether two servers of a unit are equal, including the rates of their links.
pub(crate) fn equal(topology: &Topology, a: u32, b: u32) -> bool {
    same_build(topology, a, b) && topology.own_rates(a).eq(topology.own_rates(b))
}

/// Whether two servers of a unit are equal except for the rates of their links.
pub(crate) fn same_build(topology: &Topology, a: u32, b: u32) -> bool {
    let of = |at: u32| &topology.servers()[at as usize];
    let (one, other) = (of(a), of(b));
    let links = |server: &Server| {
        server.cards.iter().map(|card| (card.access, card.numa)).collect::<Vec<_>>()
    };
    one.unit == other.unit
        && one.kind == other.kind
        && one.numa == other.numa
        && one.nvlink.is_some() == other.nvlink.is_some()
        && links(one) == links(other)
}

impl<'a> Cell<'a> {
    pub(crate) fn new(task: &'a Task<'a>, servers: &[u32]) -> Cell<'a> {
        let mut classes: Vec<(Class, Vec<u32>)> = Vec::new();
        for at in servers {
            let gpus = task.topology.servers()[*at as usize].gpus;
            match classes.iter_mut().find(|(_, of)| equal(task.topology, of[0], *at)) {
                Some((class, of)) => {
                    class.servers += 1;
                    of.push(*at);
                }
                None => classes.push((Class { servers: 1, gpus }, vec![*at])),
            }
        }
        Cell { task, classes, cache: BTreeMap::new() }
    }

    /// Plans the cell.
    pub(crate) fn plan(&mut self) -> Found {
        let mut found = Found::default();
        let orders = self.orders();
        let (pieces, splits) = self.pieces(&orders, &mut found);
        let classes: Vec<Class> = self.classes.iter().map(|(class, _)| class.clone()).collect();
        let packings = packings(&classes, &pieces, self.task.rate, JUDGED);
        let mut plans: Vec<Ranked> = Vec::new();
        for packing in &packings {
            let best = plans.first().map_or(0.0, |plan| plan.verdict.goodput);
            if plans.len() >= KEPT && best >= packing.bound && self.task.rate.is_none() {
                break;
            }
            for order in &orders {
                let fleet = self.laid(packing, (&pieces, &splits), *order);
                if let Some(verdict) = fleet.judged(self.task) {
                    insert(self.task, &mut plans, Ranked { fleet, verdict });
                }
            }
        }
        self.improve(&packings, &mut plans);
        self.look_behind(&packings, (&pieces, &splits), &orders, &mut plans);
        found.plans = plans;
        found
    }

    /// In a small cell, tries exchanges of GPUs in the most promising packings that the first
    /// placement did not rate well.
    fn look_behind(
        &mut self,
        packings: &[Packing],
        (pieces, splits): (&[Piece], &[(Phase, Parallel)]),
        orders: &[Order],
        plans: &mut Vec<Ranked>,
    ) {
        if self.gpus() > SMALL || self.task.rate.is_some() {
            return;
        }
        let (task, gpus) = (self.task, self.all_gpus());
        for packing in packings.iter().take(PROMISING) {
            let best = plans.first().map_or(0.0, |plan| plan.verdict.goodput);
            if best >= packing.bound * SAME {
                break;
            }
            for order in orders {
                let fleet = self.laid(packing, (pieces, splits), *order);
                let Some(verdict) = fleet.judged(task) else { continue };
                if let Some(better) = improved(self, task, &Ranked { fleet, verdict }, &gpus) {
                    insert(task, plans, better);
                }
            }
        }
    }

    /// The orders in which GPUs of a server are allocated: adjacent ones first and, in a small cell
    /// if that differs, those of different cards first.
    fn orders(&self) -> Vec<Order> {
        let mut servers = self.classes.iter().flat_map(|(_, of)| of);
        let differs = |at: &u32| !places(self.task.topology, *at, Order::Apart).is_sorted();
        if self.gpus() <= SMALL && servers.any(differs) {
            vec![Order::Together, Order::Apart]
        } else {
            vec![Order::Together]
        }
    }

    /// Exchanges GPUs in the best plans, unless no improvement is possible.
    fn improve(&mut self, packings: &[Packing], plans: &mut Vec<Ranked>) {
        let bound = packings.first().map_or(0.0, |packing| packing.bound);
        let (task, gpus) = (self.task, self.all_gpus());
        let near = if task.topology.gpus() <= SMALL_TOPOLOGY { SAME } else { NEAR };
        for start in plans.clone() {
            let short = task.rate.is_none() && start.verdict.goodput < bound * near;
            if short && let Some(better) = improved(self, task, &start, &gpus) {
                insert(task, plans, better);
            }
        }
    }

    /// Every shape of each phase with its best split.
    fn pieces(
        &mut self,
        orders: &[Order],
        found: &mut Found,
    ) -> (Vec<Piece>, Vec<(Phase, Parallel)>) {
        let (mut pieces, mut splits) = (Vec::new(), Vec::new());
        let parallels = parallels(self.task, self.gpus());
        let mut sizes: Vec<u32> = parallels.iter().map(|one| one.gpus()).collect();
        sizes.sort_unstable();
        sizes.dedup();
        for size in sizes {
            for shape in shapes(&self.classes, size) {
                let mut sets: Vec<_> =
                    orders.iter().map(|order| self.first(&shape, *order)).collect();
                sets.dedup();
                for phase in [Phase::Prefill, Phase::Decode] {
                    let of_size = parallels.iter().filter(|one| one.gpus() == size);
                    let mut best: Option<(f64, Parallel)> = None;
                    for (parallel, gpus) in
                        of_size.flat_map(|of| sets.iter().map(move |on| (of, on)))
                    {
                        let Some(rated) = self.rated(phase, *parallel, gpus.clone()) else {
                            continue;
                        };
                        note(found, &rated);
                        if rated.rate > best.map_or(0.0, |(rate, _)| rate) {
                            best = Some((rated.rate, *parallel));
                        }
                    }
                    if let Some((rate, parallel)) = best {
                        let rates = if phase == Phase::Prefill { (rate, 0.0) } else { (0.0, rate) };
                        pieces.push(Piece { shape: shape.clone(), rates });
                        splits.push((phase, parallel));
                    }
                }
            }
        }
        (pieces, splits)
    }

    fn all_gpus(&self) -> Vec<GpuId> {
        let servers = self.classes.iter().flat_map(|(_, of)| of);
        let servers = servers.map(|at| &self.task.topology.servers()[*at as usize]);
        servers.flat_map(|server| (server.first..server.first + server.gpus).map(GpuId)).collect()
    }

    fn gpus(&self) -> u32 {
        self.classes.iter().map(|(class, _)| class.servers * class.gpus).sum()
    }

    /// The first GPUs, in an order, of the first servers of each class.
    fn first(&self, shape: &Shape, order: Order) -> Vec<GpuId> {
        let mut gpus = Vec::new();
        for ((_, servers), parts) in self.classes.iter().zip(shape) {
            for (part, server) in parts.iter().zip(servers) {
                let mut taken = places(self.task.topology, *server, order);
                taken.truncate(usize::from(*part));
                taken.sort_unstable();
                gpus.extend(taken);
            }
        }
        gpus
    }

    pub(crate) fn rated(
        &mut self,
        phase: Phase,
        parallel: Parallel,
        gpus: Vec<GpuId>,
    ) -> Option<Rc<Rated>> {
        let key = (phase, parallel, gpus);
        if let Some(known) = self.cache.get(&key) {
            return known.clone();
        }
        let rated = arranged(self.task, phase, parallel, &key.2).map(Rc::new);
        self.cache.insert(key, rated.clone());
        rated
    }

    /// A packing on real GPUs.
    fn laid(
        &mut self,
        packing: &Packing,
        (pieces, splits): (&[Piece], &[(Phase, Parallel)]),
        order: Order,
    ) -> Fleet {
        let servers = servers_of(&self.classes, packing, pieces);
        let mut free = Free::new(self.task.topology, &self.classes, order);
        // Instances that span servers first: their parts need the same cards on each. If cards come
        // first, so do the instances that send most over them.
        let mut turns: Vec<usize> = (0..servers.len()).collect();
        turns.sort_by_key(|at| {
            let parts = &servers[*at];
            let most = parts.iter().map(|(_, part)| *part).max().unwrap_or(0);
            let sends = splits[packing.steps[*at].piece].0 == Phase::Prefill;
            (order == Order::Apart && !sends, parts.len() == 1, usize::MAX - usize::from(most))
        });
        let mut fleet = Fleet::default();
        for at in turns {
            let (phase, parallel) = splits[packing.steps[at].piece];
            let gpus = free.take(&servers[at]);
            let Some(rated) = self.rated(phase, parallel, gpus) else { continue };
            match phase {
                Phase::Prefill => fleet.prefill.push(rated),
                Phase::Decode => fleet.decode.push(rated),
            }
        }
        fleet
    }
}

fn note(found: &mut Found, rated: &Rated) {
    found.fits = true;
    let slot = match rated.instance.phase {
        Phase::Prefill => &mut found.least_ttft,
        Phase::Decode => &mut found.least_tpot,
    };
    *slot = Some(slot.map_or(rated.least, |least| least.min(rated.least)));
    if rated.rate > 0.0 {
        smaller(&mut found.smallest, rated.instance.phase, rated.instance.parallel);
    }
}

/// Keeps a split if it uses fewer GPUs than the known one.
pub(crate) fn smaller(smallest: &mut Smallest, phase: Phase, parallel: Parallel) {
    let known = smallest.entry(phase).or_insert(parallel);
    if parallel.gpus() < known.gpus() {
        *known = parallel;
    }
}

/// Keeps the best few plans: those that serve the rate with the fewest GPUs first, then those that
/// serve most.
fn insert(task: &Task<'_>, plans: &mut Vec<Ranked>, plan: Ranked) {
    plans.push(plan);
    plans.sort_by(|a, b| order(task, a, b));
    plans.truncate(KEPT);
}

fn order(task: &Task<'_>, a: &Ranked, b: &Ranked) -> Ordering {
    let of = |plan: &Ranked| (plan.verdict.goodput, plan.fleet.gpus());
    better_first(task.rate, of(a), of(b))
}

/// Compares goodputs and numbers of GPUs: first those that serve the rate with the fewest GPUs,
/// then those that serve most.
pub(crate) fn better_first(rate: Option<f64>, a: (f64, u32), b: (f64, u32)) -> Ordering {
    let enough = |plan: (f64, u32)| rate.is_some_and(|rate| plan.0 >= rate);
    let (most, fewest) = (b.0.total_cmp(&a.0), a.1.cmp(&b.1));
    match (enough(a), enough(b)) {
        (true, true) => fewest.then(most),
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        (false, false) => most.then(fewest),
    }
}
