//! The computing time of a layer, from the engine's roofline.
//!
//! The terms are those of [`meridian_engine::Terms`], by layer and by the division among ranks: the
//! rank with the request computes attention (or all ranks do), and the rank with the experts
//! computes those, so both take as long as on the busiest rank. Reductions between the GPUs of a
//! rank stay on NVLink and count as computing. If attention is tensor-parallel, the all-reduces over
//! all ranks replace them.

use meridian_base::Duration;
use meridian_engine::{Experts, Precision};

use super::setup::{Parallel, Pool};

/// Seconds of a layer's parts on one rank.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Speed {
    /// Reading the attention's matrices, and computing a token in them.
    attention: (f64, f64),
    /// One pair of a token and one at or before it.
    pair: f64,
    /// Reading the matrices next to the experts (or the whole feed-forward layer), and computing a
    /// token in them.
    dense: (f64, f64),
    /// Reading all experts of a rank, and computing a token in one.
    experts: (f64, f64),
    touch: f64,
    /// A reduction, and a token in it.
    reduce: (f64, f64),
    /// Minimum time of half a layer.
    launch: f64,
    /// Of a batch, and of each request in it.
    step: f64,
    sequence: f64,
    /// The first step of decode.
    pub(crate) decode: Duration,
    /// Latency before an exchange's first byte arrives.
    pub(crate) latency: Duration,
}

/// One rank's share of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Share {
    /// Prompt tokens.
    pub(crate) tokens: f64,
    /// Pairs of them with a token at or before them.
    pub(crate) pairs: f64,
}

/// A batch's work on each rank.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shares {
    pub(crate) ranks: Vec<Share>,
    /// Tokens of all prompts so far, which go around a ring.
    pub(crate) context: f64,
}

impl Shares {
    pub(crate) fn new(pool: &Pool) -> Shares {
        Shares { ranks: vec![Share::default(); pool.ranks as usize], context: 0.0 }
    }

    /// Adds a chunk of `new` tokens after `before`, of a request whose first rank is `rank`.
    pub(crate) fn add(&mut self, pool: &Pool, rank: u32, (before, new): (u32, u32)) {
        self.context += f64::from(before + new);
        let (part, before, new) =
            (1.0 / f64::from(pool.spread()), f64::from(before), f64::from(new));
        for share in &mut self.ranks[rank as usize..][..pool.spread() as usize] {
            share.tokens += new * part;
            share.pairs += new * (before + (new + 1.0) / 2.0) * part;
        }
    }

    /// Prompt tokens of the batch.
    pub(crate) fn tokens(&self) -> f64 {
        self.ranks.iter().map(|share| share.tokens).sum()
    }
}

impl Speed {
    pub(crate) fn new(pool: &Pool) -> Speed {
        let Pool { model, gpu, tensor, ranks, .. } = pool;
        let (gpus, ranks) = (f64::from(*tensor), f64::from(*ranks));
        let e = gpu.efficiency;
        let (layers, hidden) = (f64::from(model.layers), f64::from(model.hidden));
        let read = |params: f64, bytes: f64| params * bytes / gpus / (gpu.bandwidth * e.memory);
        let divided = f64::from(pool.divided());
        let flops = gpu.flops(model.precision) * e.compute * gpus;
        let token = |params: f64| 2.0 * params / flops;
        let bytes = model.precision.bytes();
        let attention = model.attention_params();
        let dense = model.common_params() / layers - attention;
        let one = |x: Experts| 3.0 * hidden * f64::from(x.intermediate);
        let held = model.experts.map_or(0.0, |x| one(x) * f64::from(x.count) / ranks);
        let all = model.weight_bytes() / (gpus * ranks) / (gpu.bandwidth * e.memory);
        let moved = 2.0 * hidden * Precision::Bf16.bytes() * (gpus - 1.0) / gpus;
        let split = *tensor > 1 && pool.divided() == 1;
        Speed {
            attention: (read(attention / divided, bytes), token(attention)),
            pair: model.pair_flops() / layers / (gpu.flops * e.attention * gpus),
            dense: (read(dense / divided, bytes), token(dense)),
            experts: (
                read(held, model.precision.expert_bytes()),
                token(model.experts.map_or(0.0, one)),
            ),
            touch: model
                .experts
                .map_or(0.0, |x| -libm::log(1.0 - f64::from(x.active) / f64::from(x.count))),
            reduce: if split { (e.reduce, moved / (gpu.link * e.link)) } else { (0.0, 0.0) },
            launch: e.launch / 2.0,
            step: e.step,
            sequence: e.sequence,
            decode: Duration::from_secs_f64(all + e.step),
            latency: Duration::from_secs_f64(e.reduce),
        }
    }

    /// The scheduler's time before the first layer.
    pub(crate) fn step(&self, sequences: usize) -> Duration {
        Duration::from_secs_f64(self.step + self.sequence * sequences as f64)
    }

    /// A layer's attention, on the busiest rank.
    pub(crate) fn attention(&self, shares: &Shares) -> Duration {
        let one = |share: &Share| {
            knee(self.attention, share.tokens) + self.pair * share.pairs + self.reduction(share)
        };
        self.longest(shares.ranks.iter().map(one))
    }

    /// The rest of a layer: `loads` are the tokens that each rank's experts compute.
    pub(crate) fn rest(&self, shares: &Shares, loads: impl Iterator<Item = f64>) -> Duration {
        let touched = 1.0 - libm::exp(-self.touch * shares.tokens());
        let experts = (self.experts.0 * touched, self.experts.1);
        let one = |(share, load): (&Share, f64)| {
            knee(self.dense, share.tokens) + knee(experts, load) + self.reduction(share)
        };
        self.longest(shares.ranks.iter().zip(loads).map(one))
    }

    fn reduction(&self, share: &Share) -> f64 {
        self.reduce.0 + self.reduce.1 * share.tokens
    }

    fn longest(&self, each: impl Iterator<Item = f64>) -> Duration {
        Duration::from_secs_f64(each.fold(self.launch, f64::max))
    }
}

/// The larger of reading and computing, with the engine's soft knee between them.
fn knee((read, token): (f64, f64), tokens: f64) -> f64 {
    let compute = token * tokens;
    if tokens > 0.0 { libm::sqrt(read * read + compute * compute) } else { 0.0 }
}

/// Tokens that the experts of each rank compute, with `weights` summing to 1.
pub(crate) fn loads<'a>(
    pool: &Pool,
    shares: &Shares,
    weights: &'a [f64],
) -> impl Iterator<Item = f64> + use<'a> {
    let tokens = shares.tokens();
    let active = match pool.parallel {
        Parallel::Experts | Parallel::Tensor => {
            pool.model.experts.map_or(0.0, |x| f64::from(x.active))
        }
        Parallel::Sequence => 0.0,
    };
    weights.iter().map(move |weight| tokens * active * weight)
}
