//! Compares policies on the flows of a file: when each flow ends, and the flows at a port.

use anyhow::{Context, bail};
use meridian_base::{Duration, PortId, Time};
use meridian_flow::Stage;
use meridian_sim::cluster::{self, Given, GivenReport, Holding, Watch};
use serde_json::{Value, json};

use super::file::{File, Flow};
use super::plan::{LONGEST, request};
use crate::cluster::compare::{Compare, Compared, Had, held};
use crate::cluster::timeline::Timeline;
use crate::plot::Figure;
use crate::results;
use crate::table::Table;

/// Runs a file of flows under each policy.
///
/// # Errors
/// If the file or the options are invalid.
pub fn run(file: &File, compare: &Compare) -> anyhow::Result<Compared> {
    compare.check()?;
    let all = compare.policies.iter().map(|policy| super::given(file, policy, compare.seed));
    let all: Vec<Given> = all.collect::<anyhow::Result<_>>()?;
    let port = match &compare.port {
        Some(name) => port(file, name)?,
        // The busiest port under the first policy.
        None => busiest(&all[0], &cluster::given(&all[0])?),
    };
    let watch = Watch {
        port: PortId(port as u32),
        from: Time::ZERO + compare.from.unwrap_or_default(),
        span: compare.window.unwrap_or(LONGEST),
    };
    let run = |one: &Given| cluster::given(&Given { watch: Some(watch), ..one.clone() });
    let reports: Vec<GivenReport> = all.iter().map(run).collect::<Result<_, _>>()?;
    compare.begins_before(reports.iter().map(|one| one.end).max().unwrap_or_default())?;
    let name = file.ports.keys().nth(port).context("ports is empty: name at least one")?;
    Ok(compared(file, compare, (name, all[0].rates[port]), &reports))
}

fn port(file: &File, name: &str) -> anyhow::Result<usize> {
    let known = || file.ports.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
    match file.ports.keys().position(|one| one == name) {
        Some(port) => Ok(port),
        None => bail!("--port `{name}` is not in the file: use one of {}", known()),
    }
}

/// The busiest port relative to its rate.
fn busiest(given: &Given, report: &GivenReport) -> usize {
    let share = |port: &usize| report.carried[*port] / given.rates[*port];
    let ports = 0..given.rates.len();
    ports.reduce(|a, b| if share(&b) > share(&a) { b } else { a }).unwrap_or(0)
}

fn compared(
    file: &File,
    compare: &Compare,
    (port, rate): (&str, f64),
    reports: &[GivenReport],
) -> Compared {
    let from = Time::ZERO + compare.from.unwrap_or_default();
    let end = reports.iter().map(|report| report.end).max().unwrap_or(from);
    let to = compare.window.map_or(end, |window| from + window).max(from + Duration::from_nanos(1));
    let who = |report: &GivenReport, holding: &Holding| {
        let nth = report.began.get(holding.flow as usize).copied().unwrap_or_default();
        file.flows[nth as usize].name.clone()
    };
    let mut figures = Vec::new();
    for (policy, report) in compare.policies.iter().zip(reports) {
        let (window, slices) = ((from, to), &report.slices[..]);
        let who = |holding: &Holding| who(report, holding);
        let drawn = Timeline { policy, port, rate, window, slices, who: &who };
        let title = format!("{policy}: who had {port}");
        figures.push(Figure::new(&["timeline", policy], title, drawn.svg()));
    }
    let most = rate * to.since(from).as_secs_f64();
    let had = compare.policies.iter().zip(reports).map(|(policy, report)| Had {
        policy,
        slices: &report.slices,
        who: Box::new(move |holding: &Holding| who(report, holding)),
    });
    let tables = vec![ends(file, compare, reports), held(port, most, had)];
    let rows = compare.policies.iter().zip(reports).map(|(name, report)| row(file, name, report));
    Compared {
        title: "Flows under flow policies (simulated)",
        rows: rows.collect(),
        tables,
        figures,
        notes: vec![format!("flows: {}, ports: {}", file.flows.len(), file.ports.len())],
    }
}

/// When each flow ends under each policy, and how many requests are in time.
fn ends(file: &File, compare: &Compare, reports: &[GivenReport]) -> Table {
    let fixed = ["flow", "stage", "size, MB", "must end by, ms"];
    let header: Vec<&str> =
        fixed.into_iter().chain(compare.policies.iter().map(String::as_str)).collect();
    let mut table = Table::new("When flows end, ms", &header);
    for (nth, flow) in file.flows.iter().enumerate() {
        let due = due(file, flow);
        let must = due.map_or_else(|| "-".to_owned(), ms);
        let size = flow.size.map_or(0.0, |size| size.0 as f64 / 1e6);
        let stage = Stage::from(flow.stage).word().to_owned();
        let cells = reports.iter().map(|report| {
            let ended = report.flows[nth].ended.since(Time::ZERO);
            let late = if due.is_some_and(|due| ended > due) { " late" } else { "" };
            format!("{}{late}", ms(ended))
        });
        table.row([flow.name.clone(), stage, size.to_string(), must].into_iter().chain(cells));
    }
    let in_time = reports.iter().map(|report| {
        let (met, all) = met(file, report);
        format!("{met} of {all}")
    });
    let blank = || "-".to_owned();
    let first = ["requests in time".to_owned(), blank(), blank(), blank()];
    table.row(first.into_iter().chain(in_time));
    table
}

/// When a flow is due: its request's deadline less the time that follows the flow.
fn due(file: &File, flow: &Flow) -> Option<Duration> {
    let of = |one: &&Flow| request(one) == request(flow);
    let deadline = file.flows.iter().filter(of).find_map(|one| one.deadline)?;
    Some(deadline.0.saturating_sub(flow.then.0))
}

/// Requests with a deadline that are in time, and the total.
fn met(file: &File, report: &GivenReport) -> (usize, usize) {
    let mut requests = std::collections::BTreeMap::new();
    for (nth, flow) in file.flows.iter().enumerate() {
        let Some(due) = due(file, flow) else { continue };
        let in_time = report.flows[nth].ended.since(Time::ZERO) <= due;
        let all = requests.entry(request(flow)).or_insert(true);
        *all &= in_time;
    }
    (requests.values().filter(|in_time| **in_time).count(), requests.len())
}

fn row(file: &File, policy: &str, report: &GivenReport) -> Value {
    let (met, all) = met(file, report);
    let share = if all == 0 { Value::Null } else { json!(met as f64 / all as f64) };
    let mut row = results::bare(policy, "flows", &[("slo_attainment", share)]);
    let ends = file.flows.iter().zip(&report.flows);
    row["ends_ms"] = ends
        .map(|(flow, ran)| (flow.name.clone(), json!(ran.ended.as_secs_f64() * 1e3)))
        .collect::<serde_json::Map<_, _>>()
        .into();
    row
}

fn ms(span: Duration) -> String {
    format!("{:.3}", span.as_secs_f64() * 1e3)
}
