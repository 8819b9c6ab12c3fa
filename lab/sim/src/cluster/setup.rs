//! All inputs of a run of a cluster.

use std::fmt::Display;

use meridian_base::{Duration, Time};
use meridian_engine::{Gpu, Model};
use meridian_fabric as fabric;
use meridian_flow as flow;

use super::sending::Enforce;

/// One run.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Seed of all random draws: experts' loads, tiers, errors of estimates.
    pub seed: u64,
    /// The servers and the network between them.
    pub fabric: fabric::Cluster,
    /// Cards with a different rate: server, card of the server, bytes a second.
    pub cards: Vec<(u32, u32, f64)>,
    /// The models that are served concurrently.
    pub pools: Vec<Pool>,
    /// The policy and the settings of the flow machine. Its limits follow from the cluster.
    pub flow: flow::Config,
    /// Where the order of flows is enforced.
    pub enforce: Enforce,
    /// The coordinator of machines on each server; without it, one machine knows everything.
    pub coordinator: Option<Control>,
    /// Whether KV and collectives share the network; if not, each has a separate one.
    pub shared: bool,
    /// Relative error of the estimated exchanges of batches, uniform within plus and minus this.
    pub estimate_error: f64,
    /// A port whose flows are recorded.
    pub watch: Option<Watch>,
}

/// How the coordinator's messages travel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Control {
    /// From a report to the verdict that answers it.
    pub delay: Duration,
    /// Share of messages, each way, that are lost.
    pub loss: f64,
}

/// A model with its replicas and its requests.
#[derive(Clone, Debug)]
pub struct Pool {
    /// Its name in reports.
    pub name: String,
    /// The model.
    pub model: Model,
    /// The GPU.
    pub gpu: Gpu,
    /// Tensor parallel GPUs, inside a server.
    pub tensor: u32,
    /// Ranks of such GPUs in a replica.
    pub ranks: u32,
    /// How the ranks divide the work.
    pub parallel: Parallel,
    /// Replicas that compute prompts.
    pub prefill: u32,
    /// Replicas that the KV goes to.
    pub decode: u32,
    /// Most prompt tokens that a batch computes at once: of each rank if every rank attends to its
    /// own requests, otherwise of all ranks. A longer prompt is computed in chunks.
    pub batch_tokens: u32,
    /// Coefficient of variation of the ranks' load from their experts.
    pub skew: f64,
    /// Layers whose KV is one flow; all layers of the model for KV that moves once.
    pub kv_layers: u16,
    /// Replicas that a prefix can be fetched from: its first holders.
    pub victims: usize,
    /// Whether a replica that fetched a prefix keeps it; if not, only its first holders have it.
    pub keep: bool,
    /// The objectives.
    pub slo: Tiers,
    /// Prompts that were computed before the run, by the replicas and ranks in turn.
    pub known: Vec<Request>,
    /// The requests, by time.
    pub requests: Vec<Request>,
}

/// How the ranks of a replica divide the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parallel {
    /// Expert parallelism: each rank attends to its own requests, and every layer exchanges tokens
    /// all to all, twice.
    Experts,
    /// Expert parallelism with tensor-parallel attention: all ranks attend to each request, each
    /// with a share of the heads, and every layer has an all-reduce after attention and after the
    /// experts.
    Tensor,
    /// Sequence parallelism: every layer passes KV around the ring of ranks during attention.
    Sequence,
}

/// Objectives as multiples of a TTFT at low load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tiers {
    /// The TTFT that is multiplied.
    pub of: Base,
    /// Of the tight tier.
    pub tight: f64,
    /// Of the loose tier.
    pub loose: f64,
    /// Share of requests in the tight tier.
    pub tight_share: f64,
}

/// The TTFT at low load that an objective is a multiple of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Base {
    /// The request's own.
    #[default]
    Own,
    /// The mean over the pool's requests, so that a tier has one objective.
    Mean,
}

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// When it arrives.
    pub at: Time,
    /// Tokens of its prompt.
    pub tokens: u32,
    /// Tokens of a block.
    pub block_tokens: u32,
    /// Its blocks; an id names the whole prompt up to its block.
    pub blocks: Vec<u64>,
}

/// The watched port, and the interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    /// The port, in the cluster as it is simulated.
    pub port: meridian_base::PortId,
    /// From when.
    pub from: Time,
    /// For how long.
    pub span: Duration,
}

/// Why a run is impossible.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Impossible {
    /// The network cannot be laid out.
    #[error("cluster: {0}")]
    Fabric(fabric::TopologyError),
    /// The flow machine's settings are inconsistent.
    #[error("flow: {0}")]
    Flow(flow::ConfigError),
    /// A pool's number is out of range.
    #[error("pool {pool}: {field} is {value}: {remedy}")]
    Pool {
        /// The pool.
        pool: String,
        /// The field.
        field: &'static str,
        /// Its value.
        value: f64,
        /// The remedy.
        remedy: String,
    },
    /// The replicas need more servers than there are.
    #[error(
        "cluster: {needed} GPUs are needed and there are {there}: add servers, or take replicas away"
    )]
    TooSmall {
        /// GPUs of all replicas.
        needed: u64,
        /// GPUs of all servers.
        there: u64,
    },
    /// More flows at once than the machine has rows for.
    #[error(
        "{flows} flows are under way at {at}: lower the rate, or let a KV flow carry more layers"
    )]
    Overrun {
        /// How many.
        flows: u32,
        /// When.
        at: Time,
    },
    /// Flows that wait for each other.
    #[error("{waiting} flows wait for others that never end: let one of them begin by itself")]
    Waits {
        /// How many.
        waiting: usize,
    },
    /// The machine refused an input.
    #[error("the flow machine refused {subject}: {why}")]
    Refused {
        /// The object of the input.
        subject: flow::Subject,
        /// Why.
        why: flow::Refusal,
    },
}

impl From<fabric::TopologyError> for Impossible {
    fn from(error: fabric::TopologyError) -> Impossible {
        Impossible::Fabric(error)
    }
}

impl From<flow::ConfigError> for Impossible {
    fn from(error: flow::ConfigError) -> Impossible {
        Impossible::Flow(error)
    }
}

/// Most flows at once.
const FLOWS: u32 = 1 << 18;

/// Most prefill GPUs whose senders are simulated chunk by chunk.
const EXACT_GPUS: u32 = 16;

impl Setup {
    /// Whether senders that enforce an order send chunk by chunk. In larger clusters a flow waits for
    /// the time of one chunk instead.
    pub(crate) fn exact(&self) -> bool {
        // The setup is checked later, so any number may stand here.
        let gpus =
            |pool: &Pool| pool.prefill.saturating_mul(pool.tensor).saturating_mul(pool.ranks);
        self.pools.iter().map(gpus).fold(0, u32::saturating_add) <= EXACT_GPUS
    }

    /// The flow machine's settings, with tables large enough for the run.
    pub(crate) fn machine(&self, ports: usize, requests: u32) -> flow::Config {
        let pools = self.pools.iter();
        // A request has a card and a switch at each end of each lane, for its fetch and its handoff.
        let ways = pools.clone().map(|pool| 8 * pool.gpus()).max().unwrap_or(8);
        let limits = flow::Limits {
            flows: FLOWS,
            requests: requests.clamp(1, 1 << 24),
            batches: pools.clone().map(|pool| pool.prefill).sum(),
            ports: ports as u32,
            uses: requests.saturating_mul(ways).clamp(1, 1 << 18),
            layers: pools.map(|pool| pool.model.layers).max().unwrap_or(1) as u16,
        };
        flow::Config { limits, ..self.flow }
    }
}

impl Pool {
    /// GPUs of one of its replicas.
    #[must_use]
    pub fn gpus(&self) -> u32 {
        self.tensor * self.ranks
    }

    /// GPUs of a server that do the same work at the same time, apart from their experts: those of a
    /// rank, or with tensor-parallel attention all of a replica.
    pub(crate) fn alike(&self, gpus_of_server: u32) -> u32 {
        match self.parallel {
            Parallel::Tensor => self.gpus().min(gpus_of_server),
            Parallel::Experts | Parallel::Sequence => self.tensor,
        }
    }

    /// Ranks among which requests are divided; 1 if each request uses all of them.
    pub(crate) fn separate_ranks(&self) -> u32 {
        if self.parallel == Parallel::Experts { self.ranks } else { 1 }
    }

    /// Ranks that each request uses.
    pub(crate) fn spread(&self) -> u32 {
        self.ranks / self.separate_ranks()
    }

    /// Ranks among which a layer's matrices outside the experts are divided; each has all of them
    /// unless attention is tensor-parallel.
    pub(crate) fn divided(&self) -> u32 {
        if self.parallel == Parallel::Tensor { self.ranks } else { 1 }
    }

    /// Flows of KV from one end of the model to the other.
    pub(crate) fn groups(&self) -> u16 {
        (self.model.layers as u16).div_ceil(self.kv_layers)
    }

    /// The layers of one of them.
    pub(crate) fn group(&self, group: u16) -> core::ops::Range<u16> {
        let from = group * self.kv_layers;
        from..(from + self.kv_layers).min(self.model.layers as u16)
    }

    pub(crate) fn check(&self, gpus_of_server: u32) -> Result<(), Impossible> {
        let Pool { model, ranks, .. } = self;
        let rule = |field, value: u32, holds: bool, remedy: &dyn Display| {
            self.rule(field, f64::from(value), holds, remedy)
        };
        let divides = self.tensor > 0 && model.heads.is_multiple_of(self.tensor);
        let remedy = format_args!("use a divisor of the model's {} heads", model.heads);
        rule("tensor", self.tensor, divides, &remedy)?;
        let divides = gpus_of_server.is_multiple_of(self.tensor);
        let remedy = format_args!("use a divisor of a server's {gpus_of_server} GPUs");
        rule("tensor", self.tensor, divides, &remedy)?;
        rule("ranks", *ranks, (1..=1024).contains(ranks), &"use 1 to 1024")?;
        let gpus = self.gpus();
        let divides = gpus.is_multiple_of(gpus_of_server) || gpus_of_server.is_multiple_of(gpus);
        let remedy = format_args!(
            "tensor times ranks is {gpus} GPUs: use whole servers of {gpus_of_server}, or an even \
             part of one"
        );
        rule("ranks", *ranks, divides, &remedy)?;
        if self.parallel != Parallel::Sequence && *ranks > 1 {
            let experts = model.experts.map_or(0, |experts| experts.count);
            rule("ranks", *ranks, experts > 0, &"the model has no experts: use sequence")?;
            let remedy = format_args!("use a divisor of the model's {experts} experts");
            rule("ranks", *ranks, experts.is_multiple_of(*ranks), &remedy)?;
        }
        for (field, value) in [("prefill", self.prefill), ("decode", self.decode)] {
            rule(field, value, (1..=4096).contains(&value), &"use 1 to 4096 replicas")?;
        }
        let (most, layers) = (self.batch_tokens, u32::from(self.kv_layers));
        rule("batch_tokens", most, most > 0, &"use at least 1, 8192 as a rule")?;
        self.rule("skew", self.skew, (0.0..=3.0).contains(&self.skew), &"use 0 to 3")?;
        let remedy = format_args!("use 1 to the model's {} layers", model.layers);
        rule("kv_layers", layers, (1..=model.layers).contains(&layers), &remedy)?;
        rule("victims", 0, self.victims > 0, &"use at least 1")?;
        self.check_requests()
    }

    fn check_requests(&self) -> Result<(), Impossible> {
        let Tiers { tight, loose, tight_share, .. } = self.slo;
        for (field, value) in [("slo.tight", tight), ("slo.loose", loose)] {
            let remedy = "a deadline before the first token can be there: use above 1, 3 as a rule";
            self.rule(field, value, value > 1.0 && value <= 1e6, &remedy)?;
        }
        let share = (0.0..=1.0).contains(&tight_share);
        self.rule("slo.tight_share", tight_share, share, &"use 0 to 1")?;
        let mut last = Time::ZERO;
        let context = self.model.context;
        for Request { at, tokens, .. } in &self.requests {
            let remedy = format_args!("use 1 to the model's {context} tokens");
            let fits = (1..=context).contains(tokens);
            self.rule("requests.tokens", f64::from(*tokens), fits, &remedy)?;
            let remedy = "requests come in order of time: sort them";
            self.rule("requests.at", at.as_secs_f64(), *at >= last, &remedy)?;
            last = *at;
        }
        Ok(())
    }

    /// Refuses a field's value unless its rule holds.
    fn rule(
        &self,
        field: &'static str,
        value: f64,
        holds: bool,
        remedy: &dyn Display,
    ) -> Result<(), Impossible> {
        if holds {
            return Ok(());
        }
        Err(Impossible::Pool { pool: self.name.clone(), field, value, remedy: remedy.to_string() })
    }
}
