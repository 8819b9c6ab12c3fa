//! Prints plans as text.

use std::collections::BTreeMap;
use std::fmt::Write;

use meridian_plan::collective::{Choice, best};
use meridian_plan::units::Span;
use meridian_plan::{
    Advice, FULL, GpuId, Limit, Parallel, Phase, Plan, Printed, Ranked, Rated, Step, Task, Verdict,
    step_in, step_out,
};

/// The number of busiest links to show for a cell.
const LINKS: usize = 3;

pub(super) fn plan(task: &Task<'_>, plan: &Plan, rank: usize) -> String {
    let mut text = String::new();
    let (goodput, gpus, all) = (plan.goodput(), plan.gpus(), task.topology.gpus());
    let each = goodput / f64::from(gpus.max(1));
    let _ = writeln!(
        text,
        "{rank}. {goodput:.3} requests/s on {gpus} of {all} GPUs, {each:.4} a GPU in use"
    );
    if let Some(why) = meridian_plan::idle(task, plan) {
        let _ = writeln!(text, "   {why}");
    }
    // Equal cells are shown once.
    let mut seen: BTreeMap<String, (usize, &Ranked)> = BTreeMap::new();
    for cell in &plan.cells {
        seen.entry(outline(task, cell)).or_insert((0, cell)).0 += 1;
    }
    for (outline, (count, cell)) in seen {
        if plan.cells.len() > 1 {
            let _ = writeln!(text, "   {count} x a cell of {} GPUs:", cell.fleet.gpus());
        }
        text.push_str(&outline);
        text.push_str(&figures(task, cell));
    }
    text
}

/// A line for each kind of instance, with the number of such instances.
fn outline(task: &Task<'_>, cell: &Ranked) -> String {
    let mut lines: Vec<(String, usize)> = Vec::new();
    for rated in cell.fleet.all() {
        let line = instance(task, rated);
        match lines.iter_mut().find(|(other, _)| *other == line) {
            Some((_, count)) => *count += 1,
            None => lines.push((line, 1)),
        }
    }
    lines.iter().fold(String::new(), |mut text, (line, count)| {
        let _ = writeln!(text, "   {count} x {line}");
        text
    })
}

fn instance(task: &Task<'_>, rated: &Rated) -> String {
    let one = rated.instance.parallel;
    let ways = ways(&rated.groups, rated.message);
    let times = match rated.instance.phase {
        Phase::Prefill => format!("{} a prompt", Span(rated.service)),
        Phase::Decode => format!("{} a step of {:.0}", Span(rated.service), rated.batch),
    };
    format!(
        "{} {}: {ways}, {times}, {:.0} % of it network, {:.3}/s",
        rated.instance.phase.name(),
        split(task, one, rated.instance.gpus()),
        100.0 * rated.communication / rated.service,
        rated.rate
    )
}

/// A split and its GPUs.
pub(super) fn split(task: &Task<'_>, one: Parallel, gpus: impl Iterator<Item = GpuId>) -> String {
    let ep = if one.ep { " sharing experts" } else { "" };
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    let mut servers: Vec<u32> = Vec::new();
    for gpu in gpus {
        *kinds.entry(task.topology.kind(gpu).name).or_default() += 1;
        servers.push(task.topology.server_of(gpu));
    }
    servers.sort_unstable();
    servers.dedup();
    let kinds: Vec<String> = kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    let Parallel { tp, pp, .. } = one;
    let servers = match servers.len() {
        1 => "one server".to_owned(),
        several => format!("{several} servers"),
    };
    format!("tp {tp} pp {pp}{ep} on {} in {servers}", kinds.join(" + "))
}

/// The all-reduce of each stage for a message.
pub(super) fn ways(groups: &[Vec<Choice>], message: f64) -> String {
    let best = groups.iter().filter_map(|choices| best(choices, message));
    let mut distinct: Vec<&str> = best.map(|choice| choice.algorithm.name()).collect();
    distinct.dedup();
    if distinct.is_empty() { "no collective".to_owned() } else { distinct.join(", ") }
}

fn figures(task: &Task<'_>, cell: &Ranked) -> String {
    let Ranked { fleet, verdict } = cell;
    let times = fleet.times(task, verdict, verdict.goodput);
    let limit = match verdict.limit {
        Limit::Prefill => "prefill".to_owned(),
        Limit::Decode => "decode".to_owned(),
        Limit::Link(link) => task.topology.link_text(link),
    };
    let mut text = format!(
        "   serves {:.3}/s, limited by {limit}: TTFT {} mean, {} for {} %; TPOT {}; KV {} after\n",
        verdict.goodput,
        Span(times.ttft),
        Span(times.ttft_within),
        100.0 * task.slo.attainment,
        Span(times.tpot),
        Span(verdict.handoff),
    );
    for (name, share) in busiest(task, verdict) {
        let _ = writeln!(text, "   {:.0} % of {name}", 100.0 * share);
    }
    text
}

/// The busiest links, with the share of the permitted traffic that each carries.
fn busiest(task: &Task<'_>, verdict: &Verdict) -> Vec<(String, f64)> {
    let share = |link, bytes| bytes * verdict.goodput / (FULL * task.topology.usable(link));
    let mut all: Vec<_> =
        verdict.loads.iter().map(|(link, bytes)| (link, share(link, bytes))).collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    all.truncate(LINKS);
    all.into_iter().map(|(link, share)| (task.topology.link_text(link), share)).collect()
}

/// The results of the paper's formulas for its own plan.
pub(super) fn printed(printed: &Printed) -> String {
    format!(
        "as printed: TTFT {}, TPOT {}, a request {}, H {:.4}; as judged here:\n",
        Span(printed.ttft),
        Span(printed.tpot),
        Span(printed.request),
        printed.h
    )
}

/// What the paper's network formulas promise for a plan.
pub(super) fn promised(goodput: f64) -> String {
    format!("by the paper's network formulas: {goodput:.3} requests/s; as judged here:\n")
}

/// The gain of each change of the topology.
pub(super) fn advice(best: &Plan, all: &[Advice]) -> String {
    let now = best.goodput();
    let mut text = String::from("gain of one change:\n");
    for Advice { what, gpus, goodput } in all {
        let more = 100.0 * (goodput / now - 1.0);
        let each = if *gpus > 0 { format!(" for {gpus} GPUs") } else { String::new() };
        let _ = writeln!(text, "   {goodput:.3} requests/s ({more:+.1} %): {what}{each}");
    }
    text
}

/// The cheapest steps to grow and to shrink, as differences from the running plan.
pub(super) fn steps(task: &Task<'_>, running: &Ranked) -> String {
    let now = running.verdict.goodput;
    let mut text = String::new();
    let both = [("out", '+', step_out(task, running)), ("in", '-', step_in(task, running))];
    for (name, sign, step) in both {
        let Some(Step { changed, after }) = step else {
            let _ =
                writeln!(text, "step {name}: none; nothing that is free helps, or nothing is left");
            continue;
        };
        let then = after.verdict.goodput;
        let gpus: u32 = changed.iter().map(|one| one.instance.parallel.gpus()).sum();
        let _ = writeln!(text, "step {name}: {now:.3} to {then:.3} requests/s, {sign}{gpus} GPUs");
        for one in changed {
            let names: Vec<String> =
                one.instance.gpus().map(|gpu| task.topology.gpu_name(gpu)).collect();
            let _ = writeln!(text, "{sign} {}\n{sign}   {}", instance(task, &one), names.join(" "));
        }
    }
    text
}
