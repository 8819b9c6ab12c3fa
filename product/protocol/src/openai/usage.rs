//! An answer's report of its own size, in the three dialects: OpenAI's chat and completions,
//! OpenAI's responses, Anthropic's messages.

use serde::Deserialize;

/// Tokens of one request, as the engine counted them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt, including cached ones.
    pub prompt_tokens: u64,
    /// Tokens of the prompt that the engine had cached, if reported.
    pub cached_tokens: Option<u64>,
    /// Tokens of the answer.
    pub completion_tokens: u64,
    /// Microseconds that the engine spent on the prompt's uncached tokens, if reported (llama.cpp's
    /// `timings`).
    pub prefill_us: Option<u64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Details {
    cached_tokens: Option<u64>,
}

/// The members of a usage object in every dialect; each dialect has some of them.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Wire {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<Details>,
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    input_tokens_details: Option<Details>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
}

/// llama.cpp's `timings`: tokens taken from the cache, prefilled and generated.
#[derive(Deserialize)]
struct Timings {
    cache_n: u64,
    prompt_n: u64,
    predicted_n: u64,
    #[serde(default)]
    prompt_ms: f64,
}

/// Usage gathered over an answer; a later report overrides an earlier one number by number.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Gathered {
    prompt: Option<u64>,
    completion: Option<u64>,
    cached: Option<u64>,
    read: Option<u64>,
    created: Option<u64>,
    prefill_us: Option<u64>,
}

impl Gathered {
    /// Adds the usage object at the start of `json`. Anything else changes nothing.
    pub(crate) fn add(&mut self, json: &[u8]) {
        let mut values = serde_json::Deserializer::from_slice(json).into_iter::<Option<Wire>>();
        let Some(Ok(Some(usage))) = values.next() else { return };
        let details = usage.prompt_tokens_details.or(usage.input_tokens_details);
        let keep = |slot: &mut Option<u64>, new: Option<u64>| *slot = new.or(*slot);
        keep(&mut self.prompt, usage.prompt_tokens.or(usage.input_tokens));
        keep(&mut self.completion, usage.completion_tokens.or(usage.output_tokens));
        keep(&mut self.cached, details.and_then(|d| d.cached_tokens));
        keep(&mut self.read, usage.cache_read_input_tokens);
        keep(&mut self.created, usage.cache_creation_input_tokens);
    }

    /// Adds llama.cpp's `timings`, unless usage was reported.
    pub(crate) fn add_timings(&mut self, json: &[u8]) {
        let mut values = serde_json::Deserializer::from_slice(json).into_iter::<Timings>();
        let Some(Ok(timings)) = values.next() else { return };
        self.prompt = self.prompt.or(Some(timings.cache_n.saturating_add(timings.prompt_n)));
        self.cached = self.cached.or(Some(timings.cache_n));
        // A cast from float saturates; a time of 0 means unknown.
        self.prefill_us = Some((timings.prompt_ms * 1e3) as u64).filter(|us| *us > 0);
        self.completion = self.completion.or(Some(timings.predicted_n));
    }

    /// The result. Anthropic's `input_tokens` leaves out tokens that were cached or are being
    /// cached.
    pub(crate) fn usage(&self) -> Option<Usage> {
        if self.prompt.is_none() && self.completion.is_none() {
            return None;
        }
        let beside = self.read.unwrap_or(0).saturating_add(self.created.unwrap_or(0));
        Some(Usage {
            prompt_tokens: self.prompt.unwrap_or(0).saturating_add(beside),
            cached_tokens: self.cached.or(self.read),
            completion_tokens: self.completion.unwrap_or(0),
            prefill_us: self.prefill_us,
        })
    }
}
