//! Engine configuration.

use crate::profile::Profile;
use core::fmt;

/// Which generated tokens of a request the engine reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenOutputs {
    /// All tokens, as a server needs them.
    Each,
    /// Only the first, as a simulator needs it.
    First,
}

/// The composition of a step when there are prompts to compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// Decodes first, then prompts with the rest of the token budget (vLLM, TensorRT-LLM).
    Mixed,
    /// As `Mixed`, but scheduled during the previous step, so that the GPU never waits for the
    /// scheduler (vLLM's asynchronous scheduling). A request that arrives, or takes a freed slot,
    /// waits for the current step and for the one already scheduled.
    Ahead,
    /// Prompts only, as many as the token budget allows, while decodes wait (SGLang).
    PromptsFirst,
}

/// An engine's settings, in vLLM's terms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Model and GPUs.
    pub profile: Profile,
    /// KV blocks; the profile's number unless a test overrides it.
    pub kv_blocks: u32,
    /// The composition of a step when there are prompts to compute.
    pub schedule: Schedule,
    /// Most sequences in a batch.
    pub max_num_seqs: u32,
    /// Most tokens computed in a step.
    pub max_num_batched_tokens: u32,
    /// Longest sequence, reply included, in tokens. At most the KV cache's size.
    pub max_model_len: u32,
    /// Most pending requests; beyond it new ones are refused.
    pub max_pending: u32,
    /// Which tokens the engine reports.
    pub token_outputs: TokenOutputs,
    /// Most decode steps combined into one event while nothing else is due; at least 1. Above 1,
    /// several tokens are reported at a time, ends and arrivals stay exact, and the context's
    /// growth within an event is averaged.
    pub decode_stride: u32,
    /// Coefficient of variation of a step's time, 0 for none.
    pub jitter: f64,
}

impl Config {
    /// vLLM's defaults for the profile's GPU: 8,192 tokens and 1,024 sequences on the H100 and H200,
    /// 2,048 and 256 on the others.
    #[must_use]
    pub fn new(profile: Profile) -> Config {
        let large = matches!(profile.gpu.name, "h100" | "h200");
        let capacity = profile.kv_blocks.saturating_mul(crate::BLOCK_TOKENS);
        Config {
            profile,
            kv_blocks: profile.kv_blocks,
            schedule: Schedule::Mixed,
            max_num_seqs: if large { 1024 } else { 256 },
            max_num_batched_tokens: if large { 8192 } else { 2048 },
            max_model_len: profile.model.context.min(capacity),
            max_pending: 16_384,
            token_outputs: TokenOutputs::Each,
            decode_stride: 1,
            jitter: 0.0,
        }
    }

    /// Sets the number of KV blocks, and lowers `max_model_len` if it no longer fits.
    #[must_use]
    pub fn with_kv_blocks(mut self, blocks: u32) -> Config {
        self.kv_blocks = blocks;
        let capacity = blocks.saturating_mul(crate::BLOCK_TOKENS);
        self.max_model_len = self.profile.model.context.min(capacity);
        self
    }

    /// Checks that the settings are consistent.
    ///
    /// # Errors
    ///
    /// If they are not; the error names the first such field.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let capacity = u64::from(self.kv_blocks) * u64::from(crate::BLOCK_TOKENS);
        let out = |field, value| Err(ConfigError::OutOfRange { field, value });
        if !(1..=MAX_KV_BLOCKS).contains(&self.kv_blocks) {
            return out("kv_blocks", u64::from(self.kv_blocks));
        }
        if self.max_num_seqs == 0 {
            return out("max_num_seqs", 0);
        }
        if self.max_num_batched_tokens == 0 {
            return out("max_num_batched_tokens", 0);
        }
        if self.max_pending == 0 {
            return out("max_pending", 0);
        }
        if self.decode_stride == 0 {
            return out("decode_stride", 0);
        }
        if self.max_model_len < 2 || u64::from(self.max_model_len) > capacity {
            return out("max_model_len", u64::from(self.max_model_len));
        }
        if !(0.0..1.0).contains(&self.jitter) {
            return Err(ConfigError::Jitter { value: self.jitter });
        }
        Ok(())
    }
}

/// 2^24 blocks are 268 million tokens: more than any replica has.
const MAX_KV_BLOCKS: u32 = 1 << 24;

/// Why an engine cannot be configured this way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ConfigError {
    /// No such model.
    UnknownModel,
    /// No such GPU.
    UnknownGpu,
    /// The heads cannot be split evenly over the GPUs.
    TensorParallel {
        /// The degree asked for.
        tp: u32,
        /// The model's query heads.
        heads: u32,
    },
    /// The weights do not fit.
    DoesNotFit {
        /// The model.
        model: &'static str,
        /// The format of its weights.
        precision: &'static str,
        /// The GPU.
        gpu: &'static str,
        /// The tensor parallel degree asked for.
        tp: u32,
        /// Weights on each GPU, in 10^9 bytes.
        weights_gb: f64,
        /// Memory of each GPU for weights and KV, in 10^9 bytes.
        memory_gb: f64,
        /// The smallest degree up to 8 that fits.
        enough_tp: Option<u32>,
    },
    /// A number is outside its range.
    OutOfRange {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// The jitter is not a coefficient of variation.
    Jitter {
        /// Its value.
        value: f64,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::UnknownModel => {
                write!(f, "unknown model: known are")?;
                crate::MODELS.iter().try_for_each(|model| write!(f, " {}", model.name))
            }
            ConfigError::UnknownGpu => {
                write!(f, "unknown gpu: known are")?;
                crate::GPUS.iter().try_for_each(|gpu| write!(f, " {}", gpu.name))
            }
            ConfigError::TensorParallel { tp, heads } => {
                write!(f, "tp {tp} does not divide the model's {heads} heads: choose 1, 2, 4 or 8")
            }
            ConfigError::DoesNotFit {
                model,
                precision,
                gpu,
                tp,
                weights_gb,
                memory_gb,
                enough_tp,
            } => {
                write!(
                    f,
                    "{model} in {precision} does not fit {gpu} with tp {tp}: the weights take \
                     {weights_gb:.1} GB on each GPU, which has {memory_gb:.1} GB for weights and KV"
                )?;
                match enough_tp {
                    Some(enough) => write!(f, "; tp {enough} is enough"),
                    None => write!(f, "; no tp up to 8 is enough, choose a larger GPU"),
                }
            }
            ConfigError::OutOfRange { field, value } => match *field {
                "max_model_len" => write!(
                    f,
                    "max_model_len {value} is not between 2 and the tokens that kv_blocks hold \
                     (16 each): lower it or raise kv_blocks"
                ),
                _ => write!(f, "{field} {value} is out of range: use 1 to {MAX_KV_BLOCKS}"),
            },
            ConfigError::Jitter { value } => {
                write!(f, "jitter {value} is not in [0, 1): it is a coefficient of variation")
            }
        }
    }
}

impl core::error::Error for ConfigError {}
