//! An error in one line, with what caused it.

/// Characters that are kept of an error: the other side may have written it.
const MOST_PROBLEM: usize = 400;

/// An error with what caused it, as far as that says more.
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
