//! The pages that tell a replica's capacity: JSON, asked once, or now and then.
//!
//! llama.cpp's `/slots` also tells the KV use of the moment. A slot that is not processing keeps
//! the KV of its last request as a prefix cache; that is not use. Where the slots share one cache
//! (`--kv-unified`) each claims the whole of it and nothing on the page says so: the capacity is
//! then too large by the number of slots, and the share too small. That way round a replica is
//! never closed by mistake, and its slots bound it anyway.

use serde::Deserialize;

use super::{Engine, Load, SignalError, read};

const PROXY: &str = "check that no proxy answers in the engine's place";

/// Reads the page at [`Engine::capacity_path`]; for llama.cpp also `/props`, which has the same
/// without the use.
pub fn capacity(engine: Engine, page: &[u8]) -> Result<Load, SignalError> {
    match engine {
        Engine::Vllm => read(engine, page),
        Engine::Sglang => sglang(page),
        Engine::LlamaCpp => llamacpp(page),
        Engine::Tgi => tgi(page),
        Engine::None => Ok(Load::default()),
    }
}

#[derive(Deserialize)]
struct Slot {
    n_ctx: Option<u64>,
    #[serde(default)]
    is_processing: bool,
    /// Prompt and generated tokens together, once the slot has had a request.
    n_prompt_tokens: Option<u64>,
}

/// What `/props` says that tells it apart and counts.
#[derive(Deserialize)]
pub(super) struct Props {
    pub(super) total_slots: u32,
    default_generation_settings: Option<SlotContext>,
}

#[derive(Deserialize)]
struct SlotContext {
    n_ctx: Option<u64>,
}

fn llamacpp(page: &[u8]) -> Result<Load, SignalError> {
    if let Ok(props) = serde_json::from_slice::<Props>(page) {
        let n_ctx = props.default_generation_settings.and_then(|settings| settings.n_ctx);
        return Ok(Load {
            slots: Some(props.total_slots),
            kv_tokens: n_ctx.map(|n_ctx| n_ctx.saturating_mul(u64::from(props.total_slots))),
            ..Load::default()
        });
    }
    let slots: Vec<Slot> = serde_json::from_slice(page).map_err(|_| SignalError::Capacity {
        engine: Engine::LlamaCpp,
        expected: "an array of slots",
        path: "/slots",
        remedy: "start llama-server without --no-slots, or ask /props",
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
        kv_used_tokens: used,
        kv_tokens: kv,
        ..Load::default()
    };
    load.derive();
    Ok(load)
}

/// What `/server_info` says that tells it apart and counts.
#[derive(Deserialize)]
pub(super) struct ServerInfo {
    pub(super) max_total_num_tokens: u64,
    dp_size: Option<u64>,
    #[serde(default)]
    internal_states: Vec<RankState>,
}

/// One data-parallel rank. The page also repeats the engine's arguments, an API key among them:
/// nothing but these members is kept.
#[derive(Deserialize)]
struct RankState {
    effective_max_running_requests_per_dp: Option<u32>,
}

fn sglang(page: &[u8]) -> Result<Load, SignalError> {
    let info: ServerInfo = serde_json::from_slice(page).map_err(|_| SignalError::Capacity {
        engine: Engine::Sglang,
        expected: "an object with max_total_num_tokens",
        path: "/server_info",
        remedy: PROXY,
    })?;
    // The tokens are those of one data-parallel rank; each rank has as many.
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

/// What `/info` says that tells it apart and counts.
#[derive(Deserialize)]
pub(super) struct Info {
    /// The router's limit on requests in the house, not in the batch.
    #[serde(rename = "max_concurrent_requests")]
    _concurrent: u64,
    /// Gone since the backends were split; then TGI does not tell its capacity.
    max_batch_total_tokens: Option<u64>,
}

fn tgi(page: &[u8]) -> Result<Load, SignalError> {
    let info: Info = serde_json::from_slice(page).map_err(|_| SignalError::Capacity {
        engine: Engine::Tgi,
        expected: "an object with max_concurrent_requests",
        path: "/info",
        remedy: PROXY,
    })?;
    Ok(Load { kv_tokens: info.max_batch_total_tokens, ..Load::default() })
}
