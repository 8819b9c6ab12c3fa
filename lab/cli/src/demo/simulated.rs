//! The simulated part: fewer GPUs for the same traffic, and three regions.
//!
//! Both are excerpts of commands that say more, and name those.

use anyhow::Context;
use clap::Parser;
use meridian_fleet::up::demo::wrapped;
use meridian_papers::experiment;
use meridian_papers::experiment::values::{Row, Values};
use meridian_papers::what_if::{Report, answer};
use meridian_tools::stats;

use super::say;
use crate::what_if;

/// The command whose sentence is shown.
const WHAT_IF: &str =
    "meridian what-if mooncake --replicas 4,8 --policies default,round_robin --most 8";
/// The experiment whose rows are shown.
const REGIONS: &str = "three-regions";
/// Its rows: each region alone, one gateway for all, and ours.
const SYSTEMS: [&str; 5] = [
    "round robin, each region alone",
    "sglang-router's policy, each region alone",
    "llm-d's sticky rule, each region alone",
    "LMetric, one gateway for all",
    "Meridian",
];
/// Its seeds; README's table has five.
const SEEDS: u32 = 2;

/// A command line of `what-if`.
#[derive(Parser)]
struct WhatIfLine {
    #[command(flatten)]
    what_if: what_if::Args,
}

/// Simulates and prints both.
pub(super) fn show() -> anyhow::Result<()> {
    say("Simulated with the gateway's own routing code: 20 minutes of Mooncake's traffic\n");
    say(&wrapped(&sentence()?));
    say(&format!("\n{WHAT_IF}"));
    say("\nSimulated chat in three regions whose daily peaks differ, two A100 each:\n");
    let entry = experiment::find(REGIONS).context("the experiment ships with the program")?;
    let values = experiment::short(entry, &SYSTEMS, SEEDS)?;
    say(&regions(&values));
    say(&format!("  of {SEEDS} seeds; twelve systems, five seeds: meridian experiment {REGIONS}"));
    Ok(())
}

/// The answer of `what-if`, with the prices of both fleets.
fn sentence() -> anyhow::Result<String> {
    // The first two words are the program and its command.
    let line =
        WhatIfLine::try_parse_from(WHAT_IF.split(' ').skip(1)).context("the line is a constant")?;
    let question = what_if::question(&line.what_if)?;
    let answer = answer(&question, &|_, _| {})?;
    let report = Report { question: &question, answer: &answer, command: WHAT_IF };
    Ok([Some(report.sentence()), report.prices()].map(Option::unwrap_or_default).join(" "))
}

/// A line for each system, in the order of the experiment.
fn regions(values: &Values) -> String {
    let mut lines =
        vec![format!("{:<44}{:>10}{:>10}{:>14}", "", "TTFT mean", "P90", "whole answer")];
    lines.extend(values.rows.iter().map(of_system));
    lines.join("\n")
}

fn of_system(row: &Row) -> String {
    let mean = |metric: &str| stats::mean(&row.known(metric)).map(|mean| mean.mean);
    let ms = |metric| mean(metric).map_or("-".to_owned(), |ms| format!("{ms:.0} ms"));
    let whole = mean("e2e_ms.mean").map_or("-".to_owned(), |ms| format!("{:.2} s", ms / 1000.0));
    format!("{:<44}{:>10}{:>10}{whole:>14}", row.system, ms("ttft_ms.mean"), ms("ttft_ms.p90"))
}

#[cfg(test)]
mod tests {
    use super::*;

    // The shown command is one, and the rows of the experiment fit a terminal of 80 columns.
    #[test]
    fn commands_are_known_and_rows_fit() {
        let line =
            WhatIfLine::try_parse_from(WHAT_IF.split(' ').skip(1)).expect("the line is known");
        let question = what_if::question(&line.what_if).expect("it can be asked");
        assert_eq!((question.sizes, question.policies.len()), (vec![4, 8], 2));
        assert!(WHAT_IF.len() <= 80);
        let row = |name: &&str| {
            let times = ["ttft_ms.mean", "ttft_ms.p90", "e2e_ms.mean"];
            let row = Row::new(name, "chat", "");
            times.into_iter().fold(row, |row, time| row.with(time, [99_999.0]))
        };
        let text = regions(&Values { rows: SYSTEMS.iter().map(row).collect() });
        assert_eq!(text.lines().count(), 1 + SYSTEMS.len());
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}
