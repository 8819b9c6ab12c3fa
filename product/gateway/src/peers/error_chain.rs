//! Formats an error with its causes in one line.

use std::error::Error;

/// Characters kept of an error: the other side may have written it.
const MOST_PROBLEM: usize = 400;

/// The error and its causes, without repetitions.
pub(super) fn error_chain(error: &dyn Error) -> String {
    with_causes(error.to_string(), error.source())
}

/// A message and its causes, without repetitions.
pub(super) fn with_causes(mut text: String, mut cause: Option<&dyn Error>) -> String {
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text.chars().take(MOST_PROBLEM).collect()
}
