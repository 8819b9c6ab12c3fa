//! The systems compared, and the ways that each has for an all-reduce.
//!
//! | system | the paper's formulas | corrected |
//! | --- | --- | --- |
//! | `distserve` | ring (equation 11) | NCCL's ring or tree, whichever it would take for the size |
//! | `ds-switchml` | switch over cards (8) | switch after a local reduction, or NCCL's ring or tree |
//! | `ds-atp` | the same, half by a parameter server while others use the switch | the same, with the parameter server |
//! | `heroserve` | ring or switch over NVLink and cards | ring, tree, relayed or in-network |
//!
//! Corrected, `distserve` and the two with a switch take the fastest way for the size, and
//! `heroserve` the way with the least load on the fullest link. In the paper's mode `heroserve`
//! chooses by equations 16 to 18, in the network mode it takes the faster way (Algorithm 2, lines 25
//! to 31).
//!
//! ATP is asynchronous: a packet that finds no aggregator slot goes to a parameter server. Their
//! number is not published for inference; we assume half while another group's all-reduce is in
//! progress. The server's cards are a port that all groups share.

use meridian_plan::collective::{self, Choice};
use meridian_plan::{
    Direction, GpuId, LinkName, Loads, Topology, printed_heterogeneous, printed_homogeneous,
    printed_ring, rivals,
};
use serde::{Deserialize, Serialize};

use super::assumptions::{Assumption, Assumptions};

/// The formulas and the objective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The paper's formulas and objective.
    Paper,
    /// The paper's network formulas with our objective.
    Network,
    /// Ours.
    Corrected,
}

impl Mode {
    /// All, ours last.
    pub const ALL: [Mode; 3] = [Mode::Paper, Mode::Network, Mode::Corrected];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Paper => "paper",
            Mode::Network => "network",
            Mode::Corrected => "corrected",
        }
    }

    /// What it assumes.
    #[must_use]
    pub fn assumptions(self) -> Assumptions {
        use Assumption::{Alone, BareRivals, PrintedChoice, RingOnly, RingTwice, StoreAndForward};
        let printed = [RingTwice, RingOnly, StoreAndForward, BareRivals];
        match self {
            Mode::Paper => Assumptions::of(&printed).with(&[PrintedChoice]),
            Mode::Network => Assumptions::of(&printed).with(&[Alone]),
            Mode::Corrected => Assumptions::default(),
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
const MISSED: f64 = 0.5;

/// The parameter server's rate: that of a server's cards.
pub(super) fn parameter_server(topology: &Topology) -> f64 {
    let cards = topology.servers().first().map_or(&[][..], |server| &server.cards);
    cards.iter().map(|card| card.rate).sum::<f64>().max(1.0)
}

/// Bytes to the parameter server for a byte of the message, while other groups use the switch: of
/// each message that a card sends, the packets without a slot.
pub(super) fn missed(topology: &Topology, switch: &Choice) -> f64 {
    let card = |link| matches!(topology.link(link), LinkName::Card(_, _, Direction::Out));
    let sent = switch.loads.iter().filter(|(link, _)| card(*link)).map(|(_, bytes)| bytes);
    MISSED * sent.sum::<f64>()
}

/// The ways of a group; none for one GPU. If ATP has more than one, the second is the first while
/// others use the switch.
#[must_use]
pub fn ways(
    system: System,
    assumed: Assumptions,
    topology: &Topology,
    members: &[GpuId],
) -> Vec<Choice> {
    let Some(first) = members.first() else { return Vec::new() };
    let in_one = members.iter().all(|gpu| topology.server_of(*gpu) == topology.server_of(*first));
    let group = Group { assumed, topology, members };
    let own = match system {
        _ if in_one => group.nccl(),
        System::Distserve => group.nccl(),
        System::DsSwitchml | System::DsAtp => group.rival(system),
        System::Heroserve => group.heroserve(),
    };
    own.into_iter().map(|choice| group.laid(choice)).collect()
}

struct Group<'a> {
    assumed: Assumptions,
    topology: &'a Topology,
    members: &'a [GpuId],
}

impl Group<'_> {
    /// DistServe's, and inside a server everyone's.
    fn nccl(&self) -> Vec<Choice> {
        let mut all = rivals::nccl(self.topology, self.members);
        if self.assumed.has(Assumption::RingOnly) {
            all.truncate(1);
        }
        if self.assumed.has(Assumption::RingTwice) && !all.is_empty() {
            all.splice(..1, printed_ring(self.topology, self.members));
        }
        all
    }

    /// SwitchML's and ATP's.
    fn rival(&self, system: System) -> Vec<Choice> {
        let (topology, members) = (self.topology, self.members);
        let stored = self.assumed.has(Assumption::StoreAndForward);
        let bare = self.assumed.has(Assumption::BareRivals);
        let switch = match (stored, bare) {
            (true, true) => printed_homogeneous(topology, members),
            (true, false) => printed_heterogeneous(topology, members),
            (false, true) => rivals::over_cards(topology, members),
            (false, false) => rivals::switched(topology, members),
        };
        let Some(switch) = switch else { return self.nccl() };
        let mut all = vec![switch.clone()];
        // Nothing is ever in the way of a group that is alone.
        if system == System::DsAtp && !self.assumed.has(Assumption::Alone) {
            let server = missed(topology, &switch) / parameter_server(topology);
            all.push(Choice { per_byte: switch.per_byte.max(server), ..switch });
        }
        if !bare {
            all.extend(self.nccl());
        }
        all
    }

    fn heroserve(&self) -> Vec<Choice> {
        if self.assumed.has(Assumption::StoreAndForward) {
            let switch = printed_heterogeneous(self.topology, self.members);
            return self.nccl().into_iter().chain(switch).collect();
        }
        let all = collective::choices(self.topology, self.members).into_iter();
        let others = all.skip(rivals::nccl(self.topology, self.members).len());
        self.nccl().into_iter().chain(others).collect()
    }

    /// A way on the links: by printed formulas the members of a group do not count as being in each
    /// other's way.
    fn laid(&self, choice: Choice) -> Choice {
        if self.assumed.has(Assumption::Alone) {
            return Choice { loads: Loads::default(), ..choice };
        }
        let slowest = choice.loads.slowest(self.topology).map_or(0.0, |(_, seconds)| seconds);
        Choice { per_byte: choice.per_byte.max(slowest), ..choice }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meridian_plan::{TOPOLOGIES, TopologySpec};

    fn topology(at: usize) -> Topology {
        TopologySpec::read(TOPOLOGIES[at].1).unwrap().build().unwrap()
    }

    // Each system has its own ways if a group spans servers, and all use the same ring inside one.
    #[test]
    fn systems_differ_between_servers_alone() {
        let topology = topology(0);
        let group = |gpus: [u32; 4]| gpus.map(GpuId);
        for mode in Mode::ALL {
            let of = |system, gpus| ways(system, mode.assumptions(), &topology, &group(gpus));
            let inside = System::ALL.map(|system| of(system, [0, 1, 2, 3]));
            assert!(inside.iter().all(|one| one == &inside[0] && one.len() == 1));
            let across = System::ALL.map(|system| of(system, [0, 1, 4, 5]));
            assert_eq!(&across[1][0], &across[2][0]);
            assert!(across[0] != across[2] && across[3] != across[2]);
        }
    }

    // Corrected, the two with a switch have NCCL's ring and tree to fall back on, and a switch way
    // after a local reduction that is never slower than over cards alone: at no size is either slower
    // than NCCL's ring.
    #[test]
    fn rivals_fall_back_and_reduce_inside_first() {
        let fastest = |all: &[Choice], bytes| {
            all.iter().map(|one| one.seconds(bytes)).fold(f64::INFINITY, f64::min)
        };
        for (at, (name, _)) in TOPOLOGIES.iter().enumerate() {
            let topology = topology(at);
            let each = topology.servers()[0].gpus;
            let group: Vec<GpuId> = [0, 1, each, each + 1].map(GpuId).to_vec();
            let of = |system| ways(system, Mode::Corrected.assumptions(), &topology, &group);
            let (nccl, bare) = (of(System::Distserve), rivals::over_cards(&topology, &group));
            assert_eq!(bare.is_none(), *name == "two-h100", "it has no such switch");
            for system in [System::DsSwitchml, System::DsAtp] {
                let all = of(system);
                match &bare {
                    Some(bare) => assert!(all[0].per_byte < bare.per_byte, "adds inside first"),
                    None => assert_eq!(all, nccl),
                }
                for bytes in [1e3, 1e5, 1e6, 64e6] {
                    let ring = nccl[0].seconds(bytes);
                    assert!(fastest(&all, bytes) <= fastest(&nccl, bytes).min(ring), "{bytes}");
                }
            }
        }
    }

    // By the printed formulas a group is alone: a switch over cards takes two hops, over NVLink one,
    // and the ring twice its bytes; ATP's packets always find a slot.
    #[test]
    fn the_network_mode_has_the_printed_ratios() {
        let topology = TOPOLOGIES.iter().position(|(name, _)| *name == "heroserve-2track");
        let topology = self::topology(topology.unwrap());
        let group: Vec<GpuId> = (0..4).chain(8..12).map(GpuId).collect();
        let of = |system| ways(system, Mode::Network.assumptions(), &topology, &group);
        let per_byte = |system| of(system).iter().map(|one| one.per_byte).fold(9.9, f64::min);
        let hero = per_byte(System::Heroserve);
        assert!((per_byte(System::Distserve) / hero - 1.68).abs() < 0.01);
        assert!((per_byte(System::DsSwitchml) / hero - 1.92).abs() < 0.01);
        assert_eq!(of(System::DsAtp), of(System::DsSwitchml));
        assert!(of(System::Heroserve).iter().all(|one| one.loads.iter().count() == 0));
    }
}
