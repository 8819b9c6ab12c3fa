//! Asks for usage if the client did not: one insertion, with every other byte unchanged.
//!
//! OpenAI-style streams report usage only if `stream_options.include_usage` is true. The gateway
//! needs it for every request, to compare predicted with actual cache hits. It inserts the member,
//! and [`Answer`](super::Answer) removes the additions from the response. If broken streams may be
//! resumed, it also asks for the token count in each chunk (`continuous_usage_stats`, supported by
//! vLLM and SGLang), and [`Thread`](super::Thread) removes that.

use bytes::Bytes;

use super::bad::BadRequest;
use super::body::Body;
use super::raw::{Object, is_null, kind, truth};
use super::splice::{Purpose, Splice, offset};

/// A body's request for usage.
pub(crate) struct Asked {
    pub(crate) include_usage: bool,
    /// The splice that asks for it, if the body does not.
    pub(crate) splice: Option<Splice>,
    /// The splice also asks for the count in each chunk.
    pub(crate) counts: bool,
}

/// The inserted members: usage at the end, and the count in each chunk.
const USAGE: [&str; 2] =
    ["\"include_usage\":true", "\"include_usage\":true,\"continuous_usage_stats\":true"];
const USAGE_AND: [&str; 2] =
    ["\"include_usage\":true,", "\"include_usage\":true,\"continuous_usage_stats\":true,"];
const OBJECT: [&str; 2] =
    ["{\"include_usage\":true}", "{\"include_usage\":true,\"continuous_usage_stats\":true}"];
const MEMBER: [&str; 2] = [
    "\"stream_options\":{\"include_usage\":true},",
    "\"stream_options\":{\"include_usage\":true,\"continuous_usage_stats\":true},",
];
const TRUE: [&str; 2] = ["true", "true,\"continuous_usage_stats\":true"];

const OPTIONS: [&str; 2] = ["include_usage", "continuous_usage_stats"];

/// Reads `stream_options` of a body whose text is `json`. With `counts`, also asks for the count in
/// each chunk unless the client sets that option.
pub(crate) fn usage_asked(json: &str, body: &Body<'_>, counts: bool) -> Result<Asked, BadRequest> {
    let wanted = "an object such as {\"include_usage\": true}";
    let usage = |at, remove, insert: &'static str| {
        let insert = Bytes::from_static(insert.as_bytes());
        Splice { purpose: Purpose::Usage, at, remove, insert }
    };
    let ask = |at, remove, insert: [&'static str; 2], counts: bool| {
        let splice = Some(usage(at, remove, insert[usize::from(counts)]));
        Ok(Asked { include_usage: false, splice, counts })
    };
    let Some(options) = body.raw("stream_options") else {
        return ask(json.find('{').unwrap_or_default() + 1, 0, MEMBER, counts);
    };
    let at = offset(json, options);
    if is_null(options) {
        return ask(at, "null".len(), OBJECT, counts);
    }
    if kind(options) != "an object" {
        return Err(BadRequest::kind("stream_options", kind(options), wanted));
    }
    let [include, continuous] = Object::open(&OPTIONS, "stream_options", options)?;
    let asked = include.and_then(truth) == Some(true);
    if !asked && continuous.and_then(truth) == Some(true) {
        // Asking would enable usage in every chunk, which could not be distinguished from usage
        // that the client asked for.
        return Ok(Asked { include_usage: false, splice: None, counts: false });
    }
    let counts = counts && continuous.is_none();
    match include {
        None if options.get()[1..].trim_ascii_start() == "}" => ask(at + 1, 0, USAGE, counts),
        None => ask(at + 1, 0, USAGE_AND, counts),
        Some(value) => match truth(value) {
            Some(true) => {
                let insert = "\"continuous_usage_stats\":true,";
                let splice = counts.then(|| usage(at + 1, 0, insert));
                Ok(Asked { include_usage: true, splice, counts })
            }
            None if !is_null(value) => {
                let what = format!("`include_usage` is {}: send true or false", kind(value));
                Err(BadRequest::inside("stream_options", what))
            }
            _ => ask(offset(json, value), value.get().len(), TRUE, counts),
        },
    }
}
