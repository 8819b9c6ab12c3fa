//! The runs of a sweep: every system in every case, at every rate, under every seed.
//!
//! A system's value in a cell is a mean over seeds. Two systems are compared by the ratio of their
//! means, resampled in pairs, since both see the same requests under one seed.

use anyhow::ensure;
use meridian_sim::cluster;
use meridian_tools::cluster::{File, Score, setup};
use meridian_tools::results;
use meridian_tools::stats::{self, Mean};
use serde_json::Value;

use crate::experiment::spec::FlowSweep;
use crate::experiment::{Context, params};

/// A cell: indices of a case, one of its rates, and a system.
pub(super) type At = (usize, usize, usize);

/// Every run of a sweep, by cell and seed.
pub(super) struct Sweep<'a> {
    pub(super) spec: &'a FlowSweep,
    cells: Vec<At>,
    /// By cell: a score for each seed and each model.
    scores: Vec<Vec<Score>>,
}

impl<'a> Sweep<'a> {
    /// Runs every cell.
    ///
    /// # Errors
    /// If the cluster, a model or a system is invalid.
    pub(crate) fn run(spec: &'a FlowSweep, context: &Context<'_>) -> anyhow::Result<Sweep<'a>> {
        ensure!(!spec.systems.is_empty(), "systems is empty: name at least one");
        let mut cells = Vec::new();
        for (case, of) in spec.cases.iter().enumerate() {
            for rate in 0..of.rates.len() {
                cells.extend((0..spec.systems.len()).map(|system| (case, rate, system)));
            }
        }
        let seeds = context.seeds as usize;
        let at = |nth: usize| (cells[nth / seeds], context.spec.first_seed + (nth % seeds) as u64);
        let names: Vec<String> = (0..cells.len() * seeds)
            .map(|nth| format!("{}, seed {}", name(spec, at(nth).0), at(nth).1))
            .collect();
        let params = params::of_text(&serde_json::to_string(spec)?);
        let runs = context.runs.round(&params, &names, context.progress, |nth| {
            let (cell, seed) = at(nth);
            one(spec, cell, seed)
        })?;
        let scores = runs.chunks(seeds).map(<[Vec<Score>]>::concat).collect();
        Ok(Sweep { spec, cells, scores })
    }

    /// The index of the system with this name.
    pub(super) fn place(&self, name: &str) -> Option<usize> {
        self.spec.systems.iter().position(|system| system.name == name)
    }

    fn cell(&self, at: At) -> &[Score] {
        let nth = self.cells.iter().position(|cell| *cell == at).expect("every cell was run");
        &self.scores[nth]
    }

    /// A cell's mean over seeds.
    pub(super) fn mean(&self, at: At, of: impl Fn(&Score) -> Option<f64>) -> Option<Mean> {
        let values: Vec<f64> = self.cell(at).iter().filter_map(of).collect();
        stats::mean(&values)
    }

    /// A cell's share of requests in time.
    pub(super) fn share(&self, at: At) -> Option<f64> {
        self.mean(at, |score| Some(score.attainment)).map(|mean| mean.mean)
    }

    /// One value of two cells, by seed; seeds in which either is missing are left out.
    pub(super) fn pairs(
        &self,
        a: At,
        b: At,
        of: impl Fn(&Score) -> Option<f64>,
    ) -> (Vec<f64>, Vec<f64>) {
        let both = self.cell(a).iter().zip(self.cell(b));
        both.filter_map(|(a, b)| Some((of(a)?, of(b)?))).unzip()
    }

    /// The ratio of two cells' means, paired by seed.
    pub(super) fn over(&self, a: At, b: At, of: impl Fn(&Score) -> Option<f64>) -> Option<Mean> {
        let (a, b) = self.pairs(a, b, of);
        stats::ratio_of_means(&a, &b)
    }

    /// Of the systems named, the one with the most requests in time in a case at a rate.
    pub(super) fn best(&self, case: usize, rate: usize, names: &[String]) -> Option<usize> {
        let systems = names.iter().filter_map(|name| self.place(name));
        let shares = systems.filter_map(|one| Some((self.share((case, rate, one))?, one)));
        shares.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, system)| system)
    }

    /// A row of `results.json` for each cell.
    pub(super) fn rows(&self) -> Vec<Value> {
        let row = |(cell, scores): (&At, &Vec<Score>)| {
            let (case, rate, system) = *cell;
            let case = &self.spec.cases[case];
            let workload = format!("{} at {}", case.name, case.rates[rate]);
            let mean = |of: fn(&Score) -> Option<f64>| {
                let values: Vec<f64> = scores.iter().filter_map(of).collect();
                serde_json::json!(stats::mean(&values).map(|mean| mean.mean))
            };
            let given = [
                ("slo_attainment", mean(|score| Some(score.attainment))),
                ("ttft_ms.mean", mean(|score| Some(score.ttft.mean))),
                ("ttft_ms.p50", mean(|score| Some(score.ttft.p(50)))),
                ("ttft_ms.p90", mean(|score| Some(score.ttft.p(90)))),
                ("ttft_ms.p95", mean(|score| Some(score.ttft.p(95)))),
                ("ttft_ms.p99", mean(|score| Some(score.ttft.p(99)))),
                ("prefix_hit_ratio", mean(|score| Some(score.matched))),
                ("cct_ms", mean(|score| score.cct)),
                ("earliness_ms", mean(|score| score.earliness)),
                ("busiest_card", mean(|score| score.busiest_card)),
            ];
            results::bare(&self.spec.systems[system].name, &workload, &given)
        };
        self.cells.iter().zip(&self.scores).map(row).collect()
    }
}

/// A ratio with its interval.
pub(super) fn interval(Mean { mean, low, high }: Mean) -> String {
    format!("{mean:.2} ({low:.2} to {high:.2})")
}

fn name(spec: &FlowSweep, (case, rate, system): At) -> String {
    let case = &spec.cases[case];
    format!("{} at {}, {}", case.name, case.rates[rate], spec.systems[system].name)
}

/// One run: a score for each model.
fn one(spec: &FlowSweep, at: At, seed: u64) -> anyhow::Result<Vec<Score>> {
    let file = file(spec, at);
    let report = cluster::run(&setup(&file, spec.systems[at.2].policy(), seed)?)?;
    Ok((0..file.models.len()).filter_map(|nth| Score::of(&report, nth)).collect())
}

/// The sweep's cluster with the settings of a case, a rate and a system.
fn file(spec: &FlowSweep, (case, rate, system): At) -> File {
    let (case, system) = (&spec.cases[case], &spec.systems[system]);
    let mut file = File { models: case.models.clone(), ..spec.cluster.clone() };
    file.models.iter_mut().for_each(|served| served.load.rate = Some(case.rates[rate]));
    file.network = case.network.unwrap_or(file.network);
    file.card = case.card.unwrap_or(file.card);
    file.enforce = system.enforce.unwrap_or(file.enforce);
    file.coordinator = system.coordinator.or(file.coordinator);
    (file.flow, file.shared) = (system.flow.clone(), !system.apart);
    file
}

#[cfg(test)]
mod tests {
    use super::*;
    use meridian_protocol::units::Span;
    use meridian_tools::cluster::file::Coordinator;
    use meridian_tools::cluster::file::Enforce;
    use meridian_tools::cluster::file::Rate;

    const SWEEP: &str = "
cluster: {card: 50Gbps, models: [], enforce: host}
cases:
  - {name: usual, rates: [1.0], models: []}
  - {name: slow, rates: [1.0], models: [], card: 25Gbps}
systems:
  - {name: mfs}
  - {name: late, policy: mfs, enforce: classes, coordinator: {delay: 5ms, loss: 0.1}, apart: true}
quick_requests: 1
";

    // A case's card and a system's settings replace the cluster's; without them the cluster's stay.
    #[test]
    fn cases_and_systems_replace_settings() {
        let spec: FlowSweep = meridian_tools::yaml::read(SWEEP, "a sweep").unwrap();
        let usual = file(&spec, (0, 0, 0));
        assert_eq!((usual.card, usual.enforce), (Rate(6.25e9), Enforce::Host));
        assert_eq!((usual.coordinator, usual.shared), (None, true));
        let late = file(&spec, (1, 0, 1));
        assert_eq!((late.card, late.enforce), (Rate(3.125e9), Enforce::Classes));
        let coordinator = Coordinator { delay: Span::millis(5), loss: 0.1 };
        assert_eq!((late.coordinator, late.shared), (Some(coordinator), false));
    }
}
