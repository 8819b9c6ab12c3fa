//! The gain, one recommendation, and the limits of both.

use meridian_cards::worth::Advice;

use super::table;
use crate::flow::doctor::report::{Gain, Interval, Report, Where};

/// What each change would be worth.
pub(super) fn gains(report: &Report) -> String {
    let worth = &report.worth;
    let (Some(card), Some(used)) = (&worth.busiest_card, worth.use_percent) else {
        return "Worth: unknown, as no card's use is known\n".to_owned();
    };
    let mut text = format!(
        "Worth, at {used:.1} % mean use of {card}, the busiest card\n\
         \x20Simulated requests in time relative to fair sharing, {}\n",
        granularity(worth.kv_layers)
    );
    let heads = ["", "no change", "two classes", "two classes with a floor", "MFS"];
    let row = |gain: &Gain| {
        let shown = |one: Interval| format!("{:.2} ({:.2} to {:.2})", one.mean, one.low, one.high);
        let all = [gain.two_class, gain.two_class_floor, gain.mfs];
        let all =
            all.map(|one| if gain.place == Where::Below { "1.00".into() } else { shown(one) });
        let first = [gain.workload.to_owned(), "1.00".to_owned()];
        first.into_iter().chain(all).collect()
    };
    text += &table(&heads, worth.workloads.iter().map(row).collect());
    for gain in &worth.workloads {
        let (workload, end) = (gain.workload, gain.range_ends_at_percent.unwrap_or_default());
        text += &match gain.place {
            Where::Below => format!(
                " {workload}: no use below {end:.1} % was simulated, so no gain is claimed\n"
            ),
            Where::Above => {
                format!(" {workload}: at least these, from {end:.1} %, the highest simulated use\n")
            }
            Where::Within => continue,
        };
    }
    text
}

fn granularity(layers: &str) -> String {
    match layers {
        "all" => "KV of all layers in one transfer".to_owned(),
        "1" => "KV layer by layer".to_owned(),
        layers => format!("KV of {layers} layers in one transfer"),
    }
}

/// The recommendation.
pub(super) fn advice(report: &Report) -> String {
    let text = match report.worth.advice {
        Advice::Unknown => {
            "none. Give the cards' rates with --rate, and watch while the engines are busy."
        }
        Advice::Nothing => "change nothing. At this use no order of transfers has a clear gain.",
        Advice::ByLayer => {
            "send KV layer by layer, if your engine can. At its present granularity the rest\n\
             is worth little; layer by layer, first tokens are earlier under every policy, and two\n\
             classes with a floor are worth something:"
        }
        Advice::TwoClasses => {
            "two classes with a floor (`meridian flow qdisc`): collectives above KV, and a\n\
             part of the card for fetches."
        }
        Advice::Gate => {
            "first two classes with a floor (`meridian flow qdisc`), then a gate that orders KV\n\
             transfers by deadline. The difference is that between the last two columns."
        }
    };
    let mut text = format!("Recommendation: {text}\n");
    if report.worth.advice == Advice::ByLayer {
        for one in &report.worth.by_layer {
            let (floor, workload) = (one.floor, one.workload);
            text += &format!(
                " {workload}: {:.2} ({:.2} to {:.2})\n",
                floor.mean, floor.low, floor.high
            );
        }
    }
    text
}

/// The assumptions behind the numbers.
pub(super) fn limits(report: &Report) -> String {
    if report.worth.use_percent.is_none() {
        return String::new();
    }
    "\
Limits
 The gains are simulated: Mixtral 8x7B on 16 prefill GPUs whose expert exchange shares the cards
 with KV (`meridian experiment mfs-load`). Another model or cluster gains more or less.
 If no collective crosses your cards, as with tensor parallelism inside a server, classes have
 nothing to separate, and the gain does not apply.
 The use is a mean over the time watched, as in the simulation. Watch at the load that matters;
 a quiet minute hides the bursts of a busy one. Hosts that were not watched may be busier.
"
    .to_owned()
}
