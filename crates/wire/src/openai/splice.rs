//! Splices: the few named changes of a body between the client and a replica.
//!
//! A body is read once and frozen. What goes out is the frozen bytes with splices applied, as slices
//! around what is inserted: nothing is copied, and every byte outside a splice is the client's. Each
//! splice says what it is for, so that the sender chooses the splices that a receiver gets.

use std::ops::Range;

use bytes::Bytes;
use serde_json::value::RawValue;
use smallvec::SmallVec;

use super::engine_fields::EngineField;

/// What a splice is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Asks for usage where the client did not.
    Usage,
    /// Keeps tenants apart in the engine's own prefix cache.
    CacheSalt,
    /// Takes a field out that only engines send each other.
    Strip(EngineField),
}

/// A change of a body: `remove` bytes at `at` give way to `insert`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Splice {
    /// Why.
    pub purpose: Purpose,
    /// Where, in bytes from the start of the body.
    pub at: usize,
    /// How many bytes go.
    pub remove: usize,
    /// What comes.
    pub insert: Bytes,
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

/// The splices of one body, by place; they do not overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Splices(SmallVec<[Splice; 2]>);

impl Splices {
    /// Adds one. Of two at one place an insertion comes before a cut.
    pub(crate) fn push(&mut self, splice: Splice) {
        let place = |s: &Splice| (s.at, s.remove > 0);
        let i = self.0.partition_point(|s| place(s) <= place(&splice));
        self.0.insert(i, splice);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Where the last one ends.
    pub(crate) fn end(&self) -> usize {
        self.0.last().map_or(0, Splice::end)
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &Splice> {
        self.0.iter()
    }

    /// Whether there is one for `purpose`.
    #[must_use]
    pub fn has(&self, purpose: Purpose) -> bool {
        self.0.iter().any(|s| s.purpose == purpose)
    }

    /// The engines' own fields that are cut out, each as often as it came.
    pub fn engine_fields(&self) -> impl Iterator<Item = EngineField> {
        self.0.iter().filter_map(|s| match s.purpose {
            Purpose::Strip(field) => Some(field),
            _ => None,
        })
    }

    /// The body with those splices that are `wanted`. It is the body that was read.
    #[must_use]
    pub fn apply(&self, body: &Bytes, wanted: impl Fn(Purpose) -> bool) -> Pieces {
        let mut pieces = Pieces::new();
        let mut add = |piece: Bytes| {
            if !piece.is_empty() {
                pieces.push(piece);
            }
        };
        let mut from = 0;
        for splice in self.0.iter().filter(|s| wanted(s.purpose)) {
            let Range { start, end } = splice.at.min(body.len())..splice.end().min(body.len());
            add(body.slice(from..start.max(from)));
            add(splice.insert.clone());
            from = end.max(from);
        }
        add(body.slice(from..));
        pieces
    }

    /// The body without the engines' own fields, in one piece: the very bytes that came where there
    /// are none.
    #[must_use]
    pub fn stripped(&self, body: &Bytes) -> Bytes {
        if self.engine_fields().next().is_none() {
            return body.clone();
        }
        Bytes::from(self.apply(body, |p| matches!(p, Purpose::Strip(_))).concat())
    }
}

/// Where in `json` a value lies that borrows from it.
pub(crate) fn offset(json: &str, value: &RawValue) -> usize {
    value.get().as_ptr() as usize - json.as_ptr() as usize
}
