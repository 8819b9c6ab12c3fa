//! Formats an error with its causes in one line.

/// Characters kept of an error: the other side may have written it.
const MOST_PROBLEM: usize = 400;

/// The error and its causes, without repetitions.
pub(super) fn whole(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text.chars().take(MOST_PROBLEM).collect()
}
