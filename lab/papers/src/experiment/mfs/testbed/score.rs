//! The result of a run, the same for a simulated and a live one.

use meridian_base::Time;
use meridian_flow::Stage;
use meridian_sim::cluster::{Given, GivenReport};
use meridian_tools::stats;
use serde::Deserialize;

use super::plan::Plan;

/// One in this many requests, from the first, fills the queues and does not count.
const FILL: usize = 8;

/// When things ended, in seconds from the start of the run.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub(super) struct Ends {
    /// By request: its last byte at the decode host, and the last exchange of its batch.
    pub(super) requests: Vec<f64>,
    /// The time of each direction of each exchange.
    pub(super) exchanges: Vec<f64>,
}

/// The figures of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Score {
    /// Share of requests in time.
    pub(super) in_time: f64,
    /// Mean TTFT, ms.
    pub(super) ttft: f64,
    /// Mean time of an exchange, ms.
    pub(super) exchange: f64,
}

impl Score {
    pub(super) fn of(plan: &Plan, ends: &Ends) -> Score {
        let all = plan.requests.iter().zip(&ends.requests);
        let counted: Vec<_> = all.skip(plan.requests.len() / FILL).collect();
        let ttft = |(request, end): &(&super::plan::Planned, &f64)| **end - request.arrival;
        let met = counted.iter().filter(|one| ttft(one) <= one.0.slo).count();
        let times: Vec<f64> = counted.iter().map(ttft).collect();
        let ms = |values: &[f64]| stats::mean(values).map_or(0.0, |mean| mean.mean * 1e3);
        Score {
            in_time: met as f64 / counted.len().max(1) as f64,
            ttft: ms(&times),
            exchange: ms(&ends.exchanges),
        }
    }
}

impl Ends {
    /// Those of a simulated run.
    pub(super) fn simulated(plan: &Plan, given: &Given, report: &GivenReport) -> Ends {
        let mut batches = vec![0.0_f64; plan.batches.len()];
        let mut ends = Ends { requests: vec![0.0; plan.requests.len()], exchanges: Vec::new() };
        for (flow, ran) in given.flows.iter().zip(&report.flows) {
            let end = ran.ended.since(Time::ZERO).as_secs_f64();
            let request = flow.request as usize;
            match flow.stage {
                Stage::Reuse => {}
                Stage::Collective => {
                    let batch = &mut batches[plan.requests[request].batch as usize];
                    *batch = batch.max(end);
                    ends.exchanges.push(ran.ended.since(ran.began).as_secs_f64());
                }
                Stage::Handoff => ends.requests[request] = ends.requests[request].max(end),
            }
        }
        for (request, end) in plan.requests.iter().zip(&mut ends.requests) {
            *end = end.max(batches[request.batch as usize]);
        }
        ends
    }
}
