//! Compares published figures with ours.
//!
//! A figure may hold for several systems, workloads and fleets at once ("1.12 to 2.06 times the
//! baselines"), so ours is a range too: the minimum and maximum over all its pairs, each the median
//! over seeds. The verdict is about direction: a comparison agrees if ours is on the same side of
//! no difference as the published figure, by more than 1 %; a figure of no difference agrees with
//! ours up to 5 %; a plain value agrees within a fifth. The reader can judge the size, since both
//! numbers are shown.

use super::grid::Grid;
use super::metric::{self, Metric};
use super::spec::Published;
use super::stats;
use super::table::Table;

/// A difference this small, as a share, is none.
const SAME: f64 = 0.01;
/// A figure of no difference agrees with ours up to this.
const EVEN: f64 = 0.05;
/// A plain value agrees within this share.
const NEAR: f64 = 0.2;

/// A published figure with ours.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// Its statement.
    pub what: String,
    /// Its source.
    pub source: String,
    /// The published figure, as text.
    pub published: String,
    /// Ours, as text.
    pub ours: String,
    /// How many of our pairs agree in direction, and the number of pairs.
    pub agree: (usize, usize),
}

impl Claim {
    /// `agrees`, `differs`, or how many of the pairs agree.
    #[must_use]
    pub fn verdict(&self) -> String {
        match self.agree {
            (_, 0) => "not measured".to_owned(),
            (n, all) if n == all => "agrees".to_owned(),
            (0, _) => "differs".to_owned(),
            (n, all) => format!("agrees in {n} of {all}"),
        }
    }

    /// A claim about a ratio: ours agrees if it is on the same side of 1 by more than 1 %. Without
    /// a published ratio nothing agrees.
    #[must_use]
    pub fn ratios(what: &str, source: &str, published: &[f64], ours: &[f64]) -> Claim {
        let range = |values: &[f64]| {
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            match values {
                [] => "-".to_owned(),
                _ if format!("{least:.2}") == format!("{most:.2}") => format!("{least:.2}"),
                _ => format!("{least:.2} to {most:.2}"),
            }
        };
        let side = |value: f64| i8::from(value > 1.0 + SAME) - i8::from(value < 1.0 - SAME);
        let first = published.first().map_or(0, |value| side(*value));
        let agree = ours.iter().filter(|value| side(**value) == first).count();
        Claim {
            what: what.to_owned(),
            source: source.to_owned(),
            published: range(published),
            ours: range(ours),
            agree: (agree, ours.len()),
        }
    }

    /// A claim about one number that an experiment computes itself.
    #[must_use]
    pub fn about(
        what: &str,
        source: &str,
        published: impl Into<String>,
        ours: impl Into<String>,
        agrees: bool,
    ) -> Claim {
        Claim {
            what: what.to_owned(),
            source: source.to_owned(),
            published: published.into(),
            ours: ours.into(),
            agree: (usize::from(agrees), 1),
        }
    }
}

/// Claims as a table.
#[must_use]
pub fn table(claims: &[Claim]) -> Table {
    let title = "Published figures beside ours (ours: median over seeds; a range spans all pairs)";
    let mut table = Table::new(title, &["figure", "published", "ours", "direction", "source"]);
    for c in claims {
        table.row([&c.what, &c.published, &c.ours, &c.verdict(), &c.source].map(Clone::clone));
    }
    table
}

#[derive(Clone, Copy)]
enum Form {
    Value,
    Ratio,
    Difference,
}

/// Compares a published figure with the results.
#[must_use]
pub fn hold(figure: &Published, grid: &Grid<'_>) -> Claim {
    let (place, metric) = metric::find(&figure.metric).expect("the plan was checked");
    let (form, compare): (Form, fn(f64, f64) -> f64) =
        match (figure.over.is_empty(), figure.minus.is_empty()) {
            (false, _) => (Form::Ratio, |a, b| a / b),
            (_, false) => (Form::Difference, |a, b| a - b),
            _ => (Form::Value, |a, _| a),
        };
    let mut ours = Vec::new();
    for (workload, fleet) in about(figure, grid) {
        let seeds = |fleet: usize, system: &String| {
            Some(grid.by_seed(grid.at(workload, fleet, system)?, place))
        };
        let on = figure.on.as_ref().and_then(|name| grid.fleet(name)).unwrap_or(fleet);
        for a in figure.of.iter().filter_map(|system| seeds(fleet, system)) {
            if let Form::Value = form {
                ours.extend(stats::median(&stats::paired(&a, &a, compare)));
            }
            let others = figure.over.iter().chain(&figure.minus);
            let others = others.filter_map(|system| seeds(on, system));
            ours.extend(others.filter_map(|b| stats::median(&stats::paired(&a, &b, compare))));
        }
    }
    let ends = figure.value.ends();
    let range = ours.iter().copied().reduce(f64::min).zip(ours.iter().copied().reduce(f64::max));
    Claim {
        what: figure.what.clone(),
        source: figure.source.clone(),
        published: show(form, metric, ends),
        ours: range.map_or("-".to_owned(), |(low, high)| show(form, metric, [low, high])),
        agree: (ours.iter().filter(|v| agrees(form, ends, **v)).count(), ours.len()),
    }
}

/// The workloads and fleets of a figure, by index.
fn about(figure: &Published, grid: &Grid<'_>) -> Vec<(usize, usize)> {
    let about = |names: &[String], name: &str| names.is_empty() || names.iter().any(|n| n == name);
    let groups = grid.groups().into_iter().map(|group| grid.cells[group[0]]);
    let mine = groups.filter(|cell| {
        about(&figure.workloads, grid.plan.workload(*cell))
            && about(&figure.fleets, grid.plan.fleet(*cell))
    });
    mine.map(|cell| (cell.workload, cell.fleet)).collect()
}

fn agrees(form: Form, [low, high]: [f64; 2], ours: f64) -> bool {
    let none = match form {
        Form::Value => {
            return ours >= low * (1.0 - NEAR) && ours <= high * (1.0 + NEAR);
        }
        Form::Ratio => 1.0,
        Form::Difference => 0.0,
    };
    let side = |v: f64| if (v - none).abs() <= SAME { 0 } else { (v - none).signum() as i32 };
    match side(f64::midpoint(low, high)) {
        0 => (ours - none).abs() <= EVEN,
        published => side(ours) == published,
    }
}

fn show(form: Form, metric: &Metric, [low, high]: [f64; 2]) -> String {
    let one = |v: f64| match form {
        Form::Ratio => format!("{v:.2}x"),
        Form::Value => number(metric, v),
        Form::Difference if metric.percent => format!("{:+.2} points", v * 100.0),
        Form::Difference => format!("{v:+.*}", metric.digits),
    };
    let (low, high) = (one(low), one(high));
    if low == high { low } else { format!("{low} to {high}") }
}

/// A value of a metric as text.
#[must_use]
pub fn number(metric: &Metric, value: f64) -> String {
    let value = if metric.percent { value * 100.0 } else { value };
    format!("{value:.*}", metric.digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    // A ratio agrees on the same side of 1, or a figure of no difference is near it; a plain value agrees within a fifth of the range.
    #[test]
    fn directions() {
        let ratio = |published, ours| agrees(Form::Ratio, published, ours);
        assert!(ratio([1.12, 2.06], 1.05) && ratio([1.12, 2.06], 5.0));
        assert!(!ratio([1.12, 2.06], 0.9) && !ratio([1.12, 2.06], 1.005));
        assert!(ratio([0.1, 0.2], 0.9) && !ratio([0.1, 0.2], 1.1));
        assert!(ratio([1.0, 1.0], 0.96) && !ratio([1.0, 1.0], 1.06));
        assert!(agrees(Form::Difference, [-0.16, -0.16], -0.02));
        assert!(!agrees(Form::Difference, [-0.16, -0.16], 0.02));
        assert!(agrees(Form::Value, [0.10, 0.16], 0.19) && !agrees(Form::Value, [0.1, 0.16], 0.2));
    }
}
