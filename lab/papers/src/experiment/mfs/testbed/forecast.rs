//! A forecast of `meridian flow doctor`, read from its JSON.

use serde::Deserialize;

/// The part of a host's report that forecasts, as `--json` prints it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Forecast {
    pub(super) use_percent: f64,
    pub(super) workloads: Vec<Workload>,
    pub(super) recommendation: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Workload {
    pub(super) workload: String,
    /// Requests in time over fair sharing.
    pub(super) two_class_floor: Interval,
    pub(super) mfs: Interval,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Interval {
    pub(super) mean: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Forecast {
    /// That of the busiest host.
    ///
    /// # Errors
    /// If a report has no forecast.
    pub(super) fn busiest(reports: &[Vec<u8>]) -> anyhow::Result<Option<Forecast>> {
        #[derive(Deserialize)]
        struct ForecastReport {
            worth: Forecast,
        }
        let read = |text: &Vec<u8>| Ok(serde_json::from_slice::<ForecastReport>(text)?.worth);
        let all = reports.iter().map(read).collect::<anyhow::Result<Vec<_>>>()?;
        Ok(all.into_iter().max_by(|a, b| a.use_percent.total_cmp(&b.use_percent)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The busiest host's forecast counts; a report without one is an error.
    #[test]
    fn the_busiest_host_counts() {
        let report = |used: f64| {
            let text = format!(
                r#"{{"worth": {{"use_percent": {used}, "workloads": [], "recommendation": "nothing"}}}}"#
            );
            text.into_bytes()
        };
        let busiest = Forecast::busiest(&[report(3.0), report(41.5), report(7.0)]).unwrap();
        assert!((busiest.unwrap().use_percent - 41.5).abs() < 1e-9);
        assert!(Forecast::busiest(&[b"{}".to_vec()]).is_err());
    }
}
