//! Reads a trace in any format, line by line, in constant memory.

use std::io::{BufRead, ErrorKind};

use super::azure::Azure;
use super::journal::Journal;
use super::lines::Lines;
use super::rows::{self, Chats};
use super::{Fault, Format, TraceError, TraceRequest};

/// Options for reading a trace.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// Tokens of a block, if they differ from the format's default (Mooncake 512, Qwen 16). A
    /// journal declares its own.
    pub block_tokens: Option<u32>,
    /// Skips bad lines and counts them.
    pub lenient: bool,
    /// Longest line in bytes.
    pub max_line_bytes: usize,
}

impl Default for ReadOptions {
    fn default() -> ReadOptions {
        ReadOptions { block_tokens: None, lenient: false, max_line_bytes: 16 << 20 }
    }
}

/// Lines that were skipped.
#[derive(Debug, Default)]
pub struct Skipped {
    /// How many.
    pub lines: u64,
    /// The error in the first.
    pub first: Option<TraceError>,
}

/// The requests of a trace, in the order of its lines. Ends after an error.
pub struct Reader<R> {
    lines: Lines<R>,
    parser: Parser,
    lenient: bool,
    skipped: Skipped,
    over: bool,
}

enum Parser {
    Mooncake(u32),
    Qwen(Chats, u32),
    Azure(Azure),
    Journal(Journal),
}

impl<R: BufRead> Reader<R> {
    /// Reads `input` as `format`.
    pub fn new(input: R, format: Format, options: &ReadOptions) -> Reader<R> {
        let block = options.block_tokens.or(format.block_tokens()).unwrap_or(16);
        let block = block.clamp(1, super::MAX_BLOCK_TOKENS);
        Reader {
            lines: Lines::new(input, options.max_line_bytes),
            parser: match format {
                Format::Mooncake => Parser::Mooncake(block),
                Format::Qwen => Parser::Qwen(Chats::default(), block),
                Format::Azure => Parser::Azure(Azure::default()),
                Format::Journal => Parser::Journal(Journal::default()),
            },
            lenient: options.lenient,
            skipped: Skipped::default(),
            over: false,
        }
    }

    /// The lines skipped so far.
    pub fn skipped(&self) -> &Skipped {
        &self.skipped
    }

    /// The next request of the file, a bad line being an error.
    fn step(&mut self) -> Result<Option<TraceRequest>, TraceError> {
        while let Some(line) = self.lines.read()? {
            if line.bytes.trim_ascii().is_empty() {
                continue;
            }
            let (number, ended) = (line.number, line.ended);
            match self.parser.line(line.bytes) {
                Ok(None) => {}
                Ok(request) => return Ok(request),
                Err(fault) if fault.unfinished && !ended => {
                    return Err(TraceError::CutShort { line: number });
                }
                Err(fault) => return Err(TraceError::Line { line: number, fault }),
            }
        }
        Ok(None)
    }

    fn skip(&mut self, error: TraceError) {
        self.skipped.lines += 1;
        self.skipped.first.get_or_insert(error);
    }
}

impl Parser {
    fn line(&mut self, bytes: &[u8]) -> Result<Option<TraceRequest>, Fault> {
        let line = std::str::from_utf8(bytes).map_err(|error| {
            let fault = Fault::new("the line", "no UTF-8", "write traces in UTF-8");
            if error.error_len().is_none() { fault.unfinished() } else { fault }
        })?;
        match self {
            Parser::Mooncake(block) => rows::mooncake(line, *block).map(Some),
            Parser::Qwen(chats, block) => chats.line(line, *block).map(Some),
            Parser::Azure(azure) => azure.line(line),
            Parser::Journal(journal) => journal.line(line),
        }
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<TraceRequest, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.over {
            match self.step() {
                Ok(Some(request)) => return Some(Ok(request)),
                Ok(None) => self.over = true,
                Err(TraceError::Io { source, .. }) if source.kind() == ErrorKind::UnexpectedEof => {
                    // A truncated compressed file: the data before the end is valid.
                    self.over = true;
                    let error = TraceError::CutShort { line: self.lines.number() + 1 };
                    match self.lenient {
                        true => self.skip(error),
                        false => return Some(Err(error)),
                    }
                }
                Err(error) if self.lenient && !matches!(error, TraceError::Io { .. }) => {
                    self.skip(error);
                }
                Err(error) => {
                    self.over = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}
