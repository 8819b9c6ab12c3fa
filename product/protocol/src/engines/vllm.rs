//! vLLM's metrics page, v0 and v1 names.
//!
//! A data-parallel vLLM repeats each name with an `engine` label: counts are summed, the KV share
//! is the mean. `vllm:num_requests_waiting` is the whole queue.
//! `vllm:num_requests_waiting_by_reason` splits it by cause under another name and would count the
//! queue twice; a `reason` label on the name itself is a split and is summed.
//!
//! Names: vLLM 0.32.0 `vllm/v1/metrics/loggers.py`; v0 names from 0.5 to 0.9.

use super::private::Private;
use super::spec::{Detect, EngineSpec, LoadPage};
use crate::signals::{
    AdaptersInUse, Line, Load, SignalError, Tally, Transfers, number, pairs, verdict, walk,
};

const WAITING: &str = "vllm:num_requests_waiting";
const RUNNING: &str = "vllm:num_requests_running";

const METRICS: LoadPage = LoadPage {
    path: "/metrics",
    read,
    remedy: "start vLLM without --disable-log-stats, or set `engine: none`",
};

pub(super) static SPEC: EngineSpec = EngineSpec {
    name: "vllm",
    summary: "vLLM with its v0 or v1 metrics, and everything that speaks them, as our engine model does",
    detect: Detect { metrics: &["vllm:"], own_page: None },
    health: "/health",
    load: Some(METRICS),
    // The labels of `vllm:cache_config_info`.
    capacity: Some(METRICS),
    private: Private {
        // It names a stored response by `request_id`.
        fields: &["kv_transfer_params", "ec_transfer_params", "request_id"],
        containers: &["vllm_xargs", "extra_args"],
        headers: &["x-data-parallel-rank"],
        // The older P2P connector finds the engines' addresses there.
        request_id: &["___prefill_addr_", "___decode_addr_"],
        ..Private::NONE
    },
    reads_cache_salt: true,
    cached_tokens: Some("start vLLM with --enable-prompt-tokens-details"),
    reports_load: true,
    transfer: Some("nixl"),
    version: Some("/version"),
    loads_adapters: true,
    adapters_in_use: Some(adapters),
    continues_chats: true,
};

/// The labels of `lora_requests_info`. The page keeps each combination of labels since the start; the
/// value is the time at which it was current (`vllm/v1/metrics/loggers.py`). An engine of data
/// parallel ranks has one combination for all of them, that of the rank which reported last.
///
/// vLLM 0.32.0 names an adapter in both lists from the first token of a request until its last request ends, so
/// one whose requests all wait for a slot is in neither.
fn adapters(page: &[u8]) -> Option<AdaptersInUse> {
    let mut newest: Option<(f64, &[u8])> = None;
    walk(page, SPEC.detect.metrics, |line| {
        if line.name == b"lora_requests_info" {
            let at = line.value("vllm:lora_requests_info")?;
            if newest.is_none_or(|(before, _)| at >= before) {
                newest = Some((at, line.labels()));
            }
        }
        Ok(())
    })
    .ok()?;
    let mut in_use = AdaptersInUse::default();
    for (name, value) in pairs(newest?.1) {
        match name {
            b"max_lora" => in_use.slots = u32::try_from(number(value)?).ok()?,
            b"running_lora_adapters" => in_use.running = AdaptersInUse::names(value),
            b"waiting_lora_adapters" => in_use.waiting = AdaptersInUse::names(value),
            _ => {}
        }
    }
    Some(in_use)
}

#[derive(Default)]
struct VllmPage {
    pending: Tally,
    running: Tally,
    kv: Tally,
    /// The v0 name. Some versions export both names; then only the new one counts.
    kv_old: Tally,
    kv_tokens: Tally,
    prompt: Tally,
    cached: Tally,
    /// Hits as counted by the scheduler; the name used before `prompt_tokens_cached_total`.
    hits: Tally,
    finished: Tally,
    transfers: Moved,
}

/// The counters of its NIXL connector. A decode engine counts bytes and failures, a prefill engine
/// leases that expired and reports that came late.
#[derive(Default)]
struct Moved {
    bytes: Tally,
    failed: Tally,
    expired: Tally,
    late: Tally,
}

fn read(page: &[u8]) -> Result<Load, SignalError> {
    let mut seen = VllmPage::default();
    let whole = walk(page, SPEC.detect.metrics, |line| seen.take(&line))?;
    let missing = [
        seen.pending.sum().is_none().then_some(WAITING),
        seen.running.sum().is_none().then_some(RUNNING),
    ];
    verdict(SPEC.name, page, whole, missing, METRICS.remedy)?;
    Ok(Load {
        pending: seen.pending.count(),
        running: seen.running.count(),
        kv_used: seen.kv.share().or(seen.kv_old.share()),
        kv_tokens: seen.kv_tokens.sum(),
        prompt_tokens_total: seen.prompt.sum(),
        cached_tokens_total: seen.cached.sum().or(seen.hits.sum()),
        finished_total: seen.finished.sum(),
        transfers: Transfers {
            bytes: seen.transfers.bytes.sum(),
            failed: seen.transfers.failed.sum(),
            expired: seen.transfers.expired.sum(),
            late: seen.transfers.late.sum(),
        },
        ..Load::default()
    })
}

impl VllmPage {
    fn take(&mut self, line: &Line<'_>) -> Result<(), SignalError> {
        let (tally, name) = match line.name {
            b"num_requests_waiting" => (&mut self.pending, WAITING),
            b"num_requests_running" => (&mut self.running, RUNNING),
            b"kv_cache_usage_perc" => (&mut self.kv, "vllm:kv_cache_usage_perc"),
            b"gpu_cache_usage_perc" => (&mut self.kv_old, "vllm:gpu_cache_usage_perc"),
            b"prompt_tokens_total" => (&mut self.prompt, "vllm:prompt_tokens_total"),
            b"prompt_tokens_cached_total" => (&mut self.cached, "vllm:prompt_tokens_cached_total"),
            b"prefix_cache_hits_total" | b"gpu_prefix_cache_hits_total" => {
                (&mut self.hits, "vllm:prefix_cache_hits_total")
            }
            b"request_success_total" => (&mut self.finished, "vllm:request_success_total"),
            name if name.starts_with(b"nixl_") => match self.transfers.of(name) {
                Some(found) => found,
                None => return Ok(()),
            },
            b"cache_config_info" => {
                if let Some(tokens) = kv_tokens(line.labels()) {
                    self.kv_tokens.add(tokens as f64);
                }
                return Ok(());
            }
            _ => return Ok(()),
        };
        tally.add(line.value(name)?);
        Ok(())
    }
}

impl Moved {
    fn of(&mut self, name: &[u8]) -> Option<(&mut Tally, &'static str)> {
        Some(match name {
            b"nixl_bytes_transferred_sum" => (&mut self.bytes, "vllm:nixl_bytes_transferred_sum"),
            b"nixl_num_failed_transfers_total" => {
                (&mut self.failed, "vllm:nixl_num_failed_transfers_total")
            }
            b"nixl_num_kv_expired_reqs_total" => {
                (&mut self.expired, "vllm:nixl_num_kv_expired_reqs_total")
            }
            b"nixl_num_notifications_after_expiry_total" => {
                (&mut self.late, "vllm:nixl_num_notifications_after_expiry_total")
            }
            _ => return None,
        })
    }
}

/// Capacity from the labels of `cache_config_info`. Newer versions report it directly, which is the
/// only correct number if layers of several kinds share the blocks; older ones report the factors.
fn kv_tokens(labels: &[u8]) -> Option<u64> {
    let (mut tokens, mut blocks, mut block) = (None, None, None);
    for (name, value) in pairs(labels) {
        match name {
            b"kv_cache_size_tokens" => tokens = number(value),
            b"num_gpu_blocks" => blocks = number(value),
            b"block_size" => block = number(value),
            _ => {}
        }
    }
    tokens.or_else(|| blocks?.checked_mul(block?))
}
