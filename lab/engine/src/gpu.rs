//! The GPUs: their datasheet figures, and the share of those that an engine reaches.
//!
//! Datasheet constants are those of NVIDIA's aiconfigurator (Apache-2.0, `systems/*.yaml`), and for
//! the RTX PRO 6000 and 4090 those of NVIDIA's own datasheets. The gap between a datasheet and a
//! serving engine (kernels, the scheduler's Python, launches, sampling) is an [`Efficiency`],
//! fitted end to end and not kernel by kernel. Each row names the data it was fitted to and its
//! error. lab/docs/experiments.md has the commands. Rows of [`TUNED`](crate::TUNED) are more accurate
//! for one model and one engine.

use crate::precision::Precision;

/// Source of a GPU's efficiency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Source {
    /// The data it was fitted to.
    pub fitted: &'static str,
    /// Expected relative error of a step time, as a fraction.
    pub error: f64,
}

/// The share of a GPU that an engine reaches, and its time outside the GPU. All fitted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Efficiency {
    /// Share of the bandwidth reached when reading weights and KV.
    pub memory: f64,
    /// Share of the flops reached in the matrices.
    pub compute: f64,
    /// Share of the bf16 flops reached in prefill attention.
    pub attention: f64,
    /// Share of the link that an all-reduce reaches.
    pub link: f64,
    /// Fixed time of a step, in seconds.
    pub step: f64,
    /// Time of a step for each sequence in it, in seconds.
    pub sequence: f64,
    /// Latency of one all-reduce, in seconds; two a layer when split.
    pub reduce: f64,
    /// Minimum time of one layer in a step with prompts, in seconds.
    pub launch: f64,
}

/// One GPU. Rates are per second and per GPU.
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
    /// Dense fp8 tensor flops (datasheet); those of bf16 if it has none.
    pub fp8_flops: f64,
    /// Bandwidth to the other GPUs of the node, in bytes, one direction (datasheet).
    pub link: f64,
    /// The share of it that an engine reaches.
    pub efficiency: Efficiency,
    /// Source of the efficiency.
    pub source: Source,
}

/// Bytes that an engine reserves in addition to weights and KV cache: activations, graphs, the
/// runtime (aiconfigurator's `other_mem`, 3.5 GiB).
const RESERVE: f64 = 3_758_096_384.0;

/// Share of memory that an engine uses (vLLM's `gpu_memory_utilization`).
const UTILIZATION: f64 = 0.9;

/// vLLM's, as measured on the H100 with Qwen3-32B in bf16; each GPU substitutes its own shares of
/// bandwidth and flops.
const VLLM: Efficiency = Efficiency {
    memory: 0.95,
    compute: 0.611,
    attention: 0.550,
    link: 0.6,
    step: 3.66e-3,
    sequence: 44.8e-6,
    reduce: 9.0e-6,
    launch: 0.368e-3,
};

impl Efficiency {
    /// vLLM's on another GPU and host: this share of the bandwidth, and this factor on the engine's
    /// time outside the GPU. A measured run on one GPU gives the two coefficients.
    #[must_use]
    pub const fn vllm(memory: f64, host: f64) -> Efficiency {
        Efficiency {
            memory,
            step: host * VLLM.step,
            sequence: host * VLLM.sequence,
            launch: host * VLLM.launch,
            ..VLLM
        }
    }
}

const L4: Gpu = Gpu {
    name: "l4",
    memory: 25_769_803_776.0,
    bandwidth: 300e9,
    flops: 121e12,
    fp8_flops: 242e12,
    link: 32e9,
    efficiency: Efficiency { memory: 0.80, compute: 0.206, attention: 0.185, ..VLLM },
    source: Source {
        fitted: "compute: SkyWalker's 512 tokens in about 300 ms (Llama-3.1-8B); bandwidth: \
                 aiconfigurator's correction, not measured; l4-slow and l4-fast are its error bar",
        error: 0.25,
    },
};

const A100: Gpu = Gpu {
    name: "a100",
    memory: 85_899_345_920.0,
    bandwidth: 2039e9,
    flops: 312e12,
    fp8_flops: 312e12,
    link: 300e9,
    efficiency: Efficiency { memory: 0.80, compute: 0.572, attention: 0.515, ..VLLM },
    source: Source {
        fitted: "compute: GORGO's Table 1, 0.0938 ms a prompt token (Mistral-7B); bandwidth: \
                 aiconfigurator's correction, not measured",
        error: 0.15,
    },
};

/// Every GPU with a profile.
pub const GPUS: [Gpu; 11] = [
    L4,
    Gpu {
        name: "l4-slow",
        efficiency: Efficiency { memory: 0.70, compute: 0.164, attention: 0.148, ..VLLM },
        ..L4
    },
    Gpu {
        name: "l4-fast",
        efficiency: Efficiency { memory: 0.90, compute: 0.468, attention: 0.421, ..VLLM },
        ..L4
    },
    A100,
    Gpu { name: "a100-40g", memory: 42_949_672_960.0, bandwidth: 1555e9, ..A100 },
    Gpu {
        name: "v100",
        memory: 34_359_738_368.0,
        bandwidth: 900e9,
        flops: 125e12,
        fp8_flops: 125e12,
        link: 150e9,
        efficiency: A100.efficiency,
        source: Source {
            fitted: "nothing: the datasheet (fp16, it has no bf16) with the A100's shares",
            error: 0.40,
        },
    },
    Gpu {
        name: "l40s",
        memory: 48_305_799_168.0,
        bandwidth: 864e9,
        flops: 362.05e12,
        fp8_flops: 733e12,
        link: 32e9,
        efficiency: Efficiency { memory: 0.90, compute: 0.468, attention: 0.421, ..VLLM },
        source: Source {
            fitted: "no end-to-end point: aiconfigurator's matrix kernels reach 0.615 of its flops \
                     and 0.803 of the H100's, of which vLLM keeps 0.76",
            error: 0.30,
        },
    },
    Gpu {
        name: "rtx-pro-6000",
        memory: 102e9,
        bandwidth: 1792e9,
        flops: 503.8e12,
        fp8_flops: 1007.6e12,
        link: 64e9,
        // The H100's row with two coefficients of its own: the share of the bandwidth, and 0.6 of
        // the engine's time outside the GPU (a later vLLM, a faster host); and two more for the
        // link between two of them, which is PCIe through the host.
        efficiency: Efficiency { link: 0.30, reduce: 88e-6, ..Efficiency::vllm(0.87, 0.6) },
        source: Source {
            fitted: "memory and host: the first 100 of 300 measured vLLM requests \
                     (Llama-3.1-8B); median error of the other 200: TTFT 1 %, TPOT 1 %; link and \
                     reduce: the first 100 of a run of Qwen3-32B on two; of the other 200: 2 % and \
                     3 %; a mixture of experts on two, with one coefficient more: 8 % and 1 %",
            error: 0.05,
        },
    },
    Gpu {
        name: "rtx-4090",
        memory: 25_769_803_776.0,
        bandwidth: 1008e9,
        flops: 165.2e12,
        fp8_flops: 330.3e12,
        link: 32e9,
        efficiency: Efficiency::vllm(0.99, 0.1),
        source: Source {
            fitted: "memory and host: the first 100 of 300 measured vLLM requests (Llama-3.1-8B, \
                     KV for some forty of them); median error of the other 200: TTFT 1 %, TPOT 4 %",
            error: 0.05,
        },
    },
    Gpu {
        name: "h100",
        memory: 85_899_345_920.0,
        bandwidth: 3350e9,
        flops: 989e12,
        fp8_flops: 1978e12,
        link: 450e9,
        efficiency: VLLM,
        source: Source {
            fitted: "aiconfigurator's end-to-end points, odd rows (Qwen3-32B on vLLM); even rows: \
                     median error of TPOT 1 %, of TTFT 12 %",
            error: 0.10,
        },
    },
    Gpu {
        name: "h200",
        memory: 151_397_597_184.0,
        bandwidth: 4800e9,
        flops: 989e12,
        fp8_flops: 1978e12,
        link: 450e9,
        efficiency: Efficiency { memory: 0.85, ..VLLM },
        source: Source {
            fitted: "no bf16 point: the H100's shares; see the tuned rows",
            error: 0.20,
        },
    },
];

impl Gpu {
    /// The GPU of this short name.
    #[must_use]
    pub fn named(name: &str) -> Option<Gpu> {
        GPUS.into_iter().find(|gpu| gpu.name == name)
    }

    /// The same GPU with another engine efficiency.
    #[must_use]
    pub const fn with_efficiency(self, efficiency: Efficiency) -> Gpu {
        Gpu { efficiency, ..self }
    }

    /// Bytes that an engine has for weights and KV.
    #[must_use]
    pub const fn usable_memory(&self) -> f64 {
        self.memory * UTILIZATION - RESERVE
    }

    /// Tensor flops in which weights of this format are multiplied (datasheet).
    #[must_use]
    pub const fn flops(&self, precision: Precision) -> f64 {
        match precision {
            Precision::Fp8 => self.fp8_flops,
            Precision::Bf16 | Precision::Int4Experts => self.flops,
        }
    }
}
