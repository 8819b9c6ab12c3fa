//! Prefill legs between two readings of a gateway's page.

use meridian_protocol::signals::GatewayTotals;
use serde::Serialize;

use super::transfers::{RESTARTED, grown, per};

/// A gateway's prefill legs.
#[derive(Default, Serialize)]
pub(in crate::flow::doctor) struct GatewayReport {
    pub(in crate::flow::doctor) url: String,
    /// Why the other fields are empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::flow::doctor) error: Option<String>,
    pub(in crate::flow::doctor) legs_per_second: Option<f64>,
    pub(in crate::flow::doctor) seconds_per_leg: Option<f64>,
    /// End of the prefill leg to the first piece of the answer: the transfer, the decode replica's
    /// queue and its first step.
    pub(in crate::flow::doctor) seconds_per_handover: Option<f64>,
    /// The time of all handovers over the time to first token of all requests.
    pub(in crate::flow::doctor) handover_percent_of_ttft: Option<f64>,
    /// KV that the engines report to have fetched.
    pub(in crate::flow::doctor) kv_bytes_per_second: Option<f64>,
    pub(in crate::flow::doctor) fallbacks: Option<f64>,
    pub(in crate::flow::doctor) whole: Option<f64>,
}

impl GatewayReport {
    /// The growth of a gateway's totals in `seconds`.
    pub(in crate::flow::doctor) fn of(
        url: String,
        before: &GatewayTotals,
        after: &GatewayTotals,
        seconds: f64,
    ) -> GatewayReport {
        // A counter with labels is on the page from its first event on.
        let of = |get: fn(&GatewayTotals) -> Option<f64>| {
            grown(get(before).or(get(after).map(|_| 0.0)), get(after))
        };
        let legs = of(|moves| moves.legs);
        if [legs, of(|moves| moves.first_tokens)].iter().flatten().any(|growth| *growth < 0.0) {
            return GatewayReport { url, error: Some(RESTARTED.to_owned()), ..Default::default() };
        }
        let handover = of(|moves| moves.handover_seconds);
        // The sum over replicas shrinks when a replica leaves.
        let bytes = of(|moves| moves.bytes).filter(|bytes| *bytes >= 0.0);
        GatewayReport {
            url,
            error: None,
            legs_per_second: legs.map(|count| count / seconds),
            seconds_per_leg: per(of(|moves| moves.leg_seconds), legs),
            seconds_per_handover: per(handover, of(|moves| moves.handovers)),
            handover_percent_of_ttft: per(handover, of(|moves| moves.ttft_seconds))
                .map(|share| 100.0 * share),
            kv_bytes_per_second: bytes.map(|bytes| bytes / seconds),
            fallbacks: of(|moves| moves.fallbacks),
            whole: of(|moves| moves.whole),
        }
    }
}
