//! The answer in one sentence.
//!
//! The sentence compares two fleets of the list. A smaller fleet that answers sooner than a larger one
//! under another policy says most; the pair with the largest difference in size is chosen, whichever
//! policies they have. "Sooner" means both the mean and P90 of TTFT, with no smaller share of the
//! requests within the SLO, and sure over the seeds ([`is_shorter`]). Fleets without such a difference
//! are level.

use super::answer::{Answer, Found, Least};
use super::interval::{self, MET, SEEDS, TTFT_MEAN, TTFT_P90, is_shorter};
use super::names::named_as;
use super::question::Question;
use super::rows::Row;

/// The sentence.
pub(super) fn sentence(question: &Question, answer: &Answer) -> String {
    let rows: Vec<&Row> = answer.rows.iter().collect();
    let is_good = |row: &&Row| row.overloaded.is_none() && row.ttft_ms.is_some();
    let keep_up: Vec<&Row> = rows.iter().copied().filter(is_good).collect();
    if rows.iter().all(|row| row.ttft_ms.is_none()) {
        return "No fleet answers a request.".to_owned();
    }
    if keep_up.is_empty() {
        return all_overloaded(question, &rows);
    }
    match sooner(&keep_up, &rows) {
        Some((fewer, more)) => format!(
            "{} under {} {} sooner than {} under {}: TTFT {} in P90 and {} in the mean, against {} and \
             {}; {} within the SLO, against {}.",
            fleet(question, fewer),
            named(fewer),
            if fewer.gpus == 1 { "answers" } else { "answer" },
            number(more.gpus),
            marked(more),
            time(p90(fewer)),
            time(mean(fewer)),
            time(p90(more)),
            time(mean(more)),
            within(fewer),
            within(more),
        ),
        None => same_size(question, &keep_up, &rows),
    }
}

/// The prices of both fleets of the sentence, if it compares two and their prices are known.
pub(super) fn prices(question: &Question, answer: &Answer) -> Option<String> {
    let rows: Vec<&Row> = answer.rows.iter().collect();
    let is_good = |row: &&Row| row.overloaded.is_none() && row.ttft_ms.is_some();
    let keep_up: Vec<&Row> = rows.iter().copied().filter(is_good).collect();
    let (fewer, more) = sooner(&keep_up, &rows)?;
    Some(format!(
        "{} {} {:.2} USD an hour, {} cost {:.2}.",
        fleet(question, fewer),
        if fewer.gpus == 1 { "costs" } else { "cost" },
        fewer.usd_per_hour()?,
        number(more.gpus),
        more.usd_per_hour()?
    ))
}

/// The policies on the largest fleet, each with its excess.
fn all_overloaded(question: &Question, rows: &[&Row]) -> String {
    let largest = rows.iter().max_by_key(|row| row.gpus).expect("there is a row");
    let same = rows.iter().filter(|row| row.gpus == largest.gpus);
    format!(
        "Every fleet is overloaded under every policy, even {} under {}: use more replicas, or less load.",
        small(question, largest),
        list(&same.map(|row| marked(row)).collect::<Vec<_>>()),
    )
}

/// A smaller fleet that answers sooner than a larger one of another policy.
fn sooner<'a>(keep_up: &[&'a Row], rows: &[&'a Row]) -> Option<(&'a Row, &'a Row)> {
    let beats = |a: &Row, b: &Row| {
        (a.policy != b.policy || a.arrangement != b.arrangement)
            && a.gpus < b.gpus
            && a.met >= b.met
            && is_shorter(a, b, TTFT_P90)
            && is_shorter(a, b, TTFT_MEAN)
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

/// All policies on one fleet, the smallest with one that keeps up: those level with the soonest, those
/// that are surely later, and those that are overloaded.
fn same_size(question: &Question, keep_up: &[&Row], rows: &[&Row]) -> String {
    let gpus = keep_up.iter().map(|row| row.gpus).min().expect("there is one");
    let same = |row: &&&Row| row.gpus == gpus;
    let mut good: Vec<&Row> = keep_up.iter().filter(same).copied().collect();
    good.sort_by(|a, b| p90(a).total_cmp(&p90(b)));
    let best = good[0];
    let (later, level): (Vec<&Row>, Vec<&Row>) =
        good.iter().partition(|row| is_shorter(best, row, TTFT_P90));
    let why = match (level.len(), (question.seeds as usize) < SEEDS) {
        (1, _) => "",
        (_, true) => " (in no sure order)",
        (_, false) => " (level)",
    };
    let has = if gpus == 1 { "has" } else { "have" };
    let mut says = format!("{} {has} a P90 TTFT of {}{why}", fleet(question, best), times(&level));
    if !later.is_empty() {
        says += &format!(", and of {}", times(&later));
    }
    let over = rows.iter().filter(same).filter(|row| row.overloaded.is_some());
    let over: Vec<String> = over.map(|row| marked(row)).collect();
    if !over.is_empty() {
        says += &format!("; not enough under {}", list(&over));
    }
    says + "."
}

/// The range of P90 and the policies, from the soonest on: `100 ms to 110 ms under a and b`.
fn times(rows: &[&Row]) -> String {
    let [first, last] = [rows[0], rows[rows.len() - 1]].map(|row| time(p90(row)));
    let range = if first == last { first } else { format!("{first} to {last}") };
    format!("{range} under {}", list(&rows.iter().map(|row| named(row)).collect::<Vec<_>>()))
}

/// The smallest fleets, in one sentence.
pub(super) fn least(question: &Question, answer: &Answer) -> String {
    let one = |least: &Least| {
        let name = named_as(&least.policy, &least.arrangement);
        let near = least.nearest.as_ref().map(|row| format!("{}: {}", row.fleet, share(row)));
        match &least.found {
            Found::Fleet(row) => {
                let usd =
                    row.usd_per_hour().map_or(String::new(), |usd| format!(" at {usd:.2} USD/h"));
                let near = near.map_or(String::new(), |near| format!("; {near}"));
                format!("{} under {name} ({}{usd}{near})", row.fleet, share(row))
            }
            Found::NoneUpTo(most) => format!(
                "none of up to {} under {name} ({})",
                counted(*most, "replica"),
                near.unwrap_or_default()
            ),
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

/// The percentage within the objective, with its interval, or that the fleet is overloaded. Two digits
/// tell a near miss from a hit.
pub(super) fn met(row: &Row) -> String {
    match &row.overloaded {
        Some(overload) => overload.mark(),
        None => interval::cell(row, MET, [100, 2]),
    }
}

/// The percentage in a sentence.
fn within(row: &Row) -> String {
    format!("{} %", interval::cell(row, MET, [100, 1]))
}

/// The same as [`met`], in a sentence.
fn share(row: &Row) -> String {
    let unit = if row.overloaded.is_none() { " %" } else { "" };
    met(row) + unit
}

/// A policy, and its overload if it has one.
fn marked(row: &Row) -> String {
    match &row.overloaded {
        Some(overload) => format!("{} ({})", named(row), overload.mark()),
        None => named(row),
    }
}

fn named(row: &Row) -> String {
    named_as(&row.policy, &row.arrangement)
}

/// `a, b and c`.
fn list(all: &[String]) -> String {
    match all {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        _ => all.join(""),
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

/// The GPUs of a fleet: `four H100`.
fn small(question: &Question, row: &Row) -> String {
    let kinds: Vec<String> = question.gpus.names().map(str::to_ascii_uppercase).collect();
    match kinds.as_slice() {
        [kind] => format!("{} {kind}", number(row.gpus)),
        _ => {
            let s = if row.gpus == 1 { "" } else { "s" };
            format!("{} GPU{s} ({})", number(row.gpus), row.fleet)
        }
    }
}

/// The GPUs of a fleet at the start of a sentence: `Four H100`.
fn fleet(question: &Question, row: &Row) -> String {
    let words = small(question, row);
    let start = words.chars().next().map_or(' ', |first| first.to_ascii_uppercase());
    format!("{start}{}", &words[1..])
}

#[cfg(test)]
mod tests;
