//! Compares the online choice with an exact solver, on generated topologies with several
//! communicators.

use std::collections::BTreeMap;

use meridian_base::{Rng, Time};
use meridian_plan::online::{Balance, Pick, Printed, Settings};
use meridian_plan::{
    GpuId, GroupPolicy, LinkId, PolicyTable, Topology, TopologySpec, collective::choices,
};

/// Cases; lab/docs/planner.md has the figures of 200.
const CASES: u64 = 100;
/// Operations of a case.
const OPERATIONS: usize = 6_000;
/// Seconds of a case: twenty windows.
const SECONDS: f64 = 2.0;

/// Communicators on a topology, each with operations of one size.
struct Case {
    topology: Topology,
    table: PolicyTable,
    /// Bytes of an operation.
    bytes: Vec<f64>,
    /// The group of each operation.
    turns: Vec<usize>,
}

fn case(seed: u64) -> Case {
    let mut rng = Rng::new(seed).fork(12);
    let servers = 2 + rng.below(3);
    let gpus = 2 + 2 * rng.below(2);
    let cards = [1, 2, gpus][rng.below(3)];
    let access = 1 + rng.below(2);
    let nvlink = if rng.below(4) > 0 { "nvlink: 300GB/s, " } else { "" };
    let adds = ["", "aggregation: {rate: 50Gb/s}", "aggregation: {rate: 100Gb/s}"][rng.below(3)];
    let yaml = format!(
        "version: 1\nunits:\n- access: {{count: {access}, {adds}}}\n  servers:\n  - {{count: \
         {servers}, gpu: a100, gpus: {gpus}, {nvlink}cards: {}, card_rate: 100Gb/s}}\ncore: \
         {{switches: 2, oversubscription: 2}}\n",
        cards.max(access)
    );
    let topology = TopologySpec::read(&yaml).unwrap().build().unwrap();
    let mut free: Vec<GpuId> = topology.all_gpus().collect();
    let (mut groups, mut bytes) = (Vec::new(), Vec::new());
    while free.len() >= 2 && groups.len() < 5 {
        let count = (2 + rng.below(3)).min(free.len());
        let mut members: Vec<GpuId> =
            (0..count).map(|_| free.swap_remove(rng.below(free.len()))).collect();
        members.sort_unstable();
        let choices = choices(&topology, &members);
        if !choices.is_empty() {
            groups.push(GroupPolicy { members, choices, rows: Vec::new() });
            bytes.push([1e5, 4e5, 1e6, 2e6][rng.below(4)]);
        }
    }
    let weights: Vec<f64> = groups.iter().map(|_| 0.2 + rng.unit()).collect();
    let all: f64 = weights.iter().sum();
    let turn = |rng: &mut Rng| {
        let mut at = rng.unit() * all;
        weights
            .iter()
            .position(|weight| {
                at -= weight;
                at < 0.0
            })
            .unwrap_or(0)
    };
    let turns = (0..OPERATIONS).map(|_| turn(&mut rng)).collect();
    Case { topology, table: PolicyTable { epoch: 0, groups }, bytes, turns }
}

impl Case {
    /// Bytes a byte over rate, of each link of a way.
    fn loads(&self, group: usize, way: usize) -> impl Iterator<Item = (LinkId, f64)> + '_ {
        let loads = self.table.groups[group].choices[way].loads.iter();
        loads.map(|(link, load)| (link, load / self.topology.usable(link)))
    }

    /// Utilisation of the fullest link over the whole case.
    fn fullest(&self, mut pick: impl FnMut(Time, usize, f64) -> Option<Pick>) -> f64 {
        let mut used: BTreeMap<LinkId, f64> = BTreeMap::new();
        for (nth, group) in self.turns.iter().enumerate() {
            let at = nth as f64 / OPERATIONS as f64 * SECONDS;
            let now = Time::from_nanos((at * 1e9) as u64);
            let way = pick(now, *group, self.bytes[*group]).unwrap().way;
            for (link, share) in self.loads(*group, way) {
                *used.entry(link).or_default() += share * self.bytes[*group] / SECONDS;
            }
        }
        used.into_values().fold(0.0, f64::max)
    }

    /// The minimum load of the fullest link for any scheduler.
    fn least(&self) -> f64 {
        let demand = |group: usize| {
            let count = self.turns.iter().filter(|turn| **turn == group).count();
            let whole = count as f64 * self.bytes[group] / SECONDS;
            let ways = 0..self.table.groups[group].choices.len();
            let way = |way| self.loads(group, way).map(|(link, share)| (link.0, share * whole));
            ways.map(|nth| way(nth).collect()).collect()
        };
        crate::exact::least(&(0..self.table.groups.len()).map(demand).collect())
    }
}

/// How far above the optimum, case by case, least first.
fn above(fullest: impl Fn(&Case) -> f64) -> Vec<f64> {
    let cases = crate::suite::cases(CASES);
    let mut all: Vec<f64> = (0..cases)
        .map(case)
        .filter(|case| !case.table.groups.is_empty())
        .map(|case| fullest(&case) / case.least() - 1.0)
        .collect();
    all.sort_by(f64::total_cmp);
    assert!(4 * all.len() > 3 * cases as usize, "{} of {cases}", all.len());
    assert!(all[0] > -1e-6, "no placement is below the optimum: {}", all[0]);
    all
}

// The corrected scheduler's fullest link is within 5 % of the possible minimum, in all but one case
// (5.7 % there); the paper's equations miss that in two cases of five.
#[test]
fn correction_12_the_fullest_link_is_near_the_optimum() {
    let ours = above(|case| {
        let settings = Settings { slack: f64::INFINITY, ..Settings::default() };
        let mut balance = Balance::new(&case.topology, &case.table, settings);
        case.fullest(|now, group, bytes| balance.pick(now, group, bytes, 1.0))
    });
    let beyond = |all: &[f64]| all.iter().filter(|above| **above > 0.05).count();
    assert!(beyond(&ours) <= 1 && ours[ours.len() - 1] < 0.06, "{:?}", &ours[ours.len() - 9..]);
    assert!(ours[ours.len() / 2] < 1e-3, "half of the cases are as good as it gets");
    let printed = above(|case| {
        let mut printed = Printed::new(&case.topology, &case.table, 0.1);
        case.fullest(|now, group, bytes| printed.pick(now, group, bytes, 1.0))
    });
    assert!(beyond(&printed) > printed.len() / 3, "{} of {}", beyond(&printed), printed.len());
}

// The exact solver itself: two equal links share one group's bytes; a link that both groups need sets
// the least; a way twice as heavy takes a third.
#[test]
fn the_solver_knows_small_cases() {
    let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
    close(crate::exact::least(&vec![vec![vec![(0, 1.0)], vec![(1, 1.0)]]]), 0.5);
    close(crate::exact::least(&vec![vec![vec![(0, 1.0)], vec![(1, 2.0)]]]), 2.0 / 3.0);
    close(crate::exact::least(&vec![vec![vec![(0, 1.0)]], vec![vec![(0, 0.5)]]]), 1.5);
    let shared = vec![vec![vec![(0, 1.0)], vec![(1, 1.2)]], vec![vec![(0, 1.0)]]];
    close(crate::exact::least(&shared), 2.4 / 2.2);
}
