//! A flow as a client submits it: one transfer, its stage, and the ports that it crosses.

use meridian_base::{BatchId, FlowId, PortId, RequestId};

/// The three stages of a prefill's communication (MFS, section 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Stage 1: cached KV is fetched for a layer that is still to be computed.
    Reuse,
    /// Stage 2: a collective that the next computation waits for.
    Collective,
    /// Stage 3: KV of a computed layer moves from prefill to decode.
    Handoff,
}

impl Stage {
    /// Stages 1 and 2: their deadlines are unknown, since computation follows them.
    #[must_use]
    pub fn is_early(self) -> bool {
        self != Stage::Handoff
    }

    /// A stable word for labels.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Stage::Reuse => "reuse",
            Stage::Collective => "collective",
            Stage::Handoff => "handoff",
        }
    }
}

/// The owner of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A single request: its cached KV, or its KV on the way to decode.
    Request(RequestId),
    /// A whole batch: a collective carries all of its requests.
    Batch(BatchId),
}

/// The ports that a flow crosses, the sender's own first, without allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    len: u8,
    ids: [PortId; Ports::MOST],
}

impl Ports {
    /// Most ports of one flow: a card at each end and two of switches between them.
    pub const MOST: usize = 4;

    /// The ports, or `None` if there are more than [`Ports::MOST`]. An empty list is refused when
    /// the flow is submitted.
    #[must_use]
    pub fn new(ports: &[PortId]) -> Option<Ports> {
        let mut ids = [PortId(u32::MAX); Ports::MOST];
        ids.get_mut(..ports.len())?.copy_from_slice(ports);
        Some(Ports { len: ports.len() as u8, ids })
    }

    /// One port.
    #[must_use]
    pub fn one(port: PortId) -> Ports {
        let mut ids = [PortId(u32::MAX); Ports::MOST];
        ids[0] = port;
        Ports { len: 1, ids }
    }

    /// All of them, the sender's first.
    #[must_use]
    pub fn as_slice(&self) -> &[PortId] {
        &self.ids[..usize::from(self.len)]
    }
}

/// One transfer, as it is submitted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flow {
    /// Its row, chosen by the driver, which must be free until the flow ends.
    pub id: FlowId,
    /// Its owner. A handoff always belongs to a request.
    pub owner: Owner,
    /// Its stage.
    pub stage: Stage,
    /// The layer that consumes the data (stages 1 and 2) or made it (stage 3), from 0.
    pub layer: u16,
    /// Its size, at least 1.
    pub bytes: u64,
    /// The ports that it crosses.
    pub ports: Ports,
}
