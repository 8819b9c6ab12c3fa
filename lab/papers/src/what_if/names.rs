//! Names of policies in tables and sentences.

/// A policy, and its pools if it has some.
pub(super) fn named_as(policy: &str, arrangement: &str) -> String {
    match arrangement {
        "whole" => policy.to_owned(),
        other => format!("{policy} in {other}"),
    }
}
