//! Hugging Face's Text Generation Inference (TGI).
//!
//! Its gauges appear when they are first set, at the first request, so an absent gauge on a TGI
//! page means zero; a server without any request so far shows an empty page. The used part of the
//! batch's token budget stands for the KV cache: TGI reserves a request's worst case when it joins
//! the batch, so this is an upper bound.
//!
//! Names: huggingface/text-generation-inference@db931fcf `docs/source/reference/metrics.md`,
//! `backends/v3/src/{queue,backend}.rs`.

use serde::Deserialize;

use super::private::Private;
use super::spec::{Detect, EngineSpec, LoadPage, OwnPage, object};
use crate::signals::{Line, Load, SignalError, Tally, verdict, walk};

const QUEUE: &str = "tgi_queue_size";
const BATCH: &str = "tgi_batch_current_size";

const METRICS: LoadPage = LoadPage {
    path: "/metrics",
    read,
    remedy: "point the replica's url at the router's own port, or set `engine: none`",
};

const INFO: LoadPage = LoadPage {
    path: "/info",
    read: read_info,
    remedy: "check that no proxy answers in the engine's place",
};

pub(super) static SPEC: EngineSpec = EngineSpec {
    name: "tgi",
    summary: "Hugging Face's Text Generation Inference",
    detect: Detect {
        metrics: &["tgi_"],
        own_page: Some(OwnPage { path: INFO.path, is_own: |page| object::<Info>(page).is_some() }),
    },
    health: "/health",
    load: Some(METRICS),
    capacity: Some(INFO),
    // `/generate` and the endpoints for Vertex read such fields there.
    private: Private { containers: &["parameters"], ..Private::NONE },
    reads_cache_salt: false,
    cached_tokens: None,
    reports_load: false,
    transfer: None,
    version: None,
    loads_adapters: false,
    adapters_in_use: None,
    continues_chats: false,
};

#[derive(Default)]
struct TgiPage {
    pending: Tally,
    running: Tally,
    reserved: Tally,
    prompt: Tally,
    succeeded: Tally,
    failed: Tally,
    any: bool,
}

fn read(page: &[u8]) -> Result<Load, SignalError> {
    let mut seen = TgiPage::default();
    let whole = walk(page, SPEC.detect.metrics, |line| seen.take(&line))?;
    let missing =
        if seen.any || page.is_empty() { [None, None] } else { [Some(QUEUE), Some(BATCH)] };
    verdict(SPEC.name, page, whole, missing, METRICS.remedy)?;
    let finished = match (seen.succeeded.sum(), seen.failed.sum()) {
        (None, None) => None,
        (good, bad) => Some(good.unwrap_or(0).saturating_add(bad.unwrap_or(0))),
    };
    Ok(Load {
        pending: seen.pending.count().or(Some(0)),
        running: seen.running.count().or(Some(0)),
        kv_used_tokens: seen.reserved.sum(),
        prompt_tokens_total: seen.prompt.sum(),
        finished_total: finished,
        ..Load::default()
    })
}

/// Fields of `/info` that identify the server and give its capacity.
#[derive(Deserialize)]
struct Info {
    /// The router's limit on accepted requests, not on the batch.
    #[serde(rename = "max_concurrent_requests")]
    _concurrent: u64,
    /// Removed when the backends were split; newer versions don't report their capacity.
    max_batch_total_tokens: Option<u64>,
    max_total_tokens: Option<u64>,
}

fn read_info(page: &[u8]) -> Result<Load, SignalError> {
    let info: Info = serde_json::from_slice(page).map_err(|_| SignalError::Capacity {
        engine: SPEC.name,
        expected: "an object with max_concurrent_requests",
        path: INFO.path,
        remedy: INFO.remedy,
    })?;
    let (kv_tokens, context) = (info.max_batch_total_tokens, info.max_total_tokens);
    Ok(Load { kv_tokens, context, ..Load::default() })
}

impl TgiPage {
    fn take(&mut self, line: &Line<'_>) -> Result<(), SignalError> {
        self.any = true;
        let (tally, name) = match line.name {
            b"queue_size" => (&mut self.pending, QUEUE),
            b"batch_current_size" => (&mut self.running, BATCH),
            b"batch_current_max_tokens" => (&mut self.reserved, "tgi_batch_current_max_tokens"),
            b"request_input_length_sum" => (&mut self.prompt, "tgi_request_input_length_sum"),
            b"request_success" => (&mut self.succeeded, "tgi_request_success"),
            b"request_failure" => (&mut self.failed, "tgi_request_failure"),
            _ => return Ok(()),
        };
        tally.add(line.value(name)?);
        Ok(())
    }
}
