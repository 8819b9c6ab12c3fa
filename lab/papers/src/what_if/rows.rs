//! A row of the answer: a policy on a fleet, over all seeds.

use meridian_routing::ShadowTotals;
use meridian_tools::load::Quantiles;

use super::fleet::{fleet, shown, usd_per_hour};
use super::measured::Measured;
use super::overload::Overload;
use super::question::Question;
use super::run::Cell;

/// A policy on a fleet: means over the seeds, and each seed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// The policy.
    pub policy: String,
    /// The policy's own name; the same, unless it was given as a file.
    pub spec: &'static str,
    /// `whole`, or `pools` with the share of prefill replicas.
    pub arrangement: String,
    /// Replicas.
    pub replicas: u32,
    /// GPUs of all replicas.
    pub gpus: u32,
    /// The GPUs by kind and role.
    pub fleet: String,
    /// Requests sent in the measured window.
    pub requests: f64,
    /// Answers a second that met the objective.
    pub goodput_rps: f64,
    /// Answers a second.
    pub throughput_rps: f64,
    /// Share of the requests that met the objective.
    pub met: f64,
    /// The same of the region with the smallest share.
    pub met_least: f64,
    /// Share of the requests that a gateway refused or that broke.
    pub refused: f64,
    /// Share of the requests that are longer than the model's context.
    pub invalid: f64,
    /// Share of the requests whose reply ends at the model's context, before its recorded end.
    pub cut: f64,
    /// Share of the prompt tokens that were cached.
    pub hits: f64,
    /// Share of the requests that another region served.
    pub forwarded: f64,
    /// Share of the requests whose prompt another replica computed.
    pub split: f64,
    /// Ms, of complete answers.
    pub ttft_ms: Option<Quantiles>,
    /// Ms a token after the first, of complete answers.
    pub tpot_ms: Option<Quantiles>,
    /// USD an hour for the GPUs; `None` if a price is unknown.
    pub gpu_usd_per_hour: Option<f64>,
    /// USD an hour for bytes between regions.
    pub egress_usd_per_hour: f64,
    /// What is wrong with the fleet; `None` if it and every larger one keep up.
    pub overloaded: Option<Overload>,
    /// Whether it keeps up and the objective's share of the requests met it, as on every larger one.
    pub meets: bool,
    /// The measurements under each seed.
    pub(super) runs: Vec<Measured>,
}

impl Row {
    /// The row of a cell with the measurements of its seeds.
    pub(super) fn of(question: &Question, cell: Cell<'_>, runs: &[Measured]) -> Row {
        let mean =
            |of: fn(&Measured) -> f64| runs.iter().map(of).sum::<f64>() / runs.len().max(1) as f64;
        let quantiles = |of: fn(&Measured) -> Option<Quantiles>| {
            Quantiles::mean_of(&runs.iter().filter_map(of).collect::<Vec<_>>())
        };
        let spec = fleet(question, cell.replicas, cell.arrangement);
        let overloaded = Overload::of(runs, &question.slo);
        let (met, met_least) = (mean(|run| run.met), mean(|run| run.met_least));
        let judged = if question.each_region { met_least } else { met };
        Row {
            policy: cell.policy.name.clone(),
            spec: cell.policy.spec.name,
            arrangement: cell.arrangement.to_string(),
            replicas: cell.replicas,
            gpus: cell.replicas * question.tp,
            fleet: shown(&spec),
            requests: mean(|run| run.requests),
            goodput_rps: mean(|run| run.goodput_rps),
            throughput_rps: mean(|run| run.throughput_rps),
            met,
            met_least,
            refused: mean(|run| run.refused),
            invalid: mean(|run| run.invalid),
            cut: mean(|run| run.cut),
            hits: mean(|run| run.hits),
            forwarded: mean(|run| run.forwarded),
            split: mean(|run| run.split),
            ttft_ms: quantiles(|run| run.ttft_ms),
            tpot_ms: quantiles(|run| run.tpot_ms),
            gpu_usd_per_hour: usd_per_hour(question, &spec),
            egress_usd_per_hour: mean(|run| run.egress_usd),
            meets: overloaded.is_none() && judged >= question.slo.share,
            overloaded,
            runs: runs.to_vec(),
        }
    }

    /// Decisions of a shadow policy, of all seeds and with the warm-up.
    #[must_use]
    pub fn shadow(&self) -> ShadowTotals {
        self.runs.iter().fold(ShadowTotals::default(), |mut all, run| {
            all.merge(&run.shadow);
            all
        })
    }

    /// USD an hour for everything; `None` if a price is unknown.
    #[must_use]
    pub fn usd_per_hour(&self) -> Option<f64> {
        Some(self.gpu_usd_per_hour? + self.egress_usd_per_hour)
    }
}
