//! The step of an instance: stages with the engine's terms, all-reduces and hops of the topology.
//!
//! Each stage has its part of the layers and two all-reduces a layer. A stage of mixed kinds uses
//! the slower one's coefficient, term by term. Between stages each rank forwards its part of the
//! hidden state; a bottleneck assignment pairs the ranks. The engine's fixed time of a step counts
//! in every stage.
//!
//! Ranks that share experts replicate the rest of the model: all tokens are gathered before and
//! returned after the experts of a layer, together one all-reduce of all tokens.

use meridian_engine::{Gpu, Model, Terms, Work};

use super::{Instance, Parallel, Unfit};
use crate::assign::bottleneck;
use crate::collective::{self, Choice};
use crate::loads::Loads;
use crate::printed;
use crate::route::{Route, route};
use crate::task::{Network, Task};
use crate::topology::{GpuId, Topology};

/// Bytes of a number of the hidden state.
pub(crate) const NUMBER: f64 = 2.0;
/// Less memory than this many tokens of KV counts as none.
const MIN_KV_TOKENS: f64 = 2048.0;

/// The transfer between two stages.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Hop {
    /// The sender and receiver of each pair.
    pub(crate) pairs: Vec<(GpuId, GpuId)>,
    latency: f64,
    per_byte: f64,
    /// The load of one byte of the whole hidden state on links.
    loads: Loads,
}

pub(crate) struct Stage {
    pub(super) terms: Terms,
    /// All-reduces of a step.
    pub(super) reductions: f64,
    pub(super) choices: Vec<Choice>,
    /// KV tokens that fit, and that would fit without a memory limit.
    pub(crate) kv_tokens: f64,
}

/// An instance, ready to compute steps.
pub(crate) struct Pipeline {
    pub(crate) stages: Vec<Stage>,
    pub(crate) hops: Vec<Hop>,
    hidden: f64,
}

/// The time of one step.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Time {
    /// Through all stages, in seconds.
    pub(crate) whole: f64,
    /// The slowest stage.
    pub(crate) slowest: f64,
    /// Of the whole, collectives and hops.
    pub(crate) communication: f64,
}

impl Pipeline {
    pub(crate) fn new(task: &Task<'_>, instance: &Instance) -> Result<Pipeline, Unfit> {
        let mut stages = Vec::with_capacity(instance.stages.len());
        for (at, gpus) in instance.stages.iter().enumerate() {
            stages.push(Stage::nth(task, instance.parallel, at as u32, gpus)?);
        }
        let pairs = instance.stages.windows(2);
        let hops: Option<Vec<Hop>> =
            pairs.map(|pair| Hop::between(task, &pair[0], &pair[1])).collect();
        Ok(Pipeline::of(task, stages, hops.ok_or(Unfit::Disconnected)?))
    }

    pub(super) fn of(task: &Task<'_>, stages: Vec<Stage>, hops: Vec<Hop>) -> Pipeline {
        Pipeline { stages, hops, hidden: f64::from(task.subject.shape.hidden) * NUMBER }
    }

    /// Bytes of the hidden state of `tokens`.
    pub(crate) fn bytes(&self, tokens: f64) -> f64 {
        tokens * self.hidden
    }

    pub(crate) fn step(&self, work: &Work) -> Time {
        let bytes = self.bytes(work.tokens);
        let mut time = Time::default();
        for stage in &self.stages {
            let reduce = collective::best(&stage.choices, bytes);
            let reduce = stage.reductions * reduce.map_or(0.0, |choice| choice.seconds(bytes));
            let seconds = stage.terms.seconds(work) + reduce;
            time.whole += seconds;
            time.communication += reduce;
            time.slowest = time.slowest.max(seconds);
        }
        for hop in &self.hops {
            let seconds = hop.latency + hop.per_byte * bytes;
            time.whole += seconds;
            time.communication += seconds;
        }
        time
    }

    /// The load of a request's `tokens` on links, if steps carry `message` bytes each.
    pub(crate) fn loads(&self, tokens: f64, message: f64) -> Loads {
        let bytes = self.bytes(tokens);
        let mut loads = Loads::default();
        for stage in &self.stages {
            if let Some(choice) = collective::best(&stage.choices, message) {
                loads.merge(&choice.loads, stage.reductions * bytes);
            }
        }
        for hop in &self.hops {
            loads.merge(&hop.loads, bytes);
        }
        loads
    }

    /// KV tokens that fit in the fullest stage.
    pub(crate) fn kv_tokens(&self) -> f64 {
        self.stages.iter().map(|stage| stage.kv_tokens).fold(f64::INFINITY, f64::min)
    }

    pub(crate) fn into_parts(self) -> (Vec<Vec<Choice>>, Vec<Hop>) {
        (self.stages.into_iter().map(|stage| stage.choices).collect(), self.hops)
    }
}

impl Stage {
    /// The `at`-th stage of a split.
    pub(super) fn nth(
        task: &Task<'_>,
        Parallel { pp, ep, .. }: Parallel,
        at: u32,
        gpus: &[GpuId],
    ) -> Result<Stage, Unfit> {
        let model = &task.subject.shape;
        let (layers, last) = (model.layers / pp + u32::from(at < model.layers % pp), at + 1 == pp);
        let share = f64::from(layers) / f64::from(model.layers);
        let ranks = gpus.len() as u32;
        let mut terms = Terms::default();
        let mut kv_tokens = f64::INFINITY;
        for gpu in gpus {
            let kind = task.topology.kind(*gpu);
            terms = slower(&terms, &part(model, kind, ranks, ep, share, last));
            let room = kind.usable_memory() - weights(model, ranks, ep) * share;
            // Ranks that share experts keep the complete KV of their own sequences.
            let (token, copies) =
                if ep { (model.kv_bytes(1), ranks) } else { (model.kv_bytes(ranks), 1) };
            let tokens = room / (token * share) * f64::from(copies);
            if tokens < MIN_KV_TOKENS {
                return Err(Unfit::Memory(MIN_KV_TOKENS * token * share - room));
            }
            kv_tokens = kv_tokens.min(tokens);
        }
        let choices = match task.network {
            Network::Corrected => collective::choices(task.topology, gpus),
            Network::Printed => printed::alone(task.topology, gpus),
        };
        if gpus.len() > 1 && choices.is_empty() {
            return Err(Unfit::Disconnected);
        }
        let reductions = match (ep, model.experts) {
            (true, Some(experts)) => f64::from(experts.layers),
            _ => 2.0 * f64::from(layers),
        };
        Ok(Stage { terms, reductions, choices, kv_tokens })
    }
}

/// Bytes of all weights on each rank.
fn weights(model: &Model, ranks: u32, ep: bool) -> f64 {
    let ranks = f64::from(ranks);
    if ep {
        return model.weight_bytes() - model.expert_bytes() * (1.0 - 1.0 / ranks);
    }
    model.weight_bytes() / ranks
}

/// The engine's terms of a part of the layers, without its own collectives.
fn part(model: &Model, kind: &Gpu, ranks: u32, ep: bool, share: f64, last: bool) -> Terms {
    let whole = if ep {
        Terms::sharing_experts(model, kind, ranks)
    } else {
        Terms::split(model, kind, ranks)
    };
    let end = f64::from(u8::from(last));
    Terms {
        weights: whole.weights * share,
        experts: whole.experts * share,
        touch: whole.touch,
        token: whole.token * share,
        head: whole.head * end,
        ranks: whole.ranks,
        kv: whole.kv * share,
        pair: whole.pair * share,
        reduce: 0.0,
        token_reduce: 0.0,
        launch: whole.launch * share,
        step: whole.step,
        sequence: whole.sequence * end,
    }
}

/// The slower of the two, term by term.
fn slower(a: &Terms, b: &Terms) -> Terms {
    Terms {
        weights: a.weights.max(b.weights),
        experts: a.experts.max(b.experts),
        touch: a.touch.max(b.touch),
        token: a.token.max(b.token),
        head: a.head.max(b.head),
        ranks: a.ranks.max(b.ranks),
        kv: a.kv.max(b.kv),
        pair: a.pair.max(b.pair),
        reduce: a.reduce.max(b.reduce),
        token_reduce: a.token_reduce.max(b.token_reduce),
        launch: a.launch.max(b.launch),
        step: a.step.max(b.step),
        sequence: a.sequence.max(b.sequence),
    }
}

impl Hop {
    /// A hop with the given cost, whatever the senders.
    pub(super) fn costing((latency, per_byte, loads): (f64, f64, Loads)) -> Hop {
        Hop { pairs: Vec::new(), latency, per_byte, loads }
    }

    /// Seconds, seconds a byte, and a byte's load on links.
    pub(super) fn cost(&self) -> (f64, f64, Loads) {
        (self.latency, self.per_byte, self.loads.clone())
    }

    fn between(task: &Task<'_>, from: &[GpuId], to: &[GpuId]) -> Option<Hop> {
        match task.network {
            Network::Corrected => Hop::new(task.topology, from, to),
            Network::Printed => Hop::printed(task.topology, from, to),
        }
    }

    /// Equation 6: each rank sends the whole hidden state to its partner, on links of its own.
    fn printed(topology: &Topology, from: &[GpuId], to: &[GpuId]) -> Option<Hop> {
        let cost = |a: GpuId, b: GpuId| route(topology, a, b, 1e6).map(|way| way.stored(topology));
        let row = |a: &GpuId| to.iter().map(|b| cost(*a, *b)).collect::<Option<Vec<f64>>>();
        let costs = from.iter().map(row).collect::<Option<Vec<_>>>()?;
        let partners = bottleneck(&costs);
        let slowest = partners.iter().enumerate().map(|(row, at)| costs[row][*at]);
        let per_byte = slowest.fold(0.0, f64::max);
        let pairs = partners.iter().enumerate().map(|(row, at)| (from[row], to[*at])).collect();
        Some(Hop { pairs, latency: 0.0, per_byte, loads: Loads::default() })
    }

    /// Each rank sends its part of the hidden state to its partner.
    fn new(topology: &Topology, from: &[GpuId], to: &[GpuId]) -> Option<Hop> {
        let part = 1.0 / from.len() as f64;
        let ways: Option<Vec<Vec<Route>>> = from
            .iter()
            .map(|a| to.iter().map(|b| route(topology, *a, *b, 1e6)).collect())
            .collect();
        let ways = ways?;
        let cost = |way: &Route| way.seconds(topology, part * 1e6);
        let costs: Vec<Vec<f64>> = ways.iter().map(|row| row.iter().map(cost).collect()).collect();
        let partners = bottleneck(&costs);
        let mut loads = Loads::default();
        let mut latency = 0.0_f64;
        for (row, column) in partners.iter().enumerate() {
            let way = &ways[row][*column];
            loads.add(&way.links, part);
            latency = latency.max(way.latency);
        }
        let per_byte = loads.slowest(topology).map_or(0.0, |(_, seconds)| seconds);
        let pairs = partners.iter().enumerate().map(|(row, at)| (from[row], to[*at])).collect();
        Some(Hop { pairs, latency, per_byte, loads })
    }
}
