//! The GPUs: what the datasheet says, and how much of it an engine gets.
//!
//! Datasheet constants are those of NVIDIA's aiconfigurator (Apache-2.0, `systems/*.yaml`). The
//! efficiencies beside them are what separates a datasheet from a serving engine: kernels, the
//! scheduler's Python, launches, sampling. They are fitted end to end, not kernel by kernel, by
//! `fit/fit.py`; each row says against what, and how wrong it may be.

/// Where a GPU's numbers come from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Source {
    /// What the efficiencies were fitted against.
    pub fitted: &'static str,
    /// Relative error to expect of a step time, as a fraction.
    pub error: f64,
}

/// One GPU. Rates are per second and per GPU; efficiencies are fractions of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gpu {
    /// The short name used on the command line.
    pub name: &'static str,
    /// Memory, in bytes (datasheet).
    pub memory: f64,
    /// Memory bandwidth, in bytes (datasheet).
    pub bandwidth: f64,
    /// Dense bf16 tensor flops (datasheet).
    pub flops: f64,
    /// Bandwidth to the other GPUs of the node, in bytes, one direction (datasheet).
    pub link: f64,
    /// Share of `bandwidth` reached when reading weights and KV (fitted).
    pub memory_efficiency: f64,
    /// Share of `flops` reached in the matrices (fitted).
    pub compute_efficiency: f64,
    /// Share of `flops` reached in prefill attention (fitted).
    pub attention_efficiency: f64,
    /// Fixed time of a step, in seconds (fitted).
    pub step: f64,
    /// Time of a step for each sequence in it, in seconds (fitted).
    pub sequence: f64,
    /// Latency of one all-reduce, in seconds; two a layer when split (fitted).
    pub reduce: f64,
    /// Share of `link` that an all-reduce reaches (fitted).
    pub link_efficiency: f64,
    /// Where the efficiencies come from.
    pub source: Source,
}

/// Bytes that an engine keeps from the KV cache beside the weights: activations, graphs, the
/// runtime (aiconfigurator's `other_mem`, 3.5 GiB).
pub(crate) const RESERVE: f64 = 3_758_096_384.0;

/// Share of memory that an engine takes (vLLM's `gpu_memory_utilization`).
pub(crate) const UTILIZATION: f64 = 0.9;

/// Every GPU there is a profile for. The step, sequence, reduce and link terms are what vLLM showed
/// on the H100, for all three.
pub const GPUS: [Gpu; 3] = [
    Gpu {
        name: "l4",
        memory: 25_769_803_776.0,
        bandwidth: 300e9,
        flops: 121e12,
        link: 32e9,
        memory_efficiency: 0.80,
        compute_efficiency: 0.205,
        attention_efficiency: 0.187,
        step: STEP,
        sequence: SEQUENCE,
        reduce: REDUCE,
        link_efficiency: LINK_EFFICIENCY,
        source: Source {
            fitted: "compute: SkyWalker's 512 tokens in about 300 ms (Llama-3.1-8B); bandwidth: \
                     aiconfigurator's correction, not measured",
            error: 0.25,
        },
    },
    Gpu {
        name: "a100",
        memory: 85_899_345_920.0,
        bandwidth: 2039e9,
        flops: 312e12,
        link: 300e9,
        memory_efficiency: 0.80,
        compute_efficiency: 0.568,
        attention_efficiency: 0.516,
        step: STEP,
        sequence: SEQUENCE,
        reduce: REDUCE,
        link_efficiency: LINK_EFFICIENCY,
        source: Source {
            fitted: "compute: GORGO's Table 1, 0.0938 ms a prompt token (Mistral-7B); bandwidth: \
                     aiconfigurator's correction, not measured",
            error: 0.15,
        },
    },
    Gpu {
        name: "h100",
        memory: 85_899_345_920.0,
        bandwidth: 3350e9,
        flops: 989e12,
        link: 450e9,
        memory_efficiency: 0.90,
        compute_efficiency: 0.639,
        attention_efficiency: 0.581,
        step: STEP,
        sequence: SEQUENCE,
        reduce: REDUCE,
        link_efficiency: LINK_EFFICIENCY,
        source: Source {
            fitted: "TPOT of aiconfigurator's end-to-end points, odd rows (Qwen3-32B on vLLM, \
                     Llama-3.1-8B on TensorRT-LLM); even rows: median error 1.2 % and 4.4 %",
            error: 0.10,
        },
    },
];

const STEP: f64 = 2.54e-3;
const SEQUENCE: f64 = 49.2e-6;
const REDUCE: f64 = 16.9e-6;
const LINK_EFFICIENCY: f64 = 0.603;

impl Gpu {
    /// The GPU of this short name.
    #[must_use]
    pub fn named(name: &str) -> Option<Gpu> {
        GPUS.into_iter().find(|gpu| gpu.name == name)
    }
}
