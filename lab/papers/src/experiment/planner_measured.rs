//! The planner's predictions beside the measured points with prefill and decode on different
//! replicas: [`planner`] predicts, this formats.

use std::collections::BTreeMap;

use anyhow::Context as _;
use meridian_tools::dist::Dist;
use meridian_tools::plot::{self, Figure};
use meridian_tools::table::Table;
use meridian_tools::{parallel, results};
use serde_json::json;

use super::claim::{Claim, Verdict};
use super::{Context, Findings, params};
use crate::calibration::disaggregated::deployment::{Deployment, Pool, Row, numbered};
use crate::calibration::disaggregated::pace;
use crate::calibration::disaggregated::planner::{
    self, Coefficients, Figures, Prediction, figures, measured,
};
use crate::calibration::disaggregated::procedure::measure;
use crate::calibration::points::Side;
use crate::calibration::silicon::tuned;
use crate::calibration::statistics::{error, quantile};

/// The goal for the median error of TTFT and TPOT.
const GOAL: f64 = 0.15;

/// A covered point with all predictions.
struct Point {
    number: usize,
    engine: &'static str,
    it: Deployment,
    planner: Prediction,
    /// The planner with the engine's coefficients.
    engine_shares: Prediction,
    model: Figures,
}

/// Who predicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Planner,
    EngineShares,
    Model,
}

impl By {
    const ALL: [By; 3] = [By::Planner, By::EngineShares, By::Model];

    const fn name(self) -> &'static str {
        match self {
            By::Planner => "planner",
            By::EngineShares => "planner, engine's coefficients",
            By::Model => "engine model",
        }
    }

    const fn of(self, point: &Point) -> Figures {
        match self {
            By::Planner => point.planner.figures,
            By::EngineShares => point.engine_shares.figures,
            By::Model => point.model,
        }
    }
}

/// Runs it.
///
/// # Errors
/// If an instance of a row does not run, or a plot can't be drawn.
pub(crate) fn run(context: &Context<'_>) -> anyhow::Result<Findings> {
    let every = context.knob("every")?.max(1.0) as usize;
    let rows = numbered();
    let covered: Vec<(&Row, Deployment)> =
        rows.iter().filter_map(|row| Some((row, row.known.ok()?))).step_by(every).collect();
    let points = parallel(covered.len(), |nth| {
        let (row, it) = &covered[nth];
        let point = predicted(row, it);
        (context.progress)(nth + 1, covered.len(), row.labels[1]);
        point.with_context(|| format!("row {}", row.number))
    });
    let points: Vec<Point> = points.into_iter().collect::<anyhow::Result<_>>()?;
    let profiles = format!("{:?} {:?}", meridian_engine::GPUS, meridian_engine::TUNED);
    Ok(Findings {
        rows: points.iter().map(row).collect(),
        claims: claims(&points),
        tables: vec![errors(&points), by_load(&points), all(&points), left_out(&rows)],
        figures: vec![drawn(&points)?],
        params: params::of_text(&profiles),
        ..Findings::default()
    })
}

fn predicted(row: &Row, it: &Deployment) -> anyhow::Result<Point> {
    let tuned = tuned(&it.point).context("its engine has no coefficients")?;
    let model = measure(it, &tuned, pace(it.point.gpu))?;
    Ok(Point {
        number: row.number,
        engine: row.labels[1],
        it: *it,
        planner: planner::predict(it, &tuned, Coefficients::General)?,
        engine_shares: planner::predict(it, &tuned, Coefficients::Engine)?,
        model: figures(it, model.ttft, model.tpot),
    })
}

/// Even rows judge. On odd rows the engine model's coefficients were fitted.
fn part(side: Side) -> &'static str {
    if side == Side::Fitted { "odd rows (fitted)" } else { "even rows (judged)" }
}

/// Relative errors of TTFT, TPOT and throughput.
fn off(points: &[&Point], by: By) -> [Vec<f64>; 3] {
    let of = |get: fn(&Figures) -> f64| {
        points.iter().map(|one| error(get(&by.of(one)), get(&measured(&one.it)))).collect()
    };
    [of(|one| one.ttft), of(|one| one.tpot), of(|one| one.tokens)]
}

fn percent(value: f64) -> String {
    if value.is_finite() { format!("{:.1} %", 100.0 * value) } else { "-".to_owned() }
}

const ERRORS: [&str; 9] = [
    "part",
    "GPU",
    "predicted by",
    "points",
    "TTFT, median",
    "TTFT, P90",
    "TPOT, median",
    "TPOT, P90",
    "throughput, median",
];

fn line(table: &mut Table, names: [&str; 2], by: By, points: &[&Point]) {
    let [ttft, tpot, tokens] = off(points, by);
    let both = |errors: &[f64]| [0.5, 0.9].map(|share| percent(quantile(errors, share)));
    let names = names.into_iter().chain([by.name()]).map(str::to_owned);
    let cells = names.chain([points.len().to_string()]).chain(both(&ttft)).chain(both(&tpot));
    table.row(cells.chain([percent(quantile(&tokens, 0.5))]));
}

fn errors(points: &[Point]) -> Table {
    let mut table = Table::new("Errors, relative to the measurement", &ERRORS);
    for fitted in [false, true] {
        for gpu in ["h100 and h200", "h200", "h100"] {
            let about = |one: &&Point| {
                (one.it.point.side == Side::Fitted) == fitted && gpu.contains(one.it.point.gpu)
            };
            let about: Vec<&Point> = points.iter().filter(about).collect();
            let Some(first) = about.first() else { continue };
            let side = part(first.it.point.side);
            By::ALL.into_iter().for_each(|by| line(&mut table, [side, gpu], by, &about));
        }
    }
    table
}

/// The errors with the engine's coefficients by the load of the prefill instances.
fn by_load(points: &[Point]) -> Table {
    let title = "All rows by the load of prefill, if prompts are computed one at a time";
    let mut header = ERRORS;
    header[0] = "load";
    let mut table = Table::new(title, &header);
    let parts = [("up to 0.8", 0.0, 0.8), ("0.8 to 1", 0.8, 1.0), ("above 1", 1.0, f64::INFINITY)];
    for (name, from, to) in parts {
        let about: Vec<&Point> =
            points.iter().filter(|one| (from..to).contains(&one.engine_shares.load)).collect();
        for by in [By::EngineShares, By::Model] {
            line(&mut table, [name, "h100 and h200"], by, &about);
        }
    }
    table
}

/// In words: `2 x tp8`, `1 x ep8`.
fn pool(pool: &Pool) -> String {
    let kind = if pool.ranks > 1 { "ep" } else { "tp" };
    format!("{} x {kind}{}", pool.replicas, pool.gpus)
}

fn all(points: &[Point]) -> Table {
    let header = [
        "row",
        "part",
        "GPU, engine",
        "tokens",
        "clients",
        "prefill + decode",
        "prefill load",
        "TTFT, ms: measured",
        "planner",
        "engine's coefficients",
        "engine model",
        "TPOT, ms: measured",
        "planner",
        "engine's coefficients",
        "engine model",
        "tokens/s a GPU: measured",
        "planner",
        "engine's coefficients",
        "engine model",
    ];
    let title = "Measured points of disaggregated serving: measured, and predicted";
    let mut table = Table::new(title, &header);
    for one in points {
        let point = &one.it.point;
        let names = [
            one.number.to_string(),
            if point.side == Side::Fitted { "odd" } else { "even" }.to_owned(),
            format!("{}, {}", point.gpu, one.engine),
            format!("{} + {}", point.isl, point.osl),
            point.clients.to_string(),
            format!("{} + {}", pool(&one.it.prefill), pool(&one.it.decode)),
            format!("{:.2}", one.engine_shares.load),
        ];
        let each = [measured(&one.it)].into_iter().chain(By::ALL.map(|by| by.of(one)));
        let each: Vec<Figures> = each.collect();
        let ttft = each.iter().map(|one| format!("{:.0}", one.ttft));
        let tpot = each.iter().map(|one| format!("{:.1}", one.tpot));
        let tokens = each.iter().map(|one| format!("{:.1}", one.tokens));
        table.row(names.into_iter().chain(ttft).chain(tpot).chain(tokens));
    }
    table
}

/// Rows that are not covered: the reason, and which they are.
fn left_out(rows: &[Row]) -> Table {
    let header = ["why", "GPU, engine", "points", "rows of silicon.csv"];
    let mut table = Table::new("Rows that are not covered", &header);
    let mut groups: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for row in rows {
        if let Err(why) = row.known {
            groups.entry((why, row.labels)).or_default().push(row.number);
        }
    }
    for ((why, [gpu, engine]), numbers) in groups {
        let list: Vec<String> = runs(&numbers);
        let group = format!("{gpu}, {engine}");
        table.row([why.words().to_owned(), group, numbers.len().to_string(), list.join(", ")]);
    }
    table
}

/// Ascending numbers, with runs of them as `3-7`.
fn runs(numbers: &[usize]) -> Vec<String> {
    let mut all: Vec<(usize, usize)> = Vec::new();
    for number in numbers {
        match all.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => all.push((*number, *number)),
        }
    }
    let text = |(first, last): (usize, usize)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    all.into_iter().map(text).collect()
}

fn claims(points: &[Point]) -> Vec<Claim> {
    let judged: Vec<&Point> =
        points.iter().filter(|one| one.it.point.side != Side::Fitted).collect();
    let mut all = Vec::new();
    for by in [By::Planner, By::EngineShares] {
        let [ttft, tpot, _] = off(&judged, by);
        for (what, errors) in [("TTFT", ttft), ("TPOT", tpot)] {
            let median = quantile(&errors, 0.5);
            all.push(Claim::about(
                &format!("{}, even rows: {what}", by.name()),
                "docs/planner.md",
                format!("median within {}", percent(GOAL)),
                format!("median {}, P90 {}", percent(median), percent(quantile(&errors, 0.9))),
                Verdict::of(median < GOAL),
            ));
        }
    }
    all
}

/// Distribution of the judged rows' errors of TPOT and TTFT.
fn drawn(points: &[Point]) -> anyhow::Result<Figure> {
    let judged: Vec<&Point> =
        points.iter().filter(|one| one.it.point.side != Side::Fitted).collect();
    let lines = By::ALL.into_iter().flat_map(|by| {
        let [ttft, tpot, _] = off(&judged, by);
        [("TTFT", ttft), ("TPOT", tpot)].into_iter().filter_map(move |(what, of)| {
            let dist = Dist::of(of.into_iter().map(|one| one * 100.0).collect())?;
            Some((format!("{what}, {}", by.name()), dist))
        })
    });
    let title = "Errors of the judged disaggregated points".to_owned();
    let svg = plot::cdf(&title, "relative error, %", &lines.collect::<Vec<_>>(), true)?;
    Ok(Figure::new(&["errors", "planner-measured"], title, svg))
}

fn row(point: &Point) -> serde_json::Value {
    let measured = measured(&point.it);
    let given = [
        ("row", json!(point.number)),
        ("part", json!(part(point.it.point.side))),
        ("ttft_ms.measured", json!(measured.ttft)),
        ("ttft_ms.planner", json!(point.planner.figures.ttft)),
        ("ttft_ms.engine_coefficients", json!(point.engine_shares.figures.ttft)),
        ("ttft_ms.engine_model", json!(point.model.ttft)),
        ("tpot_ms.measured", json!(measured.tpot)),
        ("tpot_ms.planner", json!(point.planner.figures.tpot)),
        ("tpot_ms.engine_coefficients", json!(point.engine_shares.figures.tpot)),
        ("tpot_ms.engine_model", json!(point.model.tpot)),
    ];
    let workload = format!("{} + {}", point.it.point.isl, point.it.point.osl);
    results::bare(point.it.point.gpu, &workload, &given)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibration::disaggregated::deployment::Unmodelled;

    // The sample has 199 disaggregated rows: 50 are covered, and each other one has one of four
    // reasons and is listed by its number.
    #[test]
    fn every_row_is_covered_or_listed() {
        let rows = numbered();
        let count = |why| rows.iter().filter(|row| row.known.err() == Some(why)).count();
        let covered = rows.iter().filter(|row| row.known.is_ok()).count();
        let reasons = [
            Unmodelled::Unclear,
            Unmodelled::Speculative,
            Unmodelled::Repeated,
            Unmodelled::NoConcurrency,
        ];
        assert_eq!((rows.len(), covered, reasons.map(count)), (199, 50, [53, 42, 49, 5]));
        let table = left_out(&rows);
        let listed: usize = table.rows.iter().map(|row| row[2].parse::<usize>().unwrap()).sum();
        assert_eq!(listed, 149);
        assert!(rows.windows(2).all(|pair| pair[0].number < pair[1].number));
    }

    // Neighbouring numbers are one run.
    #[test]
    fn numbers_are_listed_in_runs() {
        assert_eq!(runs(&[1, 2, 3, 7, 9, 10]), ["1-3", "7", "9-10"]);
        assert_eq!(runs(&[]), Vec::<String>::new());
    }
}
