//! The form of `kv_transfer_params` as vLLM's `NixlConnector` fills it in.

use meridian_base::keyed;
use serde_json::value::RawValue;

use super::NoParams;
use crate::legs::unique::members;
use crate::openai::raw::{given, owned};

/// Most members; vLLM has 14.
const MOST: usize = 64;

/// Deepest nesting of a member: block ids are lists of numbers, one list for each cache group.
const DEPTH: usize = 16;

/// What is read of the object.
pub(super) struct Checked {
    /// The tokens handed over, if reported.
    pub(super) tokens: Option<u64>,
    /// The prefill engine's cached tokens, if reported.
    pub(super) cached_tokens: Option<u64>,
    /// A hash of the engine and of its name for the KV.
    pub(super) kv: u64,
}

/// Checks the whole object.
pub(super) fn check(params: &RawValue) -> Result<Checked, NoParams> {
    let members = members(params.get(), MOST).ok_or(NoParams::NotObject)?;
    let shallow = crate::openai::text::check_depth(params.get().as_bytes(), DEPTH);
    shallow.map_err(|_| NoParams::NotObject)?;
    let get = |name| members.iter().find(|(known, _)| known == name).map(|(_, value)| *value);
    let need = |name, good: fn(&RawValue) -> bool| match get(name) {
        Some(value) if good(value) => Ok(()),
        _ => Err(NoParams::Field(name)),
    };
    let count = |name| match given(get(name)) {
        Some(value) => value.get().parse().map(Some).map_err(|_| NoParams::Field(name)),
        None => Ok(None),
    };
    need("do_remote_prefill", |value| value.get() == "true")?;
    need("do_remote_decode", |value| value.get() == "false")?;
    need("remote_block_ids", block_ids)?;
    need("remote_request_id", text)?;
    need("remote_engine_id", text)?;
    need("remote_host", text)?;
    need("remote_port", |value| value.get().parse::<u16>().is_ok_and(|port| port > 0))?;
    let name = |name| get(name).and_then(owned).unwrap_or_default();
    let engine = keyed(0, name("remote_engine_id").as_bytes());
    Ok(Checked {
        tokens: count("remote_num_tokens")?,
        cached_tokens: count("remote_prefill_cached_tokens")?,
        kv: keyed(engine, name("remote_request_id").as_bytes()),
    })
}

fn text(value: &RawValue) -> bool {
    owned(value).is_some_and(|text| !text.trim_ascii().is_empty())
}

/// At least one number, in a list or in lists of a list.
fn block_ids(value: &RawValue) -> bool {
    let ids = value.get().as_bytes();
    let allowed = |b: &u8| b.is_ascii_digit() || b",[] \t\r\n".contains(b);
    ids.starts_with(b"[")
        && ids.iter().all(allowed)
        && ids.iter().any(u8::is_ascii_digit)
        && crate::openai::text::check_depth(ids, 2).is_ok()
}
