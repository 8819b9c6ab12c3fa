//! The search: cuts a topology into cells, plans each cell, and keeps the best cut.
//!
//! Instances exchange KV only within a cell. Up to `ONE_CELL` GPUs the topology is one cell.
//! Beyond, servers are cut into cells of several sizes, never across units if a unit can hold the
//! cell. Equal cells are planned once and reused wherever they occur, and the size with the highest
//! total goodput is kept. At the end the traffic of all cells is combined on shared links.

use core::cmp::Ordering;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::cell::{Cell, Found, Ranked, SMALL_TOPOLOGY, Smallest, better_first, equal, smaller};
use crate::explain::why_none;
use crate::fleet::{FULL, Fleet};
use crate::instance::{Instance, Rated};
use crate::level::levels;
use crate::problem::Problems;
use crate::task::Task;
use crate::topology::{Direction, GpuId, LinkId, Topology};

/// A plan: cells, none of which shares a GPU with another.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The cells.
    pub cells: Vec<Ranked>,
    /// The smallest instance of each phase that can serve any load here.
    pub smallest: Smallest,
}

impl Plan {
    /// Requests a second within both objectives.
    #[must_use]
    pub fn goodput(&self) -> f64 {
        self.cells.iter().map(|cell| cell.verdict.goodput).sum()
    }

    /// GPUs in use.
    #[must_use]
    pub fn gpus(&self) -> u32 {
        self.cells.iter().map(|cell| cell.fleet.gpus()).sum()
    }

    /// Every instance, cell by cell.
    pub fn instances(&self) -> impl Iterator<Item = &Rc<Rated>> {
        self.cells.iter().flat_map(|cell| cell.fleet.all())
    }
}

/// GPUs up to which a topology is one cell.
pub(crate) const ONE_CELL: u32 = 16;
/// GPUs of the cells in a larger topology. Larger cells are tried only if these hold no plan, or if
/// in a small topology they leave much idle, e.g. because the remainder of a cut is too small for
/// both phases: they take ten times as long.
const MOST_OF_CELL: [u32; 3] = [32, 64, 128];
/// The share of idle GPUs that counts as much.
const IDLE: f64 = 0.1;
/// Servers of a cell.
const SIZES: [usize; 9] = [1, 2, 3, 4, 6, 8, 12, 16, 32];

/// Plans, best first.
///
/// # Errors
///
/// If the task is invalid, or no plan can serve it; the error then gives the reason and the nearest
/// task that could be served.
pub fn plan(task: &Task<'_>) -> Result<Vec<Plan>, Problems> {
    task.check()?;
    let (mut plans, found) = searched(task);
    for level in levels(task.topology) {
        let even = Task { topology: &level, ..task.clone() };
        let other = searched(&even).0.first().and_then(|plan| on(task, plan));
        plans.extend(other.filter(|other| plans.iter().all(|plan| !same(plan, other))));
    }
    plans.sort_by(|a, b| order(task, a, b));
    served(task, plans, &found)
}

/// Whether two plans have the same instances on the same GPUs.
fn same(a: &Plan, b: &Plan) -> bool {
    a.instances().map(|one| &one.instance).eq(b.instances().map(|one| &one.instance))
}

/// Transfers a plan from a topology with other link rates, or another network's formulas, to the
/// task's own.
pub(crate) fn on(task: &Task<'_>, plan: &Plan) -> Option<Plan> {
    let cells: Option<Vec<Ranked>> =
        plan.cells.iter().map(|cell| relaid(task, cell, |gpu| gpu)).collect();
    let mut plan = Plan { cells: cells?, smallest: plan.smallest.clone() };
    meet(task.topology, &mut plan);
    Some(plan)
}

/// Those that serve the rate with the fewest GPUs first, then those that serve most.
fn order(task: &Task<'_>, a: &Plan, b: &Plan) -> Ordering {
    let of = |plan: &Plan| (plan.goodput(), plan.gpus());
    better_first(task.rate, of(a), of(b))
}

/// Plans, best first, and the results of all cells.
pub(crate) fn searched(task: &Task<'_>) -> (Vec<Plan>, Vec<Found>) {
    let servers: Vec<u32> = (0..task.topology.servers().len() as u32).collect();
    if task.topology.gpus() <= ONE_CELL {
        let found = Cell::new(task, &servers).plan();
        let (all, smallest) = (found.plans.iter(), &found.smallest);
        let plan = |one: &Ranked| Plan { cells: vec![one.clone()], smallest: smallest.clone() };
        return (all.map(plan).collect(), vec![found]);
    }
    let open = Task { rate: None, ..task.clone() };
    let mut known = Known::new();
    let mut plans: Vec<Plan> = Vec::new();
    let mut tried: Vec<usize> = Vec::new();
    for most in MOST_OF_CELL {
        let mut sizes = sizes(task.topology, most);
        sizes.retain(|size| !tried.contains(size));
        plans.extend(sizes.iter().filter_map(|size| of_cells(task, &open, *size, &mut known)));
        tried.extend(sizes);
        plans.sort_by(|a, b| b.goodput().total_cmp(&a.goodput()).then(a.gpus().cmp(&b.gpus())));
        let small = task.topology.gpus() <= SMALL_TOPOLOGY;
        if plans.first().is_some_and(|best| !small || is_enough(task, best)) {
            break;
        }
    }
    plans.sort_by(|a, b| order(task, a, b));
    let found: Vec<Found> = known.into_values().map(|(_, found)| found).collect();
    let mut smallest = Smallest::new();
    for (phase, parallel) in found.iter().flat_map(|one| &one.smallest) {
        smaller(&mut smallest, *phase, *parallel);
    }
    plans.iter_mut().for_each(|plan| plan.smallest.clone_from(&smallest));
    (plans, found)
}

/// Whether larger cells are unnecessary.
fn is_enough(task: &Task<'_>, plan: &Plan) -> bool {
    match task.rate {
        Some(rate) => plan.goodput() >= rate,
        None => f64::from(plan.gpus()) >= (1.0 - IDLE) * f64::from(task.topology.gpus()),
    }
}

/// Plans the topology in cells of one size.
fn of_cells(task: &Task<'_>, open: &Task<'_>, size: usize, known: &mut Known) -> Option<Plan> {
    let mut plan = Plan::default();
    for servers in &cut(task.topology, size) {
        if task.rate.is_some_and(|rate| plan.goodput() >= rate) {
            break;
        }
        plan.cells.extend(planned(open, servers, known));
    }
    meet(task.topology, &mut plan);
    trim(task, &mut plan);
    (!plan.cells.is_empty()).then_some(plan)
}

fn served(task: &Task<'_>, plans: Vec<Plan>, found: &[Found]) -> Result<Vec<Plan>, Problems> {
    let most = plans.first().map_or(0.0, Plan::goodput);
    if most <= 0.0 {
        return Err(why_none(task, found));
    }
    match task.rate {
        // The target rate is exact to the fourth digit.
        Some(rate) if most < rate * 0.9999 => {
            let remedy =
                format!("the topology serves {most:.3} at most; ask for that, or add GPUs");
            Err(Problems::one("rate", rate, remedy))
        }
        _ => Ok(plans),
    }
}

/// Sizes of cells in servers, that fit the bound; larger ones where servers are small.
fn sizes(topology: &Topology, most: u32) -> Vec<usize> {
    let largest = topology.servers().iter().map(|server| server.gpus).max().unwrap_or(1);
    let count = topology.servers().len();
    let fits = |size: &usize| *size as u32 * largest <= most.max(2 * largest);
    let mut all: Vec<usize> =
        SIZES.into_iter().filter(|size| *size <= count).filter(fits).collect();
    if topology.gpus() <= most && !all.contains(&count) {
        all.push(count);
    }
    all
}

/// Servers in cells of `size`. Within a unit kinds alternate, so that cells have some of each.
fn cut(topology: &Topology, size: usize) -> Vec<Vec<u32>> {
    let servers = topology.servers();
    let mut units: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for at in 0..servers.len() as u32 {
        units.entry(servers[at as usize].unit).or_default().push(at);
    }
    let mut cells: Vec<Vec<u32>> = Vec::new();
    let mut pending: Vec<u32> = Vec::new();
    for unit in units.into_values() {
        let unit = taking_turns(topology, &unit);
        if unit.len() >= size {
            cells.extend(unit.chunks(size).map(<[u32]>::to_vec));
            continue;
        }
        pending.extend(unit);
        while pending.len() >= size {
            cells.push(pending.drain(..size).collect());
        }
    }
    if !pending.is_empty() {
        cells.push(pending);
    }
    cells
}

fn taking_turns(topology: &Topology, unit: &[u32]) -> Vec<u32> {
    let mut classes: Vec<Vec<u32>> = Vec::new();
    for at in unit {
        let same = |class: &&mut Vec<u32>| equal(topology, class[0], *at);
        match classes.iter_mut().find(same) {
            Some(class) => class.push(*at),
            None => classes.push(vec![*at]),
        }
    }
    // The i-th of n is at (i + 1/2) / n, so that every section has a similar mix.
    let mut placed: Vec<(f64, usize, u32)> = Vec::new();
    for (nth, class) in classes.iter().enumerate() {
        for (at, server) in class.iter().enumerate() {
            placed.push(((at as f64 + 0.5) / class.len() as f64, nth, *server));
        }
    }
    placed.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    placed.into_iter().map(|(_, _, server)| server).collect()
}

/// The signature of a cell, independent of its position.
pub(crate) type Look = Vec<u64>;
/// The first servers of each signature, and their result.
type Known = BTreeMap<Look, (Vec<u32>, Found)>;

pub(crate) fn look(topology: &Topology, servers: &[u32]) -> Look {
    let mut look = Vec::new();
    let (mut units, mut switches): (Vec<u32>, Vec<u32>) = (Vec::new(), Vec::new());
    let nth = |seen: &mut Vec<u32>, id: u32| match seen.iter().position(|one| *one == id) {
        Some(at) => at as u64,
        None => {
            seen.push(id);
            seen.len() as u64 - 1
        }
    };
    for at in servers {
        let server = &topology.servers()[*at as usize];
        look.extend(server.kind.name.bytes().map(u64::from));
        look.push(server.kind.memory.to_bits());
        look.extend(topology.own_rates(*at).map(f64::to_bits));
        look.push(nth(&mut units, server.unit));
        look.push(u64::from(server.gpus));
        look.extend(server.numa.iter().map(|node| u64::from(*node)));
        for card in &server.cards {
            look.push(u64::from(card.numa));
            look.push(nth(&mut switches, card.access));
            let access = &topology.access()[card.access as usize];
            look.push(topology.rate(topology.uplink(card.access, Direction::Out)).to_bits());
            let adds = access.aggregation.map_or([0.0; 2], |one| [one.latency, one.rate]);
            look.extend(adds.map(f64::to_bits));
        }
    }
    look
}

/// The plan of a cell: that of the first with the same signature, transferred here.
fn planned(task: &Task<'_>, servers: &[u32], known: &mut Known) -> Option<Ranked> {
    let (first, found) = known
        .entry(look(task.topology, servers))
        .or_insert_with(|| (servers.to_vec(), Cell::new(task, servers).plan()));
    let ranked = found.plans.first()?;
    if first == servers {
        return Some(ranked.clone());
    }
    moved(task, ranked, first, servers)
}

/// The same instances on other servers.
fn moved(task: &Task<'_>, ranked: &Ranked, from: &[u32], to: &[u32]) -> Option<Ranked> {
    let servers = task.topology.servers();
    relaid(task, ranked, |gpu| {
        let home = task.topology.server_of(gpu);
        let at = from.iter().position(|server| *server == home).expect("a cell's own GPUs");
        let offset = gpu.0 - servers[home as usize].first;
        GpuId(servers[to[at] as usize].first + offset)
    })
}

/// The same instances on other GPUs, or with other links.
fn relaid(task: &Task<'_>, ranked: &Ranked, there: impl Fn(GpuId) -> GpuId) -> Option<Ranked> {
    let instance = |rated: &Rc<Rated>| {
        let stages = &rated.instance.stages;
        let stages =
            stages.iter().map(|stage| stage.iter().map(|gpu| there(*gpu)).collect()).collect();
        Rated::new(task, Instance { stages, ..rated.instance.clone() }).ok().map(Rc::new)
    };
    let all = |list: &[Rc<Rated>]| list.iter().map(instance).collect::<Option<Vec<_>>>();
    let fleet = Fleet { prefill: all(&ranked.fleet.prefill)?, decode: all(&ranked.fleet.decode)? };
    let verdict = fleet.judged(task)?;
    Some(Ranked { fleet, verdict })
}

/// Combines the cells' traffic on the links that they share.
fn meet(topology: &Topology, plan: &mut Plan) {
    let mut total = vec![0.0; topology.link_count() as usize];
    for cell in &plan.cells {
        for (link, bytes) in cell.verdict.loads.iter() {
            total[link.0 as usize] += bytes * cell.verdict.goodput;
        }
    }
    for cell in &mut plan.cells {
        let share = |link: LinkId| FULL * topology.usable(link) / total[link.0 as usize];
        let fits = cell.verdict.loads.iter().filter(|(_, bytes)| *bytes > 0.0);
        let least = fits.map(|(link, _)| share(link)).fold(1.0, f64::min);
        cell.verdict.goodput *= least;
    }
}

/// Replans the last cell for the rate that the others leave.
fn trim(task: &Task<'_>, plan: &mut Plan) {
    let Some(rate) = task.rate else { return };
    let Some(last) = plan.cells.pop() else { return };
    let left = rate - plan.goodput();
    if left <= 0.0 || left > last.verdict.goodput {
        plan.cells.push(last);
        return;
    }
    let rest = Task { rate: Some(left), ..task.clone() };
    let mut servers: Vec<u32> = last
        .fleet
        .all()
        .flat_map(|rated| rated.instance.gpus())
        .map(|gpu| task.topology.server_of(gpu))
        .collect();
    servers.sort_unstable();
    servers.dedup();
    let found = Cell::new(&rest, &servers).plan();
    plan.cells.push(found.plans.into_iter().next().unwrap_or(last));
}
