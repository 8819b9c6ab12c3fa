//! Server-sent events, as far as OpenAI's API uses them: one `data:` line an event.
//!
//! A frame with whole lines is read in place; only the remainder at its end is copied.

/// Longest line kept.
const MAX_LINE: usize = 4 << 20;

/// Splits a stream of frames into the payloads of its `data:` lines.
#[derive(Debug, Default)]
pub struct Lines {
    rest: Vec<u8>,
}

/// A line longer than any reasonable event.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("a line of the stream has more than 4 MB")]
pub struct TooLong;

impl Lines {
    /// Calls `each` with the payload of every `data:` line that `frame` completes. `each` returns
    /// whether to continue.
    ///
    /// # Errors
    /// When a line has more than 4 MB.
    pub fn push(
        &mut self,
        mut frame: &[u8],
        each: &mut dyn FnMut(&[u8]) -> bool,
    ) -> std::result::Result<(), TooLong> {
        while let Some(end) = memchr::memchr(b'\n', frame) {
            let (line, after) = (&frame[..end], &frame[end + 1..]);
            frame = after;
            let go_on = if self.rest.is_empty() {
                payload(line).is_none_or(&mut *each)
            } else {
                self.rest.extend_from_slice(line);
                let go_on = payload(&self.rest).is_none_or(&mut *each);
                self.rest.clear();
                go_on
            };
            if !go_on {
                return Ok(());
            }
        }
        if self.rest.len() + frame.len() > MAX_LINE {
            return Err(TooLong);
        }
        self.rest.extend_from_slice(frame);
        Ok(())
    }
}

fn payload(line: &[u8]) -> Option<&[u8]> {
    line.strip_prefix(b"data:").map(<[u8]>::trim_ascii)
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The text after `data:`.
    pub data: String,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn payloads(frames: &[&[u8]]) -> Vec<String> {
        let (mut lines, mut out) = (Lines::default(), Vec::new());
        for frame in frames {
            let mut each = |p: &[u8]| {
                out.push(String::from_utf8_lossy(p).into_owned());
                true
            };
            lines.push(frame, &mut each).expect("short lines");
        }
        out
    }

    // However a stream is cut into frames, its events are the same; comments, event names and
    // carriage returns are ignored.
    #[test]
    fn cuts_leave_no_trace() {
        let text = b": hi\nevent: x\ndata: {\"a\":1}\r\n\r\ndata:[DONE]\n\n";
        let want = vec!["{\"a\":1}".to_owned(), "[DONE]".to_owned()];
        assert_eq!(payloads(&[text]), want);
        for cut in 1..text.len() {
            assert_eq!(payloads(&[&text[..cut], &text[cut..]]), want, "cut at {cut}");
        }
    }

    // An endless line is an error, not an endless buffer.
    #[test]
    fn lines_are_bounded() {
        let mut lines = Lines::default();
        let mut each = |_: &[u8]| true;
        let frame = vec![b'x'; MAX_LINE];
        assert_eq!(lines.push(&frame, &mut each), Ok(()));
        assert_eq!(lines.push(b"y", &mut each), Err(TooLong));
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
