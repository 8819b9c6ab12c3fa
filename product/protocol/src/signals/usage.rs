//! An answer's report about itself: tokens, tokens from the prefix cache, and llama.cpp's times.
//!
//! The predicted prefix match is checked against this. With llama.cpp's times, the replica's
//! prefill rate is measured and not estimated. The input is one object: a complete answer or the
//! data of one event of a stream, in any of the dialects (chat and completions, Responses,
//! Anthropic messages). Objects may be partial; absent fields are `None`. Text of the answer is
//! skipped, never kept.
//!
//! Anthropic counts the cached tokens outside `input_tokens`, the others include them; here they
//! are included. Its stream reports the input at the start and all of it, or the output alone, at
//! the end: [`Usage::update`] joins them.
//!
//! vLLM sends `cached_tokens` only with `--enable-prompt-tokens-details`, SGLang only with
//! `--enable-cache-report`, llama.cpp always.

use memchr::memmem;
use serde::Deserialize;
use serde_json::value::RawValue;

/// Tokens and times of one answer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Tokens of the prompt, including cached ones.
    pub prompt_tokens: Option<u64>,
    /// Tokens of the prompt that were found in the prefix cache.
    pub cached_tokens: Option<u64>,
    /// Tokens generated.
    pub completion_tokens: Option<u64>,
    /// llama.cpp's own times.
    pub timings: Option<Timings>,
}

/// llama.cpp's `timings`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Timings {
    /// Prompt tokens found in the slot's cache.
    pub cache_n: Option<u64>,
    /// Prompt tokens computed.
    pub prompt_n: Option<u64>,
    /// Milliseconds spent on them.
    pub prompt_ms: Option<f64>,
    /// Tokens generated.
    pub predicted_n: Option<u64>,
    /// Milliseconds spent on them.
    pub predicted_ms: Option<f64>,
}

impl Usage {
    /// Applies a later event of the same answer.
    pub fn update(&mut self, later: &Usage) {
        self.prompt_tokens = later.prompt_tokens.or(self.prompt_tokens);
        self.cached_tokens = later.cached_tokens.or(self.cached_tokens);
        self.completion_tokens = later.completion_tokens.or(self.completion_tokens);
        self.timings = later.timings.or(self.timings);
    }
}

impl Timings {
    /// Milliseconds of prefill for each token computed: a direct measure of the prefill rate.
    pub fn prefill_ms_per_token(&self) -> Option<f64> {
        match (self.prompt_ms?, self.prompt_n?) {
            (ms, tokens @ 1..) if ms >= 0.0 && ms.is_finite() => Some(ms / tokens as f64),
            _ => None,
        }
    }
}

/// Reads the usage of an answer or of an event's data; none if it has none or is not JSON.
///
/// A stream's event without one costs a search through its bytes, not a parse.
pub fn usage(json: &[u8]) -> Option<Usage> {
    if memmem::find(json, b"\"usage\"").is_none() && memmem::find(json, b"\"timings\"").is_none() {
        return None;
    }
    let answer: UsageAnswer<'_> = serde_json::from_slice(json).ok()?;
    // Anthropic's first event and the Responses API's last wrap the answer.
    let inner = answer.message.or(answer.response).unwrap_or_default();
    let timings = parsed::<Timings>(answer.timings);
    let counts = parsed::<Counts>(answer.usage).or_else(|| parsed::<Counts>(inner.usage));
    if counts.is_none() && timings.is_none() {
        return None;
    }
    let mut usage = counts.map(Counts::usage).unwrap_or_default();
    usage.timings = timings;
    if let Some(times) = timings {
        usage.cached_tokens = usage.cached_tokens.or(times.cache_n);
        let prompt =
            times.prompt_n.map(|computed| computed.saturating_add(times.cache_n.unwrap_or(0)));
        usage.prompt_tokens = usage.prompt_tokens.or(prompt);
        usage.completion_tokens = usage.completion_tokens.or(times.predicted_n);
    }
    Some(usage)
}

#[derive(Deserialize)]
struct UsageAnswer<'a> {
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    timings: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "object")]
    message: Option<Inner<'a>>,
    #[serde(borrow, default, deserialize_with = "object")]
    response: Option<Inner<'a>>,
}

#[derive(Default, Deserialize)]
struct Inner<'a> {
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
}

/// A member that is an object in the relevant events and may be anything elsewhere.
fn object<'de, D: serde::Deserializer<'de>>(json: D) -> Result<Option<Inner<'de>>, D::Error> {
    Ok(parsed(Some(<&RawValue>::deserialize(json)?)))
}

/// The object, if it is one: serde would also accept an array for a struct.
fn parsed<'a, T: Deserialize<'a>>(raw: Option<&'a RawValue>) -> Option<T> {
    let json = raw?.get();
    json.starts_with('{').then(|| serde_json::from_str(json).ok())?
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Counts {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<Details>,
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    input_tokens_details: Option<Details>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Details {
    cached_tokens: Option<u64>,
}

impl Counts {
    fn usage(self) -> Usage {
        let details = self.prompt_tokens_details.or(self.input_tokens_details);
        let beside = self
            .cache_read_input_tokens
            .unwrap_or(0)
            .saturating_add(self.cache_creation_input_tokens.unwrap_or(0));
        let input = self.input_tokens.map(|tokens| tokens.saturating_add(beside));
        Usage {
            prompt_tokens: self.prompt_tokens.or(input),
            cached_tokens: details
                .and_then(|details| details.cached_tokens)
                .or(self.cache_read_input_tokens),
            completion_tokens: self.completion_tokens.or(self.output_tokens),
            timings: None,
        }
    }
}
