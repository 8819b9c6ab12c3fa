//! Compares published figures with ours, in three words.
//!
//! A figure may hold for several systems, workloads and fleets at once ("1.12 to 2.06 times the
//! baselines"), so ours is a range too: the minimum and maximum over all its pairs, each the median
//! over seeds. Each pair gets one of three words ([`Verdict`]), and a report counts them apart.
//!
//! The effect of a published figure is its distance from no difference: from 1 for a ratio, from 0
//! for a difference. Ours *agrees* if it differs from the published figure, or from the nearer end
//! of its range, by at most a quarter of the effect there. Ratios below 1 are inverted first, so
//! that half and double are effects of the same size. Otherwise ours has the *same sign* if it lies
//! on the same side of no difference by more than 1 %, and *differs* if it does not. A figure of no
//! difference agrees with ours up to 5 %. A plain value has no sign: it agrees within a fifth.

use meridian_tools::metric::{self, Metric};
use meridian_tools::stats;
use meridian_tools::table::Table;

use super::spec::{Bound, Published, Spec, Value, Word};
use super::values::{Row, Values};

/// A difference this small, as a share, is none.
const SAME: f64 = 0.01;
/// A figure of no difference agrees with ours up to this.
const EVEN: f64 = 0.05;
/// A plain value agrees within this share.
const NEAR: f64 = 0.2;
/// A comparison agrees within this share of the published effect.
const QUARTER: f64 = 0.25;

/// How one of our values compares with the published figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Within a quarter of the published effect.
    Agrees,
    /// On the same side of no difference, but of another size.
    SameSign,
    /// On the other side, or no difference.
    Differs,
}

impl Verdict {
    /// The word for a statement that holds or does not.
    #[must_use]
    pub fn of(holds: bool) -> Verdict {
        if holds { Verdict::Agrees } else { Verdict::Differs }
    }

    /// The word for a ratio.
    #[must_use]
    pub fn of_ratio(published: [f64; 2], ours: f64) -> Verdict {
        Form::Ratio.verdict(published, ours)
    }

    /// The word for a difference.
    #[must_use]
    pub fn of_difference(published: [f64; 2], ours: f64) -> Verdict {
        Form::Difference.verdict(published, ours)
    }
}

/// How many of our values have each verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Within a quarter of the published effect.
    pub agree: usize,
    /// Same sign, another size.
    pub same_sign: usize,
    /// Neither.
    pub differ: usize,
}

impl Counts {
    fn add(&mut self, other: Counts) {
        self.agree += other.agree;
        self.same_sign += other.same_sign;
        self.differ += other.differ;
    }
}

impl FromIterator<Verdict> for Counts {
    fn from_iter<I: IntoIterator<Item = Verdict>>(verdicts: I) -> Counts {
        let mut counts = Counts::default();
        for verdict in verdicts {
            match verdict {
                Verdict::Agrees => counts.agree += 1,
                Verdict::SameSign => counts.same_sign += 1,
                Verdict::Differs => counts.differ += 1,
            }
        }
        counts
    }
}

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
    /// The verdicts of our pairs.
    pub counts: Counts,
}

impl Claim {
    /// One of the three words, or how many of the pairs have each.
    #[must_use]
    pub fn verdict(&self) -> String {
        let Counts { agree, same_sign, differ } = self.counts;
        let words = [(agree, "agrees"), (same_sign, "same sign"), (differ, "differs")];
        let given: Vec<_> = words.into_iter().filter(|(count, _)| *count > 0).collect();
        match given.as_slice() {
            [] => "not measured".to_owned(),
            [(_, word)] => (*word).to_owned(),
            several => {
                let each = several.iter().map(|(count, word)| format!("{word} in {count}"));
                each.collect::<Vec<_>>().join(", ")
            }
        }
    }

    /// A claim about a ratio, or a range of ratios. Without a published ratio nothing is compared.
    #[must_use]
    pub fn ratios(what: &str, source: &str, published: &[f64], ours: &[f64]) -> Claim {
        let ends = |values: &[f64]| {
            let least = values.iter().copied().reduce(f64::min)?;
            Some([least, values.iter().copied().reduce(f64::max)?])
        };
        let range = |values: &[f64]| match ends(values) {
            None => "-".to_owned(),
            Some([least, most]) if format!("{least:.2}") == format!("{most:.2}") => {
                format!("{least:.2}")
            }
            Some([least, most]) => format!("{least:.2} to {most:.2}"),
        };
        let counts = ends(published).map_or_else(Counts::default, |published| {
            ours.iter().map(|ours| Verdict::of_ratio(published, *ours)).collect()
        });
        Claim {
            what: what.to_owned(),
            source: source.to_owned(),
            published: range(published),
            ours: range(ours),
            counts,
        }
    }

    /// A claim about one number that an experiment computes itself.
    #[must_use]
    pub fn about(
        what: &str,
        source: &str,
        published: impl Into<String>,
        ours: impl Into<String>,
        verdict: Verdict,
    ) -> Claim {
        Claim {
            what: what.to_owned(),
            source: source.to_owned(),
            published: published.into(),
            ours: ours.into(),
            counts: [verdict].into_iter().collect(),
        }
    }

    /// A target that `held` of `all` reach.
    #[must_use]
    pub fn target(what: &str, held: usize, all: usize) -> Claim {
        Claim {
            what: what.to_owned(),
            source: "the target".to_owned(),
            published: format!("{all} of {all}"),
            ours: format!("{held} of {all}"),
            counts: Counts { agree: held, same_sign: 0, differ: all - held },
        }
    }
}

/// Claims as a table, with the number of pairs of each verdict.
#[must_use]
pub fn table(claims: &[Claim]) -> Table {
    let mut all = Counts::default();
    claims.iter().for_each(|claim| all.add(claim.counts));
    let title = format!(
        "Published figures beside ours (median over seeds; a range spans all pairs): {} agree, {} \
         have the same sign, {} differ",
        all.agree, all.same_sign, all.differ
    );
    let mut table = Table::new(title, &["figure", "published", "ours", "verdict", "source"]);
    for c in claims {
        table.row([&c.what, &c.published, &c.ours, &c.verdict(), &c.source].map(Clone::clone));
    }
    table
}

/// How a figure compares two systems.
#[derive(Clone, Copy)]
enum Form {
    Value,
    Ratio,
    Difference,
    Saving,
}

impl Form {
    fn of(figure: &Published) -> Form {
        match [&figure.over, &figure.minus, &figure.saves_over].map(|names| !names.is_empty()) {
            [true, ..] => Form::Ratio,
            [_, true, _] => Form::Difference,
            [.., true] => Form::Saving,
            _ => Form::Value,
        }
    }

    fn compare(self) -> fn(f64, f64) -> f64 {
        match self {
            Form::Value => |a, _| a,
            Form::Ratio => |a, b| a / b,
            Form::Difference => |a, b| a - b,
            Form::Saving => |a, b| 1.0 - a / b,
        }
    }

    fn verdict(self, [low, high]: [f64; 2], ours: f64) -> Verdict {
        let none = match self {
            Form::Value => return near([low, high], ours, NEAR),
            Form::Ratio => 1.0,
            Form::Difference | Form::Saving => 0.0,
        };
        let side = |v: f64| if (v - none).abs() <= SAME { 0 } else { (v - none).signum() as i32 };
        let published = side(f64::midpoint(low, high));
        if published == 0 {
            return Verdict::of((ours - none).abs() <= EVEN);
        }
        if side(ours) != published {
            return Verdict::Differs;
        }
        // Effects as positive numbers; a ratio below 1 is inverted.
        let effect = |v: f64| match self {
            Form::Ratio if published < 0 => 1.0 / v - 1.0,
            _ => (v - none) * f64::from(published),
        };
        let (one, other, ours) = (effect(low), effect(high), effect(ours));
        let (least, most) = (one.min(other).max(0.0), one.max(other));
        let near = ours >= least * (1.0 - QUARTER) && ours <= most * (1.0 + QUARTER);
        if near { Verdict::Agrees } else { Verdict::SameSign }
    }

    /// Whether a comparison without a figure holds by more than 1 %.
    fn says(self, word: Word, ours: f64) -> Verdict {
        let none = if let Form::Ratio = self { 1.0 } else { 0.0 };
        Verdict::of(match word {
            Word::More => ours > none + SAME,
            Word::Less => ours < none - SAME,
        })
    }

    fn show(self, spec: &Spec, quantity: &str, ends: [f64; 2]) -> String {
        let (digits, percent) = form_of(spec, quantity);
        let one = |v: f64| match self {
            Form::Ratio => format!("{v:.2}x"),
            Form::Saving => format!("{:.1} %", v * 100.0),
            Form::Value => shown(spec, quantity, v),
            Form::Difference if percent => format!("{:+.2} points", v * 100.0),
            Form::Difference => format!("{v:+.digits$}"),
        };
        let [low, high] = ends.map(one);
        if low == high { low } else { format!("{low} to {high}") }
    }
}

/// Agrees within a share of the value, or of the ends of a range.
fn near([low, high]: [f64; 2], ours: f64, share: f64) -> Verdict {
    // A published number is written with fewer digits than ours, so an exact bound is not refused.
    let slack = 1e-9 * high.abs();
    let least = low * (1.0 - share) - slack;
    Verdict::of(ours >= least && ours <= high * (1.0 + share) + slack)
}

impl Published {
    /// Whether it states a value of one system without a comparison.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        matches!(Form::of(self), Form::Value) && self.of.len() == 1
    }

    /// The places that it is about.
    fn about<'a>(&self, values: &'a Values) -> Vec<[&'a str; 2]> {
        let has =
            |names: &[String], name: &str| names.is_empty() || names.iter().any(|n| n == name);
        let mut places = values.places();
        places
            .retain(|[workload, fleet]| has(&self.workloads, workload) && has(&self.fleets, fleet));
        places
    }

    /// Its comparison of some values, by pair: the median over seeds.
    fn compared(&self, values: &Values, places: &[[&str; 2]]) -> Vec<f64> {
        let form = Form::of(self);
        let known = |fleet: &&String| values.rows.iter().any(|row| row.fleet == **fleet);
        let on = self.on.as_ref().filter(known);
        let others = self.over.iter().chain(&self.minus).chain(&self.saves_over);
        let mut all = Vec::new();
        for [workload, fleet] in places {
            let seeds = |row: Option<&'_ Row>| row.map(|row| row.seeds(&self.metric).to_vec());
            for a in self.of.iter().filter_map(|of| seeds(values.at(of, workload, fleet))) {
                if let Form::Value = form {
                    all.extend(stats::median(&stats::paired(&a, &a, form.compare())));
                }
                // In the small variant the other workload may be left out.
                let against = self.against.as_deref().unwrap_or(workload);
                let on = on.map_or(*fleet, String::as_str);
                for b in others.clone().filter_map(|other| seeds(values.at(other, against, on))) {
                    all.extend(stats::median(&stats::paired(&a, &b, form.compare())));
                }
            }
        }
        all
    }
}

/// Compares every published figure of a file with values.
#[must_use]
pub fn all(spec: &Spec, values: &Values) -> Vec<Claim> {
    let published = Values::published(spec);
    let of = |figure: &Published| {
        let places = figure.about(values);
        let each: Vec<&[[&str; 2]]> = match figure.each {
            true => places.chunks(1).collect(),
            false => vec![&places],
        };
        let hold = |places: &&[[&str; 2]]| hold(spec, figure, [values, &published], places);
        each.iter().filter_map(hold).collect::<Vec<_>>()
    };
    spec.published.iter().flat_map(of).collect()
}

/// Compares one figure with values at some places; `None` if it is one of several that lacks either.
fn hold(
    spec: &Spec,
    figure: &Published,
    [values, published]: [&Values; 2],
    places: &[[&str; 2]],
) -> Option<Claim> {
    let form = Form::of(figure);
    let ours = figure.compared(values, places);
    let ends = |values: &[f64]| {
        let least = values.iter().copied().reduce(f64::min)?;
        Some([least, values.iter().copied().reduce(f64::max)?])
    };
    let value = match figure.value {
        Some(value) => Some(value),
        None => ends(&figure.compared(published, places)).map(Value::Range),
    };
    if figure.each && (value.is_none() || ours.is_empty()) {
        return None;
    }
    let verdict = |ours: &f64| match (value?, figure.within) {
        (Value::Word(word), _) => Some(form.says(word, *ours)),
        (Value::Bound(Bound::AtLeast(bound)), _) => Some(Verdict::of(*ours >= bound)),
        (Value::Bound(Bound::AtMost(bound)), _) => Some(Verdict::of(*ours <= bound)),
        (value, Some(share)) => Some(near(value.ends()?, *ours, share)),
        (value, None) => Some(form.verdict(value.ends()?, *ours)),
    };
    let show = |ends: [f64; 2]| form.show(spec, &figure.metric, ends);
    let names = places.first().copied().unwrap_or_default();
    Some(Claim {
        what: figure.what.replace("{workload}", names[0]).replace("{fleet}", names[1]),
        source: figure.source.clone(),
        published: match value {
            Some(Value::Word(Word::More)) => "more, without a figure".to_owned(),
            Some(Value::Word(Word::Less)) => "less, without a figure".to_owned(),
            Some(Value::Bound(Bound::AtLeast(bound))) => format!("at least {}", show([bound; 2])),
            Some(Value::Bound(Bound::AtMost(bound))) => format!("at most {}", show([bound; 2])),
            value => value.and_then(Value::ends).map_or("-".to_owned(), show),
        },
        ours: ends(&ours).map_or("-".to_owned(), show),
        counts: ours.iter().filter_map(verdict).collect(),
    })
}

/// The digits of a quantity, and whether it is shown in percent.
fn form_of(spec: &Spec, quantity: &str) -> (usize, bool) {
    let own = spec.quantities.iter().find(|one| one.name == quantity);
    let own = own.map(|one| (one.digits, one.percent));
    let metric = || metric::find(quantity).map(|(_, metric)| (metric.digits, metric.percent));
    own.or_else(metric).unwrap_or_default()
}

/// A value of a quantity as text.
#[must_use]
pub fn shown(spec: &Spec, quantity: &str, value: f64) -> String {
    let (digits, percent) = form_of(spec, quantity);
    let value = if percent { value * 100.0 } else { value };
    format!("{value:.digits$}")
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

    const WORDS: [Verdict; 3] = [Verdict::Agrees, Verdict::SameSign, Verdict::Differs];

    // A ratio agrees within a quarter of the published effect, from the nearer end of a range; half
    // and double are effects of one size. Beyond that only the side of 1 counts.
    #[test]
    fn ratios_have_three_words() {
        let [agrees, same_sign, differs] = WORDS;
        for (published, ours, expected) in [
            ([2.4, 2.4], 2.06, agrees),
            ([2.4, 2.4], 1.04, same_sign),
            ([1.26, 1.26], 8.1, same_sign),
            ([1.12, 2.06], 1.5, agrees),
            ([1.12, 2.06], 1.1, agrees),
            ([1.12, 2.06], 2.32, agrees),
            ([1.12, 2.06], 1.08, same_sign),
            ([1.12, 2.06], 0.9, differs),
            ([1.12, 2.06], 1.005, differs),
            ([0.5, 0.5], 1.0 / 1.76, agrees),
            ([0.5, 0.5], 1.0 / 2.24, agrees),
            ([0.5, 0.5], 1.0 / 2.3, same_sign),
            ([0.1, 0.2], 0.9, same_sign),
            ([0.1, 0.2], 1.1, differs),
            ([1.0, 1.0], 0.96, agrees),
            ([1.0, 1.0], 1.06, differs),
            ([0.5, 0.5], f64::NAN, differs),
        ] {
            assert_eq!(Verdict::of_ratio(published, ours), expected, "{published:?} {ours}");
        }
    }

    // A difference has the same three words. A plain value has no sign, and agrees within a fifth
    // of its range.
    #[test]
    fn differences_and_values() {
        let [agrees, same_sign, differs] = WORDS;
        let difference = |ours| Verdict::of_difference([-0.16, -0.16], ours);
        assert_eq!([-0.125, -0.02, 0.02].map(difference), [agrees, same_sign, differs]);
        let value = |ours| Form::Value.verdict([0.10, 0.16], ours);
        assert_eq!([0.19, 0.2, 0.07].map(value), [agrees, differs, differs]);
    }

    // A statement without a figure holds if ours is on its side by more than 1 %.
    #[test]
    fn words_have_a_side() {
        let [agrees, _, differs] = WORDS;
        for (word, ours, expected) in [
            (Word::More, 1.02, agrees),
            (Word::More, 1.005, differs),
            (Word::Less, 0.9, agrees),
            (Word::Less, 1.3, differs),
        ] {
            assert_eq!(Form::Ratio.says(word, ours), expected, "{word:?} {ours}");
        }
        assert_eq!(Form::Difference.says(Word::Less, -0.3), agrees);
    }

    // A claim shows its word, or the count of each; the table counts the words of all pairs apart.
    #[test]
    fn words_are_counted_apart() {
        let one = Claim::ratios("a", "s", &[2.0], &[1.9]);
        let several = Claim::ratios("b", "s", &[2.0], &[1.9, 1.2, 1.3, 0.9]);
        let ours_alone = Claim::ratios("c", "s", &[], &[1.9]);
        let target = Claim::target("d", 2, 3);
        let claims = [one, several, ours_alone, target];
        assert_eq!(
            claims.each_ref().map(Claim::verdict),
            [
                "agrees",
                "agrees in 1, same sign in 2, differs in 1",
                "not measured",
                "agrees in 2, differs in 1"
            ]
        );
        let title = table(&claims).title;
        assert!(title.ends_with(": 4 agree, 2 have the same sign, 2 differ"), "{title}");
    }
}
