//! The least GPUs for each of several rates, with separate and with aggregated instances.

use crate::aggregated::aggregated;
use crate::fleet::Times;
use crate::problem::Problems;
use crate::search::{Plan, plan};
use crate::task::Task;
use crate::topology::GpuId;

/// Most rates of a sweep.
const MOST: usize = 1000;

/// A deployment at a rate.
#[derive(Clone, Debug, PartialEq)]
pub struct Side {
    /// GPUs in use.
    pub gpus: Vec<GpuId>,
    /// Requests a second that it could serve within both objectives.
    pub goodput: f64,
    /// The times at the rate.
    pub times: Times,
}

/// One rate.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Requests a second.
    pub rate: f64,
    /// The smallest plan with separate instances; `None` if the topology can't serve the rate.
    pub separate: Option<Side>,
    /// The smallest with aggregated ones.
    pub aggregated: Option<Side>,
}

/// Reads rates: `2..20/10` for ten of them from 2 to 20, or a list as `2,5,10`.
///
/// # Errors
///
/// If it is neither, or a rate is not above 0, or the range is the wrong way round.
pub fn rates(text: &str) -> Result<Vec<f64>, Problems> {
    let wrong = |remedy: &str| Err(Problems::one("rates", text, remedy));
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|one| one.is_finite());
    let notation = "write A..B/N, as in 2..20/10, or a list, as in 2,5,10";
    let Some((from, rest)) = text.split_once("..") else {
        let Some(all) = text.split(',').map(number).collect::<Option<Vec<f64>>>() else {
            return wrong(notation);
        };
        if all.iter().any(|rate| *rate <= 0.0) {
            return wrong("use requests a second above 0");
        }
        return if all.len() > MOST { wrong("give 1000 rates or fewer") } else { Ok(all) };
    };
    let (to, count) = rest.split_once('/').unwrap_or((rest, "10"));
    let (Some(from), Some(to), Ok(count)) = (number(from), number(to), count.parse::<usize>())
    else {
        return wrong(notation);
    };
    if from <= 0.0 || to <= 0.0 {
        return wrong("use requests a second above 0");
    }
    if from >= to {
        return wrong("begin with the lower rate");
    }
    if !(2..=MOST).contains(&count) {
        return wrong("use 2 to 1000 rates");
    }
    let step = (to - from) / (count - 1) as f64;
    Ok((0..count).map(|nth| from + step * nth as f64).collect())
}

/// Plans every rate, and calls `progress` with the number of rates planned, the number of all, and the
/// newest point.
///
/// # Errors
///
/// If the task is invalid, or no rate can be served in any way; the error is the planner's of the
/// first rate.
pub fn sweep(
    task: &Task<'_>,
    rates: &[f64],
    progress: &dyn Fn(usize, usize, &Point),
) -> Result<Vec<Point>, Problems> {
    let all: Vec<GpuId> = task.topology.all_gpus().collect();
    let (mut points, mut why) = (Vec::new(), None);
    for rate in rates {
        let task = Task { rate: Some(*rate), ..task.clone() };
        task.check()?;
        let separate = match plan(&task) {
            Ok(plans) => plans.first().map(|plan| Side {
                gpus: plan.instances().flat_map(|one| one.instance.gpus()).collect(),
                goodput: plan.goodput(),
                times: plan.times(&task, *rate),
            }),
            Err(problems) => {
                why.get_or_insert(problems);
                None
            }
        };
        let enough = aggregated(&task, &all).filter(|one| one.goodput >= rate * 0.9999);
        let aggregated = enough.map(|one| Side {
            gpus: one.instances.iter().flat_map(|one| one.gpus()).collect(),
            goodput: one.goodput,
            times: one.times(&task, *rate),
        });
        points.push(Point { rate: *rate, separate, aggregated });
        progress(points.len(), rates.len(), &points[points.len() - 1]);
    }
    let none = points.iter().all(|one| one.separate.is_none() && one.aggregated.is_none());
    match why {
        Some(problems) if none => Err(problems),
        _ => Ok(points),
    }
}

impl Plan {
    /// The times at `rate`, of which each cell gets a share in proportion to its goodput: the mean
    /// TTFT of all, and the longest of the cells' other times.
    #[must_use]
    pub fn times(&self, task: &Task<'_>, rate: f64) -> Times {
        let mut all = Times { ttft: 0.0, ttft_within: 0.0, tpot: 0.0 };
        for cell in &self.cells {
            let share = cell.verdict.goodput / self.goodput();
            let own = cell.fleet.times(task, &cell.verdict, rate * share);
            all.ttft += share * own.ttft;
            all.ttft_within = all.ttft_within.max(own.ttft_within);
            all.tpot = all.tpot.max(own.tpot);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::TopologySpec;
    use crate::model::Subject;
    use crate::task::{Lengths, Slo};

    // A range has its two ends; a list stays as it is; anything else is refused with the notation.
    #[test]
    fn rates_are_read() {
        assert_eq!(rates("2..20/10").unwrap()[..2], [2.0, 4.0]);
        assert_eq!(rates("1..2/2").unwrap(), [1.0, 2.0]);
        assert_eq!(rates("5, 1").unwrap(), [5.0, 1.0]);
        assert_eq!(rates("1..10").unwrap().len(), 10);
        let wrong = ["", "a", "1..", "3..1/5", "1..2/1", "0..2/3", "1..NaN/3", "-1,2", "1..2/5000"];
        let errors: Vec<String> =
            wrong.iter().map(|text| rates(text).unwrap_err().to_string()).collect();
        expect_test::expect![[r#"
            rates: ; write A..B/N, as in 2..20/10, or a list, as in 2,5,10
            rates: a; write A..B/N, as in 2..20/10, or a list, as in 2,5,10
            rates: 1..; write A..B/N, as in 2..20/10, or a list, as in 2,5,10
            rates: 3..1/5; begin with the lower rate
            rates: 1..2/1; use 2 to 1000 rates
            rates: 0..2/3; use requests a second above 0
            rates: 1..NaN/3; write A..B/N, as in 2..20/10, or a list, as in 2,5,10
            rates: -1,2; use requests a second above 0
            rates: 1..2/5000; use 2 to 1000 rates"#]]
        .assert_eq(&errors.join("\n"));
    }

    // More requests never take fewer GPUs, each point can serve its rate in time, and a rate beyond
    // the topology has neither side.
    #[test]
    fn higher_rates_take_more() {
        let yaml = include_str!("../topologies/heroserve-testbed.yaml");
        let topology = TopologySpec::read(yaml).unwrap().build().unwrap();
        let subject = Subject::named("llama-3.1-8b").unwrap();
        let lengths = Lengths { mean: 300.0, cv: 0.5 };
        let slo = Slo { ttft: 2.5, tpot: 0.15, attainment: 0.9 };
        let task = Task::new(&topology, &subject, (lengths, lengths), slo);
        let told = core::cell::RefCell::new(Vec::new());
        let points = sweep(&task, &[1.0, 10.0, 30.0, 1e5], &|done, of, point| {
            told.borrow_mut().push((done, of, point.rate));
        })
        .unwrap();
        assert_eq!(*told.borrow(), [(1, 4, 1.0), (2, 4, 10.0), (3, 4, 30.0), (4, 4, 1e5)]);
        for side in [|one: &Point| one.separate.clone(), |one: &Point| one.aggregated.clone()] {
            let gpus: Vec<usize> =
                points.iter().filter_map(side).map(|side| side.gpus.len()).collect();
            assert!(gpus.is_sorted() && gpus.len() >= 2, "{gpus:?}");
            for point in &points[..gpus.len()] {
                let side = side(point).unwrap();
                assert!(side.goodput >= point.rate * 0.9999);
                assert!(side.times.ttft_within <= 2.5 && side.times.tpot <= 0.15, "{side:?}");
            }
        }
        assert_eq!((&points[3].separate, &points[3].aggregated), (&None, &None));
        assert!(sweep(&task, &[1e5], &|_, _, _| ()).unwrap_err().to_string().starts_with("rate"));
    }
}
