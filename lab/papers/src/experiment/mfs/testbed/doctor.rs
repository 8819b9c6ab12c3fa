//! The forecast of `meridian flow doctor` on the testbed, beside what was measured.
//!
//! Each host runs the doctor while requests arrive under fair sharing, as an operator would before
//! anything is changed. The busiest host's forecast counts.

use meridian_tools::table::Table;

use super::FAIR;
use super::compare::Compared;
use super::forecast::{Forecast, Interval, Workload};
use super::live::Live;
use crate::experiment::spec::{FlowTestbed, Gated, TestbedSystem};

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
