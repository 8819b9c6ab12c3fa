//! The counts of requests with two legs: the gateways', the prefill engines', the decode engines'.
//!
//! Each party counts on its own. A gateway counts prefill legs and answers with transferred KV, a
//! prefill engine the prompts that it computed and the bytes that it put on sockets, a decode engine
//! the transfers and the bytes that it read. In an undisturbed run all agree, and no lease expires.

use crate::Scrape;
use crate::counts::{agree, succeeded};

/// Bytes that engines send for each byte of KV: the default of `meridian engine`.
pub(crate) const KV_SCALE: f64 = 1.0 / 1024.0;

/// The counts of a fleet's legs.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct LegCounts {
    /// Prefill legs with an answer, by the gateways.
    pub(crate) split: u64,
    /// Of them, those whose decode leg answered.
    pub(crate) transferred: u64,
    /// Legs that failed or whose KV was not used.
    pub(crate) fallbacks: u64,
    /// Requests that prefill engines completed. They get prefill legs only.
    pub(crate) prefilled: u64,
    /// Transfers of decode engines.
    pub(crate) transfers: u64,
    /// Bytes on sockets.
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// Bytes of the model's KV, by the decode engines.
    pub(crate) of_model: f64,
    /// KV in use, the sum of the engines' shares.
    pub(crate) held: f64,
    /// Leases that expired, releases after that, failed transfers, KV of another prompt.
    pub(crate) expired: u64,
    pub(crate) late: u64,
    pub(crate) failed: u64,
    pub(crate) mismatches: u64,
}

/// One quantity, by party.
pub(crate) struct LegRow {
    pub(crate) name: &'static str,
    pub(crate) gateways: Option<u64>,
    pub(crate) prefill: Option<u64>,
    pub(crate) decode: Option<u64>,
}

impl LegRow {
    /// Whether all parties with a count have the same number.
    pub(crate) fn agrees(&self) -> bool {
        agree([self.gateways, self.prefill, self.decode])
    }
}

impl LegCounts {
    /// Adds a gateway's metrics.
    pub(crate) fn add_gateway(&mut self, page: &Scrape) {
        let count = |name: &str| page.count(name).unwrap_or(0);
        self.split += count("meridian_prefill_leg_seconds_count");
        self.transferred += count("meridian_kv_transfer_seconds_count");
        self.fallbacks += count("meridian_prefill_fallbacks_total");
    }

    /// Adds an engine's metrics.
    pub(crate) fn add_engine(&mut self, page: &Scrape, is_prefill: bool) {
        let count = |name: &str| page.count(name).unwrap_or(0);
        if is_prefill {
            self.prefilled += succeeded(page).unwrap_or(0);
        }
        self.transfers += count("vllm:nixl_bytes_transferred_count");
        self.of_model += page.sum("vllm:nixl_bytes_transferred_sum").unwrap_or(0.0);
        self.sent += count("meridian_engine_kv_sent_bytes_total");
        self.received += count("meridian_engine_kv_received_bytes_total");
        self.held += page.sum("vllm:kv_cache_usage_perc").unwrap_or(0.0);
        self.expired += count("vllm:nixl_num_kv_expired_reqs_total");
        self.late += count("vllm:nixl_num_notifications_after_expiry_total");
        self.failed += count("vllm:nixl_num_failed_transfers_total");
        self.mismatches += count("meridian_engine_kv_mismatches_total");
    }

    /// The rows of the table. `scale` is the number of bytes sent for each byte of KV.
    pub(crate) fn rows(&self, scale: f64) -> [LegRow; 4] {
        let row = |name, gateways, prefill, decode| LegRow { name, gateways, prefill, decode };
        let of_model = |bytes: u64| (bytes as f64 / scale) as u64;
        [
            row("prefill legs", Some(self.split), Some(self.prefilled), None),
            row("transfers", Some(self.transferred), None, Some(self.transfers)),
            row("KV bytes on sockets", None, Some(self.sent), Some(self.received)),
            row(
                "KV bytes of the model",
                None,
                Some(of_model(self.sent)),
                Some(self.of_model as u64),
            ),
        ]
    }

    /// Problems of an undisturbed run, one sentence each.
    pub(crate) fn faults(&self, scale: f64) -> Vec<String> {
        let rows = self.rows(scale);
        let differ = rows.iter().filter(|row| !row.agrees());
        let mut faults: Vec<String> = differ
            .map(|row| {
                format!("gateways, prefill and decode engines count {} differently", row.name)
            })
            .collect();
        if self.transferred > self.split || self.split > self.transferred + self.fallbacks {
            faults.push(format!(
                "{} prefill legs are not the sum of {} transfers and {} fallbacks",
                self.split, self.transferred, self.fallbacks
            ));
        }
        for (count, what) in [
            (self.expired, "leases expired"),
            (self.late, "blocks were released after their lease"),
            (self.failed, "transfers failed"),
            (self.mismatches, "transfers brought KV of another prompt"),
        ] {
            if count > 0 {
                faults.push(format!("{count} {what}"));
            }
        }
        if self.held > 0.0 {
            faults.push(format!("engines still hold {:.2} % of their KV", self.held * 100.0));
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts() -> LegCounts {
        let mut counts = LegCounts::default();
        counts.add_gateway(&Scrape::new(
            "meridian_prefill_leg_seconds_count 3\nmeridian_kv_transfer_seconds_count 3\n".into(),
        ));
        let prefill = "vllm:request_success_total{finished_reason=\"length\"} 3\n\
                       vllm:request_success_total{finished_reason=\"abort\"} 1\n\
                       vllm:kv_cache_usage_perc 0\nmeridian_engine_kv_sent_bytes_total 8\n";
        counts.add_engine(&Scrape::new(prefill.into()), true);
        let decode = "vllm:request_success_total{finished_reason=\"length\"} 9\n\
                      vllm:nixl_bytes_transferred_sum 8192\nvllm:nixl_bytes_transferred_count 3\n\
                      meridian_engine_kv_received_bytes_total 8\n";
        counts.add_engine(&Scrape::new(decode.into()), false);
        counts
    }

    // The three parties' counts agree, the bytes at the model's scale included.
    #[test]
    fn legs_of_an_undisturbed_run_agree() {
        assert_eq!(counts().faults(1.0 / 1024.0), Vec::<String>::new());
    }

    // Every difference and everything that should not happen is named.
    #[test]
    fn every_fault_of_legs_is_named() {
        let has = |change: fn(&mut LegCounts), word: &str| {
            let mut counts = counts();
            change(&mut counts);
            let faults = counts.faults(1.0 / 1024.0);
            assert!(faults.iter().any(|fault| fault.contains(word)), "{word}: {faults:?}");
        };
        has(|c| c.prefilled += 1, "prefill legs differently");
        has(|c| c.transfers -= 1, "transfers differently");
        has(|c| c.received += 1, "KV bytes on sockets differently");
        has(|c| c.of_model += 1.0, "KV bytes of the model differently");
        has(|c| (c.split, c.prefilled) = (4, 4), "not the sum");
        has(|c| c.held = 0.5, "still hold 50.00 %");
        has(|c| c.expired = 1, "leases expired");
        has(|c| c.late = 1, "after their lease");
        has(|c| c.failed = 1, "transfers failed");
        has(|c| c.mismatches = 1, "another prompt");
    }
}
