//! Reads an answer, and compares it with the expected one for its prompt.
//!
//! All replicas give the same answer to a prompt, and each prompt contains a unique marker. An
//! answer to another prompt, or one with a duplicate or missing piece, is therefore a different
//! text.

use std::time::{Duration, Instant};

use crate::{Event, Stream};

/// A client disconnects after this much silence.
const IDLE: Duration = Duration::from_secs(10);

/// The outcome of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// Complete and as expected.
    Whole,
    /// Ended with an error event or a broken connection: the client knows that it is incomplete.
    Broken,
    /// The client disconnected after a long silence.
    Hung,
    /// Ended without end mark and without any error.
    Silent,
    /// A text other than this prompt's.
    MixedUp,
    /// More than the text, or more than one end.
    Doubled,
    /// No answer within the client's time limit.
    Lost,
    /// 403, while a permitted replica is alive.
    Denied,
    /// An answer from a region that the tenant's rule forbids.
    Forbidden,
    /// Another status, or not an answer of this API.
    Odd(String),
}

/// The result of reading one answer.
pub(super) struct Read {
    pub(super) end: End,
    /// Arrival of the first piece.
    pub(super) first: Option<Instant>,
}

/// Reads a stream of events.
pub(super) async fn events(mut stream: Stream, expected: &str) -> Read {
    let (mut text, mut first, mut marks) = (String::new(), None, 0);
    let end = loop {
        let event = match tokio::time::timeout(IDLE, stream.next()).await {
            Err(_) => break End::Hung,
            Ok(Err(_)) if marks == 0 => break End::Broken,
            Ok(Ok(None) | Err(_)) => break if marks == 0 { End::Silent } else { End::Whole },
            Ok(Ok(Some(event))) => event,
        };
        if marks > 0 {
            break End::Doubled;
        }
        if event.is_error() {
            break End::Broken;
        }
        marks += usize::from(event.is_done());
        let piece = piece(&event);
        if !piece.is_empty() {
            first.get_or_insert_with(Instant::now);
            text.push_str(&piece);
        }
    };
    Read { end: compared(end, &text, expected), first }
}

/// Reads an answer in one piece.
pub(super) async fn whole(stream: Stream, expected: &str) -> Read {
    let answer = match tokio::time::timeout(IDLE, stream.whole()).await {
        Err(_) => return Read { end: End::Hung, first: None },
        Ok(Err(_)) => return Read { end: End::Broken, first: None },
        Ok(Ok(answer)) => answer,
    };
    let value = answer.value();
    let text = value["choices"][0]["message"]["content"].as_str();
    let end = match text {
        Some(text) => compared(End::Whole, text, expected),
        None => End::Odd("status 200 without an answer".into()),
    };
    Read { end, first: None }
}

fn piece(event: &Event) -> String {
    let value = event.value();
    value["choices"][0]["delta"]["content"].as_str().unwrap_or_default().to_owned()
}

/// An answer that broke off must be a prefix of the expected one; a complete one must equal it.
fn compared(end: End, text: &str, expected: &str) -> End {
    match (expected.starts_with(text), end) {
        (true, End::Whole) if text.len() < expected.len() => End::Silent,
        (true, end) => end,
        (false, _) if text.starts_with(expected) => End::Doubled,
        (false, _) => End::MixedUp,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Only the entire text is a complete answer, and only a prefix of it is one that broke off.
    #[test]
    fn texts_are_compared_exactly() {
        let of = |end, text| compared(end, text, "bad kem");
        assert_eq!(of(End::Whole, "bad kem"), End::Whole);
        assert_eq!(of(End::Broken, "bad "), End::Broken);
        assert_eq!(of(End::Whole, "bad "), End::Silent);
        assert_eq!(of(End::Silent, "bad kem"), End::Silent);
        assert_eq!(of(End::Whole, "bad kem bad kem"), End::Doubled);
        assert_eq!(of(End::Broken, "bad bad "), End::MixedUp);
        assert_eq!(of(End::Whole, "zam kem"), End::MixedUp);
    }
}
