//! Parses server-sent events from pieces of bytes, as far as OpenAI's streams use them: `data:`.

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The text after `data:`.
    pub data: String,
}

/// The events of one stream, parsed as bytes arrive.
#[derive(Debug, Default)]
pub(crate) struct Events {
    bytes: Vec<u8>,
}

impl Event {
    /// Whether it is the end mark of OpenAI's streams.
    pub fn is_done(&self) -> bool {
        self.data == "[DONE]"
    }

    /// Its JSON; null if it is not JSON.
    pub fn value(&self) -> serde_json::Value {
        serde_json::from_str(&self.data).unwrap_or_default()
    }

    /// Whether it reports an error.
    pub fn is_error(&self) -> bool {
        self.value().get("error").is_some_and(|error| !error.is_null())
    }
}

impl Events {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next complete event; comments and fields other than `data` are ignored.
    pub(crate) fn next(&mut self) -> Option<Event> {
        loop {
            let end = self.bytes.windows(2).position(|pair| pair == b"\n\n")?;
            let event: Vec<u8> = self.bytes.drain(..end + 2).collect();
            let text = String::from_utf8_lossy(&event);
            let data: Vec<&str> = text
                .lines()
                .filter_map(|line| line.strip_prefix("data:"))
                .map(|data| data.strip_prefix(' ').unwrap_or(data))
                .collect();
            if !data.is_empty() {
                return Some(Event { data: data.join("\n") });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(pieces: &[&str]) -> Vec<String> {
        let mut events = Events::default();
        let mut found = Vec::new();
        for piece in pieces {
            events.push(piece.as_bytes());
            found.extend(std::iter::from_fn(|| events.next()).map(|event| event.data));
        }
        found
    }

    // An event is complete with its blank line, however the bytes were cut; comments and other
    // fields make no event.
    #[test]
    fn events_are_found_across_any_cut() {
        let text = ": ping\n\ndata: {\"a\":1}\n\nevent: error\ndata: x\n\ndata: [DONE]\n\n";
        let whole = ["{\"a\":1}", "x", "[DONE]"];
        assert_eq!(cut(&[text]), whole);
        for at in 1..text.len() {
            assert_eq!(cut(&[&text[..at], &text[at..]]), whole, "cut at {at}");
        }
    }

    // Only an event with a non-null `error` is an error.
    #[test]
    fn error_events_are_recognized() {
        let is = |data: &str| Event { data: data.to_owned() }.is_error();
        assert!(is("{\"error\":{\"message\":\"gone\"}}"));
        assert!(!is("{\"error\":null}"));
        assert!(!is("[DONE]"));
    }
}
