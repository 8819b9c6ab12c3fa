//! Every plan, tried.

use std::collections::BTreeMap;
use std::rc::Rc;

use meridian_plan::{Fleet, GpuId, Instance, Parallel, Phase, Rated, Task, Way};

/// Instances that are rated, and nodes of the search, beyond which trying all is not feasible.
const RATED: usize = 20_000;
const NODES: usize = 150_000;

/// GPUs that are truly alike: same server, same NUMA node, same card. A ring or a stage is the same
/// whichever of them it has.
struct Seats(Vec<Vec<GpuId>>);

struct Choice {
    /// GPUs of each seat.
    counts: Vec<u8>,
    phase: Phase,
    parallel: Parallel,
    /// Stages as counts of seats.
    stages: Vec<Vec<u8>>,
    rate: f64,
}

/// The goodput of the best of all plans; `None` where there are too many.
pub(crate) fn best(task: &Task<'_>) -> Option<f64> {
    let seats = Seats::of(task);
    let options = options(task, &seats)?;
    let full: Vec<u8> = seats.0.iter().map(|seat| seat.len() as u8).collect();
    let each = |phase| {
        options
            .iter()
            .filter(|one| one.phase == phase)
            .map(|one| one.rate / f64::from(one.parallel.gpus()))
            .fold(0.0, f64::max)
    };
    let mut search = Search {
        task,
        seats: &seats,
        options: &options,
        per_gpu: (each(Phase::Prefill), each(Phase::Decode)),
        best: 0.0,
        nodes: 0,
    };
    if search.per_gpu.0 == 0.0 || search.per_gpu.1 == 0.0 {
        return Some(0.0);
    }
    search.from(0, full, (0.0, 0.0), &mut Vec::new());
    (search.nodes < NODES).then_some(search.best)
}

impl Seats {
    fn of(task: &Task<'_>) -> Seats {
        let mut seats: BTreeMap<(u32, u8, Vec<String>), Vec<GpuId>> = BTreeMap::new();
        for gpu in task.topology.all_gpus() {
            let home = task.topology.home(gpu);
            // The card is seen by the way to a GPU of another server.
            let other = task
                .topology
                .all_gpus()
                .find(|one| task.topology.server_of(*one) != task.topology.server_of(gpu));
            let way = other.and_then(|other| meridian_plan::route(task.topology, gpu, other, 1e6));
            let card = way.into_iter().flat_map(|way| way.links);
            let card = card.filter(|link| {
                matches!(task.topology.link(*link), meridian_plan::LinkName::Card(_, _, Way::Out))
            });
            let card: Vec<String> = card.map(|link| task.topology.link_text(link)).collect();
            let numa = home.numa[(gpu.0 - home.first) as usize];
            seats.entry((task.topology.server_of(gpu), numa, card)).or_default().push(gpu);
        }
        Seats(seats.into_values().collect())
    }
}

fn options(task: &Task<'_>, seats: &Seats) -> Option<Vec<Choice>> {
    let all = task.topology.gpus();
    let model = &task.subject.shape;
    let mut found = Vec::new();
    let mut rated = 0;
    for tp in [1_u32, 2, 4, 8, 16] {
        for pp in [1_u32, 2, 3, 4, 6, 8] {
            for ep in [false, true] {
                let experts = model.experts.is_some_and(|one| one.count.is_multiple_of(tp));
                let fits =
                    if ep { experts && pp == 1 && tp > 1 } else { model.heads.is_multiple_of(tp) };
                let parallel = Parallel { tp, pp, ep };
                if !fits || parallel.gpus() > all {
                    continue;
                }
                for phase in [Phase::Prefill, Phase::Decode] {
                    let mut by_counts: BTreeMap<Vec<u8>, Choice> = BTreeMap::new();
                    let full: Vec<u8> = seats.0.iter().map(|seat| seat.len() as u8).collect();
                    let mut give = |stages: &Vec<Vec<u8>>| {
                        rated += 1;
                        if rated > RATED {
                            return false;
                        }
                        note(task, seats, (phase, parallel), stages, &mut by_counts);
                        true
                    };
                    if !stages(&full, tp, pp, &mut Vec::new(), &mut give) {
                        return None;
                    }
                    found.extend(by_counts.into_values());
                }
            }
        }
    }
    Some(found)
}

/// Rates one way of dealing out stages; the best for the same GPUs stays.
fn note(
    task: &Task<'_>,
    seats: &Seats,
    (phase, parallel): (Phase, Parallel),
    stages: &[Vec<u8>],
    best: &mut BTreeMap<Vec<u8>, Choice>,
) {
    let mut free: Vec<&[GpuId]> = seats.0.iter().map(Vec::as_slice).collect();
    let members = deal(stages, &mut free);
    let instance = Instance { phase, parallel, stages: members };
    let Ok(rated) = Rated::new(task, instance) else { return };
    let counts: Vec<u8> =
        (0..seats.0.len()).map(|seat| stages.iter().map(|stage| stage[seat]).sum()).collect();
    let known = best.get(&counts).map_or(0.0, |one| one.rate);
    if rated.rate > known {
        let stages = stages.to_vec();
        let one = Choice { counts: counts.clone(), phase, parallel, stages, rate: rated.rate };
        best.insert(counts, one);
    }
}

/// Takes the first free GPUs of each seat.
fn deal<'a>(stages: &[Vec<u8>], free: &mut [&'a [GpuId]]) -> Vec<Vec<GpuId>> {
    let mut all = Vec::new();
    for stage in stages {
        let mut members = Vec::new();
        for (seat, count) in stage.iter().enumerate() {
            let (taken, rest): (&'a [GpuId], &'a [GpuId]) =
                free[seat].split_at(usize::from(*count));
            members.extend_from_slice(taken);
            free[seat] = rest;
        }
        all.push(members);
    }
    all
}

/// Every way of dealing `pp` stages of `tp` GPUs out of seats; false once `give` has enough.
fn stages(
    left: &[u8],
    tp: u32,
    pp: u32,
    so_far: &mut Vec<Vec<u8>>,
    give: &mut impl FnMut(&Vec<Vec<u8>>) -> bool,
) -> bool {
    if pp == 0 {
        return give(so_far);
    }
    let mut parts = Vec::new();
    split(left, tp, &mut Vec::new(), &mut parts);
    for part in parts {
        let rest: Vec<u8> = left.iter().zip(&part).map(|(left, part)| left - part).collect();
        so_far.push(part);
        let more = stages(&rest, tp, pp - 1, so_far, give);
        so_far.pop();
        if !more {
            return false;
        }
    }
    true
}

fn split(left: &[u8], size: u32, so_far: &mut Vec<u8>, all: &mut Vec<Vec<u8>>) {
    let Some((first, rest)) = left.split_first() else {
        if size == 0 {
            all.push(so_far.clone());
        }
        return;
    };
    for part in 0..=(u32::from(*first)).min(size) {
        so_far.push(part as u8);
        split(rest, size - part, so_far, all);
        so_far.pop();
    }
}

struct Search<'a> {
    task: &'a Task<'a>,
    seats: &'a Seats,
    options: &'a [Choice],
    per_gpu: (f64, f64),
    best: f64,
    nodes: usize,
}

impl Search<'_> {
    /// Every set of options from `at` on.
    fn from(&mut self, at: usize, left: Vec<u8>, rates: (f64, f64), chosen: &mut Vec<usize>) {
        self.nodes += 1;
        if self.nodes >= NODES || self.bound(&left, rates) <= self.best * 1.000_001 {
            return;
        }
        if rates.0.min(rates.1) > self.best {
            self.judge(chosen);
        }
        for next in at..self.options.len() {
            let one = &self.options[next];
            if one.counts.iter().zip(&left).any(|(count, left)| count > left) {
                continue;
            }
            let rest = left.iter().zip(&one.counts).map(|(left, count)| left - count).collect();
            let rates = match one.phase {
                Phase::Prefill => (rates.0 + one.rate, rates.1),
                Phase::Decode => (rates.0, rates.1 + one.rate),
            };
            chosen.push(next);
            self.from(next, rest, rates, chosen);
            chosen.pop();
        }
    }

    /// What the free GPUs could add at best, each at the best rate that any GPU has.
    fn bound(&self, left: &[u8], (p, d): (f64, f64)) -> f64 {
        let gpus: f64 = left.iter().map(|left| f64::from(*left)).sum();
        let (a, b) = self.per_gpu;
        let even = (d + b * gpus - p) / (a + b);
        let even = even.clamp(0.0, gpus);
        (p + a * even).min(d + b * (gpus - even))
    }

    fn judge(&mut self, chosen: &[usize]) {
        let mut free: Vec<&[GpuId]> = self.seats.0.iter().map(Vec::as_slice).collect();
        let mut fleet = Fleet::default();
        for at in chosen {
            let one = &self.options[*at];
            let stages = deal(&one.stages, &mut free);
            let instance = Instance { phase: one.phase, parallel: one.parallel, stages };
            let rated = Rc::new(Rated::new(self.task, instance).expect("it was rated before"));
            match one.phase {
                Phase::Prefill => fleet.prefill.push(rated),
                Phase::Decode => fleet.decode.push(rated),
            }
        }
        if let Some(verdict) = fleet.judged(self.task) {
            self.best = self.best.max(verdict.goodput);
        }
    }
}
