//! Requests that one replica has to serve whole.
//!
//! A prefill leg hands the KV of one prompt to one answer. A request for more, or for log
//! probabilities of the prompt itself, goes to one replica.

use serde_json::value::RawValue;

use super::endpoint::Endpoint;
use super::raw::{given, kind};
use super::request::prompts;

/// The reason for a request to have no prefill leg.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum NoPrefillLeg {
    /// The endpoint does not generate text.
    #[error("the endpoint generates no text")]
    Endpoint,
    /// Several answers, by `n`, `best_of` or beam search. The prefill engine would pin the blocks
    /// of each, and name those of one.
    #[error("the request asks for several answers (`n`, `best_of` or `use_beam_search`)")]
    Answers,
    /// Several prompts, by an array or by `prompt_embeds`. The prefill engine names the blocks of
    /// the first, and the decode engine would answer each prompt from those.
    #[error("the request has several prompts (an array in `prompt`, or `prompt_embeds`)")]
    Prompts,
    /// The prompt's own tokens are part of the answer (`echo`, `prompt_logprobs`). A decode engine
    /// does not compute the prompt, so it has no log probabilities of it.
    #[error("the request asks for its prompt in the answer (`echo` or `prompt_logprobs`)")]
    PromptBack,
    /// The engine may cut the prompt to fit beside the answer. The legs' token limits differ, so
    /// their prompts would, too, and KV of another prompt is a wrong answer.
    #[error("the request lets the engine cut its prompt (`truncation`, `truncate_prompt_tokens`)")]
    Truncation,
    /// One engine stores the response, or continues a stored one.
    #[error("the request needs a stored response (`previous_response_id` or `background`)")]
    Stored,
    /// The limit leaves no token to decode.
    #[error("the request's token limit is 0")]
    NoToken,
    /// A member that the leg depends on is given twice: readers differ in which one counts.
    #[error("the request has a member twice that the prefill leg changes")]
    Twice,
    /// The body is not a JSON object that the gateway reads.
    #[error("the body is not a JSON object that can be read")]
    Unreadable,
}

impl NoPrefillLeg {
    /// One word for a metric's label.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            NoPrefillLeg::Endpoint => "endpoint",
            NoPrefillLeg::Answers => "answers",
            NoPrefillLeg::Prompts => "prompts",
            NoPrefillLeg::PromptBack => "prompt_back",
            NoPrefillLeg::Truncation => "truncation",
            NoPrefillLeg::Stored => "stored",
            NoPrefillLeg::NoToken => "no_token",
            NoPrefillLeg::Twice => "twice",
            NoPrefillLeg::Unreadable => "unreadable",
        }
    }
}

/// Members that decide whether there is a prefill leg, and are sent unchanged.
pub(super) const DECIDING: [&str; 11] = [
    "n",
    "best_of",
    "use_beam_search",
    "prompt",
    "prompt_embeds",
    "echo",
    "prompt_logprobs",
    "truncation",
    "truncate_prompt_tokens",
    "previous_response_id",
    "background",
];

/// Checks the values of [`DECIDING`], in that order. Only values that are certain to be harmless
/// pass: a prefill leg is an optimization, a wrong one a wrong answer.
pub(super) fn one_answer(
    endpoint: Endpoint,
    values: &[Option<&RawValue>],
) -> Result<(), NoPrefillLeg> {
    let value = |name| DECIDING.iter().position(|n| *n == name).and_then(|i| values[i]);
    let only = |name, harmless: &str, reason| match given(value(name)) {
        Some(raw) if raw.get() != harmless => Err(reason),
        _ => Ok(()),
    };
    only("n", "1", NoPrefillLeg::Answers)?;
    only("best_of", "1", NoPrefillLeg::Answers)?;
    only("use_beam_search", "false", NoPrefillLeg::Answers)?;
    only("prompt_embeds", "", NoPrefillLeg::Prompts)?;
    only("echo", "false", NoPrefillLeg::PromptBack)?;
    only("prompt_logprobs", "", NoPrefillLeg::PromptBack)?;
    only("truncate_prompt_tokens", "", NoPrefillLeg::Truncation)?;
    only("previous_response_id", "", NoPrefillLeg::Stored)?;
    only("background", "false", NoPrefillLeg::Stored)?;
    // For vLLM, null is not `disabled`.
    if value("truncation").is_some_and(|raw| raw.get() != "\"disabled\"") {
        return Err(NoPrefillLeg::Truncation);
    }
    // Elsewhere an array is one conversation.
    if endpoint == Endpoint::Completions {
        let prompt = value("prompt").filter(|raw| kind(raw) == "an array");
        match prompts(prompt) {
            Ok(1) => {}
            Ok(_) => return Err(NoPrefillLeg::Prompts),
            Err(_) => return Err(NoPrefillLeg::Unreadable),
        }
    }
    Ok(())
}
