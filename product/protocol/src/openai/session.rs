//! What a body says about its session and its class.

use meridian_base::{Priority, keyed};
use serde_json::value::RawValue;

use super::body::Body;
use super::raw::{Object, kind, string};
use super::text::decode;

/// The class of a tier of OpenAI's or Anthropic's. Tiers that leave the choice to the server, and unknown ones, ask
/// for none: they are for the engine.
pub(super) fn tier(body: &Body<'_>) -> Option<Priority> {
    match string(body.get("service_tier")?)? {
        b"flex" => Some(Priority::Low),
        b"default" | b"standard_only" => Some(Priority::Normal),
        b"priority" | b"fast" => Some(Priority::High),
        _ => None,
    }
}

/// A session is only a hint: an unsuitable value is ignored, not refused.
pub(super) fn session(body: &Body<'_>, seed: u64) -> Option<u64> {
    let named = [
        body.get("session_id"),
        inside(body, "session_params", &["session_id", "id"]),
        body.get("conversation"),
        inside(body, "conversation", &["id"]),
        body.get("prompt_cache_key"),
        body.get("user"),
        inside(body, "metadata", &["user_id"]),
    ];
    named.into_iter().flatten().find_map(|raw| name_hash(raw, seed))
}

/// The first of these members of an object that the body has under `field`.
fn inside<'a, const N: usize>(
    body: &Body<'a>,
    field: &'static str,
    names: &'static [&'static str; N],
) -> Option<&'a RawValue> {
    let object = body.get(field).filter(|raw| kind(raw) == "an object")?;
    let members = Object::open(names, field, object).ok()?;
    members.into_iter().flatten().next()
}

fn name_hash(raw: &RawValue, seed: u64) -> Option<u64> {
    if kind(raw) == "a number" {
        return Some(keyed(seed, raw.get().as_bytes()));
    }
    let mut name = Vec::new();
    decode(string(raw)?, &mut name);
    (!name.is_empty()).then(|| keyed(seed, &name))
}
