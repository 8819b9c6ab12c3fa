//! The third set: workloads, fleets, round trips and loads that are drawn by the hash of the commit
//! that is judged.
//!
//! Settings that exist before a commit can be tuned for, even without intent. These do not exist
//! before it: the file has the ranges, and the hash decides. The set is run once for a release and
//! its result is reported as it is; nothing is chosen by it. A tree with changes is not the commit,
//! so only the small variant runs on one.
//!
//! The capacity of each drawn fleet is measured first, on seeds of its own. Then `goal` judges our
//! default against its rivals.

mod capacity;
mod draw;

use anyhow::{Context as _, bail, ensure};
use meridian_tools::table::Table;
use serde_json::json;

use super::plan::Plan;
use super::spec::{Fleet, Ref, Spec, Workload};
use super::{Context, Findings, goal};
use capacity::Capacity;
use draw::Drawn;

/// Digits of a commit's hash that decide.
const DIGITS: usize = 12;
/// The hash of the small variant without a commit.
const SMALL: &str = "000000000000";

/// Draws the workloads, measures their fleets, and judges.
///
/// # Errors
/// A tree with changes, no commit, or what is wrong with the YAML.
pub(crate) fn run(context: &Context<'_>) -> anyhow::Result<Findings> {
    ensure!(
        context.quick || !meridian_tools::modified(),
        "the tree has changes, so it is no commit that can be judged; commit them, or use --quick"
    );
    let hash = match &context.commit {
        Some(commit) => digits(commit)?,
        None if context.quick => SMALL.to_owned(),
        None => bail!("--commit: missing; give the hash of the commit that is judged"),
    };
    judge(context, &hash)
}

/// The digits of a commit's hash that decide.
fn digits(commit: &str) -> anyhow::Result<String> {
    let hash: String = commit.trim().chars().take(DIGITS).collect();
    let is_hash = hash.len() == DIGITS && hash.chars().all(|c| c.is_ascii_hexdigit());
    if !is_hash {
        bail!("--commit: `{commit}` is not a commit's hash; give {DIGITS} of its digits or more");
    }
    Ok(hash.to_ascii_lowercase())
}

fn judge(context: &Context<'_>, hash: &str) -> anyhow::Result<Findings> {
    let draw = context.spec.draw.as_ref().context("draw: missing; give the ranges")?;
    let count = if context.quick { draw.quick_workloads } else { draw.workloads };
    let regions = context.spec.regions.as_ref().context("regions: missing; name a set")?;
    let regions =
        regions.resolve(&super::catalogue::catalogue().regions, |r| &r.name, "regions")?;
    let drawn = draw::all(draw, hash, count, regions.regions.len());

    let mut spec = with(&context.spec, &drawn);
    spec.systems = goal::named(&draw.capacity.systems);
    spec.measure = draw.capacity.measure;
    (spec.levels, spec.quick.systems) = (Vec::new(), Vec::new());
    let capacities = capacity::measure(context, &Plan::new(&spec, context.quick)?, &draw.capacity)?;

    let warmup = context.spec.measure.warmup;
    let drawn: Vec<Drawn> = drawn
        .into_iter()
        .zip(&capacities)
        .map(|(one, capacity)| one.measured(capacity.answered, warmup, draw))
        .collect();
    let mut spec = with(&context.spec, &drawn);
    spec.systems = goal::named(&spec.systems);
    let mut found = goal::judge(context, &Plan::new(&spec, context.quick)?)?;
    found.tables.insert(0, table(hash, &drawn, &capacities));
    let ranges = json!({"hash": hash, "workloads": workloads(&drawn), "fleets": fleets(&drawn)});
    found.files.push(("drawn.json".to_owned(), serde_json::to_string_pretty(&ranges)? + "\n"));
    Ok(found)
}

fn workloads(drawn: &[Drawn]) -> Vec<&Workload> {
    drawn.iter().map(|one| &one.workload).collect()
}

fn fleets(drawn: &[Drawn]) -> Vec<&Fleet> {
    drawn.iter().map(|one| &one.fleet).collect()
}

/// The file with the drawn workloads and fleets.
fn with(spec: &Spec, drawn: &[Drawn]) -> Spec {
    Spec {
        workloads: drawn.iter().map(|one| Ref::Own(one.workload.clone())).collect(),
        fleets: drawn.iter().map(|one| Ref::Own(one.fleet.clone())).collect(),
        ..spec.clone()
    }
}

/// Everything that was drawn, with the measured capacities.
fn table(hash: &str, drawn: &[Drawn], capacities: &[Capacity]) -> Table {
    let header = [
        "workload",
        "settings",
        "fleet",
        "shares",
        "round trips, ms",
        "bursts",
        "window",
        "capacity, requests/s",
        "offered",
        "answered by",
    ];
    let mut table = Table::new(format!("Drawn by {hash}"), &header);
    for (one, capacity) in drawn.iter().zip(capacities) {
        let load = &one.workload.loads[0];
        let settings = load.generator.iter().flat_map(|generator| &generator.params);
        let settings: Vec<String> =
            settings.map(|(name, value)| format!("{name} {value}")).collect();
        let window = one.workload.measure.map_or(0.0, |m| m.window.0.as_secs_f64());
        table.row([
            one.workload.name.clone(),
            settings.join(", "),
            fleet(&one.fleet),
            joined(load.share.as_deref().unwrap_or_default(), "/"),
            trips(one.workload.rtt_ms.as_deref().unwrap_or_default()),
            load.bursts.map_or("-".to_owned(), |bursts| format!("{} times", bursts.times)),
            format!("{window} s"),
            format!("{:.2}", capacity.answered),
            format!("{:.2}", capacity.offered),
            capacity.by.clone(),
        ]);
    }
    table
}

fn joined<T: ToString>(values: &[T], by: &str) -> String {
    values.iter().map(T::to_string).collect::<Vec<_>>().join(by)
}

fn fleet(fleet: &Fleet) -> String {
    let groups = fleet.groups.iter().map(|group| {
        let mut text = format!("{} {}", joined(&group.count, "/"), group.gpu);
        if let Some(tokens) = group.kv_tokens {
            text += &format!(" with {tokens} KV tokens");
        }
        if let Some(slots) = group.max_num_seqs {
            text += &format!(", {slots} slots");
        }
        text
    });
    let slow = fleet.degraded.iter().map(|one| {
        let [at, until] = [one.at, one.until].map(|span| span.0.as_secs_f64());
        format!("replica {} {} times as slow from {at} to {until} s", one.replica, one.factor)
    });
    groups.chain(slow).collect::<Vec<_>>().join("; ")
}

/// Round trips between regions, then those within them.
fn trips(rtt_ms: &[Vec<f64>]) -> String {
    let between = rtt_ms.iter().enumerate().flat_map(|(a, row)| &row[..a]);
    let within = rtt_ms.iter().enumerate().map(|(a, row)| row[a]);
    let between: Vec<f64> = between.copied().collect();
    let within: Vec<f64> = within.collect();
    format!("{}; within {}", joined(&between, ", "), joined(&within, ", "))
}

#[cfg(test)]
mod tests;
