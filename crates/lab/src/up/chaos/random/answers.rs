//! Reading an answer, and comparing it with the one that its prompt has.
//!
//! All replicas give the same answer to a prompt, and each prompt carries a marker of its own, so an
//! answer that belongs to another prompt, or has a piece twice or not at all, is another text.

use std::time::{Duration, Instant};

use crate::{Event, Stream};

/// A client hangs up after so long without a piece.
const IDLE: Duration = Duration::from_secs(10);

/// How an answer ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// Whole, and the right one.
    Whole,
    /// With an error event, or a connection that broke: the client knows that it is not whole.
    Broken,
    /// The client hung up after a long silence.
    Hung,
    /// Without end mark and without any error.
    Silent,
    /// Another text than this prompt's.
    MixedUp,
    /// More than the text, or more than one end.
    Doubled,
    /// No answer within the time that the client has.
    Lost,
    /// 403, while a permitted replica lives.
    Denied,
    /// An answer of a region where the tenant's rule forbids it.
    Forbidden,
    /// Another status, or no answer of this API.
    Odd(String),
}

/// What was read of one answer.
pub(super) struct Read {
    pub(super) end: End,
    /// When the first piece came.
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
        None => End::Odd("200 without an answer".into()),
    };
    Read { end, first: None }
}

fn piece(event: &Event) -> String {
    let value = event.value();
    value["choices"][0]["delta"]["content"].as_str().unwrap_or_default().to_owned()
}

/// An answer that broke off is the beginning of the right one; a whole one is all of it.
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

    // Only the whole text is a whole answer, and only its beginning one that broke off.
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
