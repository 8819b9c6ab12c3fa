//! Counts of transfers: vLLM's metrics of its NIXL connector, and three of our own.

use super::Role;
use crate::histogram::Histogram;
use crate::metrics::{head, named_head, named_sample, sample};
use std::collections::BTreeMap;

/// vLLM's bounds.
const SECONDS: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 5.0];
/// vLLM's bounds: 2 KiB to 8 GiB, each four times the one before.
const BYTES: &[f64] = &[
    2048.0,
    8192.0,
    32_768.0,
    131_072.0,
    524_288.0,
    2_097_152.0,
    8_388_608.0,
    33_554_432.0,
    134_217_728.0,
    536_870_912.0,
    2_147_483_648.0,
    8_589_934_592.0,
];

/// Counts since the start.
#[derive(Debug)]
pub(crate) struct KvMetrics {
    role: Role,
    /// Wall time of each transfer, without the handshake.
    seconds: Histogram,
    /// Bytes of each transfer, at the model's scale.
    bytes: Histogram,
    pub(super) failed_transfers: u64,
    pub(super) failed_notifications: u64,
    pub(crate) late_notifications: u64,
    pub(super) sent: u64,
    pub(super) received: u64,
    pub(super) mismatches: u64,
    /// Transfers and their wall time, by the engine that sent the KV, of those with a route.
    pairs: BTreeMap<String, (u64, f64)>,
}

impl KvMetrics {
    pub(super) fn new(role: Role) -> KvMetrics {
        KvMetrics {
            role,
            seconds: Histogram::new(SECONDS),
            bytes: Histogram::new(BYTES),
            failed_transfers: 0,
            failed_notifications: 0,
            late_notifications: 0,
            sent: 0,
            received: 0,
            mismatches: 0,
            pairs: BTreeMap::new(),
        }
    }

    /// `from` is the sender's name, if there is a route from it.
    pub(super) fn transferred(&mut self, from: Option<String>, seconds: f64, bytes: f64) {
        if let Some(from) = from {
            let pair = self.pairs.entry(from).or_default();
            *pair = (pair.0 + 1, pair.1 + seconds);
        }
        self.seconds.observe(seconds, 1);
        self.bytes.observe(bytes, 1);
    }

    /// Appends the samples. `expired` is the number of leases that have expired.
    pub(crate) fn write(&self, labels: &str, expired: u64, page: &mut String) {
        let histograms = [
            ("nixl_xfer_time_seconds", "Time of a transfer of KV.", &self.seconds),
            ("nixl_bytes_transferred", "Bytes of KV of a transfer.", &self.bytes),
        ];
        for (name, help, histogram) in histograms {
            head(page, name, help, "histogram");
            histogram.write(&format!("vllm:{name}"), labels, page);
        }
        let counters = [
            (
                "nixl_num_failed_transfers_total",
                "Transfers that failed, handshakes included.",
                self.failed_transfers,
            ),
            (
                "nixl_num_failed_notifications_total",
                "Releases that did not reach the other engine.",
                self.failed_notifications,
            ),
            (
                "nixl_num_kv_expired_reqs_total",
                "Requests whose held blocks were never fetched.",
                expired,
            ),
            (
                "nixl_num_notifications_after_expiry_total",
                "Releases of blocks that were not held any more.",
                self.late_notifications,
            ),
        ];
        for (name, help, value) in counters {
            head(page, name, help, "counter");
            sample(page, name, labels, value as f64);
        }
        self.write_own(labels, page);
    }

    fn write_own(&self, labels: &str, page: &mut String) {
        let role = format!("{labels},role=\"{}\"", self.role.name());
        named_head(page, "meridian_engine_role", "The part of requests it is for.", "gauge");
        named_sample(page, "meridian_engine_role", &role, 1.0);
        let counters = [
            ("meridian_engine_kv_sent_bytes_total", "Bytes of KV put on sockets.", self.sent),
            (
                "meridian_engine_kv_received_bytes_total",
                "Bytes of KV read from sockets.",
                self.received,
            ),
            (
                "meridian_engine_kv_mismatches_total",
                "Transfers whose KV was not that of the prompt.",
                self.mismatches,
            ),
        ];
        for (name, help, value) in counters {
            named_head(page, name, help, "counter");
            named_sample(page, name, labels, value as f64);
        }
        self.write_pairs(labels, page);
    }

    fn write_pairs(&self, labels: &str, page: &mut String) {
        if self.pairs.is_empty() {
            return;
        }
        let of = |from: &String| format!("{labels},from={from:?}");
        let name = "meridian_engine_kv_transfers_total";
        named_head(page, name, "Transfers of KV, by the engine that sent it.", "counter");
        for (from, (count, _)) in &self.pairs {
            named_sample(page, name, &of(from), *count as f64);
        }
        let name = "meridian_engine_kv_transfer_seconds_total";
        named_head(page, name, "Their wall time, without the handshake.", "counter");
        for (from, (_, seconds)) in &self.pairs {
            named_sample(page, name, &of(from), *seconds);
        }
    }
}
