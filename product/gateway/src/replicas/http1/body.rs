//! The framing of an answer's body (RFC 9112, sections 6.3 and 7.1): a length, chunks, or the end of
//! the connection.
//!
//! Input is taken as it arrives, in pieces of any size, and the bytes of the body are appended to
//! `out`, so that all chunks of one read become one piece.

use bytes::BytesMut;

use super::Broken;

/// Most bytes of chunk extensions and trailers in an answer; engines send none.
const MOST_UNREAD: u16 = 16 << 10;

/// Most digits of a chunk's size, zeros in front included.
const MOST_DIGITS: u8 = 32;

/// The state of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// Bytes that are missing; 0 at the end.
    Length(u64),
    Chunked(Chunked),
    /// Everything until the replica closes the connection.
    UntilClose,
}

/// The state of a body in chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunked {
    at: At,
    /// Bytes of extensions and trailers that may still come.
    unread: u16,
}

/// The place in a body in chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// In the hexadecimal size of a chunk, whose digits so far make this number.
    Size {
        size: u64,
        digits: u8,
    },
    /// In white space after the size.
    Space {
        size: u64,
    },
    /// In an extension, before the end of its line.
    Extension {
        size: u64,
    },
    /// Before the line feed that ends the line with the size.
    SizeEnd {
        size: u64,
    },
    /// In a chunk, of which as many bytes are missing.
    Data {
        left: u64,
    },
    /// Before the carriage return after a chunk.
    DataReturn,
    /// Before the line feed after a chunk.
    DataEnd,
    /// At the start of a trailer, or of the empty line that ends the answer.
    Trailer,
    /// In a trailer.
    TrailerRest,
    /// Before the line feed after a trailer.
    TrailerEnd,
    /// Before the line feed of the last, empty line.
    End,
    Done,
    /// After bytes that do not belong there, for this reason.
    Malformed(&'static str),
}

impl Body {
    pub(super) fn chunked() -> Body {
        Body::Chunked(Chunked { at: At::Size { size: 0, digits: 0 }, unread: MOST_UNREAD })
    }

    /// Whether every byte of the body has arrived.
    pub(super) fn is_done(&self) -> bool {
        match self {
            Body::Length(left) => *left == 0,
            Body::Chunked(chunked) => chunked.at == At::Done,
            Body::UntilClose => false,
        }
    }

    /// The error of a body that cannot be read any further.
    pub(super) fn broken(&self) -> Option<Broken> {
        match self {
            Body::Chunked(Chunked { at: At::Malformed(reason), .. }) => {
                Some(Broken::Malformed(reason))
            }
            _ => None,
        }
    }

    /// Appends the body's bytes in `input` to `out`. Returns how many bytes of `input` belong to the
    /// answer: fewer than all only at its end, or where it is malformed.
    pub(super) fn take(&mut self, input: &[u8], out: &mut BytesMut) -> usize {
        match self {
            Body::Length(left) => {
                let n = at_most(*left, input.len());
                out.extend_from_slice(&input[..n]);
                assert!(n as u64 <= *left, "bytes of the next answer in this one's body");
                *left -= n as u64;
                n
            }
            Body::Chunked(chunked) => chunked.take(input, out),
            Body::UntilClose => {
                out.extend_from_slice(input);
                input.len()
            }
        }
    }
}

impl Chunked {
    fn take(&mut self, input: &[u8], out: &mut BytesMut) -> usize {
        let mut next = 0;
        while next < input.len() && !matches!(self.at, At::Done | At::Malformed(_)) {
            if let At::Data { left } = self.at {
                let n = at_most(left, input.len() - next);
                out.extend_from_slice(&input[next..next + n]);
                next += n;
                assert!(n as u64 <= left, "bytes of the next chunk in this one");
                let left = left - n as u64;
                self.at = if left == 0 { At::DataReturn } else { At::Data { left } };
            } else {
                self.at = self.step(input[next]);
                next += usize::from(!matches!(self.at, At::Malformed(_)));
            }
        }
        next
    }

    /// The place after one byte outside of a chunk's data.
    fn step(&mut self, byte: u8) -> At {
        match (self.at, byte) {
            (At::Size { size, digits }, _) => sized(size, digits, byte),
            (At::Space { size } | At::Extension { size }, b'\r') => At::SizeEnd { size },
            (At::Space { .. }, b' ' | b'\t') => self.unread(self.at),
            (At::Space { size }, b';') => At::Extension { size },
            (At::Extension { .. }, _) if byte != b'\n' => self.unread(self.at),
            (At::SizeEnd { size: 0 }, b'\n') => At::Trailer,
            (At::SizeEnd { size }, b'\n') => At::Data { left: size },
            (At::DataReturn, b'\r') => At::DataEnd,
            (At::DataEnd, b'\n') => At::Size { size: 0, digits: 0 },
            (At::Trailer, b'\r') => At::End,
            (At::TrailerRest, b'\r') => At::TrailerEnd,
            (At::Trailer | At::TrailerRest, _) if byte != b'\n' => self.unread(At::TrailerRest),
            (At::TrailerEnd, b'\n') => At::Trailer,
            (At::End, b'\n') => At::Done,
            _ => MALFORMED,
        }
    }

    /// Counts a byte of an extension or a trailer, and goes on to `next`.
    fn unread(&mut self, next: At) -> At {
        match self.unread.checked_sub(1) {
            Some(left) => {
                self.unread = left;
                next
            }
            None => LONG,
        }
    }
}

/// The place after a byte in the size of a chunk.
fn sized(size: u64, digits: u8, byte: u8) -> At {
    let digit = (byte as char).to_digit(16);
    match (digit, byte) {
        (Some(_), _) if digits == MOST_DIGITS || size >> 56 > 0 => MALFORMED,
        (Some(digit), _) => At::Size { size: size << 4 | u64::from(digit), digits: digits + 1 },
        _ if digits == 0 => MALFORMED,
        (None, b'\r') => At::SizeEnd { size },
        (None, b' ' | b'\t') => At::Space { size },
        (None, b';') => At::Extension { size },
        _ => MALFORMED,
    }
}

const MALFORMED: At = At::Malformed("its chunks are malformed");
const LONG: At = At::Malformed("its chunk extensions or trailers are longer than 16 KiB");

/// `n`, or `len` if that is less.
fn at_most(n: u64, len: usize) -> usize {
    usize::try_from(n).map_or(len, |n| n.min(len))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The body and the unused rest of an input that arrives in pieces of `size` bytes.
    fn read(mut body: Body, input: &[u8], size: usize) -> Result<(Vec<u8>, Vec<u8>, bool), String> {
        let mut out = BytesMut::new();
        let mut taken = 0;
        for piece in input.chunks(size) {
            let n = body.take(piece, &mut out);
            if let Some(broken) = body.broken() {
                return Err(broken.to_string());
            }
            taken += n;
            if n < piece.len() {
                break;
            }
        }
        Ok((out.to_vec(), input[taken..].to_vec(), body.is_done()))
    }

    // Sizes in either case, with zeros in front, extensions and trailers; bytes after the end are
    // left. However the input is cut, the result is the same.
    #[test]
    fn chunks_are_joined() {
        let input = b"0000000000000000003\r\nabc\r\n0A ;q=\"1\"\r\n0123456789\r\n0\r\nx-a: b\r\nx-c: d\r\n\r\nrest";
        for size in 1..=input.len() {
            let (body, rest, done) = read(Body::chunked(), input, size).expect("well-formed");
            assert_eq!((&body[..], &rest[..], done), (&b"abc0123456789"[..], &b"rest"[..], true));
        }
    }

    #[test]
    fn lengths_end_the_body() {
        let (body, rest, done) = read(Body::Length(4), b"abcdef", 3).expect("any bytes");
        assert_eq!((&body[..], &rest[..], done), (&b"abcd"[..], &b"ef"[..], true));
        let (body, rest, done) = read(Body::UntilClose, b"abcdef", 3).expect("any bytes");
        assert_eq!((&body[..], rest.len(), done), (&b"abcdef"[..], 0, false));
    }

    // Each of these is refused, and the answer is not complete.
    #[test]
    fn malformed_chunks() {
        for input in [
            "\r\n",
            "g\r\n",
            "-1\r\n",
            "+1\r\na",
            "1\na\r\n",
            "1\r\nab\r\n",
            "1\r\na\n0\r\n\r\n",
            "1;x\n",
            "0x1\r\na\r\n",
            "1000000000000000\r\n",
            "0\r\n\n",
            "0\r\na\n\r\n",
            "0\r\na\rb",
            "5 5\r\n",
            " 1\r\na\r\n",
            ";\r\n",
        ] {
            let result = read(Body::chunked(), input.as_bytes(), 1);
            assert_eq!(result, Err("its chunks are malformed".to_owned()), "{input:?}");
        }
    }

    // One long trailer, many short ones, and a long extension have the same limit.
    #[test]
    fn trailers_are_limited() {
        let most = MOST_UNREAD as usize;
        for (start, line) in [("0\r\n", "yyy"), ("0\r\n", "a\r\n"), ("1;", "yyy"), ("1", "   ")] {
            let long = start.to_owned() + &line.repeat(most + 1);
            let error = read(Body::chunked(), long.as_bytes(), 1000).expect_err("too long");
            assert!(error.contains("16 KiB"), "{start:?} {line:?}: {error}");
        }
    }

    // The part before malformed bytes is delivered.
    #[test]
    fn the_beginning_counts() {
        let (mut body, mut out) = (Body::chunked(), BytesMut::new());
        assert_eq!(body.take(b"3\r\nabc\r\nx\r\n", &mut out), 8);
        assert_eq!(&out[..], b"abc");
        assert!(body.broken().is_some() && !body.is_done());
        assert_eq!(body.take(b"1\r\na\r\n", &mut out), 0);
    }

    proptest! {
        // Any body survives any division into chunks and reads.
        #[test]
        fn any_division(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..8),
            size in 1usize..50,
        ) {
            let mut input = Vec::new();
            for chunk in &chunks {
                input.extend(format!("{:x}\r\n", chunk.len()).bytes());
                input.extend(chunk);
                input.extend(b"\r\n");
            }
            input.extend(b"0\r\n\r\n");
            let (body, rest, done) = read(Body::chunked(), &input, size).expect("well-formed");
            prop_assert_eq!(body, chunks.concat());
            prop_assert!(rest.is_empty() && done);
        }

        // No bytes make it panic.
        #[test]
        fn any_bytes(input in prop::collection::vec(any::<u8>(), 0..200), size in 1usize..20) {
            let _ = read(Body::chunked(), &input, size);
        }
    }
}
