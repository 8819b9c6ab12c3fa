//! Outcomes, times and names as text.

use meridian_protocol::admin::Ending;

/// How a decision ended, without times.
pub(super) fn outcome(ending: &Ending) -> String {
    phrase(ending) + retried(ending)
}

/// How a decision ended, with times.
pub(super) fn outcome_and_times(ending: &Ending) -> String {
    let after = |at: Option<f64>| at.map_or(String::new(), |at| format!(" after {}", time(at)));
    let first = match ending.first_token_ms {
        Some(at) => format!(", first token after {}", time(at)),
        None => String::new(),
    };
    format!("{}{}{first}{}", phrase(ending), after(ending.total_ms), retried(ending))
}

fn phrase(ending: &Ending) -> String {
    let word = match (ending.outcome.as_deref(), ending.first_token_ms) {
        (None, None) => "no outcome yet",
        (None, Some(_)) => "answer in progress",
        (Some("client_error"), _) => "client error",
        (Some("no_kv"), _) => "no KV to fetch",
        (Some("no_room"), _) => "no capacity",
        (Some("not_served"), _) => "model not served",
        (Some("engine_error"), _) => "engine error",
        (Some("replica_error"), _) => "replica failed",
        (Some("died"), _) => "connection broke",
        (Some("unreached"), _) => "not reached",
        (Some("released"), _) => "left the queue",
        (Some("cancelled"), _) => "cancelled by the client",
        (Some(word), _) => word,
    };
    let leg = if ending.in_prefill { "prefill: " } else { "" };
    let code = ending.refusal.as_ref().map_or(String::new(), |code| format!(" ({code})"));
    format!("{leg}{word}{code}")
}

fn retried(ending: &Ending) -> &'static str {
    if ending.retried { ", retried" } else { "" }
}

/// A time in ms, or in seconds from ten of them on.
fn time(ms: f64) -> String {
    match ms {
        ms if ms < 10.0 => format!("{ms:.1} ms"),
        ms if ms < 10_000.0 => format!("{ms:.0} ms"),
        ms => format!("{:.1} s", ms / 1e3),
    }
}

/// An address without `http://`.
pub(super) fn short(url: &str) -> &str {
    url.strip_prefix("http://").unwrap_or(url)
}

/// A name of at most this many characters: the middle of a longer one is left out, since names often
/// differ at the beginning or at the port.
pub(super) fn cut(name: &str, most: usize) -> String {
    let length = name.chars().count();
    if length <= most {
        return name.to_owned();
    }
    assert!(most > 0, "a name has room for the mark that it was cut");
    let kept = most.saturating_sub(1);
    let front: String = name.chars().take(kept / 2).collect();
    let back: String = name.chars().skip(length - (kept - kept / 2)).collect();
    format!("{front}…{back}")
}
