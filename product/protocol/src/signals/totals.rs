//! Totals of KV transfers on the metrics pages of engines and gateways, for an operator who compares
//! two readings.
//!
//! vLLM's NIXL connector has a histogram of bytes and one of seconds, so their sums and counts give
//! bytes and time of a transfer. The engine that fetches counts; the one that is read from does not.
//! Names: vLLM 0.32.0 `distributed/kv_transfer/kv_connector/v1/nixl/stats.py`; of the gateway,
//! `product/gateway/src/metrics/legs.rs`.

use super::page::{Line, has_metric, walk};
use super::{SignalError, Tally};

/// An engine's totals since its start; `None` where its page lacks the name.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EngineTotals {
    /// Bytes that it fetched, at the engine's own count.
    pub bytes: Option<f64>,
    /// Transfers.
    pub transfers: Option<f64>,
    /// Seconds of all transfers together.
    pub seconds: Option<f64>,
    /// Transfers that failed.
    pub failed: Option<f64>,
    /// Prompts whose KV was released before it was fetched.
    pub expired: Option<f64>,
    /// Bytes of KV that our engine model put on sockets.
    pub sent: Option<f64>,
    /// Bytes of KV that our engine model read from sockets.
    pub received: Option<f64>,
}

/// A gateway's totals since its start; `None` where its page lacks the name.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GatewayTotals {
    /// Prefill legs that ended.
    pub legs: Option<f64>,
    /// Seconds of all of them together.
    pub leg_seconds: Option<f64>,
    /// Answers after a prefill leg that have started.
    pub handovers: Option<f64>,
    /// Seconds from the end of each one's prefill leg to the first piece of its answer.
    pub handover_seconds: Option<f64>,
    /// First tokens of all requests.
    pub first_tokens: Option<f64>,
    /// Seconds to the first token of all requests together.
    pub ttft_seconds: Option<f64>,
    /// Bytes of KV that the engines fetched, as they report it.
    pub bytes: Option<f64>,
    /// Prefill legs whose KV was not used.
    pub fallbacks: Option<f64>,
    /// Requests that had to stay whole.
    pub whole: Option<f64>,
}

/// Reads an engine's page.
///
/// # Errors
/// If it is not the page of a vLLM engine, or a value is not a number.
pub fn engine_totals(page: &[u8]) -> Result<EngineTotals, SignalError> {
    if !has_metric(page, &["vllm:"]) {
        return Err(SignalError::Foreign { prefix: "vllm:", server: "a vLLM engine" });
    }
    let names = [
        "nixl_bytes_transferred_sum",
        "nixl_bytes_transferred_count",
        "nixl_xfer_time_seconds_sum",
        "nixl_num_failed_transfers_total",
        "nixl_num_kv_expired_reqs_total",
    ];
    let [bytes, transfers, seconds, failed, expired] = sums(page, "vllm:", names)?;
    let own = ["sent_bytes_total", "received_bytes_total"];
    let [sent, received] = sums(page, "meridian_engine_kv_", own)?;
    Ok(EngineTotals { bytes, transfers, seconds, failed, expired, sent, received })
}

/// Reads a gateway's page.
///
/// # Errors
/// If it is not the page of a gateway, or a value is not a number.
pub fn gateway_totals(page: &[u8]) -> Result<GatewayTotals, SignalError> {
    if !has_metric(page, &["meridian_prefill_leg_seconds_", "meridian_ttft_gateway_seconds_"]) {
        let (prefix, server) = ("meridian_prefill_leg_seconds_", "a gateway's admin port");
        return Err(SignalError::Foreign { prefix, server });
    }
    let names = [
        "prefill_leg_seconds_count",
        "prefill_leg_seconds_sum",
        "kv_transfer_seconds_count",
        "kv_transfer_seconds_sum",
        "ttft_gateway_seconds_count",
        "ttft_gateway_seconds_sum",
        "replica_kv_bytes_total",
        "prefill_fallbacks_total",
        "unsplit_total",
    ];
    let [
        legs,
        leg_seconds,
        handovers,
        handover_seconds,
        first_tokens,
        ttft_seconds,
        bytes,
        fallbacks,
        whole,
    ] = sums(page, "meridian_", names)?;
    Ok(GatewayTotals {
        legs,
        leg_seconds,
        handovers,
        handover_seconds,
        first_tokens,
        ttft_seconds,
        bytes,
        fallbacks,
        whole,
    })
}

/// The sum of each name's samples over all labels.
fn sums<const N: usize>(
    page: &[u8],
    prefix: &'static str,
    names: [&'static str; N],
) -> Result<[Option<f64>; N], SignalError> {
    let mut tallies = [Tally::default(); N];
    walk(page, &[prefix], |line: Line<'_>| {
        let place = names.iter().position(|name| name.as_bytes() == line.name);
        if let Some(place) = place {
            tallies[place].add(line.value(names[place])?);
        }
        Ok(())
    })?;
    Ok(tallies.map(|tally| tally.total()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENGINE: &[u8] = b"# HELP vllm:num_requests_running x
vllm:num_requests_running{engine=\"0\"} 1
vllm:nixl_bytes_transferred_bucket{engine=\"0\",le=\"2048\"} 1
vllm:nixl_bytes_transferred_sum{engine=\"0\"} 3.5e+06
vllm:nixl_bytes_transferred_sum{engine=\"1\"} 500000
vllm:nixl_bytes_transferred_count{engine=\"0\"} 7
vllm:nixl_bytes_transferred_count{engine=\"1\"} 1
vllm:nixl_xfer_time_seconds_sum{engine=\"0\"} 0.25
meridian_engine_kv_sent_bytes_total 12
";

    // Ranks are summed, names that are missing stay unknown, and buckets are no totals.
    #[test]
    fn an_engine_is_read() {
        let found = engine_totals(ENGINE).unwrap();
        let expected = EngineTotals {
            bytes: Some(4e6),
            transfers: Some(8.0),
            seconds: Some(0.25),
            sent: Some(12.0),
            ..EngineTotals::default()
        };
        assert_eq!(found, expected);
    }

    // A gateway's counters are summed over their labels.
    #[test]
    fn a_gateway_is_read() {
        let page = b"meridian_prefill_leg_seconds_sum 2.0
meridian_prefill_leg_seconds_count 4
meridian_prefill_fallbacks_total{reason=\"lease\"} 1
meridian_prefill_fallbacks_total{reason=\"decode\"} 2
";
        let found = gateway_totals(page).unwrap();
        assert_eq!((found.legs, found.leg_seconds), (Some(4.0), Some(2.0)));
        assert_eq!((found.fallbacks, found.ttft_seconds), (Some(3.0), None));
    }

    // A web page, an empty page and the other server's page are not read as zeros; a damaged value
    // is an error that names it.
    #[test]
    fn other_pages_are_refused() {
        for page in [&b"<html>vllm:</html>\n"[..], b"", b"meridian_prefill_leg_seconds_sum 1\n"] {
            let error = engine_totals(page).unwrap_err().to_string();
            assert!(error.starts_with("no metric on the page starts with `vllm:`"), "{error}");
        }
        assert!(gateway_totals(ENGINE).is_err());
        let broken = b"vllm:nixl_bytes_transferred_sum many\n";
        let error = engine_totals(broken).unwrap_err().to_string();
        assert!(error.starts_with("nixl_bytes_transferred_sum has the value `many`"), "{error}");
    }
}
