//! The engines behind a Mooncake bootstrap server: its answer to `GET /query`.
//!
//! `{"0": {"engine_id": "...", "worker_addr": {...}}}`, one member for each data-parallel rank. The
//! ids are new at each start of the engine.

use serde_json::value::RawValue;

use super::unique::members;
use crate::openai::raw::{Object, owned};

/// Most bytes of the answer.
const MAX_PAGE: usize = 1 << 20;
/// Most ranks.
const MAX_RANKS: usize = 1024;
/// Most bytes of an engine's id.
const MAX_ID: usize = 256;

/// A data-parallel rank of a prefill replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rank {
    /// Its number.
    pub rank: u32,
    /// Its engine's id.
    pub engine_id: String,
}

/// An answer that names no engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the answer to GET /query {found}; expected {{\"0\": {{\"engine_id\": \"...\"}}}}: check that \
     `bootstrap` has the port VLLM_MOONCAKE_BOOTSTRAP_PORT of the prefill engine"
)]
pub struct BadRanks {
    found: &'static str,
}

/// The ranks, by their number.
///
/// # Errors
/// If the page names no engine, or anything in it is odd.
pub fn ranks(page: &[u8]) -> Result<Vec<Rank>, BadRanks> {
    let bad = |found| BadRanks { found };
    if page.len() > MAX_PAGE {
        return Err(bad("has more than a megabyte"));
    }
    let text = std::str::from_utf8(page).map_err(|_| bad("is not UTF-8"))?;
    let entries = members(text, MAX_RANKS)
        .ok_or(bad("is not one JSON object with at most 1024 members, each once"))?;
    let mut ranks = Vec::with_capacity(entries.len());
    for (name, entry) in entries {
        // Without signs and leading zeros, so that each rank has one name.
        let number = name.parse::<u32>().ok().filter(|rank| rank.to_string() == name);
        let rank = number.ok_or(bad("has a name that is not a rank"))?;
        let engine_id = engine_id(entry).ok_or(bad("has a rank without an `engine_id`"))?;
        ranks.push(Rank { rank, engine_id });
    }
    if ranks.is_empty() {
        return Err(bad("has no rank yet"));
    }
    ranks.sort_by_key(|rank| rank.rank);
    Ok(ranks)
}

fn engine_id(entry: &RawValue) -> Option<String> {
    let [id] = Object::open(&["engine_id"], "engine_id", entry).ok()?;
    owned(id?).filter(|id| !id.is_empty() && id.len() <= MAX_ID)
}
