//! The model of a request whose body is not JSON that names it: in a field of a form, in the query, or
//! in the path, looked up in this order.
//!
//! A form is searched to its end, since some clients send the file first (OpenAI's for Node sends
//! the fields in the order of the call, that for Python sends the file last). The body is in memory
//! anyway, and only the boundaries are searched for. Of two fields with the name, the last one
//! counts, as in engines. A form that can't be read to its end is refused: an engine may find another model in it than
//! the gateway, which has applied that model's limits and residency rules.

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;
use memchr::memmem::{self, Finder};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode, utf8_percent_encode};

use super::bad::BadRequest;
use super::encoding::may_be_json;
use super::splice::{Purpose, Splice};

/// What a request says outside of its body.
#[derive(Clone, Copy, Debug, Default)]
pub struct Head<'a> {
    /// The path and the query.
    pub target: &'a str,
    /// The value of `content-type`; empty without one.
    pub content_type: &'a [u8],
}

/// Most parts of a form that are looked at.
const MOST_PARTS: usize = 1024;
/// Most bytes of the headers of a part.
const MOST_PART_HEAD: usize = 8 << 10;
/// Longest name of a model.
const MOST_NAME: usize = 1024;
/// The segments of a path before a model.
const BEFORE_MODEL: [&str; 3] = ["/models/", "/deployments/", "/engines/"];

/// A model that is named outside of JSON.
pub(super) struct Elsewhere {
    pub(super) model: String,
    at: Range<usize>,
    place: Place,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// A field of a multipart form, as it is.
    Form,
    /// A field of an encoded form.
    EncodedForm,
    /// The path or the query.
    Target,
}

impl Elsewhere {
    /// # Errors
    /// If the body is a form that can't be read to its end.
    pub(super) fn find(head: &Head<'_>, body: &[u8]) -> Result<Option<Elsewhere>, BadRequest> {
        let form = if may_be_json(body) { None } else { of_form(head.content_type, body)? };
        let named = |found: &Elsewhere| !found.model.is_empty();
        Ok(form.filter(named).or_else(|| of_target(head.target).filter(named)))
    }

    /// The splice that puts `model` in place of the name in the body, or else the target with it.
    pub(super) fn renamed(&self, head: &Head<'_>, model: &str) -> Result<Splice, String> {
        let encoded = || utf8_percent_encode(model, NON_ALPHANUMERIC).to_string();
        let insert = match self.place {
            Place::Form => model.to_owned(),
            Place::EncodedForm => encoded(),
            Place::Target => {
                let Range { start, end } = self.at;
                return Err([&head.target[..start], &encoded(), &head.target[end..]].concat());
            }
        };
        let (at, remove) = (self.at.start, self.at.len());
        Ok(Splice { purpose: Purpose::Model, at, remove, insert: Bytes::from(insert) })
    }
}

fn of_form(content_type: &[u8], body: &[u8]) -> Result<Option<Elsewhere>, BadRequest> {
    let is = |form: &[u8]| {
        content_type.get(..form.len()).is_some_and(|start| start.eq_ignore_ascii_case(form))
    };
    if is(b"multipart/form-data") {
        let Some(boundary) = param(content_type, b"boundary") else { return Ok(None) };
        let Some(at) = field(body, &boundary)? else { return Ok(None) };
        let model = std::str::from_utf8(&body[at.clone()]).ok();
        let model = model.filter(|model| model.len() <= MOST_NAME);
        return Ok(model.map(|model| Elsewhere {
            model: model.to_owned(),
            at,
            place: Place::Form,
        }));
    }
    let found = is(b"application/x-www-form-urlencoded").then(|| member(body)).flatten();
    Ok(found.map(|(model, at)| Elsewhere { model, at, place: Place::EncodedForm }))
}

/// The value of the field `model` of a multipart form (RFC 7578); none if the body is no such form.
fn field(body: &[u8], boundary: &[u8]) -> Result<Option<Range<usize>>, BadRequest> {
    let mark = [b"\r\n--", boundary].concat();
    let marks = Finder::new(&mark);
    // The first boundary has no line before it, or a preamble.
    let first = match body.strip_prefix(&mark[2..]).and_then(after_mark) {
        Some(after) => Some((0, after.with(mark.len() - 2))),
        None => next(body, &marks, 0),
    };
    let Some((_, mut after)) = first else { return Ok(None) };
    let mut found = None;
    for _ in 0..MOST_PARTS {
        let AfterMark::Part(at) = after else { return Ok(found) };
        let head = &body[at..body.len().min(at + MOST_PART_HEAD)];
        let head = memmem::find(head, b"\r\n\r\n").map(|end| &head[..end]);
        let head = head.ok_or_else(|| refused("a part without an end of its headers"))?;
        let start = at + head.len() + 4;
        let ends = next(body, &marks, start);
        let (end, then) = ends.ok_or_else(|| refused("no boundary at its end"))?;
        if is_model(head) {
            found = Some(start..end);
        }
        after = then;
    }
    Err(refused("more than 1,024 parts"))
}

fn refused(has: &str) -> BadRequest {
    let message =
        format!("the form has {has}: send each field once, as your client's library does");
    BadRequest::new(None, message)
}

/// What follows a boundary.
#[derive(Clone, Copy)]
enum AfterMark {
    /// A part; from its line's end on.
    Part(usize),
    End,
}

impl AfterMark {
    fn with(self, before: usize) -> AfterMark {
        match self {
            AfterMark::Part(at) => AfterMark::Part(before + at),
            AfterMark::End => AfterMark::End,
        }
    }
}

/// What follows a boundary, if it is one: a content may have a longer text that begins like it.
fn after_mark(rest: &[u8]) -> Option<AfterMark> {
    if rest.starts_with(b"--") {
        return Some(AfterMark::End);
    }
    let spaces = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    rest[spaces..].starts_with(b"\r\n").then_some(AfterMark::Part(spaces))
}

/// The next boundary from a place on: where it is, and what follows.
fn next(body: &[u8], marks: &Finder<'_>, from: usize) -> Option<(usize, AfterMark)> {
    marks.find_iter(&body[from..]).find_map(|at| {
        let end = from + at + marks.needle().len();
        Some((from + at, after_mark(&body[end..])?.with(end)))
    })
}

/// Whether the headers of a part are those of the field `model`, and not of a file.
fn is_model(head: &[u8]) -> bool {
    let mut lines = head.split(|byte| *byte == b'\n');
    let is_disposition = |line: &&[u8]| {
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
        name.trim_ascii().eq_ignore_ascii_case(b"content-disposition")
    };
    let Some(line) = lines.find(is_disposition) else { return false };
    param(line, b"name").as_deref() == Some(b"model") && param(line, b"filename").is_none()
}

/// A parameter of a header's value: `; name=value` or `; name="value"`.
fn param<'a>(value: &'a [u8], name: &[u8]) -> Option<Cow<'a, [u8]>> {
    let mut rest = value;
    loop {
        rest = &rest[memchr::memchr(b';', rest)? + 1..];
        let (key, after) = rest.split_at_checked(memchr::memchr(b'=', rest)?)?;
        // Before it may be parameters without a value.
        let key = key.rsplit(|byte| *byte == b';').next().unwrap_or(key);
        let after = &after[1..];
        let (found, end) = match after.strip_prefix(b"\"") {
            Some(quoted) => {
                let end = closing_quote(quoted)?;
                let text = &quoted[..end];
                let plain = text.iter().copied().filter(|byte| *byte != b'\\');
                let escapes = text.contains(&b'\\');
                let found = if escapes { plain.collect::<Vec<_>>().into() } else { text.into() };
                (found, end + 2)
            }
            None => {
                let end = memchr::memchr(b';', after).unwrap_or(after.len());
                (Cow::Borrowed(after[..end].trim_ascii()), end)
            }
        };
        if key.trim_ascii().eq_ignore_ascii_case(name) {
            return Some(found);
        }
        rest = &after[end..];
    }
}

/// The place of the quote that ends a quoted text.
fn closing_quote(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += memchr::memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return Some(at);
        }
        at += 2;
    }
}

/// The member `model` of an encoded form or a query, and the place of its value.
fn member(pairs: &[u8]) -> Option<(String, Range<usize>)> {
    let mut found = None;
    let mut at = 0;
    for pair in pairs.split(|byte| *byte == b'&') {
        let equals = memchr::memchr(b'=', pair);
        if let Some(equals) = equals.filter(|equals| &pair[..*equals] == b"model") {
            found = Some(at + equals + 1..at + pair.len());
        }
        at += pair.len() + 1;
    }
    let found = found?;
    let plain: Vec<u8> =
        pairs[found.clone()].iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
    Some((decoded(&plain)?, found))
}

fn decoded(text: &[u8]) -> Option<String> {
    let text = percent_decode(text).decode_utf8().ok()?;
    (text.len() <= MOST_NAME).then(|| text.into_owned())
}

fn of_target(target: &str) -> Option<Elsewhere> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let place = Place::Target;
    if let Some((model, at)) = member(query.as_bytes()) {
        let start = path.len() + 1;
        return Some(Elsewhere { model, at: start + at.start..start + at.end, place });
    }
    let after = |word: &&str| path.find(*word).map(|at| at + word.len());
    let start = BEFORE_MODEL.iter().filter_map(after).min()?;
    let name = &path[start..];
    // `models/NAME:call`, where a name may have slashes, or `models/NAME/call`.
    let end = name.rfind(':').or_else(|| name.find('/')).unwrap_or(name.len());
    let model = decoded(&name.as_bytes()[..end])?;
    Some(Elsewhere { model, at: start..start + end, place })
}

#[cfg(test)]
mod tests;
