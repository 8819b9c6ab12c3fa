//! The network that KV crosses: each replica has a card with a port out and a port in, and each rack
//! an uplink with the same.
//!
//! Transfers that share a port share its rate, whichever replicas they join. Switches are no limit,
//! and other traffic uses neither cards nor uplinks.

use meridian_base::{FlowId, PortId, RequestId, Time};
use meridian_fabric::{Demand, Path};

use crate::fabric::Fabric;
use crate::scenario::{Rack, Transfer};

/// The ports of a card or an uplink.
#[derive(Clone, Copy, Debug)]
struct Ports {
    out: PortId,
    into: PortId,
}

/// A replica's card.
#[derive(Clone, Copy, Debug)]
struct Card {
    ports: Ports,
    rack: Option<usize>,
    /// Nothing passes.
    cut: bool,
}

/// The cards of all replicas, and the split attempts whose KV crosses them.
#[derive(Debug)]
pub(super) struct Cards {
    pub(super) fabric: Fabric<RequestId>,
    racks: Vec<Ports>,
    cards: Vec<Card>,
}

impl Cards {
    /// The racks' uplinks, to which cards are added.
    pub(super) fn new(racks: &[Rack]) -> Cards {
        let mut all = Cards { fabric: Fabric::new(&[]), racks: Vec::new(), cards: Vec::new() };
        for rack in racks {
            let ports = all.ports(rack.gbps);
            all.racks.push(ports);
        }
        all
    }

    /// Adds the next replica's card.
    pub(super) fn add_card(&mut self, transfer: Transfer) {
        let ports = self.ports(transfer.gbps);
        self.cards.push(Card { ports, rack: transfer.rack, cut: false });
    }

    /// Two ports with this rate in 10^9 bits per second.
    fn ports(&mut self, gbps: f64) -> Ports {
        assert!(gbps > 0.0, "a card or an uplink of {gbps} Gbit/s");
        let rate = gbps * 1e9 / 8.0;
        let network = &mut self.fabric.network;
        Ports { out: network.add(rate), into: network.add(rate) }
    }

    /// From card to card, over the uplinks of different racks.
    fn path(&self, from: u32, to: u32) -> Path {
        let [from, to] = [from, to].map(|replica| self.cards[replica as usize]);
        let uplink = |card: Card| card.rack.filter(|_| from.rack != to.rack);
        let up = uplink(from).map(|rack| self.racks[rack].out);
        let down = uplink(to).map(|rack| self.racks[rack].into);
        let ports = [Some(from.ports.out), up, down, Some(to.ports.into)];
        let ports: Vec<PortId> = ports.into_iter().flatten().collect();
        Path::new(&ports).expect("the ports of two cards and two racks are different")
    }

    /// Cuts or mends a replica's card.
    pub(super) fn set(&mut self, replica: u32, cut: bool) {
        self.cards[replica as usize].cut = cut;
    }

    /// Whether KV passes from one replica to another.
    pub(super) fn passes(&self, from: u32, to: u32) -> bool {
        !self.cards[from as usize].cut && !self.cards[to as usize].cut
    }

    pub(super) fn begin(
        &mut self,
        now: Time,
        name: RequestId,
        (from, to): (u32, u32),
        bytes: f64,
    ) -> FlowId {
        let demand = Demand::new(self.path(from, to), bytes);
        self.fabric.begin(now, demand, name)
    }
}
