//! Aggregated serving: engines that prefill and decode, on given GPUs, under the same objectives.
//!
//! It answers whether separate prefill and decode instances are worth it on this hardware. No KV
//! crosses the network, so instances share nothing but links, and the best deployment is a packing
//! of instances into servers (`pack.rs`) in which each has one rate. Requests go to instances in
//! proportion to their rates.

mod chain;
mod first;
mod steps;
mod whole;
mod words;

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::cell::{better_first, equal};
use crate::fleet::{FULL, Times};
use crate::group::arranged;
use crate::instance::{Parallel, Phase};
use crate::laying::{Free, servers_of};
use crate::loads::Loads;
use crate::pack::{Class, Packing, Piece, Shape, packings};
use crate::search::{Look, ONE_CELL, Plan, look};
use crate::shape::shapes;
use crate::splits::parallels;
use crate::task::Task;
use crate::topology::GpuId;

pub use whole::{Bound, Whole};
pub use words::verdict;

/// Packings of a cell that are placed and judged.
const JUDGED: usize = 8;
/// GPUs of a cell in a larger topology, and the servers that it may have.
const MOST_OF_CELL: usize = 32;
const SIZES: [usize; 5] = [1, 2, 4, 8, 16];

/// Aggregated instances on some GPUs.
#[derive(Clone, Debug, Default)]
pub struct Aggregated {
    /// The instances.
    pub instances: Vec<Rc<Whole>>,
    /// Requests a second within both objectives.
    pub goodput: f64,
    /// What ends that.
    pub bound: Option<Bound>,
}

/// A server and some of its GPUs.
type Server = (u32, Vec<GpuId>);
type Servers = Vec<Server>;

/// The best aggregated deployment on these GPUs: with a rate in the task, the smallest that serves
/// it, otherwise the one that serves most. `None` if none serves anything.
#[must_use]
pub fn aggregated(task: &Task<'_>, gpus: &[GpuId]) -> Option<Aggregated> {
    let mut of: BTreeMap<u32, Vec<GpuId>> = BTreeMap::new();
    for gpu in gpus {
        of.entry(task.topology.server_of(*gpu)).or_default().push(*gpu);
    }
    of.values_mut().for_each(|list| list.sort_unstable());
    let servers: Servers = of.into_iter().collect();
    if gpus.len() <= ONE_CELL as usize {
        return cell(task, &servers, task.rate);
    }
    let largest = servers.iter().map(|(_, gpus)| gpus.len()).max().unwrap_or(1);
    let mut known = BTreeMap::new();
    let mut best: Option<Aggregated> = None;
    for size in SIZES {
        let fits = size == 1 || size * largest <= MOST_OF_CELL.max(2 * largest);
        if !fits || size >= 2 * servers.len() {
            break;
        }
        let Some(found) = of_cells(task, &servers, size, &mut known) else { continue };
        let of = |one: &Aggregated| (one.goodput, one.gpus());
        if best.as_ref().is_none_or(|best| better_first(task.rate, of(&found), of(best)).is_lt()) {
            best = Some(found);
        }
    }
    best
}

/// The best aggregated deployment on the GPUs of a plan.
#[must_use]
pub fn beside(task: &Task<'_>, plan: &Plan) -> Option<Aggregated> {
    let gpus: Vec<GpuId> = plan.instances().flat_map(|one| one.instance.gpus()).collect();
    aggregated(&Task { rate: None, ..task.clone() }, &gpus)
}

impl Aggregated {
    /// GPUs in use.
    #[must_use]
    pub fn gpus(&self) -> u32 {
        self.instances.iter().map(|one| one.parallel.gpus()).sum()
    }

    /// The times at `rate`, if each instance gets requests in proportion to its own rate.
    #[must_use]
    pub fn times(&self, task: &Task<'_>, rate: f64) -> Times {
        let all: f64 = self.instances.iter().map(|one| one.rate).sum();
        let mut known: BTreeMap<(Parallel, u64), (f64, &Rc<Whole>)> = BTreeMap::new();
        for one in &self.instances {
            let key = (one.parallel, one.rate.to_bits());
            known.entry(key).or_insert((0.0, one)).0 += one.rate / all;
        }
        let (mut ttft, mut tpot) = (first::Times::default(), 0.0_f64);
        for (share, one) in known.into_values() {
            let Some((times, own)) = one.times(task, rate * one.rate / all) else {
                return Times::NEVER;
            };
            ttft.merge(&times, share);
            tpot = tpot.max(own);
        }
        Times { ttft: ttft.mean(), ttft_within: ttft.within(task.slo.attainment), tpot }
    }

    fn of(task: &Task<'_>, instances: Vec<Rc<Whole>>) -> Option<Aggregated> {
        let own: f64 = instances.iter().map(|one| one.rate).sum();
        if own <= 0.0 {
            return None;
        }
        let mut loads = Loads::default();
        instances.iter().for_each(|one| loads.merge(&one.loads, one.rate / own));
        let carried = loads.slowest(task.topology).map_or(f64::INFINITY, |(_, one)| FULL / one);
        let largest = instances.iter().max_by(|a, b| a.rate.total_cmp(&b.rate));
        let bound = if carried < own { Some(Bound::Links) } else { largest.map(|one| one.bound) };
        Some(Aggregated { instances, goodput: own.min(carried), bound })
    }
}

/// The servers of a cell that was planned, and its instances.
type Planned<'a> = (&'a [Server], Option<Aggregated>);

/// The servers in cells of one size; equal cells are planned once. With a rate, cells that serve
/// most for each GPU are first, and the last one needed is planned for the rest.
fn of_cells<'a>(
    task: &Task<'_>,
    servers: &'a Servers,
    size: usize,
    known: &mut BTreeMap<(Look, Vec<u32>), Planned<'a>>,
) -> Option<Aggregated> {
    let mut cells: Vec<(Aggregated, &[Server])> = Vec::new();
    for servers in servers.chunks(size) {
        let key = key(task, servers);
        let (home, found) =
            known.entry(key).or_insert_with(|| (servers, cell(task, servers, None)));
        let moved = found.as_ref().and_then(|one| moved(task, one, (home, servers)));
        cells.extend(moved.map(|one| (one, servers)));
    }
    let each = |one: &Aggregated| one.goodput / f64::from(one.gpus());
    let Some(rate) = task.rate else {
        return Aggregated::of(
            task,
            cells.into_iter().flat_map(|(one, _)| one.instances).collect(),
        );
    };
    cells.sort_by(|a, b| each(&b.0).total_cmp(&each(&a.0)));
    let (mut all, mut served): (Vec<Rc<Whole>>, f64) = (Vec::new(), 0.0);
    for (one, servers) in cells {
        let rest = rate - served;
        if rest <= 0.0 {
            break;
        }
        let least = (one.goodput > rest).then(|| cell(task, servers, Some(rest))).flatten();
        let one = least.unwrap_or(one);
        served += one.goodput;
        all.extend(one.instances);
    }
    Aggregated::of(task, all)
}

/// The signature of a cell: its servers, and the positions of its GPUs.
fn key(task: &Task<'_>, servers: &[Server]) -> (Look, Vec<u32>) {
    let ids: Vec<u32> = servers.iter().map(|(server, _)| *server).collect();
    let place = |gpu: &GpuId| gpu.0 - task.topology.home(*gpu).first;
    let places = servers.iter().flat_map(|(_, gpus)| gpus.iter().map(place).chain([u32::MAX]));
    (look(task.topology, &ids), places.collect())
}

/// The same instances on the servers of a cell that looks the same.
fn moved(
    task: &Task<'_>,
    found: &Aggregated,
    (from, to): (&[Server], &[Server]),
) -> Option<Aggregated> {
    let all = task.topology.servers();
    let there = |gpu: GpuId| {
        let home = task.topology.server_of(gpu);
        let at = from.iter().position(|one| one.0 == home).expect("its own server");
        GpuId(all[to[at].0 as usize].first + gpu.0 - all[home as usize].first)
    };
    let whole = |one: &Rc<Whole>| {
        let stages = one.stages.iter().map(|stage| stage.iter().map(|gpu| there(*gpu)).collect());
        one.on(task, stages.collect()).map(Rc::new)
    };
    Aggregated::of(task, found.instances.iter().map(whole).collect::<Option<Vec<_>>>()?)
}

/// Plans one cell.
fn cell(task: &Task<'_>, servers: &[Server], rate: Option<f64>) -> Option<Aggregated> {
    let mut classes: Vec<(Class, Vec<u32>)> = Vec::new();
    for (server, gpus) in servers {
        let count = gpus.len() as u32;
        let same = |(class, of): &&mut (Class, Vec<u32>)| {
            class.gpus == count && equal(task.topology, of[0], *server)
        };
        match classes.iter_mut().find(same) {
            Some((class, of)) => {
                class.servers += 1;
                of.push(*server);
            }
            None => classes.push((Class { servers: 1, gpus: count }, vec![*server])),
        }
    }
    let mut known = Known { task, rated: BTreeMap::new() };
    let (pieces, splits) = pieces(&mut known, servers, &classes);
    let only: Vec<Class> = classes.iter().map(|(class, _)| class.clone()).collect();
    let mut best: Option<Aggregated> = None;
    for packing in packings(&only, &pieces, rate, JUDGED) {
        let enough = best.as_ref().is_some_and(|best| best.goodput >= packing.bound * 0.999_999);
        if enough && rate.is_none() {
            break;
        }
        let found = laid(&mut known, servers, &classes, &packing, (&pieces, &splits));
        let Some(found) = Aggregated::of(task, found) else { continue };
        let of = |one: &Aggregated| (one.goodput, one.gpus());
        if best.as_ref().is_none_or(|best| better_first(rate, of(&found), of(best)).is_lt()) {
            best = Some(found);
        }
    }
    best
}

/// The best split of each shape, with its rate in both columns.
fn pieces(
    known: &mut Known<'_>,
    servers: &[Server],
    classes: &[(Class, Vec<u32>)],
) -> (Vec<Piece>, Vec<Parallel>) {
    let gpus: u32 = classes.iter().map(|(class, _)| class.servers * class.gpus).sum();
    let parallels = parallels(known.task, gpus);
    let mut sizes: Vec<u32> = parallels.iter().map(|one| one.gpus()).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let (mut pieces, mut splits) = (Vec::new(), Vec::new());
    for size in sizes {
        for shape in shapes(classes, size).into_iter().filter(is_even) {
            let gpus = first(servers, classes, &shape);
            let of_size = parallels.iter().filter(|one| one.gpus() == size);
            let rated = of_size.filter_map(|one| known.rated(*one, &gpus));
            let Some(best) = rated.max_by(|a, b| a.rate.total_cmp(&b.rate)) else { continue };
            if best.rate > 0.0 {
                pieces.push(Piece { shape, rates: (best.rate, best.rate) });
                splits.push(best.parallel);
            }
        }
    }
    (pieces, splits)
}

/// Instances over several servers have as many GPUs on each.
fn is_even(shape: &Shape) -> bool {
    let mut parts = shape.iter().flatten();
    parts.next().is_none_or(|first| parts.all(|part| part == first))
}

/// The first GPUs of the first servers of each class.
fn first(servers: &[Server], classes: &[(Class, Vec<u32>)], shape: &Shape) -> Vec<GpuId> {
    let mut gpus = Vec::new();
    for ((_, of), parts) in classes.iter().zip(shape) {
        for (part, server) in parts.iter().zip(of) {
            let own = servers.iter().find(|(at, _)| at == server).map(|(_, gpus)| gpus);
            gpus.extend(own.into_iter().flatten().take(usize::from(*part)));
        }
    }
    gpus
}

/// A packing on real GPUs.
fn laid(
    known: &mut Known<'_>,
    servers: &[Server],
    classes: &[(Class, Vec<u32>)],
    packing: &Packing,
    (pieces, splits): (&[Piece], &[Parallel]),
) -> Vec<Rc<Whole>> {
    let parts = servers_of(classes, packing, pieces);
    let mut free = Free::of(servers.iter().cloned());
    let mut turns: Vec<usize> = (0..parts.len()).collect();
    // Instances over several servers first, then large ones.
    let size = |at: &usize| parts[*at].iter().map(|(_, part)| usize::from(*part)).sum::<usize>();
    turns.sort_by_key(|at| (parts[*at].len() == 1, usize::MAX - size(at)));
    let mut all = Vec::new();
    for at in turns {
        let gpus = free.take(&parts[at]);
        all.extend(known.rated(splits[packing.steps[at].piece], &gpus));
    }
    all
}

/// Instances by split and by the places of their GPUs: those at equal places are rated once.
struct Known<'a> {
    task: &'a Task<'a>,
    rated: BTreeMap<(Parallel, Vec<u64>), Option<Rc<Whole>>>,
}

impl Known<'_> {
    fn rated(&mut self, parallel: Parallel, gpus: &[GpuId]) -> Option<Rc<Whole>> {
        let task = self.task;
        let arranged = arranged(task, Phase::Decode, parallel, gpus)?.instance;
        let key = (parallel, self.places(&arranged.stages));
        if let Some(known) = self.rated.get(&key) {
            return known.as_ref()?.on(task, arranged.stages).map(Rc::new);
        }
        let whole = Whole::new(task, arranged).ok().map(Rc::new);
        self.rated.insert(key, whole.clone());
        whole
    }

    /// Kind, server, NUMA node and card of each GPU, servers by their first appearance.
    fn places(&self, stages: &[Vec<GpuId>]) -> Vec<u64> {
        let topology = self.task.topology;
        let mut seen: Vec<u32> = Vec::new();
        let mut all = Vec::new();
        for gpu in stages.iter().flatten() {
            let (server, home) = (topology.server_of(*gpu), topology.home(*gpu));
            if !seen.contains(&server) {
                seen.push(server);
                all.extend(look(topology, &[server]));
            }
            let nth = seen.iter().position(|one| *one == server).unwrap_or(0) as u64;
            let numa = u64::from(home.numa[(gpu.0 - home.first) as usize]);
            let card = topology.own_card(*gpu).map_or(u64::MAX, u64::from);
            all.extend([nth, numa, card]);
        }
        all
    }
}

#[cfg(test)]
mod tests;
