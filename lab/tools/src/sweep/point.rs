//! One measured rate.

use serde::Serialize;

use crate::load::{ErrorKind, Quantiles, Report, Slo};

/// Lateness of the client's own sends, in ms, up to which it keeps up.
const LATE_MS: f64 = 20.0;
/// The same as a share of the objective's TTFT, if that is longer.
const LATE_SHARE: f64 = 0.05;

/// The part of a sweep that a measurement belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// A rate of the list, or of the search.
    Search,
    /// The rate that the search found, measured again.
    Confirm,
}

/// A rate with its measurements.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Its part of the sweep.
    pub phase: Phase,
    /// The round, from 1.
    pub round: u32,
    /// Requests a second that were to be sent.
    pub rate: f64,
    /// Requests a second that were answered.
    pub throughput_rps: f64,
    /// Those within the objective.
    pub goodput_rps: f64,
    /// Share of the measured requests that were answered within the objective.
    pub attainment: f64,
    /// Requests of the whole run that were sent, answered, and failed.
    pub sent: u64,
    /// Answered.
    pub ok: u64,
    /// Failed with status 429.
    pub http_429: u64,
    /// Failed with status 503.
    pub http_503: u64,
    /// Failed otherwise.
    pub other_errors: u64,
    /// TTFT.
    pub ttft_ms: Option<Quantiles>,
    /// Time per token after the first.
    pub tpot_ms: Option<Quantiles>,
    /// Whole requests.
    pub e2e_ms: Option<Quantiles>,
    /// Programs that were not started, because too many were running.
    pub shed: u64,
    /// How late the client sent, p99.
    pub lateness_ms: f64,
    /// Whether the client itself could not keep up, so that the rate says nothing.
    pub client_is_slow: bool,
    /// Whether the objective was met.
    pub met: bool,
}

impl Point {
    /// The point of a finished run; `None` if no request was measured.
    pub(super) fn of(report: &Report, at: (Phase, u32, f64), slo: Slo) -> Option<Point> {
        let (phase, round, rate) = at;
        let row = report.rows.first()?;
        let attainment = row.slo_attainment?;
        let lateness_ms = report.lateness_ms.map_or(0.0, |lateness| lateness.p99);
        let limit = slo.ttft.map_or(0.0, |ttft| ttft.as_secs_f64() * 1e3 * LATE_SHARE);
        let client_is_slow = lateness_ms > limit.max(LATE_MS);
        // Programs that were not started because too many were open are load that was not carried.
        let shed = report.counts.shed;
        let [http_429, http_503] =
            [ErrorKind::Http429, ErrorKind::Http503].map(|kind| report.errors_of(kind));
        Some(Point {
            phase,
            round,
            rate,
            throughput_rps: row.throughput_rps.unwrap_or(0.0),
            goodput_rps: row.goodput_rps.unwrap_or(0.0),
            attainment,
            sent: report.counts.sent,
            ok: report.counts.ok,
            http_429,
            http_503,
            other_errors: report.counts.errors - http_429 - http_503,
            ttft_ms: row.ttft_ms,
            tpot_ms: row.tpot_ms,
            e2e_ms: row.e2e_ms,
            lateness_ms,
            client_is_slow,
            shed,
            met: attainment >= slo.share && !client_is_slow && shed == 0,
        })
    }

    /// Whether not one request was answered.
    pub(super) fn is_dead(&self) -> bool {
        self.ok == 0 && self.sent > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Row;

    fn point(late_ms: f64, shed: u64, slo: &str) -> Point {
        let mut report = Report::blank();
        report.rows = vec![Row { slo_attainment: Some(0.97), ..Row::default() }];
        report.lateness_ms =
            Some(Quantiles { mean: 1.0, p50: 1.0, p90: 1.0, p95: 1.0, p99: late_ms });
        report.counts.shed = shed;
        let slo = slo.parse().expect("a good objective");
        Point::of(&report, (Phase::Search, 1, 10.0), slo).expect("it was measured")
    }

    // A client that sends more than 20 ms late, or more than a twentieth of the objective's TTFT, is
    // slow, and its rate meets nothing; neither does one at which programs were not started.
    #[test]
    fn late_clients_are_noticed() {
        let on_time = point(19.0, 0, "ttft=100ms");
        assert!(on_time.met && !on_time.client_is_slow);
        let late = point(21.0, 0, "ttft=100ms");
        assert!(!late.met && late.client_is_slow);
        assert!(!point(49.0, 0, "ttft=1s").client_is_slow);
        assert!(point(51.0, 0, "ttft=1s").client_is_slow);
        let full = point(1.0, 1, "ttft=100ms");
        assert!(!full.met && !full.client_is_slow);
        assert!(!point(1.0, 0, "ttft=100ms,share=0.98").met);
    }
}
