//! The systems compared, and the ways that each has for an all-reduce.
//!
//! | system | the paper's mode | corrected |
//! | --- | --- | --- |
//! | `distserve` | ring (equation 11) | ring or tree, whichever NCCL would take for the size |
//! | `ds-atp` | switch over cards (8), half by a parameter server while others use the switch | the same, cut-through |
//! | `ds-switchml` | switch over cards (8) | the same, cut-through |
//! | `heroserve` | ring or switch over NVLink and cards, by equations 16 to 18 | ring, tree, relayed or in-network, by min-max link load |
//!
//! ATP is asynchronous: a packet that finds no aggregator slot goes to a parameter server. Their
//! number is not published for inference; we assume half while another group's all-reduce is in
//! progress. The server's cards are a port that all groups share.

use meridian_plan::collective::{self, Algorithm, Choice};
use meridian_plan::{
    GpuId, Topology, printed_heterogeneous, printed_homogeneous, printed_ring, rivals,
};
use serde::{Deserialize, Serialize};

/// The network model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The paper's formulas.
    Paper,
    /// Ours.
    Corrected,
}

impl Mode {
    /// Both.
    pub const ALL: [Mode; 2] = [Mode::Paper, Mode::Corrected];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Paper => "paper",
            Mode::Corrected => "corrected",
        }
    }
}

/// A system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum System {
    /// `DistServe`, without in-network aggregation.
    Distserve,
    /// `DistServe` with ATP, asynchronous with a parameter server.
    DsAtp,
    /// `DistServe` with SwitchML, synchronous.
    DsSwitchml,
    /// `HeroServe`.
    Heroserve,
}

impl System {
    /// All, ours last.
    pub const ALL: [System; 4] =
        [System::Distserve, System::DsAtp, System::DsSwitchml, System::Heroserve];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            System::Distserve => "distserve",
            System::DsAtp => "ds-atp",
            System::DsSwitchml => "ds-switchml",
            System::Heroserve => "heroserve",
        }
    }
}

/// Share of ATP's packets that find no slot while another group uses the switch.
pub(super) const MISSED: f64 = 0.5;

/// The parameter server's rate: that of a server's cards.
pub(super) fn parameter_server(topology: &Topology) -> f64 {
    let cards = topology.servers().first().map_or(&[][..], |server| &server.cards);
    cards.iter().map(|card| card.rate).sum::<f64>().max(1.0)
}

/// ATP's way while other groups use the switch: packets without a slot go to the parameter server
/// from each member, and back to it.
fn fallback(topology: &Topology, members: &[GpuId], switch: Choice) -> Choice {
    let server = MISSED * members.len() as f64 / parameter_server(topology);
    Choice { per_byte: switch.per_byte.max(server), ..switch }
}

/// The ways of a group; none for one GPU.
#[must_use]
pub fn ways(system: System, mode: Mode, topology: &Topology, members: &[GpuId]) -> Vec<Choice> {
    let all = collective::choices(topology, members);
    if all.is_empty() {
        return all;
    }
    let in_one =
        members.iter().all(|gpu| topology.server_of(*gpu) == topology.server_of(members[0]));
    let ring = match mode {
        Mode::Paper => printed_ring(topology, members),
        Mode::Corrected => all.iter().find(|one| one.algorithm == Algorithm::Ring).cloned(),
    };
    if in_one {
        return ring.into_iter().collect();
    }
    let over_cards = || match mode {
        Mode::Paper => printed_homogeneous(topology, members),
        Mode::Corrected => rivals::over_cards(topology, members),
    };
    match (system, mode) {
        (System::Distserve, Mode::Paper) => ring.into_iter().collect(),
        (System::Distserve, Mode::Corrected) => {
            let nccl = |one: &Choice| matches!(one.algorithm, Algorithm::Ring | Algorithm::Tree);
            all.into_iter().filter(nccl).collect()
        }
        (System::DsSwitchml, _) => over_cards().or(ring).into_iter().collect(),
        (System::DsAtp, _) => match over_cards() {
            Some(switch) => vec![switch.clone(), fallback(topology, members, switch)],
            None => ring.into_iter().collect(),
        },
        (System::Heroserve, Mode::Paper) => {
            ring.into_iter().chain(printed_heterogeneous(topology, members)).collect()
        }
        (System::Heroserve, Mode::Corrected) => all,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meridian_plan::{TOPOLOGIES, TopologySpec};

    // Each system has its own ways if a group spans servers, and all use the same ring inside one.
    #[test]
    fn systems_differ_between_servers_alone() {
        let topology = TopologySpec::read(TOPOLOGIES[0].1).unwrap().build().unwrap();
        let group = |gpus: [u32; 4]| gpus.map(GpuId);
        for mode in Mode::ALL {
            let of = |system, gpus| ways(system, mode, &topology, &group(gpus));
            let inside = System::ALL.map(|system| of(system, [0, 1, 2, 3]));
            assert!(inside.iter().all(|one| one == &inside[0] && one.len() == 1));
            let across = System::ALL.map(|system| of(system, [0, 1, 4, 5]));
            assert_eq!((across[1].len(), &across[1][0]), (2, &across[2][0]));
            assert!(across[0] != across[2] && across[3].len() > across[2].len());
        }
    }
}
