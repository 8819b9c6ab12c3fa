//! The fitted rows, as `meridian-tools`'s example `fit` prints them (lab/docs/experiments.md).
//!
//! From NVIDIA aiconfigurator's end-to-end points (Apache-2.0), odd rows. The seven numbers: shares
//! of bandwidth and flops; step, sequence, reduce, launch and front in seconds. Attention is
//! assumed to reach 0.9 of the matrices' share, and an all-reduce 0.6 of the link.

use super::{Software, Tuned};
use crate::gpu::Efficiency;
use crate::precision::Precision;

const fn row(
    gpu: &'static str,
    software: Software,
    model: &'static str,
    precision: Precision,
    fitted: [f64; 7],
    max_num_batched_tokens: u32,
    fp8_kv: bool,
) -> Tuned {
    let [memory, compute, step, sequence, reduce, launch, front] = fitted;
    let (attention, link) = (0.9 * compute, 0.6);
    let efficiency =
        Efficiency { memory, compute, attention, link, step, sequence, reduce, launch };
    Tuned { gpu, software, model, precision, efficiency, front, max_num_batched_tokens, fp8_kv }
}

/// Every fitted engine.
#[rustfmt::skip]
pub const TUNED: [Tuned; 20] = [
    row("h100", Software::Sglang, "qwen3-32b", Precision::Bf16, [9.500e-1, 6.420e-1, 3.316e-3, 2.114e-5, 9.512e-6, 3.329e-4, 1.221e-2], 16384, false),
    row("h100", Software::TensorRtLlm, "llama-3.1-8b", Precision::Bf16, [9.037e-1, 7.009e-1, 1.417e-3, 3.000e-5, 4.724e-6, 5.488e-4, 7.047e-3], 2048, false),
    row("h100", Software::TensorRtLlm, "qwen3-235b-a22b", Precision::Fp8, [9.500e-1, 6.749e-1, 7.757e-3, 5.200e-5, 3.329e-6, 1.000e-3, 1.162e-2], 8192, true),
    row("h100", Software::TensorRtLlm, "qwen3-32b", Precision::Fp8, [7.359e-1, 4.524e-1, 1.417e-3, 4.050e-5, 1.649e-5, 7.788e-4, 1.568e-2], 2048, true),
    row("h100", Software::Vllm, "gpt-oss-120b", Precision::Int4Experts, [9.500e-1, 1.750e-1, 3.000e-3, 1.646e-5, 2.210e-6, 3.329e-4, 2.226e-2], 16384, true),
    row("h100", Software::Vllm, "llama-3.1-70b", Precision::Fp8, [8.133e-1, 5.000e-1, 3.486e-3, 9.960e-5, 7.408e-6, 4.966e-4, 1.649e-2], 8192, true),
    row("h100", Software::Vllm, "minimax-m2.5", Precision::Fp8, [8.133e-1, 1.664e-1, 6.351e-3, 9.499e-6, 3.867e-6, 1.000e-3, 4.274e-3], 16384, false),
    row("h100", Software::Vllm, "qwen3-32b", Precision::Bf16, [9.500e-1, 6.107e-1, 3.664e-3, 4.475e-5, 9.048e-6, 3.679e-4, 5.488e-3], 2048, false),
    row("h200", Software::Sglang, "deepseek-v3", Precision::Fp8, [8.550e-1, 2.033e-1, 5.747e-3, 1.050e-5, 4.234e-6, 3.320e-3, 7.408e-3], 16384, true),
    row("h200", Software::Sglang, "llama-3.1-8b", Precision::Fp8, [7.000e-1, 9.000e-1, 9.960e-3, 4.475e-5, 4.263e-5, 3.012e-4, 1.000e-2], 16384, true),
    row("h200", Software::Sglang, "qwen3-235b-a22b", Precision::Fp8, [4.463e-1, 1.583e-1, 1.282e-3, 1.815e-4, 7.047e-6, 4.066e-4, 9.512e-3], 16384, false),
    row("h200", Software::TensorRtLlm, "deepseek-v3", Precision::Fp8, [9.500e-1, 2.137e-1, 7.379e-3, 9.499e-6, 2.014e-5, 4.000e-3, 6.050e-2], 8192, false),
    row("h200", Software::TensorRtLlm, "gpt-oss-120b", Precision::Int4Experts, [7.000e-1, 3.188e-1, 3.000e-3, 4.050e-5, 1.419e-5, 7.408e-4, 7.389e-2], 8192, true),
    row("h200", Software::TensorRtLlm, "llama-3.1-70b", Precision::Fp8, [9.500e-1, 6.420e-1, 2.715e-3, 1.731e-5, 6.703e-6, 1.649e-3, 1.284e-2], 16384, false),
    row("h200", Software::Vllm, "gpt-oss-120b", Precision::Int4Experts, [7.778e-1, 2.033e-1, 2.854e-3, 2.336e-5, 3.679e-6, 2.231e-4, 2.858e-2], 16384, true),
    row("h200", Software::Vllm, "kimi-k2.5", Precision::Int4Experts, [5.731e-1, 1.934e-1, 4.050e-3, 1.646e-5, 2.226e-5, 1.733e-3, 2.340e-2], 8192, true),
    row("h200", Software::Vllm, "llama-3.1-70b", Precision::Fp8, [9.037e-1, 5.000e-1, 2.854e-3, 3.154e-5, 1.492e-5, 4.966e-4, 2.014e-2], 8192, false),
    row("h200", Software::Vllm, "llama-3.1-8b", Precision::Fp8, [7.038e-1, 9.000e-1, 2.722e-4, 3.674e-6, 3.012e-6, 3.012e-4, 1.653e-3], 8192, true),
    row("h200", Software::Vllm, "minimax-m2.5", Precision::Fp8, [6.659e-1, 1.296e-1, 4.257e-3, 1.417e-5, 1.822e-5, 1.000e-3, 3.320e-2], 16384, true),
    row("h200", Software::Vllm, "qwen3-235b-a22b", Precision::Fp8, [8.133e-1, 3.188e-1, 1.486e-2, 1.913e-5, 8.166e-5, 4.066e-4, 7.408e-3], 2048, false),
];
