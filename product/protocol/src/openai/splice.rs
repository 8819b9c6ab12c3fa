//! Splices: the few named changes to a body between the client and a replica.
//!
//! A body is read once and frozen. The frozen bytes are sent with splices applied, as slices around
//! the insertions: nothing is copied, and every byte outside a splice is the client's. Each splice
//! has a purpose, by which the sender chooses the splices for a receiver.

use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use serde_json::value::RawValue;
use smallvec::SmallVec;

use super::engine_fields::EngineField;

/// The purpose of a splice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Names the model as engines serve it, where the client uses another name.
    Model,
    /// Asks for usage where the client did not.
    Usage,
    /// Separates tenants in the engine's own prefix cache.
    CacheSalt,
    /// Removes an engine's private field.
    Strip(EngineField),
    /// Removes Claude Code's billing line.
    Billing,
    /// Limits a prefill leg: one token, no stream. Only in the splices of
    /// [`prefill_leg`](super::prefill_leg).
    Prefill,
    /// Members of the protocol between a prefill and a decode leg ([`crate::legs`]). Only in the
    /// splices of [`Splices::with_members`].
    Leg,
}

/// A change to a body: `insert` replaces `remove` bytes at `at`.
#[derive(Clone, PartialEq, Eq)]
pub struct Splice {
    /// Its purpose.
    pub purpose: Purpose,
    /// Position, in bytes from the start of the body.
    pub at: usize,
    /// Number of bytes to remove.
    pub remove: usize,
    /// Bytes to insert.
    pub insert: Bytes,
}

/// Without the inserted bytes: the parameters of a prefill may hold the prompt's tokens.
impl fmt::Debug for Splice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Splice { purpose, at, remove, insert } = self;
        write!(f, "{purpose:?} at {at}: -{remove} +{} bytes", insert.len())
    }
}

impl Splice {
    pub(crate) fn cut(purpose: Purpose, at: usize, remove: usize) -> Splice {
        Splice { purpose, at, remove, insert: Bytes::new() }
    }

    fn end(&self) -> usize {
        self.at + self.remove
    }
}

/// A spliced body in pieces, none of them empty.
pub type Pieces = SmallVec<[Bytes; 5]>;

/// The splices of one body, ordered by position; they do not overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Splices(SmallVec<[Splice; 2]>);

impl Splices {
    /// Adds one. At the same position an insertion comes before a cut.
    pub(crate) fn push(&mut self, splice: Splice) {
        let place = |s: &Splice| (s.at, s.remove > 0);
        let i = self.0.partition_point(|s| place(s) <= place(&splice));
        let is_behind = i == 0 || self.0[i - 1].end() <= splice.at;
        let is_before = self.0.get(i).is_none_or(|next| splice.end() <= next.at);
        assert!(is_behind && is_before, "the splices of a body do not overlap");
        self.0.insert(i, splice);
    }

    /// Whether a cut overlaps none of these.
    pub(crate) fn leave(&self, cut: &Splice) -> bool {
        self.0.iter().all(|s| s.end() <= cut.at || cut.end() <= s.at)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// End of the last splice.
    pub(crate) fn end(&self) -> usize {
        self.0.last().map_or(0, Splice::end)
    }

    /// All splices.
    pub fn iter(&self) -> impl Iterator<Item = &Splice> {
        self.0.iter()
    }

    /// Whether there is one for `purpose`.
    #[must_use]
    pub fn has(&self, purpose: Purpose) -> bool {
        self.0.iter().any(|s| s.purpose == purpose)
    }

    /// The private engine fields that are removed, including duplicates.
    pub fn engine_fields(&self) -> impl Iterator<Item = EngineField> {
        self.0.iter().filter_map(|s| match s.purpose {
            Purpose::Strip(field) => Some(field),
            _ => None,
        })
    }

    /// Applies the `wanted` splices to `body`, which must be the body that was read.
    ///
    /// # Panics
    /// If a splice is beyond its end.
    #[must_use]
    pub fn apply(&self, body: &Bytes, wanted: impl Fn(Purpose) -> bool) -> Pieces {
        assert!(self.end() <= body.len(), "splices are applied to the body that was read");
        let mut pieces = Pieces::new();
        let mut add = |piece: Bytes| {
            if !piece.is_empty() {
                pieces.push(piece);
            }
        };
        let mut from = 0;
        for splice in self.0.iter().filter(|s| wanted(s.purpose)) {
            add(body.slice(from..splice.at));
            add(splice.insert.clone());
            from = splice.end();
        }
        add(body.slice(from..));
        pieces
    }

    /// A copy that also inserts `members` as the first of the body's object. They are pieces of
    /// JSON members with commas between but not around them, and may be given once. If there are
    /// none, or the body is not an object, the copy is equal.
    ///
    /// `body` must be the body that was read. The result is valid JSON whether the object has
    /// members left or not.
    ///
    /// # Panics
    /// If they are given twice.
    #[must_use]
    pub fn with_members(&self, body: &[u8], members: &[Bytes]) -> Splices {
        assert!(!self.has(Purpose::Leg), "the members of a leg are given once");
        let mut splices = self.clone();
        let brace = body.len() - body.trim_ascii_start().len();
        if members.is_empty() || body.get(brace) != Some(&b'{') {
            return splices;
        }
        let at = brace + 1;
        let comma = (!self.leaves_nothing(body, at)).then(|| Bytes::from_static(b","));
        for insert in members.iter().cloned().chain(comma) {
            splices.push(Splice { purpose: Purpose::Leg, at, remove: 0, insert });
        }
        splices
    }

    /// Whether the cuts leave no member of the object that is opened before `at`.
    pub(crate) fn leaves_nothing(&self, body: &[u8], mut at: usize) -> bool {
        let rest = |at: usize| body.get(at..).unwrap_or_default().trim_ascii_start();
        for cut in self.0.iter().filter(|s| s.insert.is_empty()) {
            at = body.len() - rest(at).len();
            if cut.at > at {
                break;
            }
            at = at.max(cut.end());
        }
        rest(at).first() == Some(&b'}')
    }

    /// The body without the engines' private fields and with the engines' name of the model, in
    /// one piece; the original bytes if it has neither.
    #[must_use]
    pub fn stripped(&self, body: &Bytes) -> Bytes {
        let wanted = |p| matches!(p, Purpose::Strip(_) | Purpose::Model | Purpose::Billing);
        if !self.0.iter().any(|s| wanted(s.purpose)) {
            return body.clone();
        }
        Bytes::from(self.apply(body, wanted).concat())
    }
}

/// The offset in `json` of a value that borrows from it.
pub(crate) fn offset(json: &str, value: &RawValue) -> usize {
    range(json, value.get()).start
}

/// The range in `json` of a part that borrows from it.
pub(crate) fn range(json: &str, part: &str) -> Range<usize> {
    let start = (part.as_ptr() as usize).wrapping_sub(json.as_ptr() as usize);
    let is_inside = start <= json.len() && part.len() <= json.len() - start;
    assert!(is_inside, "a value borrows from the text in which its place is looked up");
    start..start + part.len()
}
