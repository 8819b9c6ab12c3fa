//! Errors that an answer reports in its own words, whatever its HTTP status: an error object, an
//! error event of a stream, or a finish reason that is a failure.
//!
//! Engines send errors inside a 200 because a stream's status is sent before its first token:
//! - vLLM, SGLang, llama.cpp: `{"error": {"message", "type", "code"}}`, in older versions
//!   `{"object": "error", "message", "type", "code"}`
//! - TGI: `{"error": "...", "error_type": "..."}`
//! - Anthropic's form: `{"type": "error", "error": {"type", "message"}}`
//! - OpenAI's responses: `{"type": "error", "code", "message"}`, and `response.failed`
//!
//! The code says whose fault it is. Where there is no status code, the words of `type` and `code`
//! do, and an unknown word is the engine's fault.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use serde_json::value::RawValue;

use super::raw::{Object, given, owned, string};

/// An error that an answer reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToldError {
    /// The HTTP status that the error stands for, 400 to 599.
    pub status: u16,
}

impl ToldError {
    /// An error of the engine without a code of its own.
    pub(super) const OF_ENGINE: ToldError = ToldError { status: 500 };

    /// The engine has no capacity for the request.
    #[must_use]
    pub fn is_full(self) -> bool {
        matches!(self.status, 429 | 503 | 529)
    }

    /// The request is the cause: every engine would refuse it.
    #[must_use]
    pub fn is_of_request(self) -> bool {
        self.status < 500 && !self.is_full()
    }
}

const OUTER: [&str; 5] = ["error", "object", "type", "code", "error_type"];
const INNER: [&str; 4] = ["code", "type", "status", "status_code"];

/// The error that a JSON object reports, if it reports one.
#[must_use]
pub fn told_error(json: &str) -> Option<ToldError> {
    let [error, object, kind, code, error_type] = Object::parse(&OUTER, json).ok()?;
    let is_word = |slot: Option<&RawValue>| slot.and_then(string) == Some(b"error");
    let outer = [error_type, kind.filter(|kind| !is_word(Some(kind))), code];
    match given(error).map(RawValue::get) {
        Some("false" | "{}" | "[]" | "\"\"" | "0") | None => {}
        Some(object) if object.starts_with('{') => {
            let [code, kind, status, status_code] = Object::parse(&INNER, object).ok()?;
            return Some(blame(&[code, status, status_code, kind]));
        }
        Some(_) => return Some(blame(&outer)),
    }
    (is_word(object) || is_word(kind)).then(|| blame(&outer))
}

static ERROR: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"error\""));

/// Whether JSON has the word that each [`told_error`] has, as a name or as a value.
pub(super) fn names_error(json: &[u8]) -> bool {
    ERROR.find(json).is_some()
}

/// Whether a choice's finish reason reports a failure of the engine: vLLM's `error`, and `abort` of
/// vLLM and SGLang, which end a request that no client cancelled.
#[must_use]
pub(super) fn is_failure(finish_reason: &[u8]) -> bool {
    matches!(finish_reason, b"error" | b"abort")
}

/// The status that codes and types stand for.
fn blame(words: &[Option<&RawValue>]) -> ToldError {
    let number = |raw: &RawValue| raw.get().trim_matches('"').parse::<u16>().ok();
    let status = words.iter().flatten().find_map(|raw| number(raw));
    if let Some(status) = status.filter(|status| (400..600).contains(status)) {
        return ToldError { status };
    }
    let said = words.iter().flatten().filter_map(|raw| owned(raw));
    let plain = |c: &char| c.is_ascii_alphanumeric();
    let said: String =
        said.flat_map(|word| word.chars().filter(plain).collect::<Vec<_>>()).collect();
    let said = said.to_ascii_lowercase();
    let says = |all: &[&str]| all.iter().any(|word| said.contains(word));
    let status = match () {
        () if says(FULL) => 503,
        () if says(OF_REQUEST) => 400,
        () => 500,
    };
    ToldError { status }
}

/// Words of a full engine.
const FULL: &[&str] =
    &["overload", "ratelimit", "toomany", "unavailable", "quota", "capacity", "queuefull"];

/// Words of a request that every engine refuses.
const OF_REQUEST: &[&str] = &[
    "invalid",
    "badrequest",
    "notfound",
    "authentication",
    "permission",
    "forbidden",
    "validation",
    "unprocessable",
    "contextlength",
    "contextsize",
    "toolarge",
    "toolong",
    "unsupported",
    "notsupported",
    "contentpolicy",
    "contentfilter",
];

#[cfg(test)]
mod tests {
    use super::*;

    // Defect error-in-200: an error inside a 200 is an error, with the status that it names or that
    // its words stand for.
    #[test]
    fn engines_errors() {
        for (json, status) in [
            (
                r#"{"error":{"message":"EngineCore encountered an issue.","type":"InternalServerError","code":500}}"#,
                500,
            ),
            (
                r#"{"object":"error","message":"x","type":"BadRequestError","param":null,"code":400}"#,
                400,
            ),
            (r#"{"object":"error","message":"x","type":"InternalServerError","code":"500"}"#, 500),
            (r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#, 503),
            (
                r#"{"error":{"message":"too long","type":"invalid_request_error","code":"context_length_exceeded"}}"#,
                400,
            ),
            (r#"{"error":"Request failed during generation","error_type":"generation"}"#, 500),
            (r#"{"error":"Input validation error","error_type":"validation"}"#, 400),
            (r#"{"error":"Model is overloaded","error_type":"overloaded"}"#, 503),
            (r#"{"type":"error","error":{"type":"overloaded_error","message":"x"}}"#, 503),
            (r#"{"type":"error","error":{"type":"api_error","message":"x"}}"#, 500),
            (r#"{"type":"error","error":{"type":"not_found_error","message":"x"}}"#, 400),
            (r#"{"type":"error","code":"server_error","message":"x","param":null}"#, 500),
            (r#"{"type":"error","code":"rate_limit_exceeded","message":"x"}"#, 503),
            (r#"{"error":{"code":429,"message":"x"}}"#, 429),
            (r#"{"error":{"status":"INTERNAL","message":"x","code":13}}"#, 500),
            (r#"{"error":true}"#, 500),
            (r#"{"choices":[],"error":{"message":"Provider disconnected","code":502}}"#, 502),
        ] {
            assert_eq!(told_error(json), Some(ToldError { status }), "{json}");
        }
    }

    // An answer that only mentions errors has none: the members must stand on its own level.
    #[test]
    fn no_errors() {
        for json in [
            r#"{"id":"x","choices":[{"delta":{"content":"error"}}]}"#,
            r#"{"id":"x","object":"response","error":null,"status":"completed"}"#,
            r#"{"error":{}}"#,
            r#"{"error":""}"#,
            r#"{"object":"chat.completion","choices":[{"message":{"content":"{\"error\":{}}"}}]}"#,
            "[1]",
            "not json",
        ] {
            assert_eq!(told_error(json), None, "{json}");
        }
    }

    // Whose fault a status is.
    #[test]
    fn whose() {
        let whose = |status| {
            let error = ToldError { status };
            (error.is_full(), error.is_of_request())
        };
        assert_eq!((whose(500), whose(400)), ((false, false), (false, true)));
        assert_eq!((whose(429), whose(503)), ((true, false), (true, false)));
    }
}
