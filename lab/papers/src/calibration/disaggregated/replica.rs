//! A replica of a disaggregated deployment: one engine, or ranks that step together.
//!
//! With tensor parallel attention it is one engine over all its GPUs. With data parallel attention
//! each GPU is a rank with its own scheduler, and the ranks share the experts
//! ([`Ranks`]). The coefficients are those of the colocated points. These
//! are the differences from a colocated replica:
//!
//! - A decode replica takes `pace` times as long for a step, the only fitted coefficient.
//! - It computes only the last token of a prompt, in the same graph as its decodes, so it never
//!   waits for kernel launches.
//! - Ranks exchange padded batches. Unequal ones cost nothing extra, unlike vLLM's
//!   ([`Together`]), so the latency of exchanges counts as step time.
//! - A rank has all heads of a latent attention. A decode then computes longer than it reads.
//! - The KV is in the format of the recipes: fp8 on TensorRT-LLM, bf16 on SGLang.
//!
//! It does not model that experts on one rank may be in more demand than those on another, nor
//! that replicas of 16 GPUs span two nodes.

use meridian_base::Time;
use meridian_engine::{
    BLOCK_TOKENS, Config, ConfigError, Engine, Gpu, Input, Model, Output, Profile, Ranks, Software,
    Terms, Together, TokenOutputs, Tuned,
};

use super::deployment::Pool;

/// What a pool computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Prompts.
    Prefill,
    /// Replies.
    Decode,
}

/// One replica.
#[derive(Clone, Debug)]
pub enum Replica {
    /// One scheduler.
    Engine(Box<Engine>),
    /// Several that step together.
    Ranks(Box<Ranks>),
}

impl Replica {
    /// An idle replica of this pool, whose decode steps take `pace` times as long.
    ///
    /// # Errors
    /// When the model does not fit.
    pub fn new(pool: &Pool, role: Role, tuned: &Tuned, pace: f64) -> Result<Replica, ConfigError> {
        let mut config = config(pool, tuned)?;
        if role == Role::Decode {
            slow_down(&mut config.profile.terms, pace);
        }
        if pool.ranks == 1 {
            return Ok(Replica::Engine(Box::new(Engine::new(config, 1)?)));
        }
        let together = Together::new(&config.profile, pool.ranks, 1.0);
        Ok(Replica::Ranks(Box::new(Ranks::new(config, together, 1)?)))
    }

    /// Takes an input that happened at `now`.
    pub fn handle(&mut self, now: Time, input: Input) {
        match self {
            Replica::Engine(engine) => engine.handle(now, input),
            Replica::Ranks(ranks) => ranks.handle(now, input),
        }
    }

    /// The next output.
    pub fn poll(&mut self) -> Option<Output> {
        match self {
            Replica::Engine(engine) => engine.poll(),
            Replica::Ranks(ranks) => ranks.poll(),
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) is next due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        match self {
            Replica::Engine(engine) => engine.poll_timeout(),
            Replica::Ranks(ranks) => ranks.poll_timeout(),
        }
    }

    /// Does all that is due at or before `now`.
    pub fn handle_timeout(&mut self, now: Time) {
        match self {
            Replica::Engine(engine) => engine.handle_timeout(now),
            Replica::Ranks(ranks) => ranks.handle_timeout(now),
        }
    }
}

fn config(pool: &Pool, tuned: &Tuned) -> Result<Config, ConfigError> {
    let model = Model::named(tuned.model).ok_or(ConfigError::UnknownModel)?;
    let model = model.with_precision(tuned.precision);
    let model = with_kv_format(model, tuned.software);
    let gpu = Gpu::named(tuned.gpu).ok_or(ConfigError::UnknownGpu)?;
    let gpu = gpu.with_efficiency(tuned.efficiency);
    let profile = match pool.ranks {
        1 => Profile::new(model, gpu, pool.gpus)?,
        ranks => sharing_experts(model, gpu, ranks)?,
    };
    let mut config = Config::new(profile);
    config.schedule = tuned.software.schedule();
    config.max_num_seqs = pool.slots;
    config.max_num_batched_tokens = pool.tokens.unwrap_or(tuned.max_num_batched_tokens);
    config.token_outputs = TokenOutputs::First;
    config.decode_stride = 1 << 16;
    Ok(config)
}

/// The model with the KV format of the recipes.
pub(super) fn with_kv_format(model: Model, software: Software) -> Model {
    if software == Software::TensorRtLlm { model.with_fp8_kv() } else { model }
}

/// A decode replica's terms: no launches, and the rest `pace` times as long.
fn slow_down(terms: &mut Terms, pace: f64) {
    terms.launch = 0.0;
    for term in [
        &mut terms.weights,
        &mut terms.experts,
        &mut terms.token,
        &mut terms.head,
        &mut terms.kv,
        &mut terms.pair,
        &mut terms.reduce,
        &mut terms.token_reduce,
        &mut terms.step,
        &mut terms.sequence,
    ] {
        *term *= pace;
    }
}

/// One of `ranks` GPUs with a copy of everything but the experts. Unlike
/// [`Profile::expert_parallel`], the model need not fit a single GPU.
fn sharing_experts(model: Model, gpu: Gpu, ranks: u32) -> Result<Profile, ConfigError> {
    let split = Profile::new(model, gpu, ranks)?;
    let experts = model.expert_bytes();
    let weights = model.weight_bytes() - experts + experts / f64::from(ranks);
    let room = gpu.usable_memory() - weights;
    let kv_blocks = (room / (model.kv_bytes(1) * f64::from(BLOCK_TOKENS))).max(0.0) as u32;
    let mut terms = Terms::sharing_experts(&model, &gpu, ranks);
    terms.step += core::mem::take(&mut terms.reduce);
    Ok(Profile { kv_blocks, terms, ..split })
}
