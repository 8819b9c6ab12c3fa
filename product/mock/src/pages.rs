//! The pages of an engine: models, metrics, version, health.

use std::fmt::Write as _;

use crate::engine::Counts;

/// Blocks of each recorded engine.
const BLOCKS: u64 = 8191;

/// Bytes of a block's KV.
const BLOCK_BYTES: u64 = 131_072;

/// The page at a path. Other paths have none.
pub(crate) fn page(path: &str, counts: &Counts) -> Option<(&'static str, String)> {
    let json = "application/json";
    match path {
        "/v1/models" => Some((
            json,
            r#"{"object":"list","data":[{"id":"tiny","object":"model","created":1795440600,"owned_by":"vllm","root":"model","parent":null,"max_model_len":4096}]}"#
                .to_owned(),
        )),
        "/version" => Some((json, r#"{"version":"0.32.0"}"#.to_owned())),
        "/health" => Some((json, String::new())),
        "/metrics" => Some(("text/plain; version=0.0.4; charset=utf-8", metrics(counts))),
        _ => None,
    }
}

/// vLLM's names. Held blocks are in the usage of the cache, but in no count of requests.
fn metrics(counts: &Counts) -> String {
    let bytes = counts.fetched_blocks * BLOCK_BYTES;
    let mut page = String::new();
    let mut sample = |name: &str, labels: &str, value: f64| {
        let labels = format!("engine=\"0\",model_name=\"tiny\"{labels}");
        // Writing into a string does not fail.
        let _ = writeln!(page, "vllm:{name}{{{labels}}} {value}");
    };
    sample("num_requests_running", "", 0.0);
    sample("num_requests_waiting", "", counts.deferred as f64);
    sample("num_requests_waiting_by_reason", ",reason=\"capacity\"", 0.0);
    sample("num_requests_waiting_by_reason", ",reason=\"deferred\"", counts.deferred as f64);
    sample("kv_cache_usage_perc", "", counts.held_blocks as f64 / BLOCKS as f64);
    let config = format!(",block_size=\"32\",num_gpu_blocks=\"{BLOCKS}\"");
    sample("cache_config_info", &config, 1.0);
    let done = counts.prefills + counts.decodes + counts.alone;
    sample("request_success_total", ",finished_reason=\"length\"", done as f64);
    sample("nixl_bytes_transferred_count", "", counts.decodes as f64);
    sample("nixl_bytes_transferred_sum", "", bytes as f64);
    sample("nixl_num_failed_transfers_total", "", counts.failed_transfers as f64);
    sample("nixl_num_kv_expired_reqs_total", "", counts.expired as f64);
    sample("nixl_num_notifications_after_expiry_total", "", counts.late as f64);
    page
}
