//! JSON text without building strings: decoding escapes and dropping white space piece by piece.
//!
//! Both functions take JSON that a parser has already accepted. They search only for the bytes they
//! change, at the speed of `memchr`, and never fail on text. Pieces between escapes go to the
//! [`Sink`] as slices of the body. They do not panic on any bytes, valid or not.

use memchr::{memchr, memchr2};
use meridian_base::Fingerprinter;

/// A destination for decoded bytes.
pub(crate) trait Sink {
    fn push(&mut self, bytes: &[u8]);
}

impl Sink for Vec<u8> {
    fn push(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

impl Sink for Fingerprinter {
    fn push(&mut self, bytes: &[u8]) {
        Fingerprinter::push(self, bytes);
    }
}

/// Stands for the quotes around a string in compacted JSON. No byte of UTF-8 is above 0xF4, so it
/// cannot be part of the text.
const QUOTE: &[u8] = &[0xF8];
const _: () = assert!(QUOTE[0] > 0xF4, "a mark is no byte of a text");

/// Pushes the text of a JSON string, given without its quotes. An unpaired surrogate is pushed as
/// three bytes of its own (as in WTF-8), so that different text stays different.
pub(crate) fn decode(raw: &[u8], sink: &mut impl Sink) {
    match memchr(b'\\', raw) {
        None if raw.is_empty() => {}
        None => sink.push(raw),
        Some(first) => decode_escaped(raw, first, sink),
    }
}

/// Code and tables contain many escapes, so the pieces between them are gathered first: one push of
/// a few kilobytes is cheaper than many of forty bytes.
fn decode_escaped(raw: &[u8], first: usize, sink: &mut impl Sink) {
    let mut batch = Batch { bytes: [0; BATCH], len: 0, sink };
    batch.push(&raw[..first]);
    let mut rest = escape(&raw[first..], &mut batch);
    while let Some(at) = memchr(b'\\', rest) {
        batch.push(&rest[..at]);
        rest = escape(&rest[at..], &mut batch);
    }
    batch.push(rest);
    batch.flush();
}

const BATCH: usize = 2048;

struct Batch<'s, S> {
    bytes: [u8; BATCH],
    len: usize,
    sink: &'s mut S,
}

impl<S: Sink> Batch<'_, S> {
    fn flush(&mut self) {
        self.sink.push(&self.bytes[..self.len]);
        self.len = 0;
    }
}

impl<S: Sink> Sink for Batch<'_, S> {
    #[inline]
    fn push(&mut self, bytes: &[u8]) {
        if bytes.len() > BATCH - self.len {
            self.flush();
            if bytes.len() > BATCH {
                return self.sink.push(bytes);
            }
        }
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }
}

/// The text of a JSON string as a `String`, for short ones.
pub(crate) fn decoded(raw: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(raw.len());
    decode(raw, &mut bytes);
    String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())
}

/// Pushes the character of the escape at the start of `text` and returns the rest. An incomplete
/// escape ends the text.
fn escape<'a>(text: &'a [u8], sink: &mut impl Sink) -> &'a [u8] {
    assert_eq!(text.first(), Some(&b'\\'), "an escape begins with a backslash");
    let Some(&letter) = text.get(1) else { return &[] };
    let byte = match letter {
        b'u' => return unicode(text, sink),
        b'n' => b'\n',
        b't' => b'\t',
        b'r' => b'\r',
        b'b' => 8,
        b'f' => 12,
        same => same,
    };
    sink.push(&[byte]);
    &text[2..]
}

fn unicode<'a>(text: &'a [u8], sink: &mut impl Sink) -> &'a [u8] {
    let Some(first) = hex(text) else { return &[] };
    let mut code = first;
    let mut rest = &text[6..];
    if (0xD800..0xDC00).contains(&first)
        && rest.starts_with(b"\\u")
        && let Some(second @ 0xDC00..0xE000) = hex(rest)
    {
        code = 0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00);
        rest = &rest[6..];
    }
    match char::from_u32(code) {
        Some(c) => sink.push(c.encode_utf8(&mut [0; 4]).as_bytes()),
        None => sink.push(&[
            0xE0 | (code >> 12) as u8,
            0x80 | (code >> 6 & 0x3F) as u8,
            0x80 | (code & 0x3F) as u8,
        ]),
    }
    rest
}

/// The four hexadecimal digits after `\u`.
fn hex(text: &[u8]) -> Option<u32> {
    let digits = text.get(2..6)?;
    digits.iter().try_fold(0, |n, &d| Some(n << 4 | char::from(d).to_digit(16)?))
}

/// The end of a string whose opening quote is at `start`: the index of its closing quote.
pub(crate) fn string_end(json: &[u8], start: usize) -> Option<usize> {
    assert_eq!(json.get(start), Some(&b'"'), "a string begins with a quote");
    let mut at = start + 1;
    loop {
        at += memchr2(b'"', b'\\', json.get(at..)?)?;
        if json[at] == b'"' {
            return Some(at);
        }
        at += 2;
    }
}

/// A value is nested too deeply.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooDeep;

/// Pushes a JSON value in one canonical form: no white space between tokens, strings decoded. The
/// order of members stays, since engines print tools in the order received.
pub(crate) fn compact(json: &[u8], max: usize, sink: &mut impl Sink) -> Result<(), TooDeep> {
    walk(json, max, |piece| piece.compact(sink))
}

/// Checks only the nesting of a value.
pub(crate) fn check_depth(json: &[u8], max: usize) -> Result<(), TooDeep> {
    if json.len() <= max { Ok(()) } else { walk(json, max, |_| ()) }
}

/// A piece of a JSON value.
pub(crate) enum Piece<'a> {
    /// Between two strings: braces, commas, numbers, white space.
    Tokens(&'a [u8]),
    /// Inside a string.
    Text(&'a [u8]),
}

impl Piece<'_> {
    /// Pushes it in the canonical form of [`compact`].
    pub(crate) fn compact(&self, sink: &mut impl Sink) {
        match self {
            Piece::Tokens(tokens) => {
                for part in tokens.split(u8::is_ascii_whitespace).filter(|p| !p.is_empty()) {
                    sink.push(part);
                }
            }
            Piece::Text(raw) => {
                sink.push(QUOTE);
                decode(raw, sink);
                sink.push(QUOTE);
            }
        }
    }
}

/// Hands the pieces of a value to `f`, in order.
pub(crate) fn walk<'a>(
    json: &'a [u8],
    max: usize,
    mut f: impl FnMut(Piece<'a>),
) -> Result<(), TooDeep> {
    let (mut at, mut depth) = (0, 0usize);
    loop {
        let rest = &json[at..];
        let quote = memchr(b'"', rest);
        let tokens = &rest[..quote.unwrap_or(rest.len())];
        for b in tokens {
            match b {
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth > max {
                return Err(TooDeep);
            }
        }
        f(Piece::Tokens(tokens));
        let Some(start) = quote.map(|q| at + q) else { return Ok(()) };
        let Some(end) = string_end(json, start) else { return Ok(()) };
        f(Piece::Text(&json[start + 1..end]));
        at = end + 1;
    }
}
