//! A profile: one model on some GPUs, as step-time terms and a KV size.

use crate::config::ConfigError;
use crate::cost::Terms;
use crate::gpu::Gpu;
use crate::kv::BLOCK_TOKENS;
use crate::model::Model;

/// The roofline of one model on `tp` GPUs of one kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Profile {
    /// The model.
    pub model: Model,
    /// The GPU.
    pub gpu: Gpu,
    /// Tensor parallel degree: GPUs of the replica.
    pub tp: u32,
    /// Step-time terms. Public, so that a calibrated replica can have its own.
    pub terms: Terms,
    /// KV blocks that fit next to the weights.
    pub kv_blocks: u32,
}

impl Profile {
    /// Builds the profile of `model` on `tp` GPUs.
    ///
    /// # Errors
    ///
    /// When `tp` does not divide the heads, or the weights leave no memory for KV.
    pub fn new(model: Model, gpu: Gpu, tp: u32) -> Result<Profile, ConfigError> {
        if tp == 0 || !model.heads.is_multiple_of(tp) {
            return Err(ConfigError::TensorParallel { tp, heads: model.heads });
        }
        let kv_blocks = kv_blocks(&model, &gpu, tp);
        if kv_blocks * BLOCK_TOKENS < MIN_KV_TOKENS {
            let fits = |n: &u32| kv_blocks_suffice(&model, &gpu, *n);
            return Err(ConfigError::DoesNotFit {
                model: model.name,
                precision: model.precision.name(),
                gpu: gpu.name,
                tp,
                weights_gb: model.weight_bytes() / f64::from(tp) / 1e9,
                memory_gb: gpu.usable_memory() / 1e9,
                enough_tp: [1, 2, 4, 8]
                    .into_iter()
                    .filter(|n| model.heads.is_multiple_of(*n))
                    .find(fits),
            });
        }
        Ok(Profile { model, gpu, tp, terms: Terms::split(&model, &gpu, tp), kv_blocks })
    }

    /// Builds the profile of one of `ranks` GPUs that each have a copy of the model but share its
    /// experts, and step together ([`Ranks`](crate::Ranks), vLLM's data parallel with expert
    /// parallel). The KV is that of one GPU, the terms those of all: a step reads the common
    /// weights once per rank and each expert on one of them, and each layer with experts gathers
    /// the tokens of all ranks and returns the results.
    ///
    /// # Errors
    /// When the weights leave no memory for KV.
    pub fn expert_parallel(model: Model, gpu: Gpu, ranks: u32) -> Result<Profile, ConfigError> {
        let mut one = Profile::new(model, gpu, 1)?;
        let gpus = f64::from(ranks.max(1));
        let away = model.expert_bytes() * (1.0 - 1.0 / gpus);
        let freed = away / (model.kv_bytes(1) * f64::from(BLOCK_TOKENS));
        one.kv_blocks = (f64::from(one.kv_blocks) + freed) as u32;
        one.terms = Terms::sharing_experts(&model, &gpu, ranks);
        Ok(one)
    }

    /// Builds the profile from short names, such as `llama-3.1-8b` and `l4`.
    ///
    /// # Errors
    /// As [`new`](Self::new), or when a name is not known.
    pub fn named(model: &str, gpu: &str, tp: u32) -> Result<Profile, ConfigError> {
        let model = Model::named(model).ok_or(ConfigError::UnknownModel)?;
        let gpu = Gpu::named(gpu).ok_or(ConfigError::UnknownGpu)?;
        Profile::new(model, gpu, tp)
    }
}

/// A replica with fewer tokens of KV than this is refused: it could serve one request.
const MIN_KV_TOKENS: u32 = 2048;

fn kv_blocks(model: &Model, gpu: &Gpu, tp: u32) -> u32 {
    let room = gpu.usable_memory() - model.weight_bytes() / f64::from(tp);
    (room / (model.kv_bytes(tp) * f64::from(BLOCK_TOKENS))).max(0.0) as u32
}

fn kv_blocks_suffice(model: &Model, gpu: &Gpu, tp: u32) -> bool {
    kv_blocks(model, gpu, tp) * BLOCK_TOKENS >= MIN_KV_TOKENS
}

impl Terms {
    /// The terms of `model` with every matrix split over `tp` GPUs of one server, whether the model
    /// fits or not.
    #[must_use]
    pub fn split(model: &Model, gpu: &Gpu, tp: u32) -> Terms {
        let (gpus, efficiency) = (f64::from(tp), gpu.efficiency);
        let layers = f64::from(model.layers);
        let bandwidth = gpu.bandwidth * efficiency.memory;
        let flops = gpu.flops(model.precision) * efficiency.compute * gpus;
        let reductions = if tp > 1 { 2.0 * layers } else { 0.0 };
        // A ring moves each token's hidden state almost twice over every link.
        let moved = reductions * 2.0 * f64::from(model.hidden) * 2.0 * (gpus - 1.0) / gpus;
        Terms {
            weights: model.common_bytes() / gpus / bandwidth,
            experts: model.expert_bytes() / gpus / bandwidth,
            touch: touch(model),
            token: 2.0 * model.linear_params() / flops,
            ranks: 1.0,
            head: 2.0 * model.head_params() / (gpu.flops * efficiency.compute * gpus),
            kv: model.kv_read_bytes(tp) / bandwidth,
            pair: model.pair_flops() / (gpu.flops * efficiency.attention * gpus),
            reduce: reductions * efficiency.reduce,
            token_reduce: moved / (gpu.link * efficiency.link),
            launch: layers * efficiency.launch,
            step: efficiency.step,
            sequence: efficiency.sequence,
        }
    }

    /// The terms of `ranks` GPUs that each have a copy of the model but share its experts, as in
    /// [`Profile::expert_parallel`].
    #[must_use]
    pub fn sharing_experts(model: &Model, gpu: &Gpu, ranks: u32) -> Terms {
        let mut terms = Terms::split(model, gpu, 1);
        let (gpus, efficiency) = (f64::from(ranks.max(1)), gpu.efficiency);
        let exchanges = model.experts.map_or(0.0, |e| 2.0 * f64::from(e.layers));
        let moved = exchanges * 2.0 * f64::from(model.hidden) * (gpus - 1.0) / gpus;
        for shared in [
            &mut terms.experts,
            &mut terms.token,
            &mut terms.head,
            &mut terms.kv,
            &mut terms.pair,
            &mut terms.sequence,
        ] {
            *shared /= gpus;
        }
        if model.latent {
            terms.kv = terms.kv.max(latent_read(model, gpu) / gpus);
        }
        terms.ranks = gpus;
        // A gather costs half of an all-reduce, and so does the return.
        terms.reduce = if ranks > 1 { exchanges / 2.0 * efficiency.reduce } else { 0.0 };
        terms.token_reduce = moved / (gpu.link * efficiency.link);
        terms
    }
}

/// Widths of a latent key and of a latent value (DeepSeek-V3), which a decode multiplies for each
/// head and token of its context.
const LATENT_WIDTHS: f64 = 576.0 + 512.0;

/// Share of the bf16 flops that a kernel for that reaches when it is compute-bound (DeepSeek's
/// announcement of FlashMLA: 580 of Hopper's 989 TFLOPS).
const LATENT_SHARE: f64 = 580.0 / 989.0;

/// Seconds that a rank with all heads of a latent attention computes for a decode and a token of its
/// context. Reading that token takes less.
fn latent_read(model: &Model, gpu: &Gpu) -> f64 {
    let flops = 2.0 * f64::from(model.layers * model.heads) * LATENT_WIDTHS;
    flops / (gpu.flops * LATENT_SHARE)
}

/// The rate at which tokens touch experts: one token leaves `1 - active / count` of them untouched.
fn touch(model: &Model) -> f64 {
    let share = |e: crate::Experts| f64::from(e.active) / f64::from(e.count);
    model.experts.map_or(0.0, |experts| -libm::log(1.0 - share(experts)))
}

#[cfg(test)]
mod tests {
    use super::*;

    // A rank that shares experts has all heads: with latent attention a decode computes longer than it
    // reads, nearly twice as long on an H200. Split heads compute less, and grouped ones read more.
    #[test]
    fn all_heads_of_a_latent_attention_compute() {
        let gpu = Gpu::named("h200").unwrap();
        let terms = |model: &str| {
            let model = Model::named(model).unwrap();
            let shared = Terms::sharing_experts(&model, &gpu, 8).kv * 8.0;
            (shared, Terms::split(&model, &gpu, 1).kv)
        };
        let (shared, read) = terms("deepseek-v3");
        assert!(shared > 1.5 * read, "{shared} {read}");
        let (shared, read) = terms("qwen3-30b-a3b");
        assert!((shared / read - 1.0).abs() < 1e-12);
    }
}
