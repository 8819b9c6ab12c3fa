//! Shows the name that a client used for its model in the answer, in place of the engine's.
//!
//! In an answer of one JSON object, the value of the outermost member `model` is replaced as it
//! passes. Nothing is held back for that: the bytes before the value and after it pass at once. In
//! a stream, [`Stream`](super::stream) holds complete events, and the value is replaced in each of
//! them that has one.
//!
//! The name alone is hidden. An engine may write it in other places, such as the message of an
//! error.

use std::ops::Range;
use std::sync::LazyLock;

use bytes::{Bytes, BytesMut};
use memchr::memmem::Finder;
use memchr::{memchr2, memchr3};

use super::sse;
use crate::openai::endpoint::Endpoint;
use crate::openai::raw::Object;
use crate::openai::splice::range;

const KEY: &[u8] = b"model";
static MODEL: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"model\""));
const CHUNK: [&str; 1] = ["model"];
const RESPONSE: [&str; 1] = ["response"];
const MESSAGE: [&str; 1] = ["message"];

/// The value of `model` in an event of a stream, as a range of the event. Data of several lines,
/// which no engine sends, is not edited.
pub(super) fn place(endpoint: Endpoint, event: &[u8]) -> Option<Range<usize>> {
    MODEL.find(event)?;
    let event = sse::parse(event);
    let (data, at) = (event.data.as_deref()?, event.data_at?);
    let json = std::str::from_utf8(data).ok()?;
    let inner = match endpoint {
        Endpoint::Responses => Object::parse(&RESPONSE, json).ok()?[0]?.get(),
        Endpoint::Messages => Object::parse(&MESSAGE, json).ok()?[0]?.get(),
        _ => json,
    };
    let model = Object::parse(&CHUNK, inner).ok()?[0]?.get();
    let Range { start, end } = range(json, model);
    model.starts_with('"').then(|| at + start..at + end)
}

/// Replaces the model's name in one JSON object, cut into chunks anywhere.
pub(super) struct Rename {
    /// The name as a JSON string.
    name: Bytes,
    depth: u32,
    state: RenameState,
}

#[derive(Clone, Copy)]
enum RenameState {
    /// Between strings.
    Outside,
    /// In a string of the outermost object that starts like the key, with so many bytes of it.
    Key(usize),
    /// In a string that is not the key.
    Text {
        escaped: bool,
    },
    /// After a string that is equal to the key.
    AfterKey,
    /// Before the value of the key.
    AfterColon,
    /// In the value, of which nothing passes.
    Value {
        escaped: bool,
    },
    Done,
}

impl Rename {
    pub(super) fn new(name: Bytes) -> Rename {
        assert_eq!(name.first(), Some(&b'"'), "the name replaces a JSON string");
        Rename { name, depth: 0, state: RenameState::Outside }
    }

    /// Takes the next bytes and returns those to pass, mostly the same.
    pub(super) fn feed(&mut self, chunk: Bytes) -> Bytes {
        let mut changed: Option<BytesMut> = None;
        let (mut at, mut from) = (0, 0);
        if let RenameState::Value { .. } = self.state {
            changed = Some(BytesMut::new());
            from = chunk.len();
        }
        while at < chunk.len() && !matches!(self.state, RenameState::Done) {
            let (before, next) = (self.state, self.step(&chunk, at));
            let is_read = next > at || matches!(before, RenameState::Key(_));
            assert!(is_read && next <= chunk.len(), "each step reads a part of the chunk");
            match (before, self.state) {
                (RenameState::Value { .. }, RenameState::Done) => from = next,
                (RenameState::AfterColon, RenameState::Value { .. }) => {
                    let changed = changed.get_or_insert_default();
                    changed.extend_from_slice(&chunk[from..at]);
                    changed.extend_from_slice(&self.name);
                    from = chunk.len();
                }
                _ => {}
            }
            at = next;
        }
        match changed {
            None => chunk,
            Some(mut changed) => {
                changed.extend_from_slice(&chunk[from..]);
                changed.freeze()
            }
        }
    }

    /// Reads on from `at`, at least one byte unless it leaves the key; returns the place after what
    /// it has read.
    fn step(&mut self, bytes: &[u8], at: usize) -> usize {
        let rest = &bytes[at..];
        let byte = rest[0];
        self.state = match self.state {
            RenameState::Outside => match memchr3(b'"', b'{', b'}', rest) {
                None => return bytes.len(),
                Some(found) => {
                    self.state = self.outside(rest[found]);
                    return at + found + 1;
                }
            },
            RenameState::Text { escaped: true } => RenameState::Text { escaped: false },
            RenameState::Text { .. } => return at + self.string(rest, RenameState::Outside),
            RenameState::Key(n) if n == KEY.len() && byte == b'"' => RenameState::AfterKey,
            RenameState::Key(n) if KEY.get(n) == Some(&byte) => RenameState::Key(n + 1),
            RenameState::Key(_) => {
                self.state = RenameState::Text { escaped: false };
                return at;
            }
            RenameState::AfterKey if byte == b':' => RenameState::AfterColon,
            RenameState::AfterColon if byte == b'"' => RenameState::Value { escaped: false },
            RenameState::AfterKey | RenameState::AfterColon if byte.is_ascii_whitespace() => {
                self.state
            }
            RenameState::AfterKey | RenameState::AfterColon => self.outside(byte),
            RenameState::Value { escaped: true } => RenameState::Value { escaped: false },
            RenameState::Value { .. } => return at + self.string(rest, RenameState::Done),
            RenameState::Done => return bytes.len(),
        };
        at + 1
    }

    /// The state after a byte between strings.
    fn outside(&mut self, byte: u8) -> RenameState {
        match byte {
            b'"' if self.depth == 1 => return RenameState::Key(0),
            b'"' => return RenameState::Text { escaped: false },
            b'{' => self.depth += 1,
            b'}' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        RenameState::Outside
    }

    /// Reads on in a string, to its next escape or to its end, after which the state is `then`.
    fn string(&mut self, rest: &[u8], then: RenameState) -> usize {
        let Some(found) = memchr2(b'"', b'\\', rest) else { return rest.len() };
        self.state = match (rest[found], self.state) {
            (b'"', _) => then,
            (_, RenameState::Value { .. }) => RenameState::Value { escaped: true },
            _ => RenameState::Text { escaped: true },
        };
        found + 1
    }
}
