//! Objectives and tenants, added to any workload.
//!
//! Operators sell the same model at two speeds: most requests have a TTFT objective of a small
//! multiple of an idle system's TTFT, the others of a large one. Each program draws its own tier
//! and tenant, and keeps both for all its requests. Nothing else in the program changes, so a
//! policy can be compared with and without tiers.

use std::time::Duration;

use crate::lengths::Zipf;
use crate::spec::{GeneratorParam, GeneratorParams, knob};
use crate::{Generator, Program, ProgramKey};

/// The parameters that every generator has.
pub(crate) static PARAMS: &[GeneratorParam] = &[
    knob("ttft_ms", 0.0, (0.0, 3.6e6), "TTFT at low load that objectives multiply; 0: none"),
    knob("tight", 3.0, (0.0, 1e4), "objective of the tight tier, as a multiple of it"),
    knob("loose", 10.0, (0.0, 1e4), "objective of the loose tier, as a multiple of it"),
    knob("tight_share", 0.8, (0.0, 1.0), "share of programs in the tight tier"),
    knob("tenants", 0.0, (0.0, 1e4), "tenants, by Zipf's law with exponent 1; 0: none"),
];

/// Random paths within a program.
const TIER: u64 = u64::MAX - 3;
const TENANT: u64 = u64::MAX - 4;

/// The tiers and tenants.
#[derive(Clone, Debug, PartialEq)]
pub struct Tiers {
    /// The TTFT at low load that objectives multiply; zero for programs without objective.
    pub ttft: Duration,
    /// The tight tier's objective over `ttft`.
    pub tight: f64,
    /// The loose tier's.
    pub loose: f64,
    /// Share of the programs in the tight tier.
    pub tight_share: f64,
    /// Number of tenants, named 1 and up, the first the busiest; with 0, programs have no tenant.
    pub tenants: u32,
}

impl Tiers {
    /// The tiers in `params`; `None` if there are neither objectives nor tenants.
    pub(crate) fn laid_over(params: &GeneratorParams) -> Option<Tiers> {
        let tiers = Tiers {
            ttft: Duration::from_secs_f64(params.number("ttft_ms") / 1e3),
            tight: params.number("tight"),
            loose: params.number("loose"),
            tight_share: params.number("tight_share"),
            tenants: params.count("tenants"),
        };
        (!tiers.ttft.is_zero() || tiers.tenants > 0).then_some(tiers)
    }

    /// A generator of `inner`'s programs with these tiers.
    #[must_use]
    pub fn over(self, inner: Box<dyn Generator>) -> impl Generator {
        Tiered { tenants: Zipf::new(self.tenants as usize, 1.0), tiers: self, inner }
    }
}

struct Tiered {
    tiers: Tiers,
    tenants: Zipf,
    inner: Box<dyn Generator>,
}

impl Generator for Tiered {
    fn program(&self, key: ProgramKey) -> Program {
        let mut program = self.inner.program(key);
        let tiers = &self.tiers;
        if !tiers.ttft.is_zero() {
            let tight = key.rng(TIER).unit() < tiers.tight_share;
            program.slo = Some(tiers.ttft.mul_f64(if tight { tiers.tight } else { tiers.loose }));
        }
        if tiers.tenants > 0 {
            program.tenant = self.tenants.draw(&mut key.rng(TENANT)) as u64 + 1;
        }
        program
    }

    fn mean_requests(&self) -> f64 {
        self.inner.mean_requests()
    }
}
