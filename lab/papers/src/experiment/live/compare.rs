//! Compares live with simulated results: both columns, and whether the systems have the same order.

use std::cmp::Ordering;

use meridian_tools::metric::{self, Metric};
use meridian_tools::stats;
use meridian_tools::table::Table;

use crate::experiment::claim::number;
use crate::experiment::grid::Grid;

/// Metrics shown in both columns.
const SHOWN: [&str; 8] = [
    "requests",
    "throughput_rps",
    "ttft_ms.mean",
    "ttft_ms.p50",
    "ttft_ms.p90",
    "e2e_ms.p50",
    "prefix_hit_ratio",
    "forwarded_ratio",
];
/// Metrics by which systems are ordered, and whether more is better.
const ORDERED: [(&str, bool); 6] = [
    ("throughput_rps", true),
    ("ttft_ms.mean", false),
    ("ttft_ms.p50", false),
    ("ttft_ms.p90", false),
    ("e2e_ms.p50", false),
    ("prefix_hit_ratio", true),
];
/// How far the ratio of live to simulated may be from 1.
const WITHIN: f64 = 0.1;
/// Systems that differ by less than this share are level.
const LEVEL: f64 = 0.05;

/// A table of both columns for each workload and fleet, and one of orders.
pub(super) fn tables(live: &Grid<'_>, simulated: &Grid<'_>) -> Vec<Table> {
    let groups = live.groups();
    let mut tables: Vec<Table> = groups.iter().map(|group| both(live, simulated, group)).collect();
    tables.push(orders(live, simulated, &groups));
    tables
}

fn title(grid: &Grid<'_>, group: &[usize]) -> String {
    let cell = grid.cells[group[0]];
    format!("{} on {}", grid.plan.workload(cell), grid.plan.fleet(cell))
}

fn value(grid: &Grid<'_>, cell: usize, (place, metric): (usize, &Metric)) -> Option<f64> {
    grid.mean(cell, place, metric).map(|mean| mean.mean)
}

/// A row a system, two columns a metric.
fn both(live: &Grid<'_>, simulated: &Grid<'_>, group: &[usize]) -> Table {
    let shown: Vec<(usize, &Metric)> = SHOWN.iter().filter_map(|name| metric::find(name)).collect();
    let names = shown.iter().flat_map(|(_, m)| [format!("{} live", m.name), "simulated".into()]);
    let ratio = ["live / simulated, throughput", "within 10 %", "lost live"].map(str::to_owned);
    let header: Vec<String> = ["system".to_owned()].into_iter().chain(names).chain(ratio).collect();
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let mut table = Table::new(title(live, group), &header);
    let throughput = metric::find("throughput_rps").expect("it is a metric");
    let lost = metric::find("lost").expect("it is a metric");
    for &cell in group {
        let show = |grid, m: &(usize, &Metric)| {
            value(grid, cell, *m).map_or("-".to_owned(), |v| number(m.1, v))
        };
        let mut row = vec![live.plan.system(live.cells[cell]).to_owned()];
        row.extend(shown.iter().flat_map(|m| [show(live, m), show(simulated, m)]));
        let (a, b) = (value(live, cell, throughput), value(simulated, cell, throughput));
        let ratio = a.zip(b).filter(|(_, b)| *b > 0.0).map(|(a, b)| a / b);
        row.push(ratio.map_or("-".to_owned(), |r| format!("{r:.3}")));
        let within = ratio.is_some_and(|r| (r - 1.0).abs() <= WITHIN);
        row.push(if within { "yes" } else { "NO" }.to_owned());
        row.push(show(live, &lost));
        table.row(row);
    }
    table
}

/// A system and its values of a metric for each seed.
struct Standing {
    name: String,
    by_seed: Vec<f64>,
}

impl Standing {
    fn mean(&self) -> f64 {
        self.by_seed.iter().sum::<f64>() / self.by_seed.len() as f64
    }

    /// Whether this one is clearly above or below the other: by more than 5 %, and with several
    /// seeds so that the 95 % interval of the ratio excludes 1.
    fn against(&self, other: &Self) -> Ordering {
        let Some(ratio) = stats::ratio_of_means(&self.by_seed, &other.by_seed) else {
            return Ordering::Equal;
        };
        let level = (self.mean() - other.mean()).abs() <= LEVEL * self.mean().max(other.mean());
        let several = self.by_seed.len() > 1;
        if level || (several && ratio.low <= 1.0 && ratio.high >= 1.0) {
            return Ordering::Equal;
        }
        ratio.mean.total_cmp(&1.0)
    }
}

/// For each figure the systems from best to worst, on both sides.
fn orders(live: &Grid<'_>, simulated: &Grid<'_>, groups: &[Vec<usize>]) -> Table {
    let heading = "Systems from best to worst (= if they do not differ measurably: they are within \
                   5 % of each other, or the 95 % interval of their ratio over seeds holds 1)";
    let mut table = Table::new(heading, &["on", "figure", "live", "simulated", "same order"]);
    for group in groups {
        for (name, more) in ORDERED {
            let Some((place, _)) = metric::find(name) else { continue };
            let of = |grid: &Grid<'_>| -> Option<Vec<Standing>> {
                let one = |cell: &usize| {
                    let name = grid.plan.system(grid.cells[*cell]).to_owned();
                    let by_seed: Option<Vec<f64>> =
                        grid.by_seed(*cell, place).into_iter().collect();
                    Some(Standing { name, by_seed: by_seed? })
                };
                group.iter().map(one).collect()
            };
            let (Some(a), Some(b)) = (of(live), of(simulated)) else { continue };
            table.row([
                title(live, group),
                name.to_owned(),
                in_order(&a, more),
                in_order(&b, more),
                if is_same_order(&a, &b) { "yes" } else { "NO" }.to_owned(),
            ]);
        }
    }
    table
}

fn in_order(systems: &[Standing], more: bool) -> String {
    let mut sorted: Vec<&Standing> = systems.iter().collect();
    let by_mean = |a: &&Standing, b: &&Standing| a.mean().total_cmp(&b.mean());
    sorted.sort_by(|a, b| if more { by_mean(b, a) } else { by_mean(a, b) });
    let mut text = String::new();
    for (at, system) in sorted.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| sorted[before].against(system));
        text.push_str(match before {
            None => "",
            Some(Ordering::Equal) => " = ",
            Some(_) => ", ",
        });
        text.push_str(&system.name);
    }
    text
}

/// Whether no two systems have one order live and the opposite order simulated, clearly on both
/// sides.
fn is_same_order(live: &[Standing], simulated: &[Standing]) -> bool {
    let pairs = (0..live.len()).flat_map(|i| (0..i).map(move |j| (i, j)));
    let turned = |(i, j): (usize, usize)| {
        let (a, b) = (live[i].against(&live[j]), simulated[i].against(&simulated[j]));
        a != Ordering::Equal && a == b.reverse()
    };
    !pairs.into_iter().any(turned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn systems<const N: usize>(values: [[f64; N]; 3]) -> Vec<Standing> {
        let one = |(name, by_seed): (&str, [f64; N])| Standing {
            name: name.to_owned(),
            by_seed: by_seed.to_vec(),
        };
        ["a", "b", "c"].into_iter().zip(values).map(one).collect()
    }

    // Best first, whichever direction is better; those within 5 % of each other are level.
    #[test]
    fn orders_are_written_best_first() {
        let values = systems([[10.0], [10.1], [20.0]]);
        assert_eq!(in_order(&values, false), "a = b, c");
        assert_eq!(in_order(&values, true), "c, b = a");
    }

    // Two systems that swap places break the order only if both sides separate them.
    #[test]
    fn only_clear_differences_break_an_order() {
        let live = systems([[10.0], [12.0], [20.0]]);
        assert!(is_same_order(&live, &systems([[1.0], [2.0], [3.0]])));
        assert!(!is_same_order(&live, &systems([[2.0], [1.0], [3.0]])));
        assert!(is_same_order(&live, &systems([[2.0], [1.99], [3.0]])));
    }

    // Seeds separate systems that differ in the same way under each of them, and not those that
    // alternate.
    #[test]
    fn seeds_that_take_turns_are_level() {
        let steady = systems([[10.0, 40.0, 20.0], [11.0, 46.0, 23.0], [90.0, 90.0, 90.0]]);
        assert_eq!(in_order(&steady, false), "a, b, c");
        let turns = systems([[10.0, 40.0, 20.0], [30.0, 20.0, 30.0], [90.0, 90.0, 90.0]]);
        assert_eq!(in_order(&turns, false), "a = b, c");
        let turned = systems([[11.0, 46.0, 23.0], [10.0, 40.0, 20.0], [90.0, 90.0, 90.0]]);
        assert!(!is_same_order(&steady, &turned));
        assert!(is_same_order(&turns, &turned));
    }
}
