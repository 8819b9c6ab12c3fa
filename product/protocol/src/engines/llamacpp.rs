//! llama.cpp's HTTP server.
//!
//! A slot takes one request at a time; a request that finds no free slot is deferred. Unlike with
//! other engines, `prompt_tokens_total` leaves out cached tokens, so they are added here; a build
//! without the counter of cached tokens yields no prompt total. KV use is on `/slots`, not on this
//! page; older builds report it as `kv_cache_usage_ratio`.
//!
//! `/slots` reports the capacity and the current KV use. An idle slot keeps the KV of its last
//! request as a prefix cache; that does not count as use. If the slots share one cache
//! (`--kv-unified`), each slot reports the whole cache as its own and nothing on the page says so.
//! The capacity is then too large by the number of slots, and the share too small. This error never
//! closes a replica by mistake, and the number of slots limits the replica anyway.

use serde::Deserialize;

use super::private::Private;
use super::spec::{Detect, EngineSpec, LoadPage, OwnPage, object};
use crate::signals::{Line, Load, SignalError, Tally, verdict, walk};

const DEFERRED: &str = "llamacpp:requests_deferred";
const PROCESSING: &str = "llamacpp:requests_processing";

const METRICS: LoadPage = LoadPage {
    path: "/metrics",
    read,
    remedy: "start llama-server with --metrics, or set `engine: none`",
};

const SLOTS: LoadPage = LoadPage {
    path: "/slots",
    read: read_slots,
    remedy: "start llama-server without --no-slots, or ask /props",
};

pub(super) static SPEC: EngineSpec = EngineSpec {
    name: "llamacpp",
    summary: "llama.cpp's HTTP server",
    detect: Detect {
        metrics: &["llamacpp:"],
        own_page: Some(OwnPage { path: "/props", is_own: |page| object::<Props>(page).is_some() }),
    },
    health: "/health",
    load: Some(METRICS),
    capacity: Some(SLOTS),
    private: Private::NONE,
    reads_cache_salt: false,
    cached_tokens: Some("update llama.cpp"),
    reports_load: false,
    transfer: None,
    version: None,
    loads_adapters: false,
    adapters_in_use: None,
    continues_chats: true,
};

#[derive(Default)]
struct LlamacppPage {
    pending: Tally,
    running: Tally,
    kv: Tally,
    computed: Tally,
    cached: Tally,
}

fn read(page: &[u8]) -> Result<Load, SignalError> {
    let mut seen = LlamacppPage::default();
    let whole = walk(page, SPEC.detect.metrics, |line| seen.take(&line))?;
    let missing = [
        seen.pending.sum().is_none().then_some(DEFERRED),
        seen.running.sum().is_none().then_some(PROCESSING),
    ];
    verdict(SPEC.name, page, whole, missing, METRICS.remedy)?;
    let cached = seen.cached.sum();
    Ok(Load {
        pending: seen.pending.count(),
        running: seen.running.count(),
        kv_used: seen.kv.share(),
        prompt_tokens_total: cached
            .and_then(|cached| Some(seen.computed.sum()?.saturating_add(cached))),
        cached_tokens_total: cached,
        ..Load::default()
    })
}

#[derive(Deserialize)]
struct Slot {
    n_ctx: Option<u64>,
    #[serde(default)]
    is_processing: bool,
    /// Prompt and generated tokens together, after the slot's first request.
    n_prompt_tokens: Option<u64>,
}

/// Fields of `/props` that identify the server and give its capacity.
#[derive(Deserialize)]
struct Props {
    total_slots: u32,
    default_generation_settings: Option<SlotContext>,
}

#[derive(Deserialize)]
struct SlotContext {
    n_ctx: Option<u64>,
}

/// Reads `/slots`, or `/props`, which has the same data without the KV use.
fn read_slots(page: &[u8]) -> Result<Load, SignalError> {
    if let Ok(props) = serde_json::from_slice::<Props>(page) {
        let n_ctx = props.default_generation_settings.and_then(|settings| settings.n_ctx);
        return Ok(Load {
            slots: Some(props.total_slots),
            context: n_ctx,
            kv_tokens: n_ctx.map(|n_ctx| n_ctx.saturating_mul(u64::from(props.total_slots))),
            ..Load::default()
        });
    }
    let slots: Vec<Slot> = serde_json::from_slice(page).map_err(|_| SignalError::Capacity {
        engine: SPEC.name,
        expected: "an array of slots",
        path: SLOTS.path,
        remedy: SLOTS.remedy,
    })?;
    let busy = || slots.iter().filter(|slot| slot.is_processing);
    let kv = slots
        .iter()
        .map(|slot| slot.n_ctx)
        .try_fold(0_u64, |sum, n_ctx| Some(sum.saturating_add(n_ctx?)));
    let used = busy()
        .map(|slot| slot.n_prompt_tokens)
        .try_fold(0_u64, |sum, tokens| Some(sum.saturating_add(tokens?)));
    let mut load = Load {
        running: Some(busy().count() as u32),
        slots: Some(slots.len() as u32),
        context: slots.iter().filter_map(|slot| slot.n_ctx).min(),
        kv_used_tokens: used,
        kv_tokens: kv,
        ..Load::default()
    };
    load.derive();
    Ok(load)
}

impl LlamacppPage {
    fn take(&mut self, line: &Line<'_>) -> Result<(), SignalError> {
        let (tally, name) = match line.name {
            b"requests_deferred" => (&mut self.pending, DEFERRED),
            b"requests_processing" => (&mut self.running, PROCESSING),
            b"kv_cache_usage_ratio" => (&mut self.kv, "llamacpp:kv_cache_usage_ratio"),
            b"prompt_tokens_total" => (&mut self.computed, "llamacpp:prompt_tokens_total"),
            b"prompt_tokens_cached_total" => {
                (&mut self.cached, "llamacpp:prompt_tokens_cached_total")
            }
            _ => return Ok(()),
        };
        tally.add(line.value(name)?);
        Ok(())
    }
}
