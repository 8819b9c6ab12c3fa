//! When a replica can take another request.

use meridian_routing::Admission;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `blind`, `{outstanding: 24}`, `pending`, `saturation` or `pending_kv`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AdmissionMode {
    /// Push every request on arrival.
    Blind,
    /// Most outstanding requests per replica.
    Outstanding(u32),
    /// No pending request, according to the engine.
    Pending,
    /// Fewer than 5 pending requests and less than 80 % of the KV cache in use, according to the
    /// engine.
    Saturation,
    /// The prompt fits into the free KV cache.
    PendingKv,
}

impl From<AdmissionMode> for Admission {
    fn from(mode: AdmissionMode) -> Admission {
        match mode {
            AdmissionMode::Blind => Admission::Blind,
            AdmissionMode::Outstanding(max) => Admission::Outstanding { max },
            AdmissionMode::Pending => Admission::Pending,
            AdmissionMode::Saturation => Admission::Saturation,
            AdmissionMode::PendingKv => Admission::PendingKv,
        }
    }
}

/// The problem of an admission mode, if it has one.
pub(super) fn admission_problem(mode: AdmissionMode) -> Option<String> {
    let problem = "admission.outstanding: 0 would admit no request; use 1 or more";
    (mode == AdmissionMode::Outstanding(0)).then(|| problem.to_owned())
}
