//! The network that KV crosses: each replica has a card with a port out and a port in.
//!
//! Transfers that share a port share its rate, whichever replicas they join. The switches between
//! the cards are no limit, and other traffic does not use the cards.

use meridian_base::{FlowId, PortId, RequestId, Time};
use meridian_fabric::{Demand, Network, Path};

/// A replica's card.
#[derive(Clone, Copy, Debug)]
struct Card {
    out: PortId,
    into: PortId,
    /// Nothing passes.
    cut: bool,
}

/// The cards of all replicas, and the transfers under way.
#[derive(Debug)]
pub(crate) struct Fabric {
    network: Network,
    cards: Vec<Card>,
    /// The split attempt of each flow row.
    flows: Vec<RequestId>,
    free: Vec<FlowId>,
    /// When the next transfer ends, as it was last entered.
    pub(super) timer: Option<Time>,
    /// Rates are not settled.
    changed: bool,
}

impl Default for Fabric {
    fn default() -> Fabric {
        Fabric {
            network: Network::new(&[]),
            cards: Vec::new(),
            flows: Vec::new(),
            free: Vec::new(),
            timer: None,
            changed: false,
        }
    }
}

impl Fabric {
    /// Adds the next replica's card, whose ports have this rate in 10^9 bits per second.
    pub(crate) fn add(&mut self, gbps: f64) {
        let rate = gbps * 1e9 / 8.0;
        let (out, into) = (self.network.add(rate), self.network.add(rate));
        self.cards.push(Card { out, into, cut: false });
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
        let ports = [self.cards[from as usize].out, self.cards[to as usize].into];
        let path = Path::new(&ports).expect("two replicas have two cards");
        let flow = self.free.pop().unwrap_or_else(|| {
            self.flows.push(name);
            FlowId(self.flows.len() as u32 - 1)
        });
        self.flows[flow.index()] = name;
        self.network.begin(now, flow, Demand::new(path, bytes));
        self.changed = true;
        flow
    }

    /// Breaks a transfer off.
    pub(super) fn end(&mut self, now: Time, flow: FlowId) {
        self.network.end(now, flow);
        self.free.push(flow);
        self.changed = true;
    }

    /// The split attempt of the next transfer that has ended.
    pub(super) fn ended(&mut self, now: Time) -> Option<RequestId> {
        let flow = self.network.ended(now)?;
        self.free.push(flow);
        self.changed = true;
        Some(self.flows[flow.index()])
    }

    /// Recomputes the rates after changes; returns when the next transfer then ends.
    pub(super) fn settle(&mut self, now: Time) -> Option<Time> {
        if !std::mem::take(&mut self.changed) {
            return self.timer;
        }
        self.network.settle(now);
        self.network.next_end()
    }

    /// Number of transfers under way.
    pub(super) fn len(&self) -> usize {
        self.network.len() as usize
    }
}
