//! Efficiencies fitted for one model, in one number format, on one GPU, under one engine.

use crate::config::Schedule;
use crate::gpu::Efficiency;
use crate::precision::Precision;

/// An inference engine, as far as it matters to a step's contents.
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

/// What one engine gets of one GPU with one model.
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
    /// What it gets.
    pub efficiency: Efficiency,
}

/// Every fitted combination.
pub const TUNED: [Tuned; 0] = [];

impl Tuned {
    /// The row of a combination, if it was fitted.
    #[must_use]
    pub fn find(
        gpu: &str,
        software: Software,
        model: &str,
        precision: Precision,
    ) -> Option<&'static Tuned> {
        TUNED.iter().find(|row| {
            (row.gpu, row.software, row.model, row.precision) == (gpu, software, model, precision)
        })
    }
}
