//! The plan of a run: every request, batch and byte, fixed by the seed before anything starts.
//!
//! All systems run the same plan, simulated and on sockets. So the composition of batches does not
//! depend on how fast a system is: a batch takes the requests that have arrived when the one before it
//! would end without contention. A batch starts when the one before has ended and all of its requests
//! have arrived.

use meridian_base::{Rng, mix};
use serde::{Deserialize, Serialize};

use crate::experiment::spec::{FlowTestbed, TestbedModel};

/// Ranks of the prefill replica, each a host.
pub(super) const RANKS: usize = 2;

/// What every host of a run needs to know. Times are in seconds from the start of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Plan {
    pub(super) layers: u16,
    /// Bytes a second of a link.
    pub(super) rate: f64,
    pub(super) chunk: u32,
    pub(super) requests: Vec<Planned>,
    pub(super) batches: Vec<PlannedBatch>,
}

/// One request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Planned {
    pub(super) arrival: f64,
    pub(super) batch: u32,
    /// The rank that attends to it.
    pub(super) rank: usize,
    /// Tokens that are computed, and tokens whose KV is fetched.
    pub(super) computed: u32,
    pub(super) cached: u32,
    /// Bytes of each layer.
    pub(super) fetch: u64,
    pub(super) handoff: u64,
    /// Seconds from its arrival; 0 before objectives are set.
    pub(super) slo: f64,
}

/// One batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct PlannedBatch {
    /// When its last request arrives.
    pub(super) from: f64,
    pub(super) requests: Vec<u32>,
    /// By rank: the time of a layer's attention.
    pub(super) attention: [f64; RANKS],
    /// By rank: the time of a layer's experts.
    pub(super) experts: [f64; RANKS],
    /// By rank: the bytes that it sends in one exchange.
    pub(super) exchange: [u64; RANKS],
}

impl Plan {
    /// The plan of a seed, without objectives.
    pub(super) fn draw(spec: &FlowTestbed, requests: u32, seed: u64) -> Plan {
        let mut rng = Rng::new(mix(seed, 0x7e57));
        let mut at = 0.0;
        let drawn = (0..requests).map(|_| {
            at += rng.exponential(1.0 / spec.load.rate);
            let prompt = rng.lognormal(spec.load.prompt, spec.load.variation);
            // The longest is bounded: one prompt should not be a third of the run.
            let prompt = prompt.clamp(64.0, 4.0 * spec.load.prompt);
            let [least, most] = spec.load.cached;
            let cached = (prompt * (least + (most - least) * rng.unit())) as u32;
            let computed = (prompt as u32 - cached).max(1);
            request(&spec.model, at, computed, cached)
        });
        let mut plan = Plan {
            layers: spec.model.layers,
            rate: spec.link.0,
            chunk: u32::try_from(spec.chunk.0).unwrap_or(u32::MAX),
            requests: drawn.collect(),
            batches: Vec::new(),
        };
        plan.form(spec);
        plan
    }

    /// The same request alone in a run.
    pub(super) fn alone(&self, spec: &FlowTestbed, request: u32) -> Plan {
        let one = Planned { arrival: 0.0, ..self.requests[request as usize].clone() };
        let mut plan = Plan { requests: vec![one], batches: Vec::new(), ..self.clone() };
        plan.form(spec);
        plan
    }

    /// Draws objectives: multiples of the TTFT at low load.
    pub(super) fn promise(&mut self, spec: &FlowTestbed, low: &[f64], seed: u64) {
        let mut rng = Rng::new(mix(seed, 0x510));
        for (request, low) in self.requests.iter_mut().zip(low) {
            let is_tight = rng.unit() < spec.slo.tight_share;
            request.slo = low * if is_tight { spec.slo.tight } else { spec.slo.loose };
        }
    }

    /// Forms batches in order of arrival.
    fn form(&mut self, spec: &FlowTestbed) {
        let (mut first, mut free) = (0, 0.0_f64);
        while let Some(one) = self.requests.get(first) {
            let start = free.max(one.arrival);
            let waiting = self.requests[first..].iter().take(spec.load.batch as usize);
            let count = waiting.take_while(|one| one.arrival <= start).count().max(1);
            let batch = self.batch(&spec.model, first, count);
            free = start + self.estimate(&batch);
            self.batches.push(batch);
            first += count;
        }
    }

    /// A batch of `count` requests from `first`. Each goes to the rank with the fewest tokens.
    fn batch(&mut self, model: &TestbedModel, first: usize, count: usize) -> PlannedBatch {
        let number = self.batches.len() as u32;
        let mut tokens = [0_u32; RANKS];
        for request in &mut self.requests[first..first + count] {
            request.batch = number;
            request.rank = usize::from(tokens[1] < tokens[0]);
            tokens[request.rank] += request.computed;
        }
        let half = |tokens: f64| {
            (model.layer.0.as_secs_f64() + model.token.0.as_secs_f64() * tokens) / 2.0
        };
        let shared = half(f64::from(tokens.iter().sum::<u32>()) / RANKS as f64);
        let last = self.requests[first + count - 1].arrival;
        PlannedBatch {
            from: last,
            requests: (first as u32..(first + count) as u32).collect(),
            attention: tokens.map(|tokens| half(f64::from(tokens))),
            experts: [shared; RANKS],
            // A rank without tokens still says so.
            exchange: tokens.map(|tokens| (u64::from(tokens) * model.exchange.0).max(1)),
        }
    }

    /// The time of a batch without contention.
    fn estimate(&self, batch: &PlannedBatch) -> f64 {
        let most = |of: [f64; RANKS]| of.into_iter().fold(0.0, f64::max);
        let exchange = most(batch.exchange.map(|bytes| bytes as f64 / self.rate));
        let layer = most(batch.attention) + most(batch.experts) + 2.0 * exchange;
        layer * f64::from(self.layers)
    }
}

fn request(model: &TestbedModel, arrival: f64, computed: u32, cached: u32) -> Planned {
    let bytes = |tokens: u32| u64::from(tokens) * model.kv.0;
    Planned {
        arrival,
        batch: 0,
        rank: 0,
        computed,
        cached,
        fetch: bytes(cached),
        handoff: bytes(computed + cached),
        slo: 0.0,
    }
}
