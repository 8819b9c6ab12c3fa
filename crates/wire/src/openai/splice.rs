//! Asking for usage where the client did not: one insertion, every other byte as it was.
//!
//! OpenAI's streams tell their usage only when `stream_options.include_usage` is true. The gateway
//! wants it for every request, to compare what it predicted with what was cached; it puts the
//! member in and [`Answer`](super::Answer) takes its consequences out. Where a broken stream may be
//! gone on with, it also asks for the count of tokens in each chunk (`continuous_usage_stats`, which
//! vLLM and SGLang know), and [`Thread`](super::Thread) takes that out.

use bytes::Bytes;
use serde_json::value::RawValue;

use super::bad::BadRequest;
use super::body::Body;
use super::raw::{Object, is_null, kind};

/// A change of a body: `remove` bytes at `at` give way to `insert`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Splice {
    /// Where, in bytes from the start of the body.
    pub at: usize,
    /// How many bytes go.
    pub remove: usize,
    /// What comes.
    pub insert: &'static str,
}

impl Splice {
    /// The changed body in three pieces, none of them copied. The body is the one that was read.
    #[must_use]
    pub fn apply(&self, body: &Bytes) -> [Bytes; 3] {
        let at = self.at.min(body.len());
        let end = (at + self.remove).min(body.len());
        [body.slice(..at), Bytes::from_static(self.insert.as_bytes()), body.slice(end..)]
    }

    /// How many bytes the changed body has, for its `content-length`.
    #[must_use]
    pub fn changed_len(&self, len: usize) -> usize {
        (len + self.insert.len()).saturating_sub(self.remove)
    }
}

/// What a body says about usage.
pub(crate) struct Asked {
    pub(crate) include_usage: bool,
    /// How to ask, where it does not.
    pub(crate) splice: Option<Splice>,
    /// The splice asks for the count in each chunk, too.
    pub(crate) counts: bool,
}

/// What is asked for: usage at the end, and the count in each chunk.
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

/// Reads `stream_options` of a body whose text is `json`. `counts` asks for the count in each chunk,
/// too, where the client does not say anything of it.
pub(crate) fn usage_asked(json: &str, body: &Body<'_>, counts: bool) -> Result<Asked, BadRequest> {
    let wanted = "an object such as {\"include_usage\": true}";
    let ask = |at, remove, insert: [&'static str; 2], counts: bool| {
        let insert = insert[usize::from(counts)];
        Ok(Asked { include_usage: false, splice: Some(Splice { at, remove, insert }), counts })
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
    let asked = include.is_some_and(|value| value.get() == "true");
    if !asked && continuous.is_some_and(|value| value.get() == "true") {
        // Asking would switch on usage in every chunk, which could not be told from unasked ones.
        return Ok(Asked { include_usage: false, splice: None, counts: false });
    }
    let counts = counts && continuous.is_none();
    match include {
        None if options.get()[1..].trim_ascii_start() == "}" => ask(at + 1, 0, USAGE, counts),
        None => ask(at + 1, 0, USAGE_AND, counts),
        Some(value) => match value.get() {
            "true" => {
                let insert = "\"continuous_usage_stats\":true,";
                let splice = counts.then_some(Splice { at: at + 1, remove: 0, insert });
                Ok(Asked { include_usage: true, splice, counts })
            }
            "false" | "null" => ask(offset(json, value), value.get().len(), TRUE, counts),
            _ => {
                let what = format!("`include_usage` is {}: send true or false", kind(value));
                Err(BadRequest::inside("stream_options", what))
            }
        },
    }
}

/// Where in `json` a value lies that borrows from it.
fn offset(json: &str, value: &RawValue) -> usize {
    value.get().as_ptr() as usize - json.as_ptr() as usize
}
