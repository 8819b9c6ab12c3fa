//! The end of a prefill's answer, in each endpoint's words.

use serde_json::value::RawValue;

use crate::openai::Endpoint;
use crate::openai::raw::{Object, elements, owned};

/// The end of a prefill's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Finish {
    /// By the token limit, as nearly always.
    Limit,
    /// By a stop token or a stop string.
    Stop,
    /// Any other: aborted, failed, several answers, or a reason that is not known.
    Other,
}

/// The members of an answer that tell its end.
pub(super) const ENDS: [&str; 4] = ["choices", "status", "incomplete_details", "stop_reason"];

impl Finish {
    /// The end, by the members [`ENDS`] of an answer.
    pub(super) fn of(endpoint: Endpoint, ends: [Option<&RawValue>; 4]) -> Finish {
        let [choices, status, details, stop_reason] = ends;
        let finish = match endpoint {
            Endpoint::ChatCompletions | Endpoint::Completions => choices.and_then(choice),
            Endpoint::Responses => response(status, details),
            Endpoint::Messages => stop_reason.and_then(owned).map(|reason| match &*reason {
                "max_tokens" => Finish::Limit,
                "end_turn" | "stop_sequence" => Finish::Stop,
                _ => Finish::Other,
            }),
            _ => None,
        };
        finish.unwrap_or(Finish::Other)
    }
}

/// The end of the only choice.
fn choice(choices: &RawValue) -> Option<Finish> {
    let (mut only, mut count) = (None, 0_usize);
    let each = |choice| {
        only = Some(choice);
        count += 1;
        Ok(())
    };
    elements(choices, "choices", each).ok()?;
    let [reason] =
        Object::open(&["finish_reason"], "choices", only.filter(|_| count == 1)?).ok()?;
    Some(match &*owned(reason?)? {
        "length" => Finish::Limit,
        "stop" => Finish::Stop,
        _ => Finish::Other,
    })
}

fn response(status: Option<&RawValue>, details: Option<&RawValue>) -> Option<Finish> {
    match &*owned(status?)? {
        "completed" => return Some(Finish::Stop),
        "incomplete" => {}
        _ => return None,
    }
    let [reason] = Object::open(&["reason"], "incomplete_details", details?).ok()?;
    (owned(reason?)? == "max_output_tokens").then_some(Finish::Limit)
}
