//! The tables: flows, requests, batches, ports, and the ports that each request uses.
//!
//! Rows are numbers, and lists run through the rows, so no flow costs an allocation. Memory is
//! reserved when the machine is created, and a batch's buffers are reused by the next batch in the
//! same row.

mod arrivals;
mod lists;
mod uses;
mod waits;

use alloc::vec;
use alloc::vec::Vec;
use meridian_base::{Duration, PortId, RequestId, Seeded, Time};

use crate::budget::Budget;
use crate::limits::Limits;
use crate::load::Loads;
use crate::place::{Ladder, Place};
use crate::stage::{Ports, Stage};
use crate::thresholds::Edges;

pub(crate) use uses::Use;

type IdMap = hashbrown::HashMap<u64, u32, Seeded>;

/// No row.
pub(crate) const NONE: u32 = u32::MAX;

/// A live flow.
#[derive(Clone, Debug)]
pub(crate) struct FlowRow {
    pub(crate) live: bool,
    pub(crate) stage: Stage,
    /// Levels that it rose by age.
    pub(crate) lift: u8,
    pub(crate) layer: u16,
    /// Distinguishes this flow from earlier ones in the row.
    pub(crate) incarnation: u32,
    pub(crate) batch: u32,
    pub(crate) request: u32,
    pub(crate) size: u64,
    pub(crate) left: u64,
    pub(crate) place: Place,
    pub(crate) submitted: Time,
    /// Its last progress or rise.
    pub(crate) waits_since: Time,
    pub(crate) ports: Ports,
    /// Its request's use of each port; `NONE` for a batch's flow.
    pub(crate) uses: [u32; Ports::MOST],
    /// Neighbours in its list: the batch's flows of one layer, or the request's handoffs.
    pub(crate) prev: u32,
    pub(crate) next: u32,
}

/// Whether a request should still be served in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    In,
    /// It needs more than a port has, and is given up.
    Infeasible,
    /// Infeasible, but the drop budget is used up, so it is not given up.
    Spared,
    /// A pass removed it to help others.
    Pruned,
    /// Its deadline has passed.
    Late,
}

impl Standing {
    /// Whether it is served before the scavenger.
    pub(crate) fn is_served(self) -> bool {
        matches!(self, Standing::In | Standing::Spared)
    }
}

/// A request that was announced and has not ended.
#[derive(Clone, Debug)]
pub(crate) struct RequestRow {
    pub(crate) live: bool,
    pub(crate) id: RequestId,
    /// `NONE` once the batch departed.
    pub(crate) batch: u32,
    pub(crate) arrived: Time,
    /// When its first token is due.
    pub(crate) deadline: Option<Time>,
    pub(crate) slo: Duration,
    pub(crate) decode: Duration,
    pub(crate) standing: Standing,
    /// Consecutive updates that contradict its standing.
    pub(crate) strikes: u8,
    /// Whether it was counted against the drop budget.
    pub(crate) counted: bool,
    /// Whether a flow of it was submitted, or its batch computes.
    pub(crate) started: bool,
    /// Whether its critical handoffs may delay flows that computation waits for.
    pub(crate) passes: bool,
    /// After its batch has ended, no update before this time can change anything.
    pub(crate) look_again: Time,
    /// First of its handoffs, and of its uses.
    pub(crate) handoffs: u32,
    pub(crate) uses: u32,
    /// Distinguishes this request from earlier ones in the row.
    pub(crate) incarnation: u32,
}

impl RequestRow {
    /// When its last byte must have arrived: the deadline less decode's time.
    pub(crate) fn due(&self) -> Option<Time> {
        self.deadline.map(|deadline| deadline - self.decode)
    }
}

/// A batch that arrived and has not departed.
#[derive(Clone, Debug)]
pub(crate) struct BatchRow {
    pub(crate) live: bool,
    pub(crate) computes: bool,
    /// Whether its fetches no longer wait for the collectives of others.
    pub(crate) urgent: bool,
    /// The time at which that is checked again, [`Time::MAX`] if none is set.
    pub(crate) checks: Time,
    pub(crate) generation: u32,
    pub(crate) layer: u16,
    pub(crate) layers: u16,
    pub(crate) layer_began: Time,
    pub(crate) pace: Duration,
    /// Its number, see [`crate::Batch::number`].
    pub(crate) number: u64,
    /// Whether the coordinator has ordered it.
    pub(crate) told: bool,
    /// Its position among batches, smaller first.
    pub(crate) rank: u64,
    /// Its robust effective deadline, and the first deadline of the loose side.
    pub(crate) red: Time,
    pub(crate) loose: Time,
    pub(crate) sequence: u64,
    pub(crate) requests: Vec<u32>,
    pub(crate) collectives: Vec<(PortId, u64)>,
    /// Ports of its collectives and fetches.
    pub(crate) waits_at: Vec<PortId>,
    /// First flow of stages 1 and 2 for each layer.
    heads: Vec<u32>,
}

impl BatchRow {
    /// Whether it has nothing to send.
    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.collectives.is_empty()
    }

    /// Layers not finished, including the current one.
    pub(crate) fn layers_left(&self) -> u16 {
        assert!(self.layer < self.layers, "a batch is at one of its layers");
        self.layers - self.layer
    }

    /// Estimated time until its last layer is computed.
    pub(crate) fn compute_left(&self, now: Time) -> Duration {
        let all = self.pace.checked_mul(u32::from(self.layers_left())).unwrap_or(Duration::MAX);
        // A batch that waits for a fetch computes no more than its layer.
        let passed = now.since(self.layer_began).min(self.pace);
        if self.computes { all.saturating_sub(passed) } else { all }
    }
}

/// Everything that policies read.
#[derive(Debug)]
pub(crate) struct World {
    limits: Limits,
    pub(crate) ladder: Ladder,
    pub(crate) edges: Edges,
    pub(crate) flows: Vec<FlowRow>,
    pub(crate) requests: Vec<RequestRow>,
    pub(crate) batches: Vec<BatchRow>,
    /// Rows of batches that arrived and have not departed, unordered.
    pub(crate) arrived: Vec<u32>,
    /// Bytes a second of each port, 0 if it was never registered.
    pub(crate) rates: Vec<f64>,
    pub(crate) uses: Vec<Use>,
    /// First use of each port.
    pub(crate) port_uses: Vec<u32>,
    /// Batches whose computation waits for bytes at each port, and whether these are collectives.
    pub(crate) port_batches: Vec<Vec<(u32, bool)>>,
    pub(crate) port_load: Loads,
    pub(crate) own_load: Loads,
    pub(crate) budget: Budget,
    pub(crate) by_request: IdMap,
    by_use: IdMap,
    vacant_requests: Vec<u32>,
    vacant_uses: Vec<u32>,
    pub(crate) live_flows: u32,
    sequence: u64,
}

impl World {
    /// `load_window` is for policies that use the load ahead; the others do not pay for its tables.
    pub(crate) fn new(
        limits: Limits,
        ladder: Ladder,
        edges: Edges,
        budget: Budget,
        load_window: Option<Duration>,
        seed: u64,
    ) -> World {
        let rows = |n: u32| n as usize;
        let map = |n: u32| IdMap::with_capacity_and_hasher(rows(n), Seeded(seed));
        let loads = |n: u32| {
            let n = if load_window.is_some() { rows(n) } else { 0 };
            Loads::new(n, ladder.classes(), load_window.unwrap_or(Duration::ZERO))
        };
        World {
            limits,
            ladder,
            edges,
            flows: vec![FlowRow::vacant(); rows(limits.flows)],
            requests: vec![RequestRow::vacant(); rows(limits.requests)],
            batches: vec![BatchRow::vacant(); rows(limits.batches)],
            arrived: Vec::with_capacity(rows(limits.batches)),
            rates: vec![0.0; rows(limits.ports)],
            uses: vec![Use::vacant(); rows(limits.uses)],
            port_uses: vec![NONE; rows(limits.ports)],
            port_batches: vec![Vec::new(); rows(limits.ports)],
            port_load: loads(limits.ports),
            own_load: loads(limits.uses),
            budget,
            by_request: map(limits.requests),
            by_use: map(limits.uses),
            vacant_requests: (0..limits.requests).rev().collect(),
            vacant_uses: (0..limits.uses).rev().collect(),
            live_flows: 0,
            sequence: 0,
        }
    }

    pub(crate) fn flow(&self, flow: u32) -> &FlowRow {
        &self.flows[flow as usize]
    }

    pub(crate) fn request(&self, request: u32) -> &RequestRow {
        &self.requests[request as usize]
    }

    pub(crate) fn batch(&self, batch: u32) -> &BatchRow {
        &self.batches[batch as usize]
    }

    /// The row of a request that was announced.
    pub(crate) fn find_request(&self, id: RequestId) -> Option<u32> {
        self.by_request.get(&id.0).copied()
    }

    /// Adds a request.
    fn begin_request(&mut self, row: RequestRow) -> Option<u32> {
        let at = self.vacant_requests.pop()?;
        let incarnation = self.requests[at as usize].incarnation.wrapping_add(1);
        let before = self.by_request.insert(row.id.0, at);
        assert!(before.is_none(), "a request has one row");
        assert!(!self.requests[at as usize].live, "a vacant row of requests is free");
        self.requests[at as usize] = RequestRow { incarnation, ..row };
        Some(at)
    }

    /// Removes a request that has no flows left.
    pub(crate) fn end_request(&mut self, request: u32) {
        self.end_uses(request);
        let row = &mut self.requests[request as usize];
        assert!(row.live, "a request ends once");
        assert!(row.handoffs == NONE, "a request ends after its handoffs");
        (row.live, row.batch) = (false, NONE);
        let row_of = self.by_request.remove(&row.id.0);
        assert!(row_of == Some(request), "a request is found by its id until it ends");
        self.vacant_requests.push(request);
    }

    /// A number that grows with each batch.
    pub(crate) fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }
}

impl FlowRow {
    fn vacant() -> FlowRow {
        FlowRow {
            live: false,
            stage: Stage::Reuse,
            lift: 0,
            layer: 0,
            incarnation: 0,
            batch: NONE,
            request: NONE,
            size: 0,
            left: 0,
            place: Place::new(0, 0, 0),
            submitted: Time::ZERO,
            waits_since: Time::ZERO,
            ports: Ports::one(PortId(u32::MAX)),
            uses: [NONE; Ports::MOST],
            prev: NONE,
            next: NONE,
        }
    }
}

impl RequestRow {
    /// A request's row before it is filled.
    pub(crate) fn vacant() -> RequestRow {
        RequestRow {
            live: false,
            id: RequestId(u64::MAX),
            batch: NONE,
            arrived: Time::ZERO,
            deadline: None,
            slo: Duration::ZERO,
            decode: Duration::ZERO,
            standing: Standing::In,
            strikes: 0,
            counted: false,
            started: false,
            passes: false,
            look_again: Time::ZERO,
            handoffs: NONE,
            uses: NONE,
            incarnation: 0,
        }
    }
}

impl BatchRow {
    fn vacant() -> BatchRow {
        BatchRow {
            live: false,
            computes: false,
            urgent: false,
            checks: Time::MAX,
            generation: 0,
            layer: 0,
            layers: 1,
            layer_began: Time::ZERO,
            pace: Duration::ZERO,
            number: 0,
            told: false,
            rank: u64::MAX,
            red: Time::MAX,
            loose: Time::MAX,
            sequence: 0,
            requests: Vec::new(),
            collectives: Vec::new(),
            waits_at: Vec::new(),
            heads: Vec::new(),
        }
    }

    /// Reserves list heads for the flows of each layer.
    pub(crate) fn set_layers(&mut self, layers: u16) {
        self.layers = layers;
        self.heads.clear();
        self.heads.resize(usize::from(layers), NONE);
    }
}
