//! Flow scheduling on a few hosts, simulated and on real sockets.
//!
//! [`plan`] fixes every byte by the seed, [`flows`] gives them to the simulator, [`mod@live`] to processes
//! in network namespaces, and [`compare`] puts the two side by side.
//!
//! Deliberately not here: a model. Computing is time that passes, and KV is bytes without content.

mod compare;
mod doctor;
mod flows;
mod forecast;
mod live;
mod plan;
mod score;
mod settings;

use anyhow::Context as _;
use meridian_base::Time;
use meridian_sim::cluster::{self, Enforce};
use meridian_tools::cluster::file::Flow as Settings;
use meridian_tools::cluster::plan::config;
use meridian_tools::results;
use serde_json::json;

use crate::experiment::runner::Progress;
use crate::experiment::spec::{FlowTestbed, Gated, TestbedSystem};
use crate::experiment::{Context, Findings, params};
use live::Live;
use plan::Plan;
use score::{Ends, Score};

/// The system that the others are compared with.
const FAIR: &str = "fair";

/// A plan and its simulated results.
struct Simulated {
    plan: Plan,
    /// By system.
    scores: Vec<Score>,
    /// The busiest port's mean use under fair sharing.
    busiest: f64,
}

/// Runs the simulated side.
///
/// # Errors
/// If the file is invalid.
pub(in crate::experiment) fn run(context: &Context<'_>) -> anyhow::Result<Findings> {
    of_each_seed(context, |spec, seed| {
        let simulated = simulated(spec, seed, context.progress)?;
        Ok(Findings {
            rows: rows(spec, &simulated.scores, false),
            tables: vec![compare::simulated(spec, &simulated)],
            ..Findings::default()
        })
    })
}

/// Runs both sides, and compares them.
///
/// # Errors
/// If the file is invalid, the machine lacks something that the hosts need, or a process fails.
pub(in crate::experiment) fn live(context: &Context<'_>) -> anyhow::Result<Findings> {
    of_each_seed(context, |spec, seed| {
        let simulated = simulated(spec, seed, context.progress)?;
        let rounds = live::rounds(spec, &simulated.plan, context.progress)?;
        let mut found = side_by_side(spec, &simulated, &rounds);
        if context.quick {
            // A few requests of the small variant say nothing about an order.
            found.violations.clear();
        }
        Ok(found)
    })
}

/// The findings of every seed together.
fn of_each_seed(
    context: &Context<'_>,
    run: impl Fn(&FlowTestbed, u64) -> anyhow::Result<Findings>,
) -> anyhow::Result<Findings> {
    let spec = settings::read(context)?;
    let mut all = Findings {
        legend: compare::legend(),
        params: params::of_text(&serde_json::to_string(&spec)?),
        ..Findings::default()
    };
    for seed in (context.spec.first_seed..).take(context.seeds as usize) {
        let mut found = run(&spec, seed)?;
        for row in &mut found.rows {
            row["seed"] = seed.into();
        }
        if context.seeds > 1 {
            found.tables.iter_mut().for_each(|table| table.title += &format!(", seed {seed}"));
            found.violations.iter_mut().for_each(|line| *line += &format!(" (seed {seed})"));
        }
        all.rows.extend(found.rows);
        all.tables.extend(found.tables);
        all.violations.extend(found.violations);
    }
    Ok(all)
}

/// The rows, tables and differences of both sides.
fn side_by_side(spec: &FlowTestbed, simulated: &Simulated, rounds: &[Vec<Live>]) -> Findings {
    let medians: Vec<Live> = rounds.iter().map(|runs| Live::median(runs)).collect();
    let scores: Vec<Score> = medians.iter().map(|run| run.score).collect();
    let mut all = rows(spec, &simulated.scores, false);
    let live = rows(spec, &scores, true).into_iter().zip(&medians);
    all.extend(live.map(|(mut row, run)| {
        row["gated_bytes"] = run.gated.into();
        row["failed_calls"] = run.problems.into();
        row
    }));
    let compared = compare::Compared::new(spec, &scores, &simulated.scores);
    Findings {
        rows: all,
        tables: vec![
            compared.table(),
            compare::runs(spec, rounds),
            compare::simulated(spec, simulated),
            doctor::table(spec, rounds, &compared),
        ],
        violations: compared.opposites(),
        ..Findings::default()
    }
}

/// Draws the plan with its objectives, and simulates every system.
fn simulated(spec: &FlowTestbed, seed: u64, progress: &Progress<'_>) -> anyhow::Result<Simulated> {
    let mut plan = Plan::draw(spec, spec.load.requests, seed);
    let fair = TestbedSystem {
        name: FAIR.to_owned(),
        policy: FAIR.to_owned(),
        gate: Gated::None,
        classes: false,
        lose_coordinator: false,
    };
    let low = (0..spec.load.requests).map(|nth| {
        let alone = plan.alone(spec, nth);
        Ok(simulate(&alone, &fair)?.0.requests[0])
    });
    let low: Vec<f64> = low.collect::<anyhow::Result<_>>()?;
    plan.promise(spec, &low, seed);
    let (mut scores, mut busiest) = (Vec::new(), 0.0);
    for (nth, system) in spec.systems.iter().enumerate() {
        let (ends, used) = simulate(&plan, system).with_context(|| system.name.clone())?;
        scores.push(Score::of(&plan, &ends));
        if system.name == FAIR {
            busiest = used;
        }
        progress(nth + 1, spec.systems.len(), &format!("{}, simulated", system.name));
    }
    Ok(Simulated { plan, scores, busiest })
}

/// The ends of a plan under a system, and the busiest port's mean use.
fn simulate(plan: &Plan, system: &TestbedSystem) -> anyhow::Result<(Ends, f64)> {
    let enforce = match system.gate {
        Gated::None | Gated::Kv => Enforce::Total,
        Gated::All if system.classes => Enforce::Host,
        Gated::All => Enforce::Sender,
    };
    let given = flows::given(plan, config(&Settings::default(), &system.policy)?, enforce)?;
    let report = cluster::given(&given)?;
    let most = report.carried.iter().fold(0.0_f64, |most, bytes| most.max(*bytes));
    let whole = plan.rate * report.end.since(Time::ZERO).as_secs_f64();
    Ok((Ends::simulated(plan, &given, &report), most / whole))
}

fn rows(spec: &FlowTestbed, scores: &[Score], live: bool) -> Vec<serde_json::Value> {
    let row = |(system, score): (&TestbedSystem, &Score)| {
        let given = [
            ("slo_attainment", json!(score.in_time)),
            ("ttft_ms.mean", json!(score.ttft)),
            ("cct_ms", json!(score.exchange)),
        ];
        let mut row = results::bare(&system.name, "testbed", &given);
        row["live"] = live.into();
        row
    };
    spec.systems.iter().zip(scores).map(row).collect()
}

#[cfg(test)]
mod tests;
