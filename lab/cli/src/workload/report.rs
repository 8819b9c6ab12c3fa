//! The statistics of a trace, as text and as JSON.

use std::fmt::Write;

use meridian_workload::trace::{Extensions, Lengths, PrefixReuse, Summary};
use serde_json::{Value, json};

/// The number of turns that have a line each.
const TURNS: usize = 8;

/// The statistics as text.
pub(crate) fn text(s: &Summary) -> String {
    let mut out = String::new();
    let mut line = |name: &str, text: String| {
        writeln!(out, "{name:<14} {text}").expect("a String takes all");
    };
    let (least, mean, most) = s.per_minute;
    line("requests", format!("{} in {:.0} s, {:.2} a second", s.requests, s.seconds, s.per_second));
    line("per minute", format!("{least} to {most}, mean {mean:.0}; gaps CV {:.2}", s.gap_cv));
    line("input tokens", lengths(&s.input));
    line("output tokens", lengths(&s.output));
    if !s.regions.is_empty() {
        let regions: Vec<_> = s.regions.iter().map(|(name, n)| format!("{name} {n}")).collect();
        line("regions", regions.join(", "));
    }
    match &s.reuse {
        Some(reuse) => {
            line("prefix reuse", ideal(reuse));
            line("LRU hits", lru(reuse));
        }
        None => line("prefix reuse", "unknown: no block ids".to_owned()),
    }
    if let Some(turns) = &s.turns {
        line("later turns", format!("{:.1} % of requests", turns.share * 100.0));
        line("  seconds since", lengths(&turns.gap_s));
        line("  new tokens", lengths(&turns.new_tokens));
        line("  by turn", by_turn(turns));
    }
    out
}

fn lengths(l: &Lengths) -> String {
    let Lengths { mean, p50, p90, p99, max } = l;
    format!("mean {mean:.0}, p50 {p50:.0}, p90 {p90:.0}, p99 {p99:.0}, max {max:.0}")
}

fn ideal(reuse: &PrefixReuse) -> String {
    let PrefixReuse { blocks, distinct, of_blocks, of_tokens, .. } = reuse;
    format!(
        "{:.1} % of {blocks} blocks, {:.1} % of tokens; {distinct} different prefixes",
        of_blocks * 100.0,
        of_tokens * 100.0
    )
}

fn lru(reuse: &PrefixReuse) -> String {
    let hits = reuse.lru.iter().map(|(size, share)| format!("{size}: {:.1} %", share * 100.0));
    hits.collect::<Vec<_>>().join(", ")
}

fn by_turn(turns: &Extensions) -> String {
    let counts: Vec<_> = turns.by_turn.iter().take(TURNS).map(u64::to_string).collect();
    let more = if turns.by_turn.len() > TURNS { ", ..." } else { "" };
    format!("{}{more}", counts.join(", "))
}

/// The statistics as JSON.
pub(crate) fn json(s: &Summary) -> Value {
    let lengths = |l: &Lengths| {
        let Lengths { mean, p50, p90, p99, max } = l;
        json!({"mean": mean, "p50": p50, "p90": p90, "p99": p99, "max": max})
    };
    let (least, mean, most) = s.per_minute;
    let region = |(name, n): &(std::sync::Arc<str>, u64)| (name.to_string(), json!(n));
    json!({
        "requests": s.requests,
        "seconds": s.seconds,
        "per_second": s.per_second,
        "gap_cv": s.gap_cv,
        "per_minute": {"min": least, "mean": mean, "max": most},
        "input_tokens": lengths(&s.input),
        "output_tokens": lengths(&s.output),
        "regions": s.regions.iter().map(region).collect::<serde_json::Map<_, _>>(),
        "reuse": s.reuse.as_ref().map(|r| json!({
            "blocks": r.blocks,
            "distinct": r.distinct,
            "of_blocks": r.of_blocks,
            "of_tokens": r.of_tokens,
            "lru": r.lru.iter().map(|(size, share)| json!({"blocks": size, "hits": share}))
                .collect::<Vec<_>>(),
        })),
        "turns": s.turns.as_ref().map(|t| json!({
            "share": t.share,
            "gap_s": lengths(&t.gap_s),
            "new_tokens": lengths(&t.new_tokens),
            "by_turn": t.by_turn,
        })),
    })
}
