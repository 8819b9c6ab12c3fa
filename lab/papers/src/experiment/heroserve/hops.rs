//! Figure 2: collecting 1 MB at a switch over cards only, and with NVLink first.

use anyhow::Context as _;
use meridian_plan::{
    Direction, GpuId, LinkName, Route, Topology, TopologySpec, hop, printed_heterogeneous,
    printed_homogeneous, route,
};
use meridian_tools::results;
use meridian_tools::table::Table;
use serde_json::json;

use crate::experiment::claim::{Claim, Verdict};
use crate::experiment::{Context, Findings, params};

/// Three GPUs, two of them in one server; each card has its own switch, with one switch above.
const TOPOLOGY: &str = "version: 1
name: figure-2
units:
- access: {count: 2, aggregation: {rate: 100Gb/s}}
  servers:
  - {count: 1, name: left, gpu: a100, gpus: 2, nvlink: 300GB/s, cards: 2, card_rate: 100Gb/s}
  - {count: 1, name: right, gpu: a100, gpus: 1, cards: 2, card_rate: 100Gb/s}
core: {switches: 1}
";
/// Published microseconds: over cards only, with NVLink.
const PUBLISHED: (f64, f64) = (160.0, 90.0);

/// Runs it.
///
/// # Errors
/// When a knob is missing.
pub(crate) fn run(context: &Context<'_>) -> anyhow::Result<Findings> {
    let bytes = context.knob("bytes")?;
    let topology = TopologySpec::read(TOPOLOGY)?.build()?;
    let printed = store_and_forward(&topology, bytes)?;
    let ours = cut_through(&topology, bytes)?;
    let header = ["mode", "over cards alone, us", "NVLink first, us", "less, %"];
    let mut table = Table::new("To collect at the switch", &header);
    let mut found =
        Findings { params: params::of_text(&format!("{TOPOLOGY}{bytes}")), ..Findings::default() };
    for (mode, (alone, first)) in [("paper", printed), ("corrected", ours)] {
        let less = 100.0 * (1.0 - first / alone);
        table.row([
            mode.to_owned(),
            format!("{alone:.1}"),
            format!("{first:.1}"),
            format!("{less:.1}"),
        ]);
        let near = |a: f64, b: f64| (a / b - 1.0).abs() <= 0.2;
        let verdict = match near(alone, PUBLISHED.0) && near(first, PUBLISHED.1) {
            false if first < alone => Verdict::SameSign,
            both => Verdict::of(both),
        };
        found.claims.push(Claim::about(
            &format!("1 MB, us, mode {mode}"),
            "Fig. 2",
            format!("{:.0} against {:.0}", PUBLISHED.0, PUBLISHED.1),
            format!("{alone:.1} against {first:.1}"),
            verdict,
        ));
        for (system, us) in [("homogeneous", alone), ("heterogeneous", first)] {
            let given = [("mode", json!(mode)), ("collect_us", json!(us))];
            found.rows.push(results::bare(system, "1 MB", &given));
        }
    }
    found.tables.push(table);
    Ok(found)
}

/// Microseconds by equation 10.
fn store_and_forward(topology: &Topology, bytes: f64) -> anyhow::Result<(f64, f64)> {
    let members: Vec<GpuId> = topology.all_gpus().collect();
    let alone = printed_homogeneous(topology, &members).context("the switches add")?;
    let first = printed_heterogeneous(topology, &members).context("NVLink relays")?;
    // An all-reduce collects and distributes in the same way.
    Ok((alone.per_byte * bytes / 2.0 * 1e6, first.per_byte * bytes / 2.0 * 1e6))
}

/// Microseconds of the same paths if switches cut through: the slowest link, plus each hop's
/// latency.
fn cut_through(topology: &Topology, bytes: f64) -> anyhow::Result<(f64, f64)> {
    let cards = |server: u32, nth: u32| {
        move |name: LinkName| name == LinkName::Card(server, nth, Direction::Out)
    };
    // The second GPU's own card is on the other switch: up to the core, or over NVLink to the first's.
    let over_core = || -> Option<Route> {
        let own = link(topology, cards(0, 1))?;
        let up = link(topology, |name| name == LinkName::Uplink(1, Direction::Out))?;
        let latency = hop::PCIE + hop::CARD + 2.0 * hop::SWITCH;
        Some(Route { links: vec![own, up], latency, relayed: false })
    };
    let relayed = || -> Option<Route> {
        let way = route(topology, GpuId(1), GpuId(0), bytes)?;
        let mut links = way.links.clone();
        links.push(link(topology, cards(0, 0))?);
        let latency = way.latency + hop::PCIE + hop::CARD + hop::SWITCH;
        Some(Route { links, latency, relayed: true })
    };
    let us = |way: Route| way.seconds(topology, bytes) * 1e6;
    let alone = over_core().context("the core joins the switches")?;
    Ok((us(alone), us(relayed().context("NVLink joins the GPUs")?)))
}

fn link(topology: &Topology, is: impl Fn(LinkName) -> bool) -> Option<meridian_plan::LinkId> {
    (0..topology.link_count()).map(meridian_plan::LinkId).find(|id| is(topology.link(*id)))
}
