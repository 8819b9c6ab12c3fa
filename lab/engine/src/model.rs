//! The models' shapes: the public dimensions from each model's config.json, and the figures derived
//! from them: parameters, bytes, flops, KV bytes a token.
//!
//! Decoder-only transformers with grouped-query or latent attention, a gated feed-forward layer or
//! a mixture of experts in its place, in the number format in which they are served. A new model of
//! that kind is one row.
//!
//! It deliberately does not model linear, sparse or hybrid attention (Qwen3.5, GLM-5), where the KV
//! of a token and the work of a pair of tokens mean something else.

use crate::precision::Precision;

/// A model's shape. Parameters and flops follow from it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Model {
    /// The short name used on the command line and in the API.
    pub name: &'static str,
    /// Transformer layers.
    pub layers: u32,
    /// Width of the residual stream.
    pub hidden: u32,
    /// Query heads.
    pub heads: u32,
    /// Key and value heads.
    pub kv_heads: u32,
    /// Width of one head.
    pub head_dim: u32,
    /// Width of the feed-forward layer, in the layers without experts.
    pub intermediate: u32,
    /// Vocabulary, padded as in the weights.
    pub vocab: u32,
    /// Context window, in tokens.
    pub context: u32,
    /// The experts, if it has any.
    pub experts: Option<Experts>,
    /// Whether keys and values are kept as one latent vector (DeepSeek's MLA).
    pub latent: bool,
    /// Layers that attend only to the last [`WINDOW`] tokens.
    pub windowed: u32,
    /// How the weights are stored and multiplied.
    pub precision: Precision,
    /// Bytes of a number in the KV cache: 2 for bf16, 1 for fp8.
    pub kv_number: f64,
}

/// A mixture of experts: each token goes through `active` of `count` and through the shared one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Experts {
    /// Layers that have them; the others have a dense feed-forward layer.
    pub layers: u32,
    /// Experts in a layer.
    pub count: u32,
    /// Experts that a token uses.
    pub active: u32,
    /// Width of one.
    pub intermediate: u32,
    /// Width of the shared expert that every token goes through.
    pub shared: u32,
}

/// The window of windowed layers, in tokens (gpt-oss).
pub const WINDOW: u32 = 128;

/// Ranks and head widths of latent attention, the same in every model that has it (DeepSeek-V3).
const Q_RANK: f64 = 1536.0;
const KV_RANK: f64 = 512.0;
const ROPE: f64 = 64.0;
const NOPE: f64 = 128.0;

const fn shape(name: &'static str, dims: [u32; 7], context: u32) -> Model {
    let [layers, hidden, heads, kv_heads, head_dim, intermediate, vocab] = dims;
    Model {
        name,
        layers,
        hidden,
        heads,
        kv_heads,
        head_dim,
        intermediate,
        vocab,
        context,
        experts: None,
        latent: false,
        windowed: 0,
        precision: Precision::Bf16,
        kv_number: 2.0,
    }
}

const fn moe(model: Model, [layers, count, active, intermediate, shared]: [u32; 5]) -> Model {
    let experts = Some(Experts { layers, count, active, intermediate, shared });
    Model { experts, ..model }
}

const fn latent(model: Model) -> Model {
    Model { latent: true, ..model }
}

const fn windowed(model: Model, windowed: u32) -> Model {
    Model { windowed, ..model }
}

/// Every model with a profile.
pub const MODELS: [Model; 18] = [
    shape("llama-3.1-8b", [32, 4096, 32, 8, 128, 14336, 128_256], 131_072),
    shape("mistral-7b", [32, 4096, 32, 8, 128, 14336, 32_768], 32_768),
    shape("qwen2.5-7b", [28, 3584, 28, 4, 128, 18944, 152_064], 32_768),
    shape("qwen2.5-14b", [48, 5120, 40, 8, 128, 13824, 152_064], 32_768),
    shape("qwen3-32b", [64, 5120, 64, 8, 128, 25600, 151_936], 40_960),
    shape("llama-3.1-70b", [80, 8192, 64, 8, 128, 28672, 128_256], 131_072),
    moe(
        shape("qwen3-30b-a3b", [48, 2048, 32, 4, 128, 6144, 151_936], 262_144),
        [48, 128, 8, 768, 0],
    ),
    moe(
        shape("qwen3-235b-a22b", [94, 4096, 64, 4, 128, 12288, 151_936], 40_960),
        [94, 128, 8, 1536, 0],
    ),
    windowed(
        moe(
            shape("gpt-oss-120b", [36, 2880, 64, 8, 64, 2880, 201_088], 131_072),
            [36, 128, 4, 2880, 0],
        ),
        18,
    ),
    moe(
        shape("minimax-m2.5", [62, 3072, 48, 8, 128, 1536, 200_064], 196_608),
        [62, 256, 8, 1536, 0],
    ),
    latent(moe(
        shape("deepseek-v3", [61, 7168, 128, 128, 128, 18432, 129_280], 163_840),
        [58, 256, 8, 2048, 2048],
    )),
    latent(moe(
        shape("kimi-k2.5", [61, 7168, 64, 64, 128, 18432, 163_840], 262_144),
        [60, 384, 8, 2048, 2048],
    )),
    moe(shape("mixtral-8x7b", [32, 4096, 32, 8, 128, 14336, 32_000], 32_768), [32, 8, 2, 14336, 0]),
    moe(
        shape("mixtral-8x22b", [56, 6144, 48, 8, 128, 16384, 32_768], 65_536),
        [56, 8, 2, 16384, 0],
    ),
    moe(shape("dbrx", [40, 6144, 48, 8, 128, 10752, 100_352], 32_768), [40, 16, 4, 10752, 0]),
    // Each layer has a dense feed-forward layer in addition to the experts.
    moe(shape("grok-2", [64, 8192, 64, 8, 128, 32768, 131_072], 131_072), [64, 8, 2, 16384, 32768]),
    moe(
        shape("qwen3-coder-480b", [62, 6144, 96, 8, 128, 8192, 151_936], 262_144),
        [62, 160, 8, 2560, 0],
    ),
    shape("llama-3-8b-1m", [32, 4096, 32, 8, 128, 14336, 128_256], 1_048_576),
];

impl Model {
    /// The model of this short name, in bf16.
    #[must_use]
    pub fn named(name: &str) -> Option<Model> {
        MODELS.into_iter().find(|model| model.name == name)
    }

    /// The same model served in another number format.
    #[must_use]
    pub const fn with_precision(self, precision: Precision) -> Model {
        Model { precision, ..self }
    }

    /// The same model with an fp8 KV cache.
    #[must_use]
    pub const fn with_fp8_kv(self) -> Model {
        Model { kv_number: 1.0, ..self }
    }

    /// Parameters of the layers' matrices that every token uses: attention, dense feed-forward
    /// layers, shared experts.
    #[must_use]
    pub fn common_params(&self) -> f64 {
        let hidden = f64::from(self.hidden);
        let feed_forward = |width: u32| 3.0 * hidden * f64::from(width);
        let experts = self.experts.map_or(0, |experts| experts.layers);
        let shared = self.experts.map_or(0.0, |e| f64::from(e.layers) * feed_forward(e.shared));
        let dense = f64::from(self.layers - experts) * feed_forward(self.intermediate);
        f64::from(self.layers) * self.attention_params() + dense + shared
    }

    /// Parameters of one layer's attention matrices.
    #[must_use]
    pub fn attention_params(&self) -> f64 {
        let (hidden, heads) = (f64::from(self.hidden), f64::from(self.heads));
        if self.latent {
            let queries = Q_RANK * (hidden + heads * (NOPE + ROPE));
            let keys_values = hidden * (KV_RANK + ROPE) + KV_RANK * heads * 2.0 * NOPE;
            return queries + keys_values + heads * NOPE * hidden;
        }
        2.0 * hidden * f64::from(self.head_dim) * f64::from(self.heads + self.kv_heads)
    }

    /// Parameters of all experts.
    #[must_use]
    pub fn expert_params(&self) -> f64 {
        self.experts.map_or(0.0, |e| {
            f64::from(e.layers * e.count) * 3.0 * f64::from(self.hidden) * f64::from(e.intermediate)
        })
    }

    /// Parameters of the layers' matrices that one token uses.
    #[must_use]
    pub fn linear_params(&self) -> f64 {
        let used = self.experts.map_or(0.0, |e| f64::from(e.active) / f64::from(e.count));
        self.common_params() + used * self.expert_params()
    }

    /// Parameters of the output head (the same number as the embedding's): used once per sampled
    /// token.
    #[must_use]
    pub fn head_params(&self) -> f64 {
        f64::from(self.vocab) * f64::from(self.hidden)
    }

    /// All parameters.
    #[must_use]
    pub fn params(&self) -> f64 {
        self.common_params() + self.expert_params() + 2.0 * self.head_params()
    }

    /// Bytes of all weights. Embedding and head stay in bf16.
    #[must_use]
    pub fn weight_bytes(&self) -> f64 {
        self.common_bytes() + self.expert_bytes() + Precision::Bf16.bytes() * self.head_params()
    }

    /// Bytes of weights read in every step: all except the experts and the embedding, of which
    /// single rows are read.
    #[must_use]
    pub fn common_bytes(&self) -> f64 {
        self.precision.bytes() * self.common_params() + Precision::Bf16.bytes() * self.head_params()
    }

    /// Bytes of all experts.
    #[must_use]
    pub fn expert_bytes(&self) -> f64 {
        self.precision.expert_bytes() * self.expert_params()
    }

    /// KV bytes of one token on one of `tp` GPUs. A head is not divided, so beyond one head a GPU
    /// they are repeated, and a latent vector is repeated on each. Windowed layers count in full:
    /// an engine keeps their blocks like the others'.
    #[must_use]
    pub fn kv_bytes(&self, tp: u32) -> f64 {
        f64::from(self.layers) * self.kv_layer_bytes(tp)
    }

    /// KV bytes that a decode reads for each token of its context; windowed layers do not count.
    #[must_use]
    pub fn kv_read_bytes(&self, tp: u32) -> f64 {
        f64::from(self.layers - self.windowed) * self.kv_layer_bytes(tp)
    }

    fn kv_layer_bytes(&self, tp: u32) -> f64 {
        if self.latent {
            return self.kv_number * (KV_RANK + ROPE);
        }
        let heads = self.kv_heads.div_ceil(tp).max(1);
        2.0 * self.kv_number * f64::from(heads) * f64::from(self.head_dim)
    }

    /// Attention flops of one query token and one token of context.
    #[must_use]
    pub fn pair_flops(&self) -> f64 {
        let layers = f64::from(self.layers - self.windowed);
        let widths = if self.latent { 2.0 * NOPE + ROPE } else { 2.0 * f64::from(self.head_dim) };
        2.0 * layers * f64::from(self.heads) * widths
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The shapes give the published parameter counts, so no dimension is mistyped.
    #[test]
    fn shapes_give_the_published_sizes() {
        let published = [
            8.03, 7.25, 7.62, 14.77, 32.76, 70.55, 30.53, 235.1, 116.8, 228.7, 671.0, 1027.0, 46.7,
            140.6, 132.0, 270.0, 480.0, 8.03,
        ];
        for (model, billions) in MODELS.iter().zip(published) {
            let ours = model.params() / 1e9;
            assert!((ours / billions - 1.0).abs() < 0.01, "{}: {ours} B", model.name);
        }
    }

    // The parameters that a token uses, head and embedding included, match the published active
    // sizes.
    #[test]
    fn experts_give_the_published_active_sizes() {
        let published = [
            ("qwen3-30b-a3b", 3.3),
            ("qwen3-235b-a22b", 22.0),
            ("deepseek-v3", 37.0),
            ("mixtral-8x7b", 12.9),
            ("mixtral-8x22b", 39.0),
            ("dbrx", 36.0),
            ("qwen3-coder-480b", 35.0),
        ];
        for (name, billions) in published {
            let model = Model::named(name).unwrap();
            let ours = (model.linear_params() + 2.0 * model.head_params()) / 1e9;
            assert!((ours / billions - 1.0).abs() < 0.04, "{name}: {ours} B");
        }
    }

    // 128 KiB of KV a token for Llama-3.1-8B; splitting beyond the KV heads repeats them. A latent
    // vector is 70 KiB for DeepSeek-V3, on every GPU.
    #[test]
    fn kv_bytes_follow_the_heads() {
        let llama = Model::named("llama-3.1-8b").unwrap();
        assert_eq!(llama.kv_bytes(1), 131_072.0);
        assert_eq!(llama.kv_bytes(8), 16_384.0);
        assert_eq!(llama.kv_bytes(16), 16_384.0);
        let deepseek = Model::named("deepseek-v3").unwrap();
        assert_eq!(deepseek.kv_bytes(8), 70_272.0);
    }
}
