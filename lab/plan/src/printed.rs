//! The ways of an all-reduce by equations 8 to 11, for simulations of the paper's formulas.
//!
//! Sizes over rates are summed over the hops (6), the ring's data includes both synchronisations of
//! a layer and is so counted twice (5), a switch takes a microsecond and a ring no latency (9).
//! Bytes are bytes and every layer synchronises: as printed, elements are divided by bits a second
//! and all layers are one (4, 5), which leaves no communication for a simulation to show. Hops are
//! those of Figure 2, where a GPU and its card are one node.
//!
//! The load on links is physical, so that simulated groups still compete. [`alone`] leaves it out,
//! as the paper does.

use crate::collective::{self, Algorithm, Choice};
use crate::loads::Loads;
use crate::rivals::{access, on, sent};
use crate::topology::{Direction, GpuId, Topology};

/// Seconds that a switch takes to aggregate (section III-C).
const ADDING: f64 = 1e-6;

/// Equation 11; `None` for one GPU, or GPUs that do not reach each other.
#[must_use]
pub fn printed_ring(topology: &Topology, members: &[GpuId]) -> Option<Choice> {
    let ring = collective::choices(topology, members).into_iter().next()?;
    let count = members.len() as f64;
    let slowest = ring.loads.iter().map(|(link, _)| topology.rate(link));
    let slowest = slowest.fold(f64::INFINITY, f64::min);
    let per_byte = 2.0 * (count - 1.0) * 2.0 / count / slowest;
    Some(Choice { latency: 0.0, per_byte, ..ring })
}

/// Equation 8 over cards only (Figure 2a): members on different access switches meet at the core,
/// one hop further.
#[must_use]
pub fn printed_homogeneous(topology: &Topology, members: &[GpuId]) -> Option<Choice> {
    let (near, same) = meeting(topology, members)?;
    let own = |gpu: &GpuId| topology.own_card(*gpu);
    let cards: Vec<u32> = members.iter().map(own).collect::<Option<_>>()?;
    let met = same || topology.core().is_none();
    let hops = if same { 1.0 } else { 2.0 };
    let rate = |(gpu, card): (&GpuId, &u32)| topology.home(*gpu).cards[*card as usize].rate;
    let slowest = members.iter().zip(&cards).map(rate).fold(f64::INFINITY, f64::min);
    let aside: Option<Vec<u32>> = members.iter().map(|gpu| on(topology, *gpu, near)).collect();
    let loads = if met {
        sent(topology, members, &aside.unwrap_or(cards), false)
    } else {
        sent(topology, members, &cards, true)
    };
    Some(adding(loads, hops / slowest))
}

/// Equation 8 over NVLink and cards (Figure 2b): a member that is not on the switch is relayed to a
/// card that is.
#[must_use]
pub fn printed_heterogeneous(topology: &Topology, members: &[GpuId]) -> Option<Choice> {
    let (near, _) = meeting(topology, members)?;
    let cards: Option<Vec<u32>> = members.iter().map(|gpu| on(topology, *gpu, near)).collect();
    let cards = cards?;
    let mut loads = sent(topology, members, &cards, false);
    let mut worst = 0.0_f64;
    for (gpu, card) in members.iter().zip(&cards) {
        let mut seconds = 1.0 / topology.home(*gpu).cards[*card as usize].rate;
        if topology.own_card(*gpu) != Some(*card) {
            let nvlink = topology.home(*gpu).nvlink?;
            seconds += 1.0 / nvlink;
            loads.add(
                &[topology.nvlink(*gpu, Direction::Out), topology.nvlink(*gpu, Direction::In)],
                1.0,
            );
        }
        worst = worst.max(seconds);
    }
    Some(adding(loads, worst))
}

/// Every way of a group in the paper's planner (Algorithm 2, lines 25 to 31): the ring, and the switch
/// over NVLink and cards. Nothing shares a link, not even members of the group (7).
#[must_use]
pub(crate) fn alone(topology: &Topology, members: &[GpuId]) -> Vec<Choice> {
    let ring = printed_ring(topology, members);
    let all = ring.into_iter().chain(printed_heterogeneous(topology, members));
    all.map(|choice| Choice { loads: Loads::default(), bottleneck: None, ..choice }).collect()
}

/// The first member's access switch, and whether all members' own cards are on it; `None` in one
/// server, or if it does not aggregate.
fn meeting(topology: &Topology, members: &[GpuId]) -> Option<(u32, bool)> {
    let first = *members.first()?;
    if members.iter().all(|gpu| topology.server_of(*gpu) == topology.server_of(first)) {
        return None;
    }
    let own = |gpu: &GpuId| Some(access(topology, *gpu, topology.own_card(*gpu)?));
    let near = own(&first)?;
    topology.access()[near as usize].aggregation?;
    Some((near, members.iter().all(|gpu| own(gpu) == Some(near))))
}

/// There and back, plus the switch's own time.
fn adding(loads: Loads, there: f64) -> Choice {
    let (algorithm, per_byte) = (Algorithm::InNetwork, 2.0 * there);
    Choice { algorithm, latency: ADDING, per_byte, loads, bottleneck: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::TopologySpec;

    // Figure 2: collecting 1 MB takes 160 us over two hops of 100 Gb/s, and half of that if NVLink
    // saves one; the ring of four at 100 Gb/s takes twice the correct time.
    #[test]
    fn figure_2_is_store_and_forward() {
        let yaml = "version: 1\nunits:\n- access: {count: 2, aggregation: {rate: 100Gb/s}}\n  \
                    servers:\n  - {count: 2, gpu: a100, gpus: 2, nvlink: 300GB/s, cards: 2, card_rate: \
                    100Gb/s}\ncore: {switches: 1}\n";
        let topology = TopologySpec::read(yaml).unwrap().build().unwrap();
        let members: Vec<GpuId> = topology.all_gpus().collect();
        let collect = |choice: Choice| 1e6 * choice.per_byte / 2.0 * 1e6;
        let (a, b) = (
            collect(printed_homogeneous(&topology, &members).unwrap()),
            collect(printed_heterogeneous(&topology, &members).unwrap()),
        );
        assert!((a - 160.0).abs() < 1e-6 && (b - 83.333).abs() < 0.01, "{a} {b}");
        let ring = printed_ring(&topology, &members).unwrap();
        assert!((ring.per_byte - 2.0 * 1.5 / 12.5e9).abs() < 1e-15);
    }
}
