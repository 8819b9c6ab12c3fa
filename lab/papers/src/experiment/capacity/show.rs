//! Tables, rows and plots of least fleets.

use meridian_tools::plot::{self, Figure, Point};
use meridian_tools::results;
use meridian_tools::stats::{self, Mean};
use meridian_tools::table::Table;
use serde_json::{Value, json};

use super::load::Load;
use super::{Fleet, Searched, savings};

/// A figure of a fleet.
type Of = fn(&Fleet) -> Option<f64>;

impl Searched {
    fn values(&self, of: Of) -> Vec<f64> {
        self.fleets.iter().flatten().filter_map(of).collect()
    }

    /// The mean over seeds, if every seed has a fleet.
    fn mean(&self, of: Of) -> Option<Mean> {
        let values = self.values(of);
        stats::mean(&values).filter(|_| values.len() == self.fleets.len())
    }
}

/// The fleets of a load.
pub(super) fn table(load: &Load, searched: &[Searched]) -> Table {
    let spec = &load.spec;
    let title = format!(
        "{}: least fleets of {} with {} for {} in each region",
        load.name, spec.gpu, spec.model, spec.slo
    );
    let header = [
        "policy",
        "topology",
        "replicas",
        "USD/h",
        "saved, %",
        "SLO met, %",
        "P90 TTFT, ms",
        "forwarded, %",
    ];
    let mut table = Table::new(title, &header);
    for one in searched.iter().filter(|one| one.load == load.name) {
        let mean = |of: Of, scale: f64, digits| shown(one.mean(of), scale, digits);
        let saved = match one.topology {
            "region_local" => String::new(),
            _ => shown(stats::mean(&savings(one, searched)), 100.0, 1),
        };
        table.row([
            one.policy.clone(),
            one.topology.to_owned(),
            mean(|fleet| Some(fleet.replicas), 1.0, 1),
            mean(|fleet| fleet.usd_per_hour, 1.0, 2),
            saved,
            mean(|fleet| Some(fleet.met), 100.0, 1),
            mean(|fleet| Some(fleet.ttft_p90), 1.0, 0),
            mean(|fleet| Some(fleet.forwarded), 100.0, 1),
        ]);
    }
    table
}

fn shown(mean: Option<Mean>, scale: f64, digits: usize) -> String {
    mean.map_or("-".to_owned(), |m| {
        let [mean, low, high] = [m.mean, m.low, m.high].map(|v| format!("{:.digits$}", v * scale));
        if low == high { mean } else { format!("{mean} ({low}-{high})") }
    })
}

/// The columns of the tables.
pub(super) fn legend() -> Vec<String> {
    [
        "replicas: the least fleet, in the mean of the seeds, with the interval",
        "USD/h: its price, by the shipped on-demand prices",
        "saved: compared with the same policy in region_local, %",
        "SLO met: requests that met the objective, of the region with the fewest, %",
        "P90 TTFT: of the least fleet; in region_local of the slowest region",
        "-: under a seed no fleet is large enough",
    ]
    .map(str::to_owned)
    .to_vec()
}

/// A row of `results.json`.
pub(super) fn row(one: &Searched) -> Value {
    let mean = |of: Of| json!(one.mean(of).map(|m| m.mean));
    let range = |of: Of| json!(one.mean(of).map(|m| [m.low, m.high]));
    let (replicas, usd): (Of, Of) = (|fleet| Some(fleet.replicas), |fleet| fleet.usd_per_hour);
    results::bare(
        &one.policy,
        &one.load,
        &[
            ("topology", json!(one.topology)),
            ("policy", json!(one.policy)),
            ("replicas", mean(replicas)),
            ("usd_per_hour", mean(usd)),
            ("slo_attainment", mean(|fleet| Some(fleet.met))),
            ("ttft_ms.p90", mean(|fleet| Some(fleet.ttft_p90))),
            ("forwarded_ratio", mean(|fleet| Some(fleet.forwarded))),
            ("intervals.replicas", range(replicas)),
            ("intervals.usd_per_hour", range(usd)),
        ],
    )
}

/// The price of each fleet.
///
/// # Errors
/// A plot that can't be drawn.
pub(super) fn figure(load: &Load, searched: &[Searched]) -> anyhow::Result<Figure> {
    let bar = |one: &Searched| {
        let m = one.mean(|fleet| fleet.usd_per_hour)?;
        let point = Point { x: 0.0, mean: m.mean, low: m.low, high: m.high };
        Some((format!("{} {}", one.policy, one.topology), point))
    };
    let bars: Vec<_> =
        searched.iter().filter(|one| one.load == load.name).filter_map(bar).collect();
    let title = format!("Least fleets: {}", load.name);
    let svg = plot::bars(&title, "USD/h", &bars)?;
    Ok(Figure::new(&["usd", &load.name], title, svg))
}
