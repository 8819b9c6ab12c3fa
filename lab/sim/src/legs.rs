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

use std::collections::BTreeMap;

use meridian_base::{Duration, FlowId, RequestId, Time};
use meridian_engine::Leg;
use meridian_routing::Role;

use crate::scenario::{Hardware, Rack};
use cards::Cards;

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

/// Where the KV of a split attempt is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It is being computed, or its answer is on the way to the gateway.
    Prefilling,
    /// The decode leg is on its way, or pending in its engine.
    Waiting,
    /// The decode engine has asked for it.
    Asked,
    /// It crosses the fabric.
    Moving(FlowId),
    /// All of it has crossed; the decode engine does not know yet.
    Landed,
    /// The decode engine has it.
    Fetched,
}

/// The KV of a split attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handoff {
    pub(crate) request: RequestId,
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) stage: Stage,
    /// Bytes that the decode engine lacks, and when it asked for them.
    pub(crate) bytes: f64,
    pub(crate) asked: Time,
}

/// The split attempts, and the fabric between their replicas.
#[derive(Debug)]
pub(crate) struct Legs {
    /// In order of their ids, so that faults meet them in the order in which they began.
    pub(crate) handoffs: BTreeMap<RequestId, Handoff>,
    pub(crate) begun: u64,
    pub(crate) cards: Cards,
    /// Whether any replica only prefills, so that requests may be split.
    pub(crate) pairs: bool,
}

impl Legs {
    /// A new split attempt of a request, with its prompt on its way.
    pub(crate) fn begin(&mut self, request: RequestId, from: u32, to: u32) -> Split {
        let name = RequestId(SPLIT | self.begun);
        self.begun += 1;
        let (stage, bytes, asked) = (Stage::Prefilling, 0.0, Time::ZERO);
        self.handoffs.insert(name, Handoff { request, from, to, stage, bytes, asked });
        Split { name, from, to, prefilling: true }
    }

    /// No replicas yet, but the racks for them.
    pub(crate) fn new(racks: &[Rack]) -> Legs {
        Legs { handoffs: BTreeMap::new(), begun: 0, cards: Cards::new(racks), pairs: false }
    }

    /// Adds the next replica.
    pub(crate) fn add(&mut self, hardware: &Hardware) {
        self.cards.add_card(hardware.transfer);
        self.pairs |= hardware.role == Role::Prefill;
    }

    /// Whether an engine's id names a split attempt.
    pub(crate) fn names(id: RequestId) -> bool {
        id.0 & SPLIT != 0
    }

    /// Whether the KV of a split attempt is still followed.
    pub(crate) fn follows(&self, name: RequestId) -> bool {
        self.handoffs.contains_key(&name)
    }

    pub(crate) fn set(&mut self, name: RequestId, stage: Stage) {
        if let Some(handoff) = self.handoffs.get_mut(&name) {
            handoff.stage = stage;
        }
    }

    /// Ends a split attempt, and with it its transfer.
    pub(crate) fn end(&mut self, now: Time, name: RequestId) {
        if let Some(Handoff { stage: Stage::Moving(flow), .. }) = self.handoffs.remove(&name) {
            self.cards.fabric.end(now, flow);
        }
    }
}
