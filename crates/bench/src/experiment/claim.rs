//! Published figures beside ours.
//!
//! A figure may hold for several systems, workloads and fleets at once ("1.12 to 2.06 times the
//! baselines"), so ours is a range too: the least and the most of all pairs it speaks of, each the
//! median over seeds. The verdict is about direction: a comparison agrees where ours is on the same
//! side of no difference as the published figure (within 1 % counts as no difference and agrees
//! with a figure as small); a plain value agrees within a fifth. Size is for the reader, who sees
//! both numbers.

use super::grid::Grid;
use super::metric::{self, Metric};
use super::spec::Published;
use super::stats;
use super::table::Table;

/// A difference this small, as a share, is none.
const SAME: f64 = 0.01;
/// A plain value agrees within this share.
const NEAR: f64 = 0.2;

/// A published figure with ours.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// What it says.
    pub what: String,
    /// Where it says so.
    pub source: String,
    /// The published figure, as text.
    pub published: String,
    /// Ours, as text.
    pub ours: String,
    /// How many of our pairs agree in direction, and of how many.
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

    /// A claim about one number of an experiment's own making.
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

/// Holds a published figure against the results.
#[must_use]
pub fn hold(figure: &Published, grid: &Grid<'_>) -> Claim {
    let (place, metric) = metric::find(&figure.metric).expect("the plan was checked");
    let form = match (figure.over.is_empty(), figure.minus.is_empty()) {
        (false, _) => Form::Ratio,
        (_, false) => Form::Difference,
        _ => Form::Value,
    };
    let mut ours = Vec::new();
    for group in grid.groups() {
        let cell = grid.cells[group[0]];
        let (workload, fleet) = (grid.plan.workload(cell), grid.plan.fleet(cell));
        let about =
            |names: &[String], name: &str| names.is_empty() || names.iter().any(|n| n == name);
        if !about(&figure.workloads, workload) || !about(&figure.fleets, fleet) {
            continue;
        }
        let seeds = |system: &String| {
            let at = grid.at(cell.workload, cell.fleet, system)?;
            Some(grid.by_seed(at, place))
        };
        for a in figure.of.iter().filter_map(seeds) {
            let others = figure.over.iter().chain(&figure.minus).filter_map(seeds);
            match form {
                Form::Value => {
                    ours.extend(stats::median(&a.into_iter().flatten().collect::<Vec<_>>()))
                }
                Form::Ratio => {
                    ours.extend(
                        others.filter_map(|b| stats::median(&stats::paired(&a, &b, |a, b| a / b))),
                    );
                }
                Form::Difference => {
                    ours.extend(
                        others.filter_map(|b| stats::median(&stats::paired(&a, &b, |a, b| a - b))),
                    );
                }
            }
        }
    }
    let ends = figure.value.ends();
    let agree = ours.iter().filter(|v| agrees(form, ends, **v)).count();
    Claim {
        what: figure.what.clone(),
        source: figure.source.clone(),
        published: show(form, metric, ends),
        ours: match (ours.iter().copied().reduce(f64::min), ours.iter().copied().reduce(f64::max)) {
            (Some(low), Some(high)) => show(form, metric, [low, high]),
            _ => "-".to_owned(),
        },
        agree: (agree, ours.len()),
    }
}

fn agrees(form: Form, [low, high]: [f64; 2], ours: f64) -> bool {
    let none = match form {
        Form::Value => {
            return ours >= low * (1.0 - NEAR) && ours <= high * (1.0 + NEAR);
        }
        Form::Ratio => 1.0,
        Form::Difference => 0.0,
    };
    let side = |v: f64| {
        if (v - none).abs() <= SAME { 0 } else { (v - none).signum() as i32 }
    };
    let published = side(f64::midpoint(low, high));
    side(ours) == published || (side(ours) == 0 && side(low) != side(high))
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

    // A ratio agrees on the same side of 1, or where both are no difference; a range that spans no
    // difference takes either; a plain value agrees within a fifth of the range.
    #[test]
    fn directions() {
        let ratio = |published, ours| agrees(Form::Ratio, published, ours);
        assert!(ratio([1.12, 2.06], 1.05) && ratio([1.12, 2.06], 5.0));
        assert!(!ratio([1.12, 2.06], 0.9) && !ratio([1.12, 2.06], 1.005));
        assert!(ratio([0.1, 0.2], 0.9) && !ratio([0.1, 0.2], 1.1));
        assert!(agrees(Form::Difference, [-0.16, -0.16], -0.02));
        assert!(!agrees(Form::Difference, [-0.16, -0.16], 0.02));
        assert!(agrees(Form::Value, [0.10, 0.16], 0.19) && !agrees(Form::Value, [0.1, 0.16], 0.2));
    }
}
