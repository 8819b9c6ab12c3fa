//! The answer in one sentence.
//!
//! The sentence compares two fleets of the list. A smaller fleet that answers sooner than a larger one
//! under another policy says most; the pair with the largest difference in size is chosen, whichever
//! policies they have. "Sooner" means both the mean and P90 of TTFT, by more than a twentieth, with no
//! smaller share of the requests within the SLO.

use super::answer::{Answer, Found, Least};
use super::question::Question;
use super::rows::Row;

/// Times above this share of others are level with them, as in experiments.
const LEVEL: f64 = 0.95;

/// The sentence.
pub(super) fn sentence(question: &Question, answer: &Answer) -> String {
    let rows: Vec<&Row> = answer.rows.iter().filter(|row| row.ttft_ms.is_some()).collect();
    let keep_up: Vec<&Row> = rows.iter().copied().filter(|row| row.overloaded.is_none()).collect();
    if rows.is_empty() {
        return "No fleet answers a request.".to_owned();
    }
    if keep_up.is_empty() {
        return "Every fleet is overloaded under every policy: use more replicas, or less load."
            .to_owned();
    }
    if let Some((fewer, more)) = sooner(&keep_up, &rows) {
        return format!(
            "{} under {} {} sooner than {} under {}{}: TTFT {} in P90 and {} in the mean, \
             against {} and {}; {:.1} % within the SLO, against {:.1} %.",
            fleet(question, fewer),
            named(fewer),
            if fewer.gpus == 1 { "answers" } else { "answer" },
            number(more.gpus),
            named(more),
            if more.overloaded.is_some() { " (overloaded)" } else { "" },
            time(p90(fewer)),
            time(mean(fewer)),
            time(p90(more)),
            time(mean(more)),
            fewer.met * 100.0,
            more.met * 100.0,
        );
    }
    same_size(question, &keep_up, &rows)
}

/// A smaller fleet that answers sooner than a larger one of another policy.
fn sooner<'a>(keep_up: &[&'a Row], rows: &[&'a Row]) -> Option<(&'a Row, &'a Row)> {
    let beats = |a: &Row, b: &Row| {
        (a.policy != b.policy || a.arrangement != b.arrangement)
            && a.gpus < b.gpus
            && p90(a) < LEVEL * p90(b)
            && mean(a) < LEVEL * mean(b)
            && a.met >= b.met
    };
    let pairs = keep_up.iter().flat_map(|a| rows.iter().map(move |b| (*a, *b)));
    // Of equal differences, the one with the smaller fleets, then the larger gain.
    let gain = |(a, b): &(&Row, &Row)| p90(b) / p90(a);
    let order = |x: &(&Row, &Row), y: &(&Row, &Row)| {
        let size = |(a, b): &(&Row, &Row)| (b.gpus - a.gpus, u32::MAX - a.gpus);
        size(x).cmp(&size(y)).then(gain(x).total_cmp(&gain(y)))
    };
    pairs.filter(|(a, b)| beats(a, b)).max_by(order)
}

/// The fastest and the slowest policy on one fleet: the smallest with one that keeps up.
fn same_size(question: &Question, keep_up: &[&Row], rows: &[&Row]) -> String {
    let first = keep_up.iter().min_by_key(|row| row.gpus).expect("there is one");
    let same = |row: &&&Row| row.gpus == first.gpus;
    let by = |a: &&&Row, b: &&&Row| p90(a).total_cmp(&p90(b));
    let best = keep_up.iter().filter(same).min_by(by).expect("the first is one");
    let worst = rows.iter().filter(same).max_by(by).expect("the first is one");
    let (fleet, policy) = (fleet(question, best), named(best));
    let has = if best.gpus == 1 { "has" } else { "have" };
    if worst.policy == best.policy && worst.arrangement == best.arrangement {
        return format!(
            "{fleet} under {policy} {has} a TTFT of {} in P90 and {} in the mean.",
            time(p90(best)),
            time(mean(best))
        );
    }
    match p90(best) < LEVEL * p90(worst) {
        false => format!(
            "{fleet} {has} a P90 TTFT of {} to {} under every policy.",
            time(p90(best)),
            time(p90(worst))
        ),
        true => format!(
            "{fleet} under {policy} {has} a P90 TTFT of {}, and of {} under {}.",
            time(p90(best)),
            time(p90(worst)),
            named(worst)
        ),
    }
}

/// The smallest fleets, in one sentence.
pub(super) fn least(question: &Question, answer: &Answer) -> String {
    let one = |least: &Least| {
        let name = named_as(&least.policy, &least.arrangement);
        match &least.found {
            Found::Fleet(row) => {
                let usd = row.usd_per_hour().map(|usd| format!(" ({usd:.2} USD/h)"));
                format!("{} under {name}{}", row.fleet, usd.unwrap_or_default())
            }
            Found::NoneUpTo(most) => {
                format!("none of up to {} under {name}", counted(*most, "replica"))
            }
        }
    };
    let all: Vec<String> = answer.least.iter().map(one).collect();
    format!("The least fleet with {}: {}.", question.slo, all.join(", "))
}

fn p90(row: &Row) -> f64 {
    row.ttft_ms.map_or(f64::INFINITY, |ttft| ttft.p90)
}

fn mean(row: &Row) -> f64 {
    row.ttft_ms.map_or(f64::INFINITY, |ttft| ttft.mean)
}

fn named(row: &Row) -> String {
    named_as(&row.policy, &row.arrangement)
}

/// A policy, and its pools if it has some.
pub(super) fn named_as(policy: &str, arrangement: &str) -> String {
    match arrangement {
        "whole" => policy.to_owned(),
        other => format!("{policy} in {other}"),
    }
}

/// A time in the unit that suits it.
fn time(ms: f64) -> String {
    match ms {
        ms if ms < 1000.0 => format!("{ms:.0} ms"),
        ms if ms < 10_000.0 => format!("{:.2} s", ms / 1000.0),
        ms => format!("{:.1} s", ms / 1000.0),
    }
}

const NUMBERS: [&str; 13] = [
    "no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve",
];

/// A number of things: `1 replica`, `2 replicas`.
pub(super) fn counted(count: u32, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

/// A number as a word, up to twelve.
fn number(count: u32) -> String {
    NUMBERS.get(count as usize).map_or(count.to_string(), |word| (*word).to_owned())
}

/// The GPUs of a fleet at the start of a sentence: `Four H100`.
fn fleet(question: &Question, row: &Row) -> String {
    let word = number(row.gpus);
    let start = word.chars().next().map_or(' ', |first| first.to_ascii_uppercase());
    let kinds: Vec<String> = question.gpus.names().map(str::to_ascii_uppercase).collect();
    match kinds.as_slice() {
        [kind] => format!("{start}{} {kind}", &word[1..]),
        _ => {
            let s = if row.gpus == 1 { "" } else { "s" };
            format!("{start}{} GPU{s} ({})", &word[1..], row.fleet)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Times have the unit that suits them.
    #[test]
    fn times_have_units() {
        assert_eq!([time(812.4), time(1234.0), time(12_345.0)], ["812 ms", "1.23 s", "12.3 s"]);
    }
}
