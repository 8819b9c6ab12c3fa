//! The parameters that a prefill's answer hands to the decode leg, checked whole.
//!
//! A decode engine trusts them: it stops for good if some are missing, and answers from any KV that
//! they name. So either the whole object is as expected and goes on byte for byte, or the decode
//! leg gets none and computes the prompt itself. Wrong values in the right form cannot be told
//! apart here. The gateway therefore sends the object once, soon, and only with the prompt that was
//! prefilled.

mod params;

use std::fmt;

use bytes::Bytes;
use serde::de::DeserializeSeed;

use super::finish::{ENDS, Finish};
use crate::openai::raw::{Object, Slots, Trouble, given};
use crate::openai::usage::Gathered;
use crate::openai::{Endpoint, Usage};

/// Most bytes of a prefill's answer. The block ids of a million tokens take half a megabyte for
/// each cache group.
pub const MAX_ANSWER: usize = 4 << 20;

/// The parameters for the decode leg, and the prefill's own report.
#[derive(Clone)]
pub struct Handed {
    params: Bytes,
    /// The end of the prefill.
    pub finish: Finish,
    /// The prefill's usage, if reported.
    pub usage: Option<Usage>,
    /// Tokens whose KV is handed over, if reported.
    pub tokens: Option<u64>,
    /// Tokens that the prefill engine had cached, if reported.
    pub cached_tokens: Option<u64>,
    /// A hash of the engine and of its name for the KV.
    pub kv: u64,
}

/// The reason for a decode leg without parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum NoParams {
    /// The answer is longer than [`MAX_ANSWER`].
    #[error("the prefill's answer has more than {MAX_ANSWER} bytes")]
    TooLarge,
    /// The answer is not one JSON object with each member once; a stream, for example.
    #[error("the prefill's answer is not one JSON object with each member once")]
    Unreadable,
    /// The prefill ended by neither its limit nor a stop, or gave several answers.
    #[error("the prefill ended by neither its limit nor a stop")]
    Unfinished,
    /// There are none.
    #[error(
        "the prefill's answer has no `kv_transfer_params`: start the engine with \
         --kv-transfer-config and NixlConnector"
    )]
    Absent,
    /// They are not one small object with each member once.
    #[error("`kv_transfer_params` of the prefill's answer is not one object with each member once")]
    NotObject,
    /// A field is missing or odd.
    #[error(
        "`kv_transfer_params.{0}` of the prefill's answer is missing or of an unknown form: check \
         that the engine's version is supported"
    )]
    Field(&'static str),
    /// They name fewer tokens than the prompt has, by more than the last one.
    #[error("`kv_transfer_params.remote_num_tokens` is less than the prompt's tokens")]
    Short,
}

impl NoParams {
    /// One word for a metric's label.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            NoParams::TooLarge => "too_large",
            NoParams::Unreadable => "unreadable",
            NoParams::Unfinished => "unfinished",
            NoParams::Absent => "absent",
            NoParams::NotObject => "not_object",
            NoParams::Field(_) => "field",
            NoParams::Short => "short",
        }
    }
}

impl Handed {
    /// Reads a prefill's whole answer.
    ///
    /// # Errors
    /// If the answer hands over nothing that is safe to pass on.
    pub fn read(endpoint: Endpoint, answer: &Bytes) -> Result<Handed, NoParams> {
        let [params, usage, ends @ ..] = open(answer)?;
        let finish = Finish::of(endpoint, ends);
        if finish == Finish::Other {
            return Err(NoParams::Unfinished);
        }
        let params = given(params).ok_or(NoParams::Absent)?;
        let params::Checked { tokens, cached_tokens, kv } = params::check(params)?;
        let usage = usage.and_then(|raw| {
            let mut gathered = Gathered::default();
            gathered.add(raw.get().as_bytes());
            gathered.usage()
        });
        // The decode engine computes the last token again in any case. Models with a recurrent state
        // must not have it twice, so theirs is not handed over.
        if let (Some(tokens), Some(usage)) = (tokens, usage)
            && tokens.saturating_add(1) < usage.prompt_tokens
        {
            return Err(NoParams::Short);
        }
        let params = answer.slice_ref(params.get().as_bytes());
        Ok(Handed { params, finish, usage, tokens, cached_tokens, kv })
    }

    /// The usage, with the cached tokens that the parameters name if the engine's own usage has none
    /// (vLLM reports them only with `--enable-prompt-tokens-details`).
    #[must_use]
    pub fn all_usage(&self) -> Option<Usage> {
        let usage = self.usage?;
        let cached_tokens = usage.cached_tokens.or(self.cached_tokens);
        Some(Usage { cached_tokens, ..usage })
    }

    /// The object for the decode leg: a slice of the answer.
    pub(super) fn params(&self) -> Bytes {
        self.params.clone()
    }
}

/// Without the parameters, which may hold the prompt's tokens.
impl fmt::Debug for Handed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Handed { params: _, finish, usage, tokens, cached_tokens, kv: _ } = self;
        f.debug_tuple("Handed").field(&(finish, usage, tokens, cached_tokens)).finish()
    }
}

impl Finish {
    /// The end of a prefill's whole answer, for protocols that hand nothing over in it.
    ///
    /// # Errors
    /// If the answer cannot be read.
    pub fn read(endpoint: Endpoint, answer: &Bytes) -> Result<Finish, NoParams> {
        let [_, _, ends @ ..] = open(answer)?;
        Ok(Finish::of(endpoint, ends))
    }
}

const ANSWER: [&str; 6] = ["kv_transfer_params", "usage", ENDS[0], ENDS[1], ENDS[2], ENDS[3]];

fn open(answer: &[u8]) -> Result<Slots<'_, 6>, NoParams> {
    if answer.len() > MAX_ANSWER {
        return Err(NoParams::TooLarge);
    }
    let text = std::str::from_utf8(answer).map_err(|_| NoParams::Unreadable)?;
    let trouble = Trouble::default();
    let seed = Object { names: &ANSWER, param: "answer", trouble: &trouble };
    let mut json = serde_json::Deserializer::from_str(text);
    let slots = seed.deserialize(&mut json).map_err(|_| NoParams::Unreadable)?;
    json.end().map_err(|_| NoParams::Unreadable)?;
    Ok(slots)
}
