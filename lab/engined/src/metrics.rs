//! The metrics page, with vLLM v1's names, labels and histogram bounds.
//!
//! Written by hand and not with a metrics library, since the page is a protocol that must match
//! another program's to the letter (`_total` in the TYPE line, the `engine` label). Times are those
//! that a client experiences: with a time scale of 10, a second of the model counts 0.1.

use crate::clock::unix_time;
use crate::histogram::Histogram;
use crate::kv::KvMetrics;
use crate::lora_info::{InUse, LoraInfo};
use meridian_engine::{BLOCK_TOKENS, Config, Stats, StopReason, Timings, Usage};
use std::fmt::Write;
use std::time::Duration;

const TTFT: &[f64] = &[
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
];
const GAP: &[f64] = &[
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0,
    40.0, 80.0,
];
const REQUEST: &[f64] = &[
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0,
    480.0, 960.0, 1920.0, 7680.0,
];
const TOKENS: &[f64] = &[
    1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 10000.0, 20000.0,
    50000.0, 100_000.0,
];

/// Everything that is not in the engine's own [`Stats`].
#[derive(Debug)]
pub(crate) struct Metrics {
    /// The model's name, escaped.
    model: String,
    labels: String,
    cache_config: String,
    lora: Option<LoraInfo>,
    ttft: Histogram,
    gap: Histogram,
    per_token: Histogram,
    e2e: Histogram,
    queue: Histogram,
    prefill: Histogram,
    decode: Histogram,
    inference: Histogram,
    prompt_tokens: Histogram,
    reply_tokens: Histogram,
}

impl Metrics {
    pub(crate) fn new(model: &str, config: &Config, max_loras: Option<u32>) -> Metrics {
        let model = model.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let cache_config = format!(
            "block_size=\"{BLOCK_TOKENS}\",enable_prefix_caching=\"True\",engine=\"0\",\
             gpu_memory_utilization=\"0.9\",num_gpu_blocks=\"{}\"",
            config.kv_blocks
        );
        Metrics {
            labels: format!("engine=\"0\",model_name=\"{model}\""),
            model,
            cache_config,
            lora: max_loras.map(LoraInfo::new),
            ttft: Histogram::new(TTFT),
            gap: Histogram::new(GAP),
            per_token: Histogram::new(GAP),
            e2e: Histogram::new(REQUEST),
            queue: Histogram::new(REQUEST),
            prefill: Histogram::new(REQUEST),
            decode: Histogram::new(REQUEST),
            inference: Histogram::new(REQUEST),
            prompt_tokens: Histogram::new(TOKENS),
            reply_tokens: Histogram::new(TOKENS),
        }
    }

    pub(crate) fn first_token(&mut self, seconds: f64) {
        self.ttft.observe(seconds, 1);
    }

    pub(crate) fn token_gap(&mut self, seconds: f64, tokens: u32) {
        self.gap.observe(seconds, tokens);
    }

    pub(crate) fn finished(
        &mut self,
        why: StopReason,
        usage: &Usage,
        timings: &Timings,
        wall: impl Fn(Duration) -> f64,
    ) {
        if matches!(why, StopReason::Abort | StopReason::Error) {
            return;
        }
        self.e2e.observe(wall(timings.e2e), 1);
        self.queue.observe(wall(timings.queued), 1);
        self.prefill.observe(wall(timings.prefill), 1);
        self.decode.observe(wall(timings.decode), 1);
        self.inference.observe(wall(timings.prefill + timings.decode), 1);
        if usage.reply_tokens > 1 {
            let gaps = f64::from(usage.reply_tokens - 1);
            self.per_token.observe(wall(timings.decode) / gaps, 1);
        }
        self.prompt_tokens.observe(f64::from(usage.prompt_tokens), 1);
        self.reply_tokens.observe(f64::from(usage.reply_tokens), 1);
    }

    /// The page.
    pub(crate) fn page(&mut self, stats: &Stats, kv: Option<&KvMetrics>, in_use: &InUse) -> String {
        let mut page = String::with_capacity(16 << 10);
        self.gauges(stats, &mut page);
        self.counters(stats, &mut page);
        self.histograms(&mut page);
        if let Some(lora) = &mut self.lora {
            lora.write(in_use, unix_time().as_secs_f64(), &mut page);
        }
        if let Some(kv) = kv {
            kv.write(&self.labels, stats.leases_expired, &mut page);
        }
        page
    }

    fn gauges(&self, stats: &Stats, page: &mut String) {
        let rows = [
            ("num_requests_running", "Requests in the batch.", f64::from(stats.running)),
            (
                "num_requests_waiting",
                "Requests that the last schedule left out of the batch, or that wait for KV.",
                f64::from(stats.pending + stats.deferred),
            ),
            ("kv_cache_usage_perc", "Share of KV blocks referenced, 0 to 1.", stats.kv_used()),
        ];
        for (name, help, value) in rows {
            head(page, name, help, "gauge");
            sample(page, name, &self.labels, value);
        }
        head(page, "num_requests_waiting_by_reason", "Waiting requests, by reason.", "gauge");
        for (reason, count) in [("capacity", stats.pending), ("deferred", stats.deferred)] {
            let labels = self.labels_with("reason", reason);
            sample(page, "num_requests_waiting_by_reason", &labels, f64::from(count));
        }
        head(page, "cache_config_info", "Settings of the KV cache.", "gauge");
        sample(page, "cache_config_info", &self.cache_config, 1.0);
    }

    fn counters(&self, stats: &Stats, page: &mut String) {
        let rows = [
            ("prefix_cache_queries_total", "Prompt tokens looked up.", stats.prefix_queries),
            ("prefix_cache_hits_total", "Prompt tokens found cached.", stats.prefix_hits),
            ("num_preemptions_total", "Preemptions.", stats.preemptions),
            ("prompt_tokens_total", "Prompt tokens of admitted requests.", stats.prompt_tokens),
            ("generation_tokens_total", "Tokens generated.", stats.reply_tokens),
        ];
        for (name, help, value) in rows {
            head(page, name, help, "counter");
            sample(page, name, &self.labels, value as f64);
        }
        head(page, "prompt_tokens_by_source_total", "Prompt tokens, by source.", "counter");
        let computed = stats.prompt_tokens - stats.prefix_hits - stats.fetched_tokens;
        let sources = [
            ("local_compute", computed),
            ("local_cache_hit", stats.prefix_hits),
            ("external_kv_transfer", stats.fetched_tokens),
        ];
        for (source, count) in sources {
            let labels = self.labels_with("source", source);
            sample(page, "prompt_tokens_by_source_total", &labels, count as f64);
        }
        head(page, "request_success_total", "Requests ended, by reason.", "counter");
        let reasons = [
            ("stop", stats.finished_stop),
            ("length", stats.finished_length),
            ("abort", stats.finished_abort),
            ("error", stats.finished_error),
        ];
        for (reason, count) in reasons {
            let model = &self.model;
            let labels =
                format!("engine=\"0\",finished_reason=\"{reason}\",model_name=\"{model}\"");
            sample(page, "request_success_total", &labels, count as f64);
        }
    }

    fn labels_with(&self, name: &str, value: &str) -> String {
        format!("{},{name}=\"{value}\"", self.labels)
    }

    fn histograms(&self, page: &mut String) {
        let rows = [
            ("time_to_first_token_seconds", "Arrival to first token.", &self.ttft),
            ("inter_token_latency_seconds", "Token to token.", &self.gap),
            ("request_time_per_output_token_seconds", "Mean gap of a request.", &self.per_token),
            ("e2e_request_latency_seconds", "Arrival to end.", &self.e2e),
            ("request_queue_time_seconds", "Arrival to admission.", &self.queue),
            ("request_prefill_time_seconds", "Admission to first token.", &self.prefill),
            ("request_decode_time_seconds", "First token to end.", &self.decode),
            ("request_inference_time_seconds", "Admission to end.", &self.inference),
            ("request_prompt_tokens", "Prompt tokens of a request.", &self.prompt_tokens),
            ("request_generation_tokens", "Tokens generated for a request.", &self.reply_tokens),
        ];
        for (name, help, histogram) in rows {
            head(page, name, help, "histogram");
            histogram.write(&format!("vllm:{name}"), &self.labels, page);
        }
    }
}

/// The head of one of vLLM's metrics.
pub(crate) fn head(page: &mut String, name: &str, help: &str, kind: &str) {
    named_head(page, &format!("vllm:{name}"), help, kind);
}

/// A sample of one of vLLM's metrics.
pub(crate) fn sample(page: &mut String, name: &str, labels: &str, value: f64) {
    named_sample(page, &format!("vllm:{name}"), labels, value);
}

pub(crate) fn named_head(page: &mut String, name: &str, help: &str, kind: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

pub(crate) fn named_sample(page: &mut String, name: &str, labels: &str, value: f64) {
    let _ = writeln!(page, "{name}{{{labels}}} {value:?}");
}
