//! Compares the engine model with measurements, as an experiment: [`crate::calibration`] compares,
//! this formats its rows.

use meridian_tools::dist::Dist;
use meridian_tools::plot::{self, Figure};
use meridian_tools::results;
use meridian_tools::table::Table;
use serde_json::json;

use super::claim::{Claim, Verdict};
use super::{Context, Findings, params};
use crate::calibration::disaggregated::Disaggregated;
use crate::calibration::points::Side;
use crate::calibration::silicon::Silicon;
use crate::calibration::{self, Row};

/// Runs every comparison.
///
/// # Errors
/// A plot that can't be drawn.
pub(crate) fn run(context: &Context<'_>) -> anyhow::Result<Findings> {
    let every = context.knob("every")?.max(1.0) as usize;
    let (rows, silicon, disaggregated) = calibration::run(every);
    let claims = rows.iter().filter(|row| row.target.is_some()).map(claim);
    let profiles = format!("{:?} {:?}", meridian_engine::GPUS, meridian_engine::TUNED);
    Ok(Findings {
        rows: rows.iter().map(row).collect(),
        claims: claims.collect(),
        tables: vec![comparisons(&rows), left_out(&silicon, &disaggregated)],
        figures: vec![errors(&silicon)?],
        params: params::of_text(&profiles),
        ..Findings::default()
    })
}

fn percent(value: f64) -> String {
    format!("{:.1} %", value * 100.0)
}

fn maybe(value: Option<f64>, show: impl Fn(f64) -> String) -> String {
    value.map_or("-".to_owned(), show)
}

fn comparisons(rows: &[Row]) -> Table {
    let title = "The model beside measurements: errors are relative, or points of a percentage";
    let header = [
        "with",
        "part",
        "quantity",
        "values",
        "published",
        "ours",
        "median error",
        "P90 error",
        "target",
        "met",
    ];
    let mut table = Table::new(title, &header);
    for row in rows {
        let number = |value| maybe(value, |v| format!("{v:.4}"));
        let targets = match (row.target, row.p90_target) {
            (Some(median), Some(p90)) => format!("{}, P90 {}", percent(median), percent(p90)),
            (median, _) => maybe(median, percent),
        };
        table.row([
            row.check.clone(),
            row.part.clone(),
            row.measure.to_owned(),
            row.count.to_string(),
            number(row.published),
            number(row.ours),
            percent(row.error),
            maybe(row.p90, percent),
            targets,
            row.met().map_or("-", |met| if met { "yes" } else { "no" }).to_owned(),
        ]);
    }
    table
}

fn claim(row: &Row) -> Claim {
    let what = format!("{}, {}: {}", row.check, row.part, row.measure);
    let within = row.target.map_or("-".to_owned(), |t| format!("within {}", percent(t)));
    let p90 = row.p90_target.map_or(String::new(), |t| format!(", P90 within {}", percent(t)));
    let published = row.published.map_or(String::new(), |v| format!("{v:.4} "));
    let ours = match row.ours {
        Some(ours) => format!("{ours:.4} ({} off)", percent(row.error)),
        None => format!("median {}, P90 {}", percent(row.error), maybe(row.p90, percent)),
    };
    let met = Verdict::of(row.met() == Some(true));
    Claim::about(&what, "lab/docs/experiments.md", format!("{published}{within}{p90}"), ours, met)
}

/// Points that the model can't describe, and why.
fn left_out(silicon: &Silicon, disaggregated: &Disaggregated) -> Table {
    let title = "Points of H100 and H200 that are not compared";
    let mut table = Table::new(title, &["why", "points"]);
    for (why, count) in &silicon.uncovered {
        table.row([why.words().to_owned(), count.to_string()]);
    }
    for (why, count) in &disaggregated.unmodelled {
        table.row([format!("disaggregated: {}", why.words()), count.to_string()]);
    }
    table.row(["the weights leave no room for KV".to_owned(), silicon.unfit.len().to_string()]);
    table
}

/// Distribution of the judged points' errors.
fn errors(silicon: &Silicon) -> anyhow::Result<Figure> {
    let judged = silicon.errors(&[Side::Judged, Side::Blind]);
    let lines =
        [("TTFT", judged.ttft), ("TPOT", judged.tpot)].into_iter().filter_map(|(name, of)| {
            Some((name.to_owned(), Dist::of(of.iter().map(|e| e * 100.0).collect())?))
        });
    let title = "Errors of the judged points, H100 and H200".to_owned();
    let svg = plot::cdf(&title, "relative error, %", &lines.collect::<Vec<_>>(), true)?;
    Ok(Figure::new(&["errors", "silicon"], title, svg))
}

fn row(row: &Row) -> serde_json::Value {
    results::bare(
        "engine-model",
        &row.check,
        &[
            ("part", json!(row.part)),
            ("quantity", json!(row.measure)),
            ("values", json!(row.count)),
            ("published", json!(row.published)),
            ("ours", json!(row.ours)),
            ("error", json!(row.error)),
            ("error_p90", json!(row.p90)),
            ("target", json!(row.target)),
            ("met", json!(row.met())),
        ],
    )
}
