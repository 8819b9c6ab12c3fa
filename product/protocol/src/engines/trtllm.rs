//! TensorRT-LLM's server, `trtllm-serve`.
//!
//! Its Prometheus page is not at `/metrics`, where it answers with a JSON list of iterations and
//! forgets them, but at `/prometheus/metrics`, if the server's options have `return_perf_metrics: true`.
//! Its gauges appear with the first iteration, so an absent gauge on its page means zero. With several
//! processes (`pid` label) counts are summed.
//!
//! Its request bodies refuse unknown fields. `cache_salt` is one that it knows since 1.1.
//!
//! Names: NVIDIA/TensorRT-LLM@050f80de `tensorrt_llm/metrics/collector.py`, and
//! `tensorrt_llm/serve/openai_server.py`, `openai_protocol.py`. Read there, not recorded: the server
//! needs a GPU.

use serde::Deserialize;

use super::private::Private;
use super::spec::{Detect, EngineSpec, LoadPage, OwnPage, object};
use crate::signals::{Line, Load, SignalError, Tally, verdict, walk};

const WAITING: &str = "trtllm_num_requests_waiting";
const RUNNING: &str = "trtllm_num_requests_running";

const METRICS: LoadPage = LoadPage {
    path: "/prometheus/metrics",
    read,
    remedy: "start trtllm-serve with `return_perf_metrics: true` in its options file, or set `engine: none`",
};

pub(super) static SPEC: EngineSpec = EngineSpec {
    name: "trtllm",
    summary: "TensorRT-LLM's trtllm-serve",
    detect: Detect {
        metrics: &["trtllm_"],
        own_page: Some(OwnPage {
            path: "/steady_clock_offset",
            is_own: |page| object::<Clock>(page).is_some(),
        }),
    },
    health: "/health",
    load: Some(METRICS),
    // Blocks, and tokens in a block.
    capacity: Some(METRICS),
    private: Private { fields: &["conversation_params", "prompt_token_ids_b64"], ..Private::NONE },
    reads_cache_salt: true,
    cached_tokens: Some(
        "start trtllm-serve with KV block reuse, which is its default, and update it",
    ),
    reports_load: false,
    transfer: None,
    version: Some("/version"),
    loads_adapters: false,
    adapters_in_use: None,
    continues_chats: false,
};

/// The page with its clock, for its own disaggregated serving.
#[derive(Deserialize)]
struct Clock {
    #[serde(rename = "receive_ts")]
    _received: f64,
    #[serde(rename = "transmit_ts")]
    _transmitted: f64,
}

#[derive(Default)]
struct TrtllmPage {
    pending: Tally,
    running: Tally,
    kv: Tally,
    blocks: Tally,
    block: Tally,
    prompt: Tally,
    cached: Tally,
    finished: Tally,
    any: bool,
}

fn read(page: &[u8]) -> Result<Load, SignalError> {
    let mut seen = TrtllmPage::default();
    let whole = walk(page, SPEC.detect.metrics, |line| seen.take(&line))?;
    let missing = if seen.any { [None, None] } else { [Some(WAITING), Some(RUNNING)] };
    verdict(SPEC.name, page, whole, missing, METRICS.remedy)?;
    Ok(Load {
        pending: seen.pending.count().or(Some(0)),
        running: seen.running.count().or(Some(0)),
        kv_used: seen.kv.share(),
        kv_tokens: seen.kv_tokens(),
        prompt_tokens_total: seen.prompt.sum(),
        cached_tokens_total: seen.cached.sum(),
        finished_total: seen.finished.sum(),
        ..Load::default()
    })
}

impl TrtllmPage {
    fn take(&mut self, line: &Line<'_>) -> Result<(), SignalError> {
        self.any = true;
        let (tally, name) = match line.name {
            b"num_requests_waiting" => (&mut self.pending, WAITING),
            b"num_requests_running" => (&mut self.running, RUNNING),
            b"kv_cache_utilization" => (&mut self.kv, "trtllm_kv_cache_utilization"),
            b"kv_cache_max_blocks" => (&mut self.blocks, "trtllm_kv_cache_max_blocks"),
            b"kv_cache_tokens_per_block" => (&mut self.block, "trtllm_kv_cache_tokens_per_block"),
            b"prompt_tokens_total" => (&mut self.prompt, "trtllm_prompt_tokens_total"),
            b"prompt_cached_tokens_total" => {
                (&mut self.cached, "trtllm_prompt_cached_tokens_total")
            }
            b"request_success_total" => (&mut self.finished, "trtllm_request_success_total"),
            _ => return Ok(()),
        };
        tally.add(line.value(name)?);
        Ok(())
    }

    /// Capacity in tokens. All processes have blocks of the same size.
    fn kv_tokens(&self) -> Option<u64> {
        let tokens = self.blocks.total()? * self.block.mean()?;
        (tokens >= 1.0).then_some(tokens as u64)
    }
}
