//! The figures of a run.

use meridian_fabric::PortName;
use meridian_sim::cluster::{Record, Report};
use serde::{Deserialize, Serialize};

use crate::bits;
use crate::dist::Dist;

/// The figures of one model in one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// Requests that count.
    pub requests: usize,
    /// Share of them whose first token was in time.
    #[serde(with = "bits")]
    pub attainment: f64,
    /// TTFT, ms.
    pub ttft: Dist,
    /// Mean TTFT over the request's own at low load.
    #[serde(with = "bits")]
    pub slowdown: f64,
    /// Mean time of an exchange that computation waited for, ms.
    #[serde(with = "bits")]
    pub cct: Option<f64>,
    /// Mean wait of a layer for its fetch, if it waited, ms.
    #[serde(with = "bits")]
    pub stall: Option<f64>,
    /// Mean time before the deadline of those in time, ms.
    #[serde(with = "bits")]
    pub earliness: Option<f64>,
    /// Mean time after the deadline of those that were late, ms.
    #[serde(with = "bits")]
    pub lateness: Option<f64>,
    /// Share of prompt tokens that were not computed.
    #[serde(with = "bits")]
    pub matched: f64,
    /// Requests that were given up, of all models.
    pub demoted: u64,
    /// Share of its rate that the busiest card carries in its busier direction, over the whole run.
    /// `None` if many other ports are busier than all cards.
    #[serde(with = "bits")]
    pub busiest_card: Option<f64>,
}

/// The share of requests, from the first, that fill the queues and do not count: one in this many.
const FILL: usize = 8;

impl Score {
    /// The figures of the pool with this index in the setup; `None` if no request counts.
    #[must_use]
    pub fn of(report: &Report, pool: usize) -> Option<Score> {
        let all: Vec<&Record> = report.records.iter().filter(|r| r.pool as usize == pool).collect();
        let counted = &all[all.len() / FILL..];
        let ms = |seconds: f64| seconds * 1e3;
        let mean = |values: Vec<f64>| {
            let sum: f64 = values.iter().sum();
            (!values.is_empty()).then(|| sum / values.len() as f64)
        };
        let earliness = || counted.iter().map(|record| ms(record.earliness()));
        let in_time = counted.iter().filter(|record| record.in_time()).count();
        let ttft = counted.iter().map(|record| ms(record.ttft().as_secs_f64()));
        let slow = counted.iter().map(|r| r.ttft().as_secs_f64() / r.alone.as_secs_f64());
        let tokens: f64 = counted.iter().map(|record| f64::from(record.tokens)).sum();
        let matched: f64 = counted.iter().map(|record| f64::from(record.matched)).sum();
        Some(Score {
            requests: counted.len(),
            attainment: in_time as f64 / counted.len() as f64,
            ttft: Dist::of(ttft.collect())?,
            slowdown: mean(slow.collect())?,
            cct: report.exchanges[pool].value().map(ms),
            stall: report.stalls[pool].value().map(ms),
            earliness: mean(earliness().filter(|early| *early >= 0.0).collect()),
            lateness: mean(earliness().filter(|early| *early < 0.0).map(|early| -early).collect()),
            matched: matched / tokens.max(1.0),
            demoted: report.demoted,
            busiest_card: busiest_card(report),
        })
    }
}

fn busiest_card(report: &Report) -> Option<f64> {
    let is_card = |name: PortName| matches!(name, PortName::CardIn(..) | PortName::CardOut(..));
    report.busiest.iter().find(|(_, name, _)| is_card(*name)).map(|(_, _, share)| *share)
}

#[cfg(test)]
mod tests {
    use super::*;
    use meridian_base::PortId;
    use meridian_fabric::Gpu;

    // Only cards count, in either direction: a GPU's NVLink may be busier.
    #[test]
    fn the_busiest_card_is_a_card() {
        let busiest = [
            (PortName::NvlinkOut(Gpu(0)), 0.9),
            (PortName::CardIn(1, 0), 0.4),
            (PortName::CardOut(0, 0), 0.3),
        ];
        let busiest = busiest.map(|(name, share)| (PortId(0), name, share)).to_vec();
        let report = Report { busiest, ..Report::default() };
        assert_eq!(busiest_card(&report), Some(0.4));
        assert_eq!(busiest_card(&Report::default()), None);
    }
}
