//! Number formats: the bytes of a weight, and the speed of multiplying it.

/// How weights are stored and multiplied. The KV cache has a separate format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// 16 bits throughout.
    Bf16,
    /// 8 bits, multiplied in 8 bits where the GPU can.
    Fp8,
    /// Experts in 4 bits with a scale for each group, multiplied in bf16; all else in bf16
    /// (gpt-oss's mxfp4 on Hopper, Kimi's int4).
    Int4Experts,
}

impl Precision {
    /// The short name used on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Precision::Bf16 => "bf16",
            Precision::Fp8 => "fp8",
            Precision::Int4Experts => "int4",
        }
    }

    /// The format of this short name.
    #[must_use]
    pub fn named(name: &str) -> Option<Precision> {
        [Precision::Bf16, Precision::Fp8, Precision::Int4Experts]
            .into_iter()
            .find(|precision| precision.name() == name)
    }

    /// Bytes of a weight outside the experts.
    #[must_use]
    pub const fn bytes(self) -> f64 {
        match self {
            Precision::Bf16 | Precision::Int4Experts => 2.0,
            Precision::Fp8 => 1.0,
        }
    }

    /// Bytes of an expert's weight: 4 bits and a byte of scale for 32.
    #[must_use]
    pub const fn expert_bytes(self) -> f64 {
        match self {
            Precision::Int4Experts => 0.5 + 1.0 / 32.0,
            other => other.bytes(),
        }
    }
}
