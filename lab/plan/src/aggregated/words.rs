//! Whether separate instances are worth it, in a sentence with the reason.

use super::{Aggregated, Bound};
use crate::search::Plan;
use crate::task::Task;
use crate::units::Span;

/// A difference below this share is none.
const EQUAL: f64 = 0.02;

/// A sentence: which of a plan and aggregated serving on its GPUs serves more, by how much, and why.
#[must_use]
pub fn verdict(task: &Task<'_>, plan: &Plan, other: Option<&Aggregated>) -> String {
    let Some(other) = other else {
        return "aggregated serving serves nothing on these GPUs within the objectives; separate \
                instances do"
            .to_owned();
    };
    let (own, theirs) = (plan.goodput(), other.goodput);
    if (own - theirs).abs() <= EQUAL * own.max(theirs) {
        return format!(
            "equal within {:.0} %: aggregated serving needs no KV transfer and only one kind of \
             instance",
            100.0 * EQUAL
        );
    }
    if own > theirs {
        let by = 100.0 * (own / theirs - 1.0);
        return format!("separate instances serve {by:.0} % more: {}", ends(task, other));
    }
    let by = 100.0 * (theirs / own - 1.0);
    format!("aggregated serving serves {by:.0} % more: {}", spare(plan))
}

/// What ends the rate of aggregated serving.
fn ends(task: &Task<'_>, other: &Aggregated) -> String {
    let largest = other.instances.iter().max_by(|a, b| a.rate.total_cmp(&b.rate));
    let Some(one) = largest else { return "none of its instances serves anything".to_owned() };
    let (tpot, budget) = (Span(one.tpot), one.budget);
    match other.bound.unwrap_or(one.bound) {
        Bound::Tpot => format!(
            "in one engine, prompts of up to {budget:.0} tokens in a step delay the tokens of {:.0} \
             others; TPOT is {tpot} on average and {} % must stay below {}",
            one.batch,
            100.0 * task.slo.attainment,
            Span(task.slo.tpot)
        ),
        Bound::Ttft => format!(
            "in one engine, a prompt shares its steps with the replies of {:.0} others, so the TTFT \
             objective ends its rate",
            one.batch
        ),
        Bound::Memory => format!(
            "in one engine, each instance keeps its weights and the KV of {:.0} requests, and has no \
             memory for more",
            one.batch
        ),
        Bound::Seats => {
            format!("in one engine, the batch of {:.0} requests is full", one.batch)
        }
        Bound::Links => "all-reduces of prompts fill the links between its servers".to_owned(),
    }
}

/// What the plan leaves unused.
fn spare(plan: &Plan) -> String {
    let sum = |of: fn(&crate::fleet::Verdict) -> f64| -> f64 {
        plan.cells.iter().map(|cell| of(&cell.verdict)).sum()
    };
    let (own, prefill, decode) = (plan.goodput(), sum(|one| one.prefill), sum(|one| one.decode));
    let [first, second] = [prefill, decode].map(|able| 100.0 * (1.0 - own / able));
    let spare = |name: &str, limit: &str, share: f64| {
        format!("in the plan {limit} limits and {name} has {share:.0} % of its capacity to spare")
    };
    if first.max(second) < 10.0 {
        "a step that reads the weights for replies computes prompts beside them".to_owned()
    } else if second > first {
        spare("decode", if first < 1.0 { "prefill" } else { "a link" }, second)
    } else {
        spare("prefill", if second < 1.0 { "decode" } else { "a link" }, first)
    }
}
