//! Edits an answer so that the client sees the stream it asked for. Counts that the client did not
//! ask for are removed from the chunks. A continuation also gets the first answer's id and names,
//! no second opening, and usage of the whole. Every other byte stays as the engine wrote it.

use std::ops::Range;

use bytes::BytesMut;
use serde_json::value::RawValue;

use super::Counts;
use super::chunk::Chunk;
use crate::openai::answer::member;
use crate::openai::members::Members;
use crate::openai::splice::range;

/// Members with the same value in all chunks of an answer.
const NAMES: [&str; 4] = ["id", "created", "model", "system_fingerprint"];

/// The first answer's values, in the order of [`NAMES`].
pub(super) struct Head([Option<Box<RawValue>>; 4]);

impl Head {
    pub(super) fn of(chunk: &Chunk<'_>) -> Head {
        Head(NAMES.map(|name| chunk.top.get(name).map(ToOwned::to_owned)))
    }
}

/// Edits of one event, in order.
pub(super) enum Edits {
    /// Remove the event.
    Drop,
    Replace(Vec<(Range<usize>, String)>),
}

impl Edits {
    /// Writes the edited `event`.
    pub(super) fn write(&self, event: &[u8], out: &mut BytesMut) {
        let Edits::Replace(edits) = self else { return };
        let mut at = 0;
        for (cut, insert) in edits {
            out.extend_from_slice(&event[at..cut.start]);
            out.extend_from_slice(insert.as_bytes());
            at = cut.end;
        }
        out.extend_from_slice(&event[at..]);
    }
}

/// State that a chunk has to match.
#[derive(Clone, Copy)]
pub(super) struct Seam<'a> {
    /// The first answer's names; none while that is the current one.
    pub(super) head: Option<&'a Head>,
    /// The role was already sent.
    pub(super) has_role: bool,
    /// Tokens of earlier answers.
    pub(super) before: u64,
    pub(super) counts: Counts,
}

/// The edits of a `chunk`, whose text is at `data_at` of its event.
pub(super) fn edits(chunk: &Chunk<'_>, seam: Seam<'_>, data_at: Option<usize>) -> Edits {
    if seam.has_role && chunk.is_opening() {
        return Edits::Drop;
    }
    let mut edits = Vec::new();
    // Data of several lines, which no engine sends, is not edited in place.
    let Some(data_at) = data_at else { return Edits::Replace(edits) };
    let at = |raw: &str| {
        let Range { start, end } = range(chunk.json, raw);
        data_at + start..data_at + end
    };
    if let Some(head) = seam.head {
        for (name, first) in NAMES.iter().zip(&head.0) {
            if let (Some(first), Some(raw)) = (first, chunk.top.get(name)) {
                edits.push((at(raw.get()), first.get().to_owned()));
            }
        }
    }
    if seam.has_role
        && let Some(role) = chunk.role()
        && let Some(cut) = member(chunk.json, role.get(), "\"role\"")
    {
        edits.push((data_at + cut.start..data_at + cut.end, String::new()));
    }
    if let Some(usage) = chunk.top.get("usage") {
        match seam.counts {
            Counts::Hidden if chunk.is_counted() => {
                let cut = member(chunk.json, usage.get(), "\"usage\"").unwrap_or_default();
                edits.push((data_at + cut.start..data_at + cut.end, String::new()));
            }
            Counts::Null if chunk.is_counted() => edits.push((at(usage.get()), "null".to_owned())),
            _ => sums(usage, seam.before, |raw, n| edits.push((at(raw.get()), n.to_string()))),
        }
    }
    edits.sort_by_key(|(cut, _)| cut.start);
    Edits::Replace(edits)
}

/// Adjusts the counts of a usage object to the whole: the text of earlier answers counts as
/// completion, not as prompt. The total stays the same.
fn sums<'a>(usage: &'a RawValue, before: u64, mut edit: impl FnMut(&'a RawValue, u64)) {
    let Some(usage) = Members::of(usage.get()) else { return };
    let number = |members: &Members<'a>, name: &str| {
        let raw = members.get(name)?;
        Some((raw, raw.get().parse::<u64>().ok()?))
    };
    if let Some((raw, n)) = number(&usage, "completion_tokens") {
        edit(raw, n.saturating_add(before));
    }
    let Some((raw, n)) = number(&usage, "prompt_tokens") else { return };
    let prompt = n.saturating_sub(before);
    edit(raw, prompt);
    let details = usage.get("prompt_tokens_details").and_then(|raw| Members::of(raw.get()));
    if let Some((raw, cached)) = details.and_then(|d| number(&d, "cached_tokens")) {
        edit(raw, cached.min(prompt));
    }
}
