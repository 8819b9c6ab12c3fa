//! The report of `meridian plan verify`.

use std::fmt::Write;

use meridian_plan::units::{Rate, Span};
use meridian_plan::verify::{Cost, Figures, Measured, Pair, Port, Slow, Untested, Uplink};
use meridian_plan::{PlanFile, Topology};

use super::measure::Asked;

/// A pair that carries more than this share of the usable rate, which is 0.9 of a card's rate, has
/// more than the card's rate.
const FASTER: f64 = 1.2;

pub(super) fn head(count: usize, asked: &Asked) -> String {
    let (streams, time) = (asked.streams, Span(asked.time.as_secs_f64()));
    format!(
        "{count} pairs, {streams} TCP streams for {time} each\n{:<40} {:>10} {:>10} {:>6} {:>8} {:>5}",
        "from, to", "expected", "measured", "share", "RTT", "CPU"
    )
}

fn names(topology: &Topology, from: Port, to: Port) -> String {
    format!("{} to {}", from.text(topology), to.text(topology))
}

pub(super) fn pair(topology: &Topology, pair: &Pair) -> String {
    let Measured { from, to, goodput, rtt, busy } = pair.measured;
    let verdict = match (pair.is_cpu_bound(), pair.is_slow()) {
        (true, _) => "  limited by a processor",
        (_, true) => "  slow",
        _ => "",
    };
    let rtt = if rtt > 0.0 { Span(rtt).to_string() } else { "-".to_owned() };
    format!(
        "{:<40} {:>10} {:>10} {:>4.0} % {rtt:>8} {:>3.0} %{verdict}",
        names(topology, from, to),
        Rate(pair.expected).to_string(),
        Rate(goodput).to_string(),
        100.0 * pair.share(),
        100.0 * busy
    )
}

pub(super) fn failed(
    topology: &Topology,
    (from, to): (Port, Port),
    error: &anyhow::Error,
) -> String {
    format!("{:<40} not measured: {error:#}", names(topology, from, to))
}

/// Where slow pairs are slow.
pub(super) fn slow(topology: &Topology, all: &[Slow]) -> String {
    let mut text = String::new();
    for one in all {
        let (expected, measured) = (Rate(one.expected), Rate(one.measured));
        let (name, share, pairs) = (one.text(topology), 100.0 * one.share(), one.pairs.len());
        let _ = writeln!(
            text,
            "slow: {name}: expected {expected}, measured {measured}, {share:.0} %, in {pairs} pairs"
        );
    }
    if all.is_empty() { "no pair shows a slow link\n".to_owned() } else { text }
}

/// What the measurements do not show.
pub(super) fn limits(topology: &Topology, pairs: &[Pair], untested: &[Untested]) -> String {
    let mut text = String::new();
    for pair in pairs.iter().filter(|pair| pair.is_cpu_bound()) {
        let Measured { from, to, busy, .. } = pair.measured;
        let (pair, share) = (names(topology, from, to), 100.0 * busy);
        let _ = writeln!(
            text,
            "not counted: {pair}: the ends of a stream computed or waited for a processor {share:.0} \
             % of the time, so the link may be faster; use more --streams or idle servers"
        );
    }
    for pair in pairs.iter().filter(|pair| pair.share() > FASTER) {
        let Measured { from, to, goodput, .. } = pair.measured;
        let (pair, measured, expected) =
            (names(topology, from, to), Rate(goodput), Rate(pair.expected));
        let _ = writeln!(
            text,
            "faster than its links: {pair}: {measured} instead of {expected}; the traffic takes \
             another card, or the file has too low a rate"
        );
    }
    for one in untested {
        let (link, tested, usable) =
            (topology.link_text(one.link), Rate(one.tested), Rate(one.usable));
        let _ = writeln!(
            text,
            "tested in part: {link}: no pair can fill it; up to {tested} of {usable}"
        );
    }
    text
}

/// The uplinks while all cards send.
pub(super) fn core(topology: &Topology, at_once: &[Measured], all: &[Uplink]) -> String {
    let mut text = format!("all at once, {} flows\n", at_once.len());
    if all.is_empty() {
        text.push_str("no flow crosses the core; it needs servers under several access switches\n");
    }
    for one in all {
        let verdict = match (one.is_slow(), one.is_cpu_bound) {
            (true, _) => "  slow",
            (_, true) => "  limited by a processor",
            _ => "",
        };
        let _ = writeln!(
            text,
            "{:<40} {:>10} {:>10} {:>4.0} %{verdict}",
            format!("{}, {} flows", topology.link_text(one.link), one.flows),
            Rate(one.expected).to_string(),
            Rate(one.measured).to_string(),
            100.0 * one.measured / one.expected
        );
    }
    text
}

/// What the difference costs a plan.
pub(super) fn cost(file: &PlanFile, cost: &Cost) -> String {
    let Cost { rate, planned, measured, replanned } = cost;
    let mut text = format!("cost for the plan, times at {rate:.3} requests/s\n");
    for (name, figures) in [("as planned", planned), ("as measured", measured)] {
        let Figures { goodput, times } = figures;
        let _ = writeln!(
            text,
            "   {name:<12} {goodput:.3} requests/s, TTFT {} mean, {} for {:.0} %, TPOT {}",
            Span(times.ttft),
            Span(times.ttft_within),
            100.0 * file.slo.attainment,
            Span(times.tpot)
        );
    }
    if !cost.loses() {
        text.push_str("   the links cost none of the goodput\n");
        return text;
    }
    let lost = 100.0 * (1.0 - measured.goodput / planned.goodput);
    let _ = writeln!(text, "   the links cost {lost:.1} % of the goodput");
    match replanned {
        None => text.push_str("   no new plan meets the objectives with the measured rates\n"),
        Some(goodput) if *goodput > measured.goodput * 1.01 => {
            let _ = writeln!(
                text,
                "   a new plan on all GPUs for the measured rates serves {goodput:.3} requests/s: --out, \
                 and plan again"
            );
        }
        Some(_) => text.push_str("   no new plan is better by 1 %\n"),
    }
    text
}
