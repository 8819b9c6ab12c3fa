//! The models' shapes: the public dimensions from each model's config.json, and what follows from
//! them: parameters, bytes, flops, KV bytes a token.
//!
//! Dense decoder-only transformers with grouped-query attention and a gated feed-forward layer, in
//! bf16. A new model of that kind is one row; a mixture of experts would need terms of its own.

/// Bytes of one bf16 number.
const BF16: f64 = 2.0;

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
    /// Width of the feed-forward layer.
    pub intermediate: u32,
    /// Vocabulary, padded as in the weights.
    pub vocab: u32,
    /// Context window, in tokens.
    pub context: u32,
}

const fn shape(name: &'static str, dims: [u32; 7], context: u32) -> Model {
    let [layers, hidden, heads, kv_heads, head_dim, intermediate, vocab] = dims;
    Model { name, layers, hidden, heads, kv_heads, head_dim, intermediate, vocab, context }
}

/// Every model there is a profile for.
pub const MODELS: [Model; 5] = [
    shape("llama-3.1-8b", [32, 4096, 32, 8, 128, 14336, 128_256], 131_072),
    shape("mistral-7b", [32, 4096, 32, 8, 128, 14336, 32_768], 32_768),
    shape("qwen2.5-7b", [28, 3584, 28, 4, 128, 18944, 152_064], 32_768),
    shape("qwen2.5-14b", [48, 5120, 40, 8, 128, 13824, 152_064], 32_768),
    shape("qwen3-32b", [64, 5120, 64, 8, 128, 25600, 151_936], 40_960),
];

impl Model {
    /// The model of this short name.
    #[must_use]
    pub fn named(name: &str) -> Option<Model> {
        MODELS.into_iter().find(|model| model.name == name)
    }

    /// Parameters in the layers' matrices: what every token is multiplied with.
    #[must_use]
    pub fn linear_params(&self) -> f64 {
        let (hidden, head) = (f64::from(self.hidden), f64::from(self.head_dim));
        let attention = 2.0 * hidden * head * f64::from(self.heads + self.kv_heads);
        let feed_forward = 3.0 * hidden * f64::from(self.intermediate);
        f64::from(self.layers) * (attention + feed_forward)
    }

    /// Parameters of the output head (as many as the embedding has): used once a sampled token.
    #[must_use]
    pub fn head_params(&self) -> f64 {
        f64::from(self.vocab) * f64::from(self.hidden)
    }

    /// Bytes of all weights.
    #[must_use]
    pub fn weight_bytes(&self) -> f64 {
        BF16 * (self.linear_params() + 2.0 * self.head_params())
    }

    /// Bytes of weights read in one step: all but the embedding, of which single rows are read.
    #[must_use]
    pub fn read_bytes(&self) -> f64 {
        BF16 * (self.linear_params() + self.head_params())
    }

    /// KV bytes of one token on one of `tp` GPUs. A head is not divided, so beyond one head a GPU
    /// they are repeated.
    #[must_use]
    pub fn kv_bytes(&self, tp: u32) -> f64 {
        let heads = self.kv_heads.div_ceil(tp).max(1);
        2.0 * BF16 * f64::from(self.layers) * f64::from(heads) * f64::from(self.head_dim)
    }

    /// Attention flops of one query token looking at one token of context.
    #[must_use]
    pub fn pair_flops(&self) -> f64 {
        4.0 * f64::from(self.layers) * f64::from(self.heads) * f64::from(self.head_dim)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The shapes give the published parameter counts, so no dimension is mistyped.
    #[test]
    fn shapes_give_the_published_sizes() {
        let published = [8.03, 7.25, 7.62, 14.77, 32.76];
        for (model, billions) in MODELS.iter().zip(published) {
            let ours = model.weight_bytes() / BF16 / 1e9;
            assert!((ours / billions - 1.0).abs() < 0.003, "{}: {ours} B", model.name);
        }
    }

    // 128 KiB of KV a token for Llama-3.1-8B; splitting beyond the KV heads repeats them.
    #[test]
    fn kv_bytes_follow_the_heads() {
        let llama = Model::named("llama-3.1-8b").unwrap();
        assert_eq!(llama.kv_bytes(1), 131_072.0);
        assert_eq!(llama.kv_bytes(8), 16_384.0);
        assert_eq!(llama.kv_bytes(16), 16_384.0);
    }
}
