//! Server-sent events as bytes: the end of an event, its name and its data.

use std::borrow::Cow;

use memchr::{memchr, memchr_iter};

/// The relevant fields of an event.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::openai) struct Event<'a> {
    /// The `event:` field, empty when there is none.
    pub(in crate::openai) name: &'a [u8],
    /// The `data:` field; several are joined by line feeds.
    pub(in crate::openai) data: Option<Cow<'a, [u8]>>,
    /// Offset of the data in the event, if it is in one piece.
    pub(in crate::openai) data_at: Option<usize>,
}

/// The length of the event at the start of `bytes`, including its blank line. The first `scanned`
/// bytes are known to contain no end.
pub(in crate::openai) fn event_end(bytes: &[u8], scanned: usize) -> Option<usize> {
    let rest = bytes.get(scanned..)?;
    memchr_iter(b'\n', rest).map(|i| scanned + i).find_map(|newline| {
        let line = &bytes[..newline];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        (line.is_empty() || line.ends_with(b"\n")).then_some(newline + 1)
    })
}

/// A stream may begin with it.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// A stream without its byte order mark.
pub(in crate::openai) fn unmarked(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes)
}

/// Reads an event.
pub(in crate::openai) fn parse(bytes: &[u8]) -> Event<'_> {
    let mut event = Event::default();
    let mut at = bytes.len() - unmarked(bytes).len();
    while at < bytes.len() {
        let end = memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |i| at + i);
        let line = &bytes[at..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if let Some(value) = line.strip_prefix(b"data:") {
            let value = value.strip_prefix(b" ").unwrap_or(value);
            match &mut event.data {
                None => {
                    event.data_at = Some(at + line.len() - value.len());
                    event.data = Some(Cow::Borrowed(value));
                }
                Some(data) => {
                    event.data_at = None;
                    data.to_mut().push(b'\n');
                    data.to_mut().extend_from_slice(value);
                }
            }
        } else if let Some(value) = line.strip_prefix(b"event:") {
            event.name = value.strip_prefix(b" ").unwrap_or(value);
        } else if let Some(value) = line.strip_prefix(b"error:") {
            // Not in the standard: older llama.cpp servers report errors in this field.
            event.name = b"error";
            event.data = Some(Cow::Borrowed(value));
        }
        at = end + 1;
    }
    event
}

#[cfg(test)]
mod tests {
    use super::*;

    // Ends by LF and CRLF, a blank line at the start, and no end yet.
    #[test]
    fn ends() {
        let table: [(&[u8], Option<usize>); 7] = [
            (b"data: a\n\ndata: b\n\n", Some(9)),
            (b"data: a\r\n\r\nx", Some(11)),
            (b"data: a\n\r\n", Some(10)),
            (b"\n", Some(1)),
            (b"\r\n", Some(2)),
            (b"data: a\n", None),
            (b"", None),
        ];
        for (bytes, end) in table {
            assert_eq!(event_end(bytes, 0), end, "{bytes:?}");
        }
    }

    // Comments are skipped, the name is kept, data lines are joined.
    #[test]
    fn fields() {
        let event = parse(b": ping\nevent: x\ndata: {\ndata:}\n\n");
        assert_eq!(event.name, b"x");
        assert_eq!(event.data.as_deref(), Some(&b"{\n}"[..]));
        assert_eq!(event.data_at, None);
        let one = parse(b"data: [DONE]\r\n\r\n");
        assert_eq!(one.data.as_deref(), Some(&b"[DONE]"[..]));
        assert_eq!(one.data_at, Some(6));
        let first = parse("\u{feff}data: {}\n\n".as_bytes());
        assert_eq!((first.data.as_deref(), first.data_at), (Some(&b"{}"[..]), Some(9)));
    }
}
