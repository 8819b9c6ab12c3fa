//! The forecast of `meridian flow doctor` on the testbed, beside what was measured.
//!
//! Each host runs the doctor while requests arrive under fair sharing, as an operator would before
//! anything is changed. The busiest host's forecast counts.

use serde::Deserialize;

use super::FAIR;
use super::compare::Compared;
use super::live::Live;
use crate::experiment::spec::{FlowTestbed, Gated, TestbedSystem};
use crate::experiment::table::Table;

/// The part of a host's report that forecasts, as `--json` prints it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Forecast {
    use_percent: f64,
    workloads: Vec<Workload>,
    recommendation: String,
}

#[derive(Clone, Debug, Deserialize)]
struct Workload {
    workload: String,
    /// Requests in time over fair sharing.
    two_class_floor: Interval,
    mfs: Interval,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct Interval {
    mean: f64,
    low: f64,
    high: f64,
}

impl Forecast {
    /// That of the busiest host.
    ///
    /// # Errors
    /// If a report has no forecast.
    pub(super) fn busiest(reports: &[Vec<u8>]) -> anyhow::Result<Option<Forecast>> {
        #[derive(Deserialize)]
        struct Report {
            worth: Forecast,
        }
        let read = |text: &Vec<u8>| Ok(serde_json::from_slice::<Report>(text)?.worth);
        let all = reports.iter().map(read).collect::<anyhow::Result<Vec<_>>>()?;
        Ok(all.into_iter().max_by(|a, b| a.use_percent.total_cmp(&b.use_percent)))
    }
}

/// The forecast of a row, if the doctor has one for what the system does.
fn of(system: &TestbedSystem) -> Option<fn(&Workload) -> Interval> {
    match (system.gate, system.classes) {
        (Gated::None, true) => Some(|one| one.two_class_floor),
        (Gated::All, true) => Some(|one| one.mfs),
        _ => None,
    }
}

/// Forecast and measurement, in requests in time over fair sharing.
pub(super) fn table(spec: &FlowTestbed, rounds: &[Vec<Live>], compared: &Compared) -> Table {
    let fair = spec.systems.iter().position(|system| system.name == FAIR).unwrap_or(0);
    let mut all: Vec<&Forecast> =
        rounds[fair].iter().filter_map(|run| run.forecast.as_ref()).collect();
    all.sort_by(|a, b| a.use_percent.total_cmp(&b.use_percent));
    let Some(median) = all.get(all.len() / 2) else { return Table::new("No forecast", &[]) };
    let title = format!(
        "In time over fair sharing: forecast of `meridian flow doctor` at {:.0} % use of the \
         busiest card, which recommends {}",
        median.use_percent, median.recommendation
    );
    let names = median.workloads.iter().map(|one| format!("forecast, {}", one.workload));
    let header: Vec<String> =
        ["system".to_owned()].into_iter().chain(names).chain(["measured".to_owned()]).collect();
    let mut table = Table::new(title, &header.iter().map(String::as_str).collect::<Vec<_>>());
    for system in &spec.systems {
        let Some(get) = of(system) else { continue };
        let shown = |one: &Workload| {
            let Interval { mean, low, high } = get(one);
            format!("{mean:.2} ({low:.2} to {high:.2})")
        };
        let forecast = median.workloads.iter().map(shown);
        let measured = format!("{:.2}", compared.in_time(&system.name));
        table.row([system.name.clone()].into_iter().chain(forecast).chain([measured]));
    }
    table
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
