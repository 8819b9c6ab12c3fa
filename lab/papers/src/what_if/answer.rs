//! The answer: each policy on each fleet, and the smallest fleet of each policy.

use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, ensure};
use meridian_protocol::suggest;
use meridian_tools::parallel;

use super::fleet::{Arrangement, MOST};
use super::interval::SEEDS;
use super::least::least;
use super::question::Question;
use super::rows::Row;
use super::run::{Cell, Prepared};
use super::settle;
use super::shadow;

/// Called after each fleet: the number done, and the name of the one that ended.
pub type Progress<'a> = dyn Fn(usize, &str) + Sync + 'a;

/// The answer to a question.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Each policy on each fleet: by arrangement, then policy, then size.
    pub rows: Vec<Row>,
    /// The smallest fleet of each policy and arrangement.
    pub least: Vec<Least>,
    /// Requests, in the mean of the seeds.
    pub requests: f64,
    /// Seconds in which they arrive.
    pub seconds: f64,
    /// What the reader has to know.
    pub notes: Vec<String>,
}

/// The smallest fleet of a policy that meets the objective.
#[derive(Clone, Debug)]
pub struct Least {
    /// The policy.
    pub policy: String,
    /// The arrangement.
    pub arrangement: String,
    /// The fleet.
    pub found: Found,
    /// The fleet that comes nearest without meeting it: the next smaller one or, if none is found, the
    /// largest. `None` below the smallest possible fleet.
    pub nearest: Option<Box<Row>>,
}

/// The result of a search.
#[derive(Clone, Debug)]
pub enum Found {
    /// This fleet and every larger one that was simulated meet the objective, and one with a replica
    /// less does not.
    Fleet(Box<Row>),
    /// No fleet of up to this many replicas does.
    NoneUpTo(u32),
}

/// Simulates every fleet, on all cores.
///
/// # Errors
/// Everything that makes the question impossible, with field, value and remedy.
pub fn answer(question: &Question, progress: &Progress<'_>) -> anyhow::Result<Answer> {
    check(question)?;
    let prepared = Prepared::new(question)?;
    let done = AtomicUsize::new(0);
    let run = |cell: Cell<'_>| -> anyhow::Result<Row> {
        let row = Row::of(question, cell, &prepared.run(cell)?);
        let count = done.fetch_add(1, Ordering::Relaxed) + 1;
        progress(count, &format!("{} on {}", row.policy, row.fleet));
        Ok(row)
    };
    let pairs: Vec<(Arrangement, _)> = question
        .arrangements
        .iter()
        .flat_map(|arrangement| question.policies.iter().map(|policy| (*arrangement, policy)))
        .collect();
    let sizes = &question.sizes;
    let cell = |(arrangement, policy), replicas| Cell { policy, arrangement, replicas };
    let rows = parallel(pairs.len() * sizes.len(), |at| {
        run(cell(pairs[at / sizes.len()], sizes[at % sizes.len()]))
    });
    let rows: Vec<Row> = rows.into_iter().collect::<Result<_, _>>()?;
    let searched = parallel(pairs.len(), |at| {
        let known = &rows[at * sizes.len()..(at + 1) * sizes.len()];
        search(question, known, |replicas| run(cell(pairs[at], replicas)), pairs[at].0)
    });
    let (mut rows, mut least, mut by_chance) = (Vec::new(), Vec::new(), Vec::new());
    for one in searched {
        let Searched { rows: all, found, settled } = one?;
        least.push(Least::of(question, &all, found)?);
        rows.extend(all.into_iter().filter(|row| sizes.contains(&row.replicas)));
        by_chance.extend(settled);
    }
    let (requests, seconds) = prepared.size();
    let mut notes = notes(question, &rows);
    notes.extend(by_chance);
    notes.extend_from_slice(&prepared.notes);
    let mut answer = Answer { rows, least, requests, seconds, notes };
    if let Some(live) = &question.traffic.shadow {
        let verdicts = shadow::verdicts(live, &answer.rows);
        answer.notes.extend(verdicts);
    }
    Ok(answer)
}

/// The fleets of a policy and arrangement.
struct Searched {
    /// By size, those that were asked for and those of the search.
    rows: Vec<Row>,
    /// The size of the smallest that is enough.
    found: Option<u32>,
    /// A line for each fleet that is enough by chance.
    settled: Vec<String>,
}

/// Searches the smallest fleet, beginning with the `known` ones of the same policy and arrangement.
fn search(
    question: &Question,
    known: &[Row],
    run: impl Fn(u32) -> anyhow::Result<Row>,
    arrangement: Arrangement,
) -> anyhow::Result<Searched> {
    let mut rows = known.to_vec();
    let tried: Vec<(u32, bool)> = known.iter().map(|row| (row.replicas, row.meets)).collect();
    // A prompt that is too long fails on every fleet.
    let hopeless = known.iter().all(|row| 1.0 - row.invalid < question.slo.share);
    let ends = [question.fewest(arrangement), if hopeless { 0 } else { question.most }];
    let found = least(&tried, ends, |replicas| {
        let row = run(replicas)?;
        let meets = row.meets;
        rows.push(row);
        Ok(meets)
    })?;
    rows.sort_by_key(|row| row.replicas);
    let settled = settle::settle(&mut rows);
    Ok(Searched { rows, found, settled })
}

impl Least {
    /// The smallest fleet among `rows`, by its size.
    fn of(question: &Question, rows: &[Row], found: Option<u32>) -> anyhow::Result<Least> {
        let first = rows.first().context("there is a size")?;
        let own = |row: &&Row| Some(row.replicas) == found;
        let nearest = rows.iter().rfind(|row| found.is_none_or(|found| row.replicas < found));
        Ok(Least {
            policy: first.policy.clone(),
            arrangement: first.arrangement.clone(),
            found: rows
                .iter()
                .find(own)
                .map_or(Found::NoneUpTo(question.most), |row| Found::Fleet(Box::new(row.clone()))),
            nearest: nearest.map(|row| Box::new(row.clone())),
        })
    }
}

/// Fewer requests have no quantiles worth comparing.
const FEW: f64 = 100.0;

fn check(question: &Question) -> anyhow::Result<()> {
    let model = &question.model;
    let known = meridian_engine::MODELS.map(|model| model.name);
    let is_known = known.contains(&model.as_str());
    ensure!(is_known, "model: `{model}` is unknown; {}", suggest(model, &known));
    ensure!(!question.policies.is_empty(), "policies: the list is empty; name one or more");
    for (at, policy) in question.policies.iter().enumerate() {
        let twice = question.policies[..at].iter().any(|other| other.name == policy.name);
        ensure!(
            !twice,
            "policies: `{}` is there twice; name each policy once, and give files different names",
            policy.name
        );
    }
    ensure!(!question.sizes.is_empty(), "replicas: the list is empty; use a range as in 4..8");
    let most = question.most;
    ensure!((1..=MOST).contains(&most), "most: {most} is out of range; use 1 to {MOST}");
    let largest = question.sizes.iter().max().copied().unwrap_or(0);
    ensure!(
        most >= largest,
        "most: {most} is below the {largest} replicas of a fleet; use {largest} or more"
    );
    for (at, arrangement) in question.arrangements.iter().enumerate() {
        let twice = question.arrangements[..at].contains(arrangement);
        ensure!(!twice, "pools: {arrangement} is there twice; give each share once");
        if let Arrangement::Pools(share) = arrangement {
            ensure!(
                (0.01..=0.99).contains(share),
                "pools: {share} is not a share of prefill replicas; use 0.01 to 0.99"
            );
        }
        let fewest = question.fewest(*arrangement);
        let small = question.sizes.iter().find(|size| **size < fewest);
        if let Some(size) = small {
            let each =
                if *arrangement == Arrangement::Whole { "a replica" } else { "two replicas" };
            anyhow::bail!(
                "replicas: {size} is too few for {each} in each region; use {fewest} or more"
            );
        }
    }
    let gbps = question.kv_gbps;
    ensure!(
        (0.1..=10_000.0).contains(&gbps),
        "kv-gbps: {gbps} is not the rate of a network card; use 0.1 to 10000 Gb/s"
    );
    Ok(())
}

/// What follows from the rows.
fn notes(question: &Question, rows: &[Row]) -> Vec<String> {
    let mut notes = question.traffic.notes.clone();
    let invalid = rows.iter().map(|row| row.invalid).fold(0.0, f64::max);
    if invalid > 0.0 {
        notes.push(format!(
            "{:.1} % of the requests are longer than the context of {} or than a GPU's KV memory, and \
             fail on every fleet; use another model, a higher --tp or a GPU with more memory.",
            invalid * 100.0,
            question.model
        ));
    }
    let cut = rows.iter().map(|row| row.cut).fold(0.0, f64::max);
    if cut > 0.0 {
        notes.push(format!(
            "{:.1} % of the replies are cut where the context of {} is full.",
            cut * 100.0,
            question.model
        ));
    }
    let counted = rows.iter().map(|row| row.requests).fold(f64::INFINITY, f64::min);
    if counted < FEW {
        notes.push(format!(
            "Too few requests count for P90 and P99 ({counted:.0}): use a longer trace or more --seeds."
        ));
    }
    if (question.seeds as usize) < SEEDS {
        let few = match question.seeds {
            1 => "One seed has no intervals and shows".to_owned(),
            few => format!("{few} seeds have rough intervals and show"),
        };
        notes.push(format!("{few} no order of policies; use --seeds {SEEDS} or more."));
    }
    for gpu in question.gpus.names().filter(|gpu| question.prices.of(gpu).is_none()) {
        notes.push(format!("The price of {gpu} is unknown; give it with --price {gpu}=USD."));
    }
    notes
}
