//! HeroServe's baselines: in-network aggregation as SwitchML and ATP, and NCCL.
//!
//! In the paper SwitchML and ATP do not use NVLink ([`over_cards`]): every member sends its whole
//! message over a card and gets the sum back over it. Members whose cards lead to different access
//! switches meet at the core, if there is one; or those that are not on the first member's switch
//! go over PCIe to a card of their server that is. The faster of the two is used. A core is assumed
//! to aggregate like its access switches, as in the paper's Figure 2.
//!
//! Their own people would not run them so. Servers with several GPUs first add inside and send one
//! message ([`switched`]), and an all-reduce for which the switch is slower goes over NCCL's own ring
//! or tree ([`nccl`]).

use crate::collective::{self, Algorithm, Choice};
use crate::loads::Loads;
use crate::topology::{Aggregation, Direction, GpuId, LinkId, Topology};

/// NCCL's own ways between servers: ring and tree, of which it takes the faster for a size; inside a
/// server the ring.
#[must_use]
pub fn nccl(topology: &Topology, members: &[GpuId]) -> Vec<Choice> {
    let mut all = collective::choices(topology, members);
    all.retain(|one| matches!(one.algorithm, Algorithm::Ring | Algorithm::Tree));
    all
}

/// Aggregation with a local reduction first, or over cards only if that has more throughput; `None`
/// in one server, or if no switch aggregates.
#[must_use]
pub fn switched(topology: &Topology, members: &[GpuId]) -> Option<Choice> {
    let mut all = collective::choices(topology, members);
    all.retain(|one| one.algorithm == Algorithm::InNetwork);
    let all = all.into_iter().chain(over_cards(topology, members));
    all.min_by(|a, b| a.per_byte.total_cmp(&b.per_byte))
}

/// Aggregation over cards only; `None` in one server, or if no switch aggregates.
#[must_use]
pub fn over_cards(topology: &Topology, members: &[GpuId]) -> Option<Choice> {
    let first = *members.first()?;
    if members.iter().all(|gpu| topology.server_of(*gpu) == topology.server_of(first)) {
        return None;
    }
    let own = |gpu: &GpuId| topology.own_card(*gpu);
    let near = access(topology, first, own(&first)?);
    let aggregation = topology.access()[near as usize].aggregation?;
    let cards: Vec<u32> = members.iter().map(own).collect::<Option<_>>()?;
    let met = members.iter().zip(&cards).all(|(gpu, card)| access(topology, *gpu, *card) == near);
    let plain = || sent(topology, members, &cards, !met);
    let all = if met {
        vec![plain()]
    } else {
        let core = topology.core().map(|_| plain());
        let aside: Option<Vec<u32>> = members.iter().map(|gpu| on(topology, *gpu, near)).collect();
        core.into_iter().chain(aside.map(|cards| sent(topology, members, &cards, false))).collect()
    };
    let of = |loads| choice(topology, aggregation, loads);
    all.into_iter().map(of).min_by(|a, b| a.per_byte.total_cmp(&b.per_byte))
}

/// The access switch of a card of the GPU's server.
pub(crate) fn access(topology: &Topology, gpu: GpuId, card: u32) -> u32 {
    topology.home(gpu).cards[card as usize].access
}

/// A card of the GPU's server on that switch: its own, or else one of the others in turn, so that the
/// server's GPUs spread over them.
pub(crate) fn on(topology: &Topology, gpu: GpuId, switch: u32) -> Option<u32> {
    let own = topology.own_card(gpu)?;
    if access(topology, gpu, own) == switch {
        return Some(own);
    }
    let count = topology.home(gpu).cards.len() as u32;
    let there: Vec<u32> =
        (0..count).filter(|card| access(topology, gpu, *card) == switch).collect();
    there.get(own as usize * there.len() / count as usize).copied()
}

/// The load of a byte on links if each member sends it over its card and gets it back.
pub(crate) fn sent(topology: &Topology, members: &[GpuId], cards: &[u32], up: bool) -> Loads {
    let mut loads = Loads::default();
    for (gpu, card) in members.iter().zip(cards) {
        for way in [Direction::Out, Direction::In] {
            let mut links: Vec<LinkId> =
                vec![topology.pcie(*gpu, way), topology.card(topology.server_of(*gpu), *card, way)];
            if up {
                links.push(topology.uplink(access(topology, *gpu, *card), way));
            }
            loads.add(&links, 1.0);
        }
    }
    loads
}

fn choice(topology: &Topology, aggregation: Aggregation, loads: Loads) -> Choice {
    let slowest = loads.slowest(topology);
    let per_byte = slowest.map_or(0.0, |(_, seconds)| seconds).max(1.0 / aggregation.rate);
    let bottleneck = slowest.map(|(link, _)| link);
    let latency = aggregation.latency;
    Choice { algorithm: Algorithm::InNetwork, latency, per_byte, loads, bottleneck }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::TopologySpec;

    // Two members of a server that share a card have half of it each, whereas HeroServe's server
    // reduces first and its cards carry a part each.
    #[test]
    fn cards_carry_whole_messages() {
        let yaml = "version: 1\nunits:\n- access: {aggregation: {rate: 100Gb/s}}\n  servers:\n  - \
                    {count: 2, gpu: a100, gpus: 4, nvlink: 300GB/s, cards: 2, card_rate: 100Gb/s}\n";
        let topology = TopologySpec::read(yaml).unwrap().build().unwrap();
        let members: Vec<GpuId> = topology.all_gpus().collect();
        let flat = over_cards(&topology, &members).unwrap();
        let folded = crate::collective::choices(&topology, &members);
        let folded = folded.iter().find(|one| one.algorithm == Algorithm::InNetwork).unwrap();
        assert!((flat.per_byte / folded.per_byte - 4.0).abs() < 1e-9);
        // With a local reduction a rival has the same.
        assert_eq!(switched(&topology, &members).unwrap().per_byte, folded.per_byte);
        assert_eq!(switched(&topology, &members[..4]), None);
        assert_eq!(nccl(&topology, &members).len(), 2);
        assert_eq!(over_cards(&topology, &members[..4]), None);
    }

    // The GPUs of a server whose own cards lead elsewhere spread over its cards on a switch.
    #[test]
    fn members_spread_over_the_cards_of_a_switch() {
        let yaml = "version: 1\nunits:\n- access: {count: 2}\n  servers:\n  - {gpu: a100, gpus: 4, \
                    cards: 4, card_rate: 100Gb/s}\n";
        let topology = TopologySpec::read(yaml).unwrap().build().unwrap();
        let cards: Vec<_> = topology.all_gpus().map(|gpu| on(&topology, gpu, 0)).collect();
        assert_eq!(cards, [0, 0, 2, 2].map(Some));
    }

    // Members on two switches meet at the core, or on one switch over PCIe.
    #[test]
    fn two_tracks_meet_somewhere() {
        let of = |core: &str| {
            let yaml = format!(
                "version: 1\nunits:\n- access: {{count: 2, aggregation: {{rate: 100Gb/s}}}}\n  \
                 servers:\n  - {{count: 2, gpu: a100, gpus: 2, nvlink: 300GB/s, cards: 2, card_rate: \
                 100Gb/s}}\n{core}"
            );
            let topology = TopologySpec::read(&yaml).unwrap().build().unwrap();
            let members: Vec<GpuId> = topology.all_gpus().collect();
            over_cards(&topology, &members).unwrap().per_byte
        };
        assert!((of("") / of("core: {switches: 2}\n") - 2.0).abs() < 1e-9);
    }
}
