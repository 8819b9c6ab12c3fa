//! A picture of the placement: servers under their access switches, each GPU in its instance's
//! colour. Large topologies show their first servers.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::Unit;
use crate::instance::Phase;
use crate::task::Task;
use crate::topology::GpuId;

/// Servers that are drawn.
const MOST: usize = 48;
/// Servers of a row.
const ROW: usize = 6;
/// Side of a GPU, and the gap between two.
const GPU: usize = 34;
const GAP: usize = 6;
/// Most GPUs side by side in a server.
const WIDE: usize = 4;

pub(super) fn placement(task: &Task<'_>, units: &[Unit<'_>]) -> String {
    let topology = task.topology;
    let mut of: BTreeMap<GpuId, (usize, String)> = BTreeMap::new();
    for (at, unit) in units.iter().enumerate() {
        for (stage, gpus) in unit.instance().stages.iter().enumerate() {
            for gpu in gpus {
                of.insert(*gpu, (at, format!("{}.{stage}", short(unit))));
            }
        }
    }
    let servers = &topology.servers()[..topology.servers().len().min(MOST)];
    let tall = servers.iter().map(|server| rows(server.gpus as usize)).max().unwrap_or(1);
    let (width, height) = (WIDE * (GPU + GAP) + GAP, tall * (GPU + GAP) + GAP + 18);
    let (columns, lines) = (servers.len().min(ROW), servers.len().div_ceil(ROW));
    let (across, down) = (columns * (width + 16) + 16, lines * (height + 34) + 64);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{across}\" height=\"{down}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <text x=\"16\" y=\"20\" font-size=\"14\">{} on {}: {} instances; P prefill, D decode, then the stage</text>\n",
        escaped(&task.subject.name),
        escaped(&topology.name),
        units.len()
    );
    for (at, server) in servers.iter().enumerate() {
        let (x, y) = (16 + at % ROW * (width + 16), 48 + at / ROW * (height + 34));
        let rails =
            server.cards.iter().map(|card| card.access).collect::<std::collections::BTreeSet<_>>();
        let rails: Vec<String> = rails.iter().map(u32::to_string).collect();
        let _ = writeln!(
            svg,
            "<text x=\"{x}\" y=\"{}\" fill=\"#666\">access {}</text>\n<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"4\" fill=\"#f6f6f6\" stroke=\"#999\"/>\n<text x=\"{}\" y=\"{}\">{} ({})</text>",
            y - 5,
            rails.join(", "),
            x + GAP,
            y + 14,
            escaped(&server.name),
            server.kind.name
        );
        for nth in 0..server.gpus as usize {
            let (gx, gy) = (x + GAP + nth % WIDE * (GPU + GAP), y + 20 + nth / WIDE * (GPU + GAP));
            let used = of.get(&GpuId(server.first + nth as u32));
            let colour = used.map_or("#ffffff".to_owned(), |(at, _)| colour(*at, &units[*at]));
            let label = used.map_or("", |(_, label)| label.as_str());
            let _ = writeln!(
                svg,
                "<rect x=\"{gx}\" y=\"{gy}\" width=\"{GPU}\" height=\"{GPU}\" fill=\"{colour}\" stroke=\"#555\"/>\n<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{label}</text>",
                gx + GPU / 2,
                gy + GPU / 2 + 4
            );
        }
    }
    let hidden = topology.servers().len() - servers.len();
    if hidden > 0 {
        let _ = writeln!(svg, "<text x=\"16\" y=\"{}\">and {hidden} servers more</text>", down - 8);
    }
    svg.push_str("</svg>\n");
    svg
}

fn rows(gpus: usize) -> usize {
    gpus.div_ceil(WIDE)
}

/// `P0`, `D3`.
fn short(unit: &Unit<'_>) -> String {
    let number = unit.name.rsplit('-').next().unwrap_or_default();
    let letter = if unit.instance().phase == Phase::Prefill { 'P' } else { 'D' };
    format!("{letter}{number}")
}

/// Warm for prefill, cold for decode, another hue for each instance.
fn colour(at: usize, unit: &Unit<'_>) -> String {
    let base = if unit.instance().phase == Phase::Prefill { 10 } else { 190 };
    format!("hsl({},70%,75%)", base + at * 23 % 70)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
