//! Accuracy of the engine model: its times against published measurements, each with the error
//! allowed.
//!
//! [`run`] makes all comparisons; lab/docs/experiments.md has the sources of the data and those of the
//! fitted coefficients. The experiments do not depend on this: they use the engine model as it is.

pub mod campaign;
pub mod disaggregated;
pub mod lru;
pub mod measured;
pub mod points;
pub mod prefill;
pub mod procedure;
pub mod silicon;
pub mod statistics;

use std::ops::Range;

use disaggregated::Disaggregated;
use points::Side;
use silicon::Silicon;
use statistics::{error, quantile};

/// The report as text: every comparison as a line, then the points of the 1,244 that were not
/// judged.
#[must_use]
pub fn text(rows: &[Row], silicon: &Silicon, disaggregated: &Disaggregated) -> String {
    let mut lines = vec![
        "check | part | quantity | values | ours | published | median error | \
                          90th percentile | target | met"
            .to_owned(),
    ];
    lines.extend(rows.iter().map(Row::line));
    let covered: usize = silicon.groups.values().map(|errors| errors.ttft.len()).sum();
    lines.push(format!("covered: {covered} of the points looked at"));
    for (why, count) in &silicon.uncovered {
        lines.push(format!("NOT COVERED: {count} points, {}", why.words()));
    }
    let covered: usize = disaggregated.systems.values().map(|errors| errors.ttft.len()).sum();
    lines.push(format!("covered: {covered} of the disaggregated points"));
    for (why, count) in &disaggregated.unmodelled {
        lines.push(format!("NOT COVERED: {count} disaggregated points, {}", why.words()));
    }
    for point in &silicon.unfit {
        lines.push(format!("DOES NOT FIT: {:?} tp {}", point.group(), point.tp));
    }
    lines.join("\n") + "\n"
}

/// One comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The two things compared.
    pub check: String,
    /// Which part of the data, fitted or judged.
    pub part: String,
    /// The quantity.
    pub measure: &'static str,
    /// Values compared.
    pub count: usize,
    /// The model's value, if there is a single one.
    pub ours: Option<f64>,
    /// The published value, if there is a single one.
    pub published: Option<f64>,
    /// Median error: relative, or absolute if the quantity is a percentage.
    pub error: f64,
    /// The 90th percentile of the error.
    pub p90: Option<f64>,
    /// The largest error allowed; `None` if the row is for information only.
    pub target: Option<f64>,
    /// The same for the 90th percentile.
    pub p90_target: Option<f64>,
}

impl Row {
    /// Whether it is within its targets; `None` if it has none.
    #[must_use]
    pub fn met(&self) -> Option<bool> {
        let within = |value: Option<f64>, target: Option<f64>| match (value, target) {
            (Some(value), Some(target)) => value < target,
            _ => true,
        };
        let target = self.target?;
        Some(self.error < target && within(self.p90, self.p90_target))
    }

    /// The row as a line of the report. Errors are percentages.
    fn line(&self) -> String {
        let number = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.3}"));
        let percent =
            |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{:.1} %", 100.0 * v));
        let met = match self.met() {
            Some(true) => "yes",
            Some(false) => "NO",
            None => "-",
        };
        let cells = [
            self.check.clone(),
            self.part.clone(),
            self.measure.to_owned(),
            self.count.to_string(),
            number(self.ours),
            number(self.published),
            percent(Some(self.error)),
            percent(self.p90),
            percent(self.target),
            met.to_owned(),
        ];
        cells.join(" | ")
    }

    fn of_errors(check: &str, part: &str, measure: &'static str, errors: &[f64]) -> Row {
        Row {
            check: check.to_owned(),
            part: part.to_owned(),
            measure,
            count: errors.len(),
            ours: None,
            published: None,
            error: quantile(errors, 0.5),
            p90: Some(quantile(errors, 0.9)),
            target: None,
            p90_target: None,
        }
    }

    fn of_value(check: &str, measure: &'static str, ours: f64, published: f64) -> Row {
        Row {
            ours: Some(ours),
            published: Some(published),
            count: 1,
            error: error(ours, published),
            p90: None,
            ..Row::of_errors(check, "one value", measure, &[])
        }
    }

    fn within(self, target: f64) -> Row {
        Row { target: Some(target), ..self }
    }

    fn within_p90(self, target: f64) -> Row {
        Row { p90_target: Some(target), ..self }
    }
}

/// Every comparison, and the 1,244 points behind some of them. `every` thins the colocated ones: 1
/// takes all, 10 a tenth for a quick check.
#[must_use]
pub fn run(every: usize) -> (Vec<Row>, Silicon, Disaggregated) {
    let silicon = silicon::judge(&[Side::Fitted, Side::Judged, Side::Blind], every);
    let disaggregated = disaggregated::judge(&[true, false]);
    let mut rows = measured_rows();
    rows.extend(silicon_rows(&silicon));
    rows.extend(disaggregated_rows(&disaggregated));
    rows.extend(prefill_rows());
    rows.extend(lru_rows());
    (rows, silicon, disaggregated)
}

/// vLLM's own requests.
#[must_use]
pub fn measured_rows() -> Vec<Row> {
    let pro = |what: &str| format!("vLLM on RTX PRO 6000, {what}");
    let runs = [
        (pro("Llama-3.1-8B"), measured::dense()),
        (pro("Qwen3-32B, tensor parallel 2"), measured::split()),
        ("vLLM on RTX 4090, Llama-3.1-8B".to_owned(), measured::scarce()),
        (pro("Qwen3-30B-A3B, data parallel 2"), measured::experts()),
    ];
    let mut rows = Vec::new();
    for (check, run) in &runs {
        let (first, rest) = (0..measured::FITTED, measured::FITTED..300);
        let ours = run.replay(run.efficiency());
        let compare = |part, range, with| requests(check, part, range, [&ours, with]);
        rows.extend(compare("first 100 (fitted)", first, &run.measured));
        let judged = compare("other 200 (judged)", rest.clone(), &run.measured);
        rows.extend(judged.map(|row| row.within(0.10).within_p90(0.20)));
        let another = run.another(run.efficiency());
        rows.extend(compare("other 200 (chance alone)", rest, &another));
    }
    rows
}

/// TTFT and TPOT of some requests of a run, of ours against others.
fn requests(
    check: &str,
    part: &str,
    range: Range<usize>,
    [ours, others]: [&Vec<measured::Timing>; 2],
) -> [Row; 2] {
    let errors = |of: fn(&measured::Timing) -> f64| -> Vec<f64> {
        let pairs = ours[range.clone()].iter().zip(&others[range.clone()]);
        pairs.map(|(a, b)| error(of(a), of(b))).collect()
    };
    let row = |measure, errors: &[f64]| Row::of_errors(check, part, measure, errors);
    [row("TTFT", &errors(|one| one.ttft)), row("TPOT", &errors(|one| one.tpot))]
}

/// The points of H100 and H200: all together, then each group's judged points for the reader.
#[must_use]
pub fn silicon_rows(silicon: &Silicon) -> Vec<Row> {
    let check = "aiconfigurator's end-to-end points, H100 and H200";
    let mut rows = Vec::new();
    for (part, sides) in [
        ("odd rows (fitted)", &[Side::Fitted] as &[Side]),
        ("even rows (judged)", &[Side::Judged, Side::Blind]),
        ("every other even row (blind)", &[Side::Blind]),
    ] {
        let errors = silicon.errors(sides);
        for (measure, errors) in [("TTFT", &errors.ttft), ("TPOT", &errors.tpot)] {
            let row = Row::of_errors(check, part, measure, errors);
            rows.push(if sides == [Side::Fitted] { row } else { row.within(0.15) });
        }
    }
    for ((group, side), errors) in &silicon.groups {
        let (gpu, engine, model, format) = group;
        let name = format!("{model} {format}, {engine}, {gpu}");
        let part = match side {
            Side::Fitted => continue,
            Side::Judged => "even rows (judged)",
            Side::Blind => "every other even row (blind)",
        };
        rows.push(Row::of_errors(&name, part, "TTFT", &errors.ttft));
        rows.push(Row::of_errors(&name, part, "TPOT", &errors.tpot));
    }
    rows
}

/// The points with prefill and decode on different replicas: all together, then each GPU.
#[must_use]
pub fn disaggregated_rows(disaggregated: &Disaggregated) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut compare = |gpus: &str, fitted: bool, errors: &silicon::Errors, target| {
        let check = format!("disaggregated points, {gpus}");
        let part = if fitted { "odd rows (fitted)" } else { "even rows (judged)" };
        for (measure, errors) in [("TTFT", &errors.ttft), ("TPOT", &errors.tpot)] {
            rows.push(Row { target, ..Row::of_errors(&check, part, measure, errors) });
        }
    };
    for (fitted, target) in [(true, None), (false, Some(0.15))] {
        compare("H100 and H200", fitted, &disaggregated.errors(fitted), target);
    }
    for ((gpu, fitted), errors) in &disaggregated.systems {
        compare(gpu, *fitted, errors, None);
    }
    rows
}

/// GORGO's line and SkyWalker's statements.
#[must_use]
pub fn prefill_rows() -> Vec<Row> {
    let (_, slope) = prefill::gorgo(None);
    let check = "GORGO, Table 1: Mistral-7B on A100";
    let mut rows =
        vec![Row::of_value(check, "ms a prompt token", slope, prefill::GORGO_SLOPE).within(0.05)];
    for (gpu, name) in [("l4", ""), ("l4-slow", " (slow variant)"), ("l4-fast", " (fast variant)")]
    {
        let check = format!("SkyWalker: Llama-3.1-8B on L4{name}");
        let ms = prefill::ttft("llama-3.1-8b", gpu, None, 512);
        let row = Row::of_value(&check, "ms for 512 tokens", ms, prefill::SKYWALKER_512);
        let [_, median, _] = prefill::l4_batches(gpu);
        let [least, most] = prefill::SKYWALKER_FIT;
        let fit = Row::of_value(&check, "requests that fit", median, median.clamp(least, most));
        rows.push(if gpu == "l4" { row.within(0.10) } else { row });
        rows.push(fit.within(0.01));
    }
    rows
}

/// The LRU curve of the Mooncake trace, in points.
#[must_use]
pub fn lru_rows() -> Vec<Row> {
    let trace = lru::trace();
    let row = |(blocks, published): (u32, f64)| {
        let ours = lru::hit_percentage(&trace, blocks);
        let check = format!("Mooncake conversation trace, LRU of {blocks} blocks");
        let row = Row::of_value(&check, "% of blocks found", ours, published);
        Row { error: (ours - published).abs() / 100.0, count: trace.len(), ..row }.within(0.01)
    };
    lru::CURVE.into_iter().map(row).collect()
}
