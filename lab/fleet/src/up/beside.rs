//! Expected results of another arrangement of the same fleet, for comparison with the run.
//!
//! The caller may compute them during the run; until then nothing is shown.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde::Serialize;

use crate::page;

/// The other arrangement, by second of the run.
#[derive(Debug, Clone)]
pub struct Beside {
    /// Its name: `region_local, simulated`.
    pub name: String,
    /// Seconds 0, 1, 2 and so on; empty until computed.
    pub seconds: Arc<OnceLock<Vec<Second>>>,
}

/// The clients' results up to a second of the run.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Second {
    /// For all regions.
    pub all: Figures,
    /// For each region.
    pub regions: Vec<Figures>,
}

/// Results of some clients.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Median TTFT; none before the first answer.
    pub ttft_p50_ms: Option<f64>,
    /// Its 99th percentile.
    pub ttft_p99_ms: Option<f64>,
    /// Cached share of the prompt tokens.
    pub prefix_hit_ratio: Option<f64>,
}

impl Beside {
    /// The results at this time; none before they are computed, and the last ones after their end.
    #[must_use]
    pub fn at(&self, elapsed: Duration) -> Option<&Second> {
        let seconds = self.seconds.get()?;
        let at = usize::try_from(elapsed.as_secs()).unwrap_or(usize::MAX);
        seconds.get(at.min(seconds.len().checked_sub(1)?))
    }

    /// A line of the summary.
    pub(super) fn line(&self, elapsed: Duration) -> Option<String> {
        let Figures { ttft_p50_ms, ttft_p99_ms, prefix_hit_ratio } = self.at(elapsed)?.all;
        let hit = prefix_hit_ratio.map_or("-".into(), |share| format!("{:.1} %", share * 100.0));
        let (p50, p99) = (page::ms(ttft_p50_ms), page::ms(ttft_p99_ms));
        Some(format!("{}: TTFT p50 {p50} p99 {p99}   prefix hit ratio {hit}", self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Nothing before they are computed; then the requested second, and after the end the last one.
    #[test]
    fn it_is_read_by_the_second() {
        let beside = Beside { name: "other".into(), seconds: Arc::default() };
        assert_eq!((beside.at(Duration::ZERO), beside.line(Duration::ZERO)), (None, None));
        let second = |ms| {
            let all = Figures { ttft_p50_ms: Some(ms), ..Figures::default() };
            Second { all, regions: Vec::new() }
        };
        beside.seconds.set(vec![second(1.0), second(2.0)]).unwrap();
        let p50 = |ms| beside.at(Duration::from_millis(ms)).unwrap().all.ttft_p50_ms;
        assert_eq!((p50(999), p50(1000), p50(900_000)), (Some(1.0), Some(2.0), Some(2.0)));
        let line = beside.line(Duration::ZERO).unwrap();
        assert_eq!(line, "other: TTFT p50 1 ms p99 -   prefix hit ratio -");
    }
}
