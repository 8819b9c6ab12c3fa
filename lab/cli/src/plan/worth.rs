//! Whether a plan is worth it: its cost, and aggregated serving on the same GPUs.

use std::fmt::Write;

use meridian_plan::units::Span;
use meridian_plan::{Aggregated, Bound, GpuId, Plan, Prices, Task, Whole, beside, verdict};

use super::{cost, show};

pub(super) fn text(task: &Task<'_>, plan: &Plan, prices: Option<&Prices>) -> String {
    let gpus: Vec<GpuId> = plan.instances().flat_map(|one| one.instance.gpus()).collect();
    let mut text = costs(task, prices, &gpus, plan.goodput());
    let other = beside(task, plan);
    if let Some(other) = &other {
        text.push_str(&aggregated(task, other));
        let gpus: Vec<GpuId> = other.instances.iter().flat_map(|one| one.gpus()).collect();
        text.push_str(&costs(task, prices, &gpus, other.goodput));
    }
    let _ = writeln!(text, "   {}", verdict(task, plan, other.as_ref()));
    text
}

/// The cost at the goodput, and at the rate that was asked for.
fn costs(task: &Task<'_>, prices: Option<&Prices>, gpus: &[GpuId], goodput: f64) -> String {
    let rates = [Some(goodput), task.rate.filter(|rate| *rate < 0.999 * goodput)];
    let bills = rates.into_iter().flatten().filter(|rate| *rate > 0.0);
    bills.map(|rate| cost::line(&cost::bill(task, prices, gpus, rate))).collect()
}

fn aggregated(task: &Task<'_>, other: &Aggregated) -> String {
    let times = other.times(task, other.goodput);
    let mut text = format!(
        "   aggregated on the same GPUs: {:.3} requests/s on {} GPUs, limited by {}: TTFT {} mean, {} \
         for {} %; TPOT {}\n",
        other.goodput,
        other.gpus(),
        other.bound.map_or("nothing", limit),
        Span(times.ttft),
        Span(times.ttft_within),
        100.0 * task.slo.attainment,
        Span(times.tpot),
    );
    let mut lines: Vec<(String, usize)> = Vec::new();
    for one in &other.instances {
        let line = instance(task, one);
        match lines.iter_mut().find(|(other, _)| *other == line) {
            Some((_, count)) => *count += 1,
            None => lines.push((line, 1)),
        }
    }
    for (line, count) in lines {
        let _ = writeln!(text, "   {count} x {line}");
    }
    text
}

fn limit(bound: Bound) -> &'static str {
    match bound {
        Bound::Ttft => "the TTFT objective",
        Bound::Tpot => "the TPOT objective",
        Bound::Memory => "memory for KV",
        Bound::Seats => "the batch",
        Bound::Links => "links",
    }
}

fn instance(task: &Task<'_>, one: &Whole) -> String {
    format!(
        "aggregated {}: {}, steps of up to {:.0} tokens, {} a step of {:.0}, {:.3}/s",
        show::split(task, one.parallel, one.gpus()),
        show::ways(&one.groups, one.message),
        one.budget,
        Span(one.tpot),
        one.batch,
        one.rate
    )
}
