//! Engines fitted as a whole: the efficiency of one engine on one GPU with one model in one number
//! format, and the settings it was measured with.
//!
//! [`Profile::new`] uses one efficiency for all models on a GPU. A row here is more accurate for
//! its own combination; lab/docs/experiments.md has the error on points that it was not fitted to.

mod table;

pub use table::TUNED;

use crate::config::{Config, ConfigError, Schedule};
use crate::gpu::{Efficiency, Gpu};
use crate::model::Model;
use crate::precision::Precision;
use crate::profile::Profile;

/// An inference engine, as far as it affects the composition of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Software {
    /// vLLM v1.
    Vllm,
    /// SGLang.
    Sglang,
    /// TensorRT-LLM's PyTorch engine.
    TensorRtLlm,
}

impl Software {
    /// The short name used on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Software::Vllm => "vllm",
            Software::Sglang => "sglang",
            Software::TensorRtLlm => "trtllm",
        }
    }

    /// The engine of this short name.
    #[must_use]
    pub fn named(name: &str) -> Option<Software> {
        [Software::Vllm, Software::Sglang, Software::TensorRtLlm]
            .into_iter()
            .find(|software| software.name() == name)
    }

    /// How it schedules by default.
    #[must_use]
    pub const fn schedule(self) -> Schedule {
        match self {
            Software::Sglang => Schedule::PromptsFirst,
            Software::Vllm | Software::TensorRtLlm => Schedule::Mixed,
        }
    }
}

/// One fitted engine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tuned {
    /// The GPU's short name.
    pub gpu: &'static str,
    /// The engine.
    pub software: Software,
    /// The model's short name.
    pub model: &'static str,
    /// The weights' format.
    pub precision: Precision,
    /// Its efficiency on the GPU (fitted).
    pub efficiency: Efficiency,
    /// Mean time of a request outside the engine's steps, in seconds: HTTP, tokenizer, hand-over.
    /// The engine does not add it; its driver may (fitted).
    pub front: f64,
    /// Most tokens in a step (the one of a few usual settings that fits best).
    pub max_num_batched_tokens: u32,
    /// Whether the KV cache is fp8 (likewise).
    pub fp8_kv: bool,
}

impl Tuned {
    /// The row of a combination, if it was fitted.
    #[must_use]
    pub fn find(gpu: &str, software: Software, model: &str, precision: Precision) -> Option<Tuned> {
        TUNED.into_iter().find(|row| {
            (row.gpu, row.software, row.model, row.precision) == (gpu, software, model, precision)
        })
    }

    /// The settings of this engine on `tp` GPUs.
    ///
    /// # Errors
    /// As [`Profile::new`].
    pub fn config(&self, tp: u32) -> Result<Config, ConfigError> {
        let model = Model::named(self.model).ok_or(ConfigError::UnknownModel)?;
        let model = model.with_precision(self.precision);
        let model = if self.fp8_kv { model.with_fp8_kv() } else { model };
        let gpu = Gpu::named(self.gpu).ok_or(ConfigError::UnknownGpu)?;
        let profile = Profile::new(model, gpu.with_efficiency(self.efficiency), tp)?;
        let mut config = Config::new(profile);
        config.schedule = self.software.schedule();
        config.max_num_batched_tokens = self.max_num_batched_tokens;
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Every row names a known model and GPU, occurs once, and fits eight GPUs.
    #[test]
    fn rows_can_be_set_up() {
        for row in TUNED {
            let found = Tuned::find(row.gpu, row.software, row.model, row.precision);
            assert_eq!(found, Some(row));
            let config = row.config(8).unwrap();
            assert_eq!(config.validate(), Ok(()), "{row:?}");
        }
    }
}
