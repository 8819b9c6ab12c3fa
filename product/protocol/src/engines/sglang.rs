//! SGLang's metrics page, with the `sglang:` prefix or the `sglang_` of its Rust exporters.
//!
//! A scheduler runs on every rank. All tensor-parallel ranks of one data-parallel rank see the same
//! requests, so one of them is counted: the lowest `tp_rank` seen for each `dp_rank`. "`tp_rank` 0"
//! alone would be wrong with attention data parallelism, where rank d of dp sits at `tp_rank` d (a
//! page of eight such ranks is in vllm-project/aibrix issue 1614). Pipeline ranks above 0 repeat
//! rank 0. With priority scheduling, the total has `priority=""` and each class appears as a
//! further series: only the total counts. Counters have no ranks, only splits (streaming or not,
//! cache source), and are summed.
//!
//! With separate prefill and decode, a request passes through more queues than the waiting queue.
//! The queues before the batch (grammar, bootstrap, preallocation, transfer in) are pending.
//! Prefill's inflight queue comes after the batch: the KV is on its way to the decode replica and
//! nothing waits for a place in the batch, so these requests are running.
//!
//! Names and labels: sgl-project/sglang@016d8605 `python/sglang/srt/observability/metrics_collector.py`.

use serde::Deserialize;

use super::private::Private;
use super::spec::{Detect, EngineSpec, LoadPage};
use crate::signals::{Line, Load, SignalError, Tally, number, pairs, verdict, walk};

const QUEUE: &str = "sglang:num_queue_reqs";
const RUNNING: &str = "sglang:num_running_reqs";

const METRICS: LoadPage = LoadPage {
    path: "/metrics",
    read,
    remedy: "start SGLang with --enable-metrics (its gauges appear with the first batch), or set `engine: none`",
};

const SERVER_INFO: LoadPage = LoadPage {
    path: "/server_info",
    read: read_server_info,
    remedy: "check that no proxy answers in the engine's place",
};

pub(super) static SPEC: EngineSpec = EngineSpec {
    name: "sglang",
    summary: "SGLang, whose metrics begin with `sglang:` or `sglang_`",
    // SGLang's routers answer `/server_info` too, for one of their engines.
    detect: Detect { metrics: &["sglang:", "sglang_"], own_page: None },
    health: "/health",
    load: Some(METRICS),
    capacity: Some(SERVER_INFO),
    private: Private {
        fields: &[
            "bootstrap_host",
            "bootstrap_port",
            "bootstrap_room",
            "bootstrap_pair_key",
            "disagg_prefill_dp_rank",
            "disagg_request_id",
            "disagg_spec",
            "routed_dp_rank",
            "data_parallel_rank",
            "data_parallel_rank_decode",
            // Read together with the `bootstrap_` fields (`GenerateReqInput`), to shape the
            // transfer.
            "decode_tp_size",
            // SGLang's name for the request id.
            "rid",
        ],
        families: &[
            ("bootstrap_", "bootstrap_*"),
            ("disagg_", "disagg_*"),
            ("data_parallel_rank", "data_parallel_rank"),
        ],
        containers: &["sampling_params", "custom_params"],
        ..Private::NONE
    },
    reads_cache_salt: true,
    cached_tokens: Some("start SGLang with --enable-cache-report"),
    reports_load: false,
    transfer: Some("sglang"),
    version: Some("/get_server_info"),
    loads_adapters: true,
    adapters_in_use: None,
    continues_chats: true,
};

/// The gauges that schedulers export, one series per rank.
const GAUGES: usize = 6;
const PENDING: usize = 0;
const BATCH: usize = 1;
const SHARE: usize = 2;
const USED: usize = 3;
const CAPACITY: usize = 4;
const HANDOVER: usize = 5;

struct SglangPage {
    gauges: [Tally; GAUGES],
    /// Whether the waiting queue was seen; without it the page has no load.
    queue: bool,
    info_tokens: Tally,
    prompt: Tally,
    cached: Tally,
    finished: Tally,
    ranks: Ranks,
    /// The gauge and the name that `ranks` is collecting: samples of a name are consecutive.
    collecting: Option<(usize, &'static str)>,
}

fn read(page: &[u8]) -> Result<Load, SignalError> {
    let mut seen = SglangPage::new();
    let whole = walk(page, SPEC.detect.metrics, |line| seen.take(&line))?;
    seen.flush();
    let [pending, running, share, used, capacity, handover] = seen.gauges;
    let missing = [(!seen.queue).then_some(QUEUE), running.sum().is_none().then_some(RUNNING)];
    verdict(SPEC.name, page, whole, missing, METRICS.remedy)?;
    let mut load = Load {
        pending: pending.count(),
        running: running
            .count()
            .map(|running| running.saturating_add(handover.count().unwrap_or(0))),
        kv_used: share.share(),
        kv_used_tokens: used.sum(),
        kv_tokens: capacity.sum().or(seen.info_tokens.sum()),
        prompt_tokens_total: seen.prompt.sum(),
        cached_tokens_total: seen.cached.sum(),
        finished_total: seen.finished.sum(),
        ..Load::default()
    };
    load.derive();
    Ok(load)
}

/// The relevant fields of `/server_info`.
#[derive(Deserialize)]
struct ServerInfo {
    max_total_num_tokens: u64,
    dp_size: Option<u64>,
    #[serde(default)]
    internal_states: Vec<RankState>,
}

/// One data-parallel rank. The page also repeats the engine's arguments, an API key among them:
/// only these members are kept.
#[derive(Deserialize)]
struct RankState {
    effective_max_running_requests_per_dp: Option<u32>,
}

fn read_server_info(page: &[u8]) -> Result<Load, SignalError> {
    let info: ServerInfo = serde_json::from_slice(page).map_err(|_| SignalError::Capacity {
        engine: SPEC.name,
        expected: "an object with max_total_num_tokens",
        path: SERVER_INFO.path,
        remedy: SERVER_INFO.remedy,
    })?;
    // The tokens are those of one data-parallel rank; each rank has the same number.
    let ranks = info.dp_size.unwrap_or(1).max(1);
    let slots = info
        .internal_states
        .iter()
        .map(|rank| rank.effective_max_running_requests_per_dp)
        .try_fold(0_u32, |sum, slots| Some(sum.saturating_add(slots?)));
    Ok(Load {
        slots: slots.filter(|slots| *slots > 0),
        kv_tokens: Some(info.max_total_num_tokens.saturating_mul(ranks)),
        ..Load::default()
    })
}

impl SglangPage {
    fn new() -> Self {
        Self {
            gauges: [Tally::default(); GAUGES],
            queue: false,
            info_tokens: Tally::default(),
            prompt: Tally::default(),
            cached: Tally::default(),
            finished: Tally::default(),
            ranks: Ranks::new(),
            collecting: None,
        }
    }

    fn take(&mut self, line: &Line<'_>) -> Result<(), SignalError> {
        let (gauge, name) = match line.name {
            b"num_queue_reqs" => (PENDING, QUEUE),
            b"num_grammar_queue_reqs" => (PENDING, "sglang:num_grammar_queue_reqs"),
            b"num_prefill_bootstrap_queue_reqs" => {
                (PENDING, "sglang:num_prefill_bootstrap_queue_reqs")
            }
            // An older name of the bootstrap queue.
            b"num_prefill_prealloc_queue_reqs" => {
                (PENDING, "sglang:num_prefill_prealloc_queue_reqs")
            }
            b"num_decode_prealloc_queue_reqs" => (PENDING, "sglang:num_decode_prealloc_queue_reqs"),
            b"num_decode_transfer_queue_reqs" => (PENDING, "sglang:num_decode_transfer_queue_reqs"),
            b"num_running_reqs" => (BATCH, RUNNING),
            b"num_prefill_inflight_queue_reqs" => {
                (HANDOVER, "sglang:num_prefill_inflight_queue_reqs")
            }
            b"token_usage" => (SHARE, "sglang:token_usage"),
            b"num_used_tokens" => (USED, "sglang:num_used_tokens"),
            b"max_total_num_tokens" => (CAPACITY, "sglang:max_total_num_tokens"),
            _ => return self.take_counter(line),
        };
        let value = line.value(name)?;
        let Some(rank) = rank(line.labels()) else {
            return Ok(());
        };
        self.queue |= name == QUEUE && !value.is_nan();
        if self.collecting != Some((gauge, name)) {
            self.flush();
            self.collecting = Some((gauge, name));
        }
        if !self.ranks.add(rank, value) {
            self.gauges[gauge].add(value);
        }
        Ok(())
    }

    fn take_counter(&mut self, line: &Line<'_>) -> Result<(), SignalError> {
        let (tally, name) = match line.name {
            b"prompt_tokens_total" => (&mut self.prompt, "sglang:prompt_tokens_total"),
            b"cached_tokens_total" => (&mut self.cached, "sglang:cached_tokens_total"),
            b"num_requests_total" => (&mut self.finished, "sglang:num_requests_total"),
            b"cache_config_info" => {
                if let Some(tokens) = info_tokens(line.labels()) {
                    self.info_tokens.add(tokens as f64);
                }
                return Ok(());
            }
            _ => return Ok(()),
        };
        tally.add(line.value(name)?);
        Ok(())
    }

    /// Moves the collected ranks of the last name into its tally.
    fn flush(&mut self) {
        let is_known = self.collecting.is_some() || self.ranks.len == 0;
        assert!(is_known, "the ranks that are collected belong to a gauge");
        if let Some((gauge, _)) = self.collecting.take() {
            for (_, value) in &self.ranks.cells[..self.ranks.len] {
                self.gauges[gauge].add(*value);
            }
            self.ranks.len = 0;
        }
    }
}

/// The scheduler that a series comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rank {
    dp: Option<u64>,
    tp: u64,
}

/// The rank of a series; none if the series repeats another (a priority class, a later stage of the
/// pipeline).
fn rank(labels: &[u8]) -> Option<Rank> {
    let mut rank = Rank { dp: None, tp: 0 };
    for (name, value) in pairs(labels) {
        match name {
            b"dp_rank" => rank.dp = number(value),
            b"tp_rank" => rank.tp = number(value).unwrap_or(0),
            b"pp_rank" if number(value).is_some_and(|stage| stage > 0) => return None,
            b"priority" if !value.is_empty() => return None,
            _ => {}
        }
    }
    Some(rank)
}

/// Capacity from the labels of `cache_config_info`, before it became gauges of its own.
fn info_tokens(labels: &[u8]) -> Option<u64> {
    let (mut page, mut pages) = (None, None);
    for (name, value) in pairs(labels) {
        match name {
            b"page_size" => page = number(value),
            b"num_pages" => pages = number(value),
            b"tp_rank" | b"pp_rank" if number(value).is_some_and(|rank| rank > 0) => return None,
            _ => {}
        }
    }
    page?.checked_mul(pages?)
}

/// One value for each data-parallel rank, from its lowest tensor-parallel rank. A fixed table, so a
/// probe allocates nothing; ranks beyond it are not compared with each other.
struct Ranks {
    cells: [(Rank, f64); Ranks::LIMIT],
    len: usize,
}

impl Ranks {
    const LIMIT: usize = 64;

    fn new() -> Self {
        Self { cells: [(Rank { dp: None, tp: 0 }, 0.0); Self::LIMIT], len: 0 }
    }

    /// Adds a sample; false if the table is full and the sample's rank is not in it.
    fn add(&mut self, rank: Rank, value: f64) -> bool {
        let known = self.cells[..self.len].iter_mut().find(|(cell, _)| cell.dp == rank.dp);
        match known {
            Some((cell, held)) if rank.tp < cell.tp => (*cell, *held) = (rank, value),
            // Another split of the same rank's value.
            Some((cell, held)) if rank.tp == cell.tp => *held += value,
            Some(_) => {}
            None if self.len < Self::LIMIT => {
                self.cells[self.len] = (rank, value);
                self.len += 1;
            }
            None => return false,
        }
        true
    }
}
