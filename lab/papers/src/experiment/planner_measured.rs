//! The planner's predictions beside the measured points with prefill and decode on different
//! replicas: [`planner`] predicts, this formats.

use std::collections::BTreeMap;

use anyhow::Context as _;
use meridian_tools::dist::Dist;
use meridian_tools::parallel;
use meridian_tools::plot::{self, Figure};
use meridian_tools::table::Table;

use super::values::{Row, Values};
use super::{Context, Findings, params};
use crate::calibration::disaggregated::deployment::{self, Deployment, Pool, numbered};
use crate::calibration::disaggregated::pace;
use crate::calibration::disaggregated::planner::{
    self, Coefficients, Figures, Prediction, figures, measured,
};
use crate::calibration::disaggregated::procedure::measure;
use crate::calibration::points::Side;
use crate::calibration::silicon::tuned;
use crate::calibration::statistics::{error, quantile};

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

    /// Its name in quantities.
    const fn key(self) -> &'static str {
        match self {
            By::Planner => "planner",
            By::EngineShares => "engine_coefficients",
            By::Model => "engine_model",
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
    let covered: Vec<(&deployment::Row, Deployment)> =
        rows.iter().filter_map(|row| Some((row, row.known.ok()?))).step_by(every).collect();
    let points = parallel(covered.len(), |nth| {
        let (row, it) = &covered[nth];
        let point = predicted(row, it);
        (context.progress)(nth + 1, covered.len(), row.labels[1]);
        point.with_context(|| format!("row {}", row.number))
    });
    let points: Vec<Point> = points.into_iter().collect::<anyhow::Result<_>>()?;
    let profiles = format!("{:?} {:?}", meridian_engine::GPUS, meridian_engine::TUNED);
    let values = points.iter().map(row).chain(errors(&points)).collect();
    let params = params::of_text(&profiles);
    let mut found = Findings::computed(&context.spec, Values { rows: values }, params)?;
    found.tables.push(left_out(&rows));
    found.figures.push(drawn(&points)?);
    Ok(found)
}

fn predicted(row: &deployment::Row, it: &Deployment) -> anyhow::Result<Point> {
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

/// The errors of some points as a row.
fn off_by(by: By, [about, of]: [&str; 2], points: &[&Point]) -> Row {
    let [ttft, tpot, tokens] = off(points, by);
    let at = |errors: &[f64], share| Some(quantile(errors, share)).filter(|v| v.is_finite());
    Row::new(by.name(), about, of)
        .with("points", [points.len() as f64])
        .with("ttft_off_p50", at(&ttft, 0.5))
        .with("ttft_off_p90", at(&ttft, 0.9))
        .with("tpot_off_p50", at(&tpot, 0.5))
        .with("tpot_off_p90", at(&tpot, 0.9))
        .with("tokens_off_p50", at(&tokens, 0.5))
}

/// The errors relative to the measurement: by part and GPU, and with the engine's coefficients by the
/// load of the prefill instances.
fn errors(points: &[Point]) -> Vec<Row> {
    let mut rows = Vec::new();
    for side in [Side::Judged, Side::Fitted] {
        for gpu in ["h100 and h200", "h200", "h100"] {
            let about = |one: &&Point| {
                part(one.it.point.side) == part(side) && gpu.contains(one.it.point.gpu)
            };
            let about: Vec<&Point> = points.iter().filter(about).collect();
            if !about.is_empty() {
                rows.extend(By::ALL.map(|by| off_by(by, [part(side), gpu], &about)));
            }
        }
    }
    let loads = [("up to 0.8", 0.0, 0.8), ("0.8 to 1", 0.8, 1.0), ("above 1", 1.0, f64::INFINITY)];
    for (name, from, to) in loads {
        let about: Vec<&Point> =
            points.iter().filter(|one| (from..to).contains(&one.engine_shares.load)).collect();
        let by_load = |by| off_by(by, [name, "by load"], &about);
        rows.extend([By::EngineShares, By::Model].map(by_load));
    }
    rows
}

/// In words: `2 x tp8`, `1 x ep8`.
fn pool(pool: &Pool) -> String {
    let kind = if pool.ranks > 1 { "ep" } else { "tp" };
    format!("{} x {kind}{}", pool.replicas, pool.gpus)
}

/// A point: measured, and as each predicts it.
fn row(one: &Point) -> Row {
    let point = &one.it.point;
    let part = if point.side == Side::Fitted { "odd row" } else { "even row" };
    let engine = format!("{}, {}, {part}", point.gpu, one.engine);
    let pools = format!("{} + {}", pool(&one.it.prefill), pool(&one.it.decode));
    let row = Row::new(&engine, &format!("{} + {}", point.isl, point.osl), &pools)
        .with("row", [one.number as f64])
        .with("clients", [f64::from(point.clients)])
        .with("prefill_load", [one.engine_shares.load]);
    let by = By::ALL.map(|by| (by.key(), by.of(one)));
    let all = std::iter::once(("measured", measured(&one.it))).chain(by);
    all.fold(row, |row, (key, figures)| {
        row.with(&format!("ttft_ms.{key}"), [figures.ttft])
            .with(&format!("tpot_ms.{key}"), [figures.tpot])
            .with(&format!("tokens_per_gpu_s.{key}"), [figures.tokens])
    })
}

/// Rows that are not covered: the reason, and which they are.
fn left_out(rows: &[deployment::Row]) -> Table {
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
