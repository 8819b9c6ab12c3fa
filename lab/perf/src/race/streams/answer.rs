//! Reads an answer of HTTP/1.1 as it arrives and counts the bytes of its body.

/// Longest head.
const MAX_HEAD: usize = 64 << 10;
/// The last event of a stream.
const DONE: &[u8] = b"data: [DONE]\n\n";

/// A connection that does not speak HTTP/1.1 as expected.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unreadable;

#[derive(Clone, Debug, PartialEq, Eq)]
enum AnswerState {
    /// The head so far.
    Head(Vec<u8>),
    /// Bytes left of a body with a length.
    Length(u64),
    /// The line with a chunk's size so far.
    Size(Vec<u8>),
    /// Bytes left of a chunk, and the line's end behind it.
    Chunk {
        data: u64,
        end: u64,
    },
    /// The line behind the last chunk.
    Trailer(Vec<u8>),
    Complete,
}

/// An answer so far.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    state: AnswerState,
    /// 0 until the head is there.
    pub(super) status: u16,
    /// Bytes of the body.
    pub(super) bytes: u64,
    /// The last bytes of the body.
    tail: Vec<u8>,
}

impl Default for Answer {
    fn default() -> Answer {
        Answer { state: AnswerState::Head(Vec::new()), status: 0, bytes: 0, tail: Vec::new() }
    }
}

impl Answer {
    /// Whether the framing of HTTP says that it is complete.
    pub(super) fn is_complete(&self) -> bool {
        self.state == AnswerState::Complete
    }

    /// Whether it is complete, successful, and a stream that ends with `[DONE]`.
    pub(super) fn is_whole_stream(&self) -> bool {
        self.is_complete() && self.status == 200 && self.tail == DONE
    }

    /// Takes the next bytes of the connection. Bytes behind the answer are not read.
    pub(super) fn push(&mut self, mut bytes: &[u8]) -> Result<(), Unreadable> {
        while !bytes.is_empty() && !self.is_complete() {
            let (next, rest) = match &mut self.state {
                AnswerState::Head(head) => match line(head, bytes, b"\r\n\r\n")? {
                    (None, rest) => (None, rest),
                    (Some(head), rest) => {
                        let (status, next) = read_head(&head).ok_or(Unreadable)?;
                        self.status = status;
                        (Some(next), rest)
                    }
                },
                AnswerState::Size(size) => match line(size, bytes, b"\r\n")? {
                    (None, rest) => (None, rest),
                    (Some(size), rest) => (Some(read_size(&size).ok_or(Unreadable)?), rest),
                },
                AnswerState::Trailer(trailer) => match line(trailer, bytes, b"\r\n")? {
                    (None, rest) => (None, rest),
                    (Some(_), rest) => (Some(AnswerState::Complete), rest),
                },
                AnswerState::Length(left) | AnswerState::Chunk { data: left, end: _ }
                    if *left > 0 =>
                {
                    let taken = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    *left -= taken as u64;
                    self.bytes += taken as u64;
                    let seen = bytes[taken.saturating_sub(DONE.len())..taken].iter();
                    self.tail.extend(seen);
                    let more = self.tail.len().saturating_sub(DONE.len());
                    self.tail.drain(..more);
                    let ended = self.state == AnswerState::Length(0);
                    (ended.then_some(AnswerState::Complete), &bytes[taken..])
                }
                AnswerState::Chunk { end, .. } => {
                    let taken = bytes.len().min(usize::try_from(*end).unwrap_or(usize::MAX));
                    *end -= taken as u64;
                    ((*end == 0).then(|| AnswerState::Size(Vec::new())), &bytes[taken..])
                }
                AnswerState::Length(_) | AnswerState::Complete => {
                    (Some(AnswerState::Complete), bytes)
                }
            };
            if let Some(next) = next {
                self.state = next;
            }
            bytes = rest;
        }
        Ok(())
    }
}

/// Adds bytes to `kept` until it ends with `end`; the whole, then, and the rest of the bytes.
fn line<'a>(
    kept: &mut Vec<u8>,
    bytes: &'a [u8],
    end: &[u8],
) -> Result<(Option<Vec<u8>>, &'a [u8]), Unreadable> {
    for (at, byte) in bytes.iter().enumerate() {
        kept.push(*byte);
        if kept.ends_with(end) {
            return Ok((Some(std::mem::take(kept)), &bytes[at + 1..]));
        }
    }
    if kept.len() > MAX_HEAD { Err(Unreadable) } else { Ok((None, &[])) }
}

fn read_head(head: &[u8]) -> Option<(u16, AnswerState)> {
    let head = std::str::from_utf8(head).ok()?.to_ascii_lowercase();
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let mut next = None;
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        match name {
            "content-length" => next = Some(AnswerState::Length(value.trim().parse().ok()?)),
            "transfer-encoding" => next = Some(AnswerState::Size(Vec::new())),
            _ => {}
        }
    }
    let next = if next == Some(AnswerState::Length(0)) { AnswerState::Complete } else { next? };
    Some((status, next))
}

fn read_size(line: &[u8]) -> Option<AnswerState> {
    let line = std::str::from_utf8(line).ok()?;
    let size = u64::from_str_radix(line.split(';').next()?.trim(), 16).ok()?;
    Some(match size {
        0 => AnswerState::Trailer(Vec::new()),
        data => AnswerState::Chunk { data, end: 2 },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
        9\r\ndata: 1\n\n\r\n5;x=y\r\ndata:\r\n9\r\n [DONE]\n\n\r\n0\r\n\r\n";

    // A stream is read in the same way wherever the bytes are cut, and complete only with its last
    // byte.
    #[test]
    fn streams_are_read_in_any_pieces() {
        for cut in 0..STREAM.len() {
            let mut answer = Answer::default();
            answer.push(&STREAM[..cut]).unwrap();
            assert!(!answer.is_complete(), "cut at {cut}");
            answer.push(&STREAM[cut..]).unwrap();
            assert!(answer.is_whole_stream(), "cut at {cut}: {answer:?}");
            assert_eq!((answer.status, answer.bytes), (200, 23));
        }
    }

    // An answer with a length ends after so many bytes, and is not a stream.
    #[test]
    fn lengths_are_read() {
        let mut answer = Answer::default();
        answer.push(b"HTTP/1.1 503 Busy\r\ncontent-length: 4\r\n\r\nbu").unwrap();
        assert!(!answer.is_complete());
        answer.push(b"sy").unwrap();
        assert!(answer.is_complete() && !answer.is_whole_stream());
        assert_eq!((answer.status, answer.bytes), (503, 4));
        let mut none = Answer::default();
        none.push(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
        assert!(none.is_complete());
    }

    // Without a length, and with a size that is not a number, the answer is unreadable.
    #[test]
    fn other_framing_is_unreadable() {
        for bytes in [&b"HTTP/1.1 200 OK\r\n\r\n"[..], b"hello\r\n\r\n"] {
            assert_eq!(Answer::default().push(bytes), Err(Unreadable));
        }
        let mut answer = Answer::default();
        let bytes = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n";
        assert_eq!(answer.push(bytes), Err(Unreadable));
    }
}
