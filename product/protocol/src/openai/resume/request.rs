//! The continuation request of a broken answer: the client's own, with the text so far as the
//! beginning of the reply, and a smaller token limit.
//!
//! A chat gets an assistant message for the engine to continue. vLLM, SGLang and llama.cpp support
//! `continue_final_message` for this, together with `add_generation_prompt` set to open no new
//! turn; an older llama.cpp continues a last message of the assistant anyway. A completion's prompt
//! grows.
//!
//! Fields are allowed by name. A field outside the list may request a shape of the answer that a
//! continuation would break (a schema, a grammar, log probabilities), and every engine keeps adding
//! such fields.

use std::ops::Range;

use bytes::Bytes;
use serde_json::value::RawValue;

use super::{Continued, Lost};
use crate::openai::ask_usage::usage_asked;
use crate::openai::body::Body;
use crate::openai::endpoint::Endpoint;
use crate::openai::members::{Members, is_nothing};
use crate::openai::raw::{elements, kind, owned};
use crate::openai::salt::SaltPlace;
use crate::openai::splice::range;

/// Fields that mean the same in a continuation request.
const GOES_ON: [&str; 35] = [
    "model",
    "messages",
    "prompt",
    "stream",
    "stream_options",
    "max_tokens",
    "max_completion_tokens",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "typical_p",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "repeat_penalty",
    "repeat_last_n",
    "logit_bias",
    "seed",
    "stop",
    "stop_token_ids",
    "ignore_eos",
    "skip_special_tokens",
    "spaces_between_special_tokens",
    "user",
    "metadata",
    "safety_identifier",
    "session_id",
    "prompt_cache_key",
    "cache_salt",
    "cache_prompt",
    "priority",
    "service_tier",
    "store",
    "timings_per_token",
];

/// Fields that are allowed with this value only.
const HARMLESS: [(&str, &str); 7] = [
    ("n", "1"),
    ("best_of", "1"),
    ("logprobs", "false"),
    ("top_logprobs", "0"),
    ("echo", "false"),
    ("parallel_tool_calls", "true"),
    ("tool_choice", "\"none\""),
];

/// Edits of a body, in any order.
type Edits = Vec<(Range<usize>, String)>;

/// Additional requests to the replica.
#[derive(Clone, Copy)]
pub(super) struct Ask<'a> {
    /// The token count in each chunk.
    pub(super) counts: bool,
    /// A salt for its cache.
    pub(super) salt: Option<&'a str>,
}

/// The continuation request after `text`, which has `said` tokens.
pub(super) fn continued(
    endpoint: Endpoint,
    body: &Bytes,
    text: &str,
    said: u64,
    ask: Ask<'_>,
) -> Result<Continued, Lost> {
    let json = std::str::from_utf8(body).map_err(|_| Lost::Request)?;
    if text.is_empty() {
        return asking(endpoint, body.clone(), ask);
    }
    let members = Members::of(json).ok_or(Lost::Request)?;
    if !members.0.iter().all(|(name, raw)| is_known(name, raw)) {
        return Err(Lost::Request);
    }
    let mut edits = Edits::new();
    let bounded = fewer(json, &members, said, &mut edits)?;
    let quoted = serde_json::to_string(text).expect("a string always serializes");
    if endpoint == Endpoint::Completions {
        // Without a limit the engine applies its own, which is not known here.
        let prompt = members.get("prompt").filter(|raw| bounded && kind(raw) == "a string");
        let end = at(json, prompt.ok_or(Lost::Request)?).end - 1;
        edits.push((end..end, quoted[1..quoted.len() - 1].to_owned()));
    } else {
        let messages = members.get("messages").ok_or(Lost::Request)?;
        said_last(messages)?;
        let end = at(json, messages).end - 1;
        edits.push((end..end, format!(",{{\"role\":\"assistant\",\"content\":{quoted}}}")));
        let brace = json.find('{').ok_or(Lost::Request)? + 1;
        let go_on = "\"continue_final_message\":true,\"add_generation_prompt\":false,";
        edits.push((brace..brace, go_on.to_owned()));
    }
    asking(endpoint, edited(json, edits), ask)
}

fn is_known(name: &str, raw: &RawValue) -> bool {
    let harmless = HARMLESS.iter().any(|(n, value)| *n == name && raw.get() == *value);
    let text = || {
        let form = Members::of(raw.get()).and_then(|m| m.get("type").and_then(owned));
        name == "response_format" && form.as_deref() == Some("text")
    };
    GOES_ON.contains(&name) || harmless || is_nothing(raw) || text()
}

/// Checks that the last message is not the assistant's: engines would continue that one.
fn said_last(messages: &RawValue) -> Result<(), Lost> {
    let mut last = None;
    let each = |message| {
        last = Some(message);
        Ok(())
    };
    elements(messages, "messages", each).map_err(|_| Lost::Request)?;
    let last = last.and_then(|message: &RawValue| Members::of(message.get()));
    match last.and_then(|message| message.get("role").and_then(owned)) {
        Some(role) if role != "assistant" => Ok(()),
        _ => Err(Lost::Request),
    }
}

/// Subtracts the tokens so far from the limits; returns whether there is one.
fn fewer(json: &str, members: &Members<'_>, said: u64, edits: &mut Edits) -> Result<bool, Lost> {
    let before = edits.len();
    for name in ["max_tokens", "max_completion_tokens"] {
        let Some(raw) = members.get(name) else { continue };
        // Some engines take a negative limit for none.
        if raw.get().starts_with('-') {
            continue;
        }
        let most: u64 = raw.get().parse().map_err(|_| Lost::Request)?;
        let left = most.checked_sub(said).filter(|left| *left > 0).ok_or(Lost::Spent)?;
        edits.push((at(json, raw), left.to_string()));
    }
    Ok(edits.len() > before)
}

/// Asks for the same as the first time.
fn asking(endpoint: Endpoint, body: Bytes, ask: Ask<'_>) -> Result<Continued, Lost> {
    let json = std::str::from_utf8(&body).map_err(|_| Lost::Request)?;
    let parsed = Body::parse(endpoint, json).map_err(|_| Lost::Request)?;
    let usage = usage_asked(json, &parsed, ask.counts).map_err(|_| Lost::Request)?.splice;
    let salt = ask.salt.map(|salt| SaltPlace::of(json, &parsed).splice(salt));
    let mut splices = parsed.cuts;
    usage.into_iter().chain(salt).for_each(|splice| splices.push(splice));
    Ok(Continued { body, splices })
}

/// The range in `json` of a value that borrows from it.
fn at(json: &str, raw: &RawValue) -> Range<usize> {
    range(json, raw.get())
}

fn edited(json: &str, mut edits: Edits) -> Bytes {
    edits.sort_by_key(|(range, _)| range.start);
    let grown: usize = edits.iter().map(|(_, insert)| insert.len()).sum();
    let mut out = String::with_capacity(json.len() + grown);
    let mut from = 0;
    for (range, insert) in edits {
        out.push_str(&json[from..range.start]);
        out.push_str(&insert);
        from = range.end;
    }
    out.push_str(&json[from..]);
    Bytes::from(out)
}
