//! Requests with two legs: one replica computes the prompt, another one answers with its KV.
//!
//! ```text
//! gateway ──prompt──▶ prefill replica          the KV stays held there, under a lease
//! gateway ◀──answer──┘        │
//! gateway ──request─▶ decode replica           allocates KV and asks for the missing blocks
//!                      ◀──KV──┘  fabric        shares its ports with other transfers
//! gateway ◀──answer──┘
//! ```
//! The order and the fallbacks are those of the live gateway with engines that speak nixl. In the
//! engines a split attempt has an id of its own, because the KV of an abandoned attempt may still be
//! held where the next one goes. One row per attempt follows the KV, and ends with the decode leg.

mod cards;
mod handoff;

use std::collections::BTreeMap;

use meridian_base::{Duration, RequestId, Time};
use meridian_engine::Leg;
use meridian_routing::Role;

use crate::fabric::Fabric;
use crate::scenario::{Hardware, Rack};
use cards::Cards;
pub(crate) use handoff::Handoff;

/// Ids in engines have this bit if they name a split attempt and not a request.
const SPLIT: u64 = 1 << 63;
/// How long a decode engine waits for the first byte of KV (vLLM's).
pub(crate) const HANDSHAKE: Duration = Duration::from_secs(5);

/// A request's current attempt, if it is split.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Split {
    /// Its id in both engines.
    pub(crate) name: RequestId,
    pub(crate) from: u32,
    pub(crate) to: u32,
    /// Whether the gateway still waits for the end of the prefill.
    pub(crate) prefilling: bool,
}

impl Split {
    /// The replica that the gateway waits for.
    pub(crate) fn at(&self) -> u32 {
        if self.prefilling { self.from } else { self.to }
    }

    /// What that replica's engine does.
    pub(crate) fn leg(&self, lease: Duration) -> Leg {
        if self.prefilling { Leg::Prefill { lease } } else { Leg::Decode }
    }
}

/// A message between the engines of a split attempt, or a timer of one. All but the first three go
/// to the engine that decodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// The decode engine asks for the KV.
    Read,
    /// It extends the lease.
    Renew,
    /// It does not need the KV any more.
    Release,
    /// Time to extend the lease.
    Beat,
    /// The KV is there.
    Fetched,
    /// It will not come.
    Failed,
}

/// The split attempts, and the fabric between their replicas.
#[derive(Debug)]
pub(crate) struct Legs {
    /// In order of their ids, so that faults meet them in the order in which they began.
    handoffs: BTreeMap<RequestId, Handoff>,
    begun: u64,
    cards: Cards,
    /// Whether any replica only prefills, so that requests may be split.
    pairs: bool,
}

impl Legs {
    /// No replicas yet, but the racks for them.
    pub(crate) fn new(racks: &[Rack]) -> Legs {
        Legs { handoffs: BTreeMap::new(), begun: 0, cards: Cards::new(racks), pairs: false }
    }

    /// Adds the next replica.
    pub(crate) fn add(&mut self, hardware: &Hardware) {
        self.cards.add_card(hardware.transfer);
        self.pairs |= hardware.role == Role::Prefill;
    }

    /// Whether requests may be split.
    pub(crate) fn has_pairs(&self) -> bool {
        self.pairs
    }

    /// Whether an engine's id names a split attempt.
    pub(crate) fn names(id: RequestId) -> bool {
        id.0 & SPLIT != 0
    }

    /// A new split attempt of a request, with its prompt on its way.
    pub(crate) fn begin(&mut self, request: RequestId, from: u32, to: u32) -> Split {
        assert!(!Legs::names(request), "{request} is a split attempt, and not a request");
        let name = RequestId(SPLIT | self.begun);
        self.begun += 1;
        self.handoffs.insert(name, Handoff::new(request, from, to));
        Split { name, from, to, prefilling: true }
    }

    /// Whether the KV of a split attempt is still followed.
    pub(crate) fn follows(&self, name: RequestId) -> bool {
        self.handoffs.contains_key(&name)
    }

    /// The KV of a split attempt; `None` after its end.
    pub(crate) fn get(&self, name: RequestId) -> Option<Handoff> {
        self.handoffs.get(&name).copied()
    }

    /// All KV that is followed, in order of the attempts.
    pub(crate) fn all(&self) -> impl Iterator<Item = (RequestId, Handoff)> {
        self.handoffs.iter().map(|(name, handoff)| (*name, *handoff))
    }

    /// The KV from and to a replica.
    pub(crate) fn of(&self, replica: u32) -> Vec<(RequestId, Handoff)> {
        self.all()
            .filter(|(_, handoff)| [handoff.from(), handoff.to()].contains(&replica))
            .collect()
    }

    /// The request goes to its decode engine.
    pub(crate) fn wait(&mut self, name: RequestId) {
        if let Some(handoff) = self.handoffs.get_mut(&name) {
            handoff.wait();
        }
    }

    /// A decode engine asks for `bytes` of KV.
    pub(crate) fn ask(&mut self, name: RequestId, now: Time, bytes: f64) {
        if let Some(handoff) = self.handoffs.get_mut(&name) {
            handoff.ask(now, bytes);
        }
    }

    /// The KV that was asked for starts to cross the fabric. False if a card is cut.
    pub(crate) fn cross(&mut self, name: RequestId, now: Time) -> bool {
        let Some(handoff) = self.handoffs.get_mut(&name) else { return false };
        let ends = (handoff.from(), handoff.to());
        let passes = self.cards.passes(ends.0, ends.1);
        if passes {
            handoff.cross(self.cards.begin(now, name, ends, handoff.bytes()));
        }
        passes
    }

    /// All of it has crossed. Returns the replica that it reached.
    pub(crate) fn land(&mut self, name: RequestId) -> Option<u32> {
        let handoff = self.handoffs.get_mut(&name)?;
        handoff.land();
        Some(handoff.to())
    }

    /// The decode engine has it.
    pub(crate) fn fetch(&mut self, name: RequestId) {
        if let Some(handoff) = self.handoffs.get_mut(&name) {
            handoff.fetch();
        }
    }

    /// Breaks off a transfer. False if there is none.
    pub(crate) fn break_off(&mut self, name: RequestId, now: Time) -> bool {
        let flow = self.handoffs.get_mut(&name).and_then(Handoff::break_off);
        if let Some(flow) = flow {
            self.cards.fabric.end(now, flow);
        }
        flow.is_some()
    }

    /// Ends a split attempt, and with it its transfer.
    pub(crate) fn end(&mut self, now: Time, name: RequestId) {
        if let Some(flow) = self.handoffs.remove(&name).and_then(|handoff| handoff.flow()) {
            self.cards.fabric.end(now, flow);
        }
    }

    /// Cuts or mends a replica's card.
    pub(crate) fn set_card(&mut self, replica: u32, cut: bool) {
        self.cards.set(replica, cut);
    }

    /// The network that KV crosses.
    pub(crate) fn fabric(&mut self) -> &mut Fabric<RequestId> {
        &mut self.cards.fabric
    }

    /// Transfers that cross it.
    pub(crate) fn transfers(&self) -> usize {
        self.cards.fabric.network.len() as usize
    }
}

#[cfg(test)]
mod tests;
