//! An answer in one JSON object: passed through, with its usage found near its end.
//!
//! Engines put `usage` after the text, so the last [`TAIL`] bytes are kept and searched backwards
//! instead of parsing an answer of any size. Only if the reply is needed is the whole answer kept,
//! up to [`WHOLE`].

use bytes::Bytes;
use memchr::memmem::{Finder, FinderRev};
use memchr::{memchr2, memchr3};
use std::sync::LazyLock;

use super::rename::Rename;
use super::reply::string_after;
use super::{Feed, MAX_REPLY, Summary};
use crate::openai::endpoint::Endpoint;
use crate::openai::prompt::answer_reply;
use crate::openai::text::decoded;
use crate::openai::told::{ToldError, is_failure, names_error, told_error};
use crate::openai::usage::Gathered;

static USAGE: LazyLock<FinderRev<'static>> = LazyLock::new(|| FinderRev::new(b"\"usage\""));
static TIMINGS: LazyLock<FinderRev<'static>> = LazyLock::new(|| FinderRev::new(b"\"timings\""));
static ID: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"id\""));
static FINISH: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"finish_reason\""));
static LAST_FINISH: LazyLock<FinderRev<'static>> =
    LazyLock::new(|| FinderRev::new(b"\"finish_reason\""));

/// Bytes kept from the end of an answer.
const TAIL: usize = 16 << 10;

/// Bytes kept of an answer whose reply is needed.
const WHOLE: usize = 1 << 20;
const _: () = assert!(WHOLE >= MAX_REPLY + TAIL, "the longest reply can be collected");

/// Bytes searched for the id of a response.
const HEAD: usize = 1 << 10;

pub(super) struct Json {
    endpoint: Endpoint,
    collect: bool,
    /// The whole answer, or its end once it is too long.
    kept: Vec<u8>,
    whole: bool,
    head: Vec<u8>,
    first: bool,
    nesting: Nesting,
    /// Replaces the model's name, if the client used another one.
    pub(super) rename: Option<Rename>,
}

impl Json {
    pub(super) fn new(endpoint: Endpoint, collect: bool) -> Json {
        Json {
            endpoint,
            collect,
            kept: Vec::new(),
            whole: true,
            head: Vec::new(),
            first: false,
            nesting: Nesting::default(),
            rename: None,
        }
    }

    pub(super) fn feed(&mut self, chunk: Bytes) -> Feed {
        let first_token = !self.first && !chunk.is_empty();
        self.first |= first_token;
        if self.endpoint == Endpoint::Responses && self.head.len() < HEAD {
            let room = (HEAD - self.head.len()).min(chunk.len());
            self.head.extend_from_slice(&chunk[..room]);
        }
        self.keep(&chunk);
        let ended = self.nesting.closes(&chunk);
        let pass = match &mut self.rename {
            Some(rename) => rename.feed(chunk),
            None => chunk,
        };
        Feed { pass, first_token, ended, told: None }
    }

    fn keep(&mut self, chunk: &[u8]) {
        let limit = if self.collect && self.whole { WHOLE } else { 2 * TAIL };
        if self.kept.len() + chunk.len() > limit {
            self.whole = false;
            let gone = (self.kept.len() + chunk.len()).saturating_sub(TAIL);
            self.kept.drain(..gone.min(self.kept.len()));
        }
        let from = if self.whole { 0 } else { chunk.len().saturating_sub(TAIL) };
        self.kept.extend_from_slice(&chunk[from..]);
        assert!(self.kept.len() <= limit, "of an answer, no more than the limit is kept");
    }

    pub(super) fn is_complete(&self) -> bool {
        self.nesting.closed
    }

    pub(super) fn finish(self) -> Summary {
        let told = told_by_answer(&self.kept, self.whole);
        let mut usage = Gathered::default();
        if let Some(at) = last_object(&self.kept, &USAGE) {
            usage.add(&self.kept[at..]);
        }
        if let Some(at) = last_object(&self.kept, &TIMINGS) {
            usage.add_timings(&self.kept[at..]);
        }
        let mut reply = None;
        if self.collect {
            let text = if self.whole { std::str::from_utf8(&self.kept).ok() } else { None };
            let mut bytes = text.and_then(|t| answer_reply(self.endpoint, t)).unwrap_or_default();
            bytes.truncate(MAX_REPLY);
            reply = Some(bytes);
        }
        Summary {
            rest: Bytes::new(),
            usage: usage.usage(),
            response_id: string_after(&ID, &self.head).map(decoded),
            complete: self.nesting.closed,
            told,
            reply,
        }
    }
}

/// Start of the object that is the value of the last `key`.
fn last_object(json: &[u8], key: &FinderRev<'_>) -> Option<usize> {
    let mut before = json;
    loop {
        let at = key.rfind(before)?;
        let after = json[at + key.needle().len()..].trim_ascii_start();
        let value = after.strip_prefix(b":").map(<[u8]>::trim_ascii_start);
        if let Some(value) = value.filter(|v| v.first() == Some(&b'{')) {
            return Some(json.len() - value.len());
        }
        before = &json[..at];
    }
}

/// Detects the end of the outermost object over chunks cut anywhere. Arrays need no count: the
/// object around them closes last.
#[derive(Default)]
struct Nesting {
    depth: u32,
    in_string: bool,
    escaped: bool,
    closed: bool,
}

impl Nesting {
    /// Reads on; true if the end is in `bytes`.
    fn closes(&mut self, bytes: &[u8]) -> bool {
        let mut rest = bytes;
        while !self.closed && !rest.is_empty() {
            if std::mem::take(&mut self.escaped) {
                rest = &rest[1..];
                continue;
            }
            let found = if self.in_string {
                memchr2(b'"', b'\\', rest)
            } else {
                memchr3(b'"', b'{', b'}', rest)
            };
            let Some(at) = found else { return false };
            match rest[at] {
                b'"' => self.in_string = !self.in_string,
                b'\\' => self.escaped = true,
                b'{' => self.depth += 1,
                _ => {
                    self.depth = self.depth.saturating_sub(1);
                    self.closed = self.depth == 0;
                }
            }
            rest = &rest[at + 1..];
            if self.closed {
                return true;
            }
        }
        false
    }
}

/// The error that an answer in one piece reports. Errors are short, so only a whole answer can be an error object; of
/// other answers the last bytes are enough, since a finish reason stands near the end of its choice.
#[must_use]
pub fn told_by_answer(answer: &[u8], is_whole: bool) -> Option<ToldError> {
    let may_be = is_whole && names_error(answer);
    let text = if may_be { std::str::from_utf8(answer).ok() } else { None };
    text.and_then(told_error).or_else(|| {
        let at = LAST_FINISH.rfind(answer)?;
        let failed = string_after(&FINISH, &answer[at..]).is_some_and(is_failure);
        failed.then_some(ToldError::OF_ENGINE)
    })
}
