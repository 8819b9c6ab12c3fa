//! Reads the lines of a file one at a time, each of bounded length.

use std::io::{self, BufRead, Read};

use super::TraceError;

/// Reads lines into one buffer.
pub(crate) struct Lines<R> {
    input: R,
    buffer: Vec<u8>,
    limit: usize,
    number: u64,
}

/// One line.
pub(crate) struct Line<'a> {
    /// From 1.
    pub(crate) number: u64,
    /// Without its end.
    pub(crate) bytes: &'a [u8],
    /// Whether it had an end: the last one may not.
    pub(crate) ended: bool,
}

impl<R: BufRead> Lines<R> {
    /// The lines of `input`, none longer than `limit` bytes.
    pub(crate) fn new(input: R, limit: usize) -> Lines<R> {
        Lines { input, buffer: Vec::new(), limit, number: 0 }
    }

    /// The number of the last line read.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The next line, None at the end.
    pub(crate) fn read(&mut self) -> Result<Option<Line<'_>>, TraceError> {
        self.buffer.clear();
        let most = u64::try_from(self.limit).unwrap_or(u64::MAX).saturating_add(1);
        let read = self.input.by_ref().take(most).read_until(b'\n', &mut self.buffer);
        if read.map_err(|source| TraceError::Io { line: self.number, source })? == 0 {
            return Ok(None);
        }
        self.number += 1;
        let ended = self.buffer.last() == Some(&b'\n');
        if !ended && self.buffer.len() > self.limit {
            self.buffer.clear();
            skip_line(&mut self.input)
                .map_err(|source| TraceError::Io { line: self.number, source })?;
            return Err(TraceError::TooLong { line: self.number, limit: self.limit });
        }
        let mut bytes = self.buffer.strip_suffix(b"\n").unwrap_or(&self.buffer);
        bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        if self.number == 1 {
            bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
        }
        Ok(Some(Line { number: self.number, bytes, ended }))
    }
}

/// Skips to the end of the line, discarding it.
fn skip_line(input: &mut impl BufRead) -> io::Result<()> {
    loop {
        let bytes = input.fill_buf()?;
        let (used, done) = match bytes.iter().position(|&byte| byte == b'\n') {
            Some(end) => (end + 1, true),
            None => (bytes.len(), bytes.is_empty()),
        };
        input.consume(used);
        if done {
            return Ok(());
        }
    }
}
