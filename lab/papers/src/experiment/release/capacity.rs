//! The capacity of a drawn fleet: the most that any of five systems answers a second when more is
//! offered.
//!
//! One system finds the range: the rate doubles until it is too much. Then all systems run under
//! 1.3 times what was answered, and the rate rises until none of them keeps up.

use meridian_base::Duration;
use meridian_tools::bits;
use serde::{Deserialize, Serialize};

use crate::experiment::plan::{Cell, Plan};
use crate::experiment::spec::CapacityRuns;
use crate::experiment::{Context, build, params};

/// Requests a second that a replica is offered first.
const FIRST: f64 = 0.25;
/// What is offered, over what was answered.
const OVER: f64 = 1.3;
/// A system keeps up if it answers this share of the requests that were sent in the window...
const OF_SENT: f64 = 0.9;
/// ...and of those that were offered. Later turns of a conversation are not sent while earlier ones
/// wait, so those sent alone would hide an overload; and chance moves the number of arrivals.
const OF_OFFERED: f64 = 0.8;
/// Fewer requests say nothing.
const FEWEST: f64 = 50.0;
/// Most rates that are tried in each of the two parts.
const MOST: usize = 16;

/// A measured capacity.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Capacity {
    /// Requests a second that were answered.
    #[serde(with = "bits")]
    pub(super) answered: f64,
    /// Requests a second that were offered.
    #[serde(with = "bits")]
    pub(super) offered: f64,
    /// The system that answered them.
    pub(super) by: String,
}

/// The capacity of each workload of `plan`, whose loads have a capacity of 1: there, a level is a
/// rate.
///
/// # Errors
/// When a scenario can't be made.
pub(crate) fn measure(
    context: &Context<'_>,
    plan: &Plan,
    runs: &CapacityRuns,
) -> anyhow::Result<Vec<Capacity>> {
    let names: Vec<String> =
        plan.workloads.iter().map(|one| format!("capacity of {}", one.0.name)).collect();
    context.runs.round(&params::hash(plan)?, &names, context.progress, |nth| {
        Search { context, plan, runs, nth }.capacity()
    })
}

struct Search<'a> {
    context: &'a Context<'a>,
    plan: &'a Plan,
    runs: &'a CapacityRuns,
    nth: usize,
}

impl Search<'_> {
    fn capacity(&self) -> anyhow::Result<Capacity> {
        let fleet = &self.plan.fleets[self.fleet()];
        let mut offered = FIRST * fleet.replicas() as f64;
        for _ in 0..MOST {
            let run = self.run(offered, 0, self.runs.first_seed)?;
            if !run.keeps_up {
                offered = OVER * run.answered;
                break;
            }
            offered *= 2.0;
        }
        let mut best = Capacity::default();
        for _ in 0..MOST {
            let mut kept_up = false;
            for system in 0..self.plan.systems.len() {
                let run = self.mean(offered, system)?;
                kept_up |= run.keeps_up;
                if run.answered > best.answered {
                    let by = self.plan.systems[system].0.name.clone();
                    best = Capacity { answered: run.answered, offered, by };
                }
            }
            if !kept_up {
                break;
            }
            offered *= OVER;
        }
        Ok(best)
    }

    /// A system under all seeds; it keeps up if it does so under any.
    fn mean(&self, offered: f64, system: usize) -> anyhow::Result<Run> {
        let mut all = Run { answered: 0.0, keeps_up: false };
        for seed in 0..self.runs.seeds {
            let run = self.run(offered, system, self.runs.first_seed + seed)?;
            all.answered += run.answered / self.runs.seeds as f64;
            all.keeps_up |= run.keeps_up;
        }
        Ok(all)
    }

    /// The fleet of the workload: each has its own.
    fn fleet(&self) -> usize {
        let names = &self.plan.workloads[self.nth].0.fleets;
        self.plan.fleets.iter().position(|fleet| names.contains(&fleet.name)).unwrap_or(0)
    }

    fn run(&self, offered: f64, system: usize, seed: u64) -> anyhow::Result<Run> {
        let mut plan = self.plan.clone();
        plan.workloads[self.nth].0.level = Some(offered);
        let cell = Cell { workload: self.nth, fleet: self.fleet(), system };
        let report = (self.context.simulate)(build::scenario(&plan, cell, seed)?)?;
        let window = report.window.max(Duration::from_millis(1)).as_secs_f64();
        let (done, sent) = (report.done_in_window as f64, report.requests.len() as f64);
        let few = offered * window < FEWEST;
        let all = done >= OF_SENT * sent && done >= OF_OFFERED * offered * window;
        Ok(Run { answered: done / window, keeps_up: few || all })
    }
}

/// The result of one or several runs.
struct Run {
    /// Requests a second that were answered.
    answered: f64,
    /// Whether they are nearly all.
    keeps_up: bool,
}
