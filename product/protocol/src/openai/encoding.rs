//! Which bytes count as JSON, for the gateway and for engines.
//!
//! Engines written in Python pass a body's bytes to `json.loads`, which also accepts UTF-16, UTF-32
//! and a byte order mark. Some do so whatever the content type says. A body that an engine can read
//! but the gateway cannot would carry anything past the gateway. Such a body is refused, judged by
//! its bytes alone.

use bytes::Bytes;

use super::bad::BadRequest;

/// The body without the byte order mark of UTF-8, which some editors and shells of Windows write and
/// engines skip.
#[must_use]
pub fn without_mark(body: Bytes) -> Bytes {
    match body.starts_with(&[0xEF, 0xBB, 0xBF]) && may_be_json(&body) {
        true => body.slice(3..),
        false => body,
    }
}

/// Whether a reader might take the body for a JSON object or array, in any encoding. That is the
/// case if the first byte that is neither white space nor part of a byte order mark or of a wide
/// character opens one. A multipart form (`--boundary`), a sound or an image starts differently.
pub(crate) fn may_be_json(body: &[u8]) -> bool {
    let passed =
        |b: &&u8| !matches!(b, b' ' | b'\t' | b'\n' | b'\r' | 0 | 0xEF | 0xBB | 0xBF | 0xFE | 0xFF);
    matches!(body.iter().find(passed), Some(b'{' | b'['))
}

/// The body as text.
pub(crate) fn utf8(body: &[u8]) -> Result<&str, BadRequest> {
    let other = match body {
        [0xEF, 0xBB, 0xBF, ..] => Some("begins with a byte order mark"),
        [0xFE, 0xFF, ..] | [0xFF, 0xFE, ..] | [0, _, ..] | [_, 0, ..] => {
            Some("is UTF-16 or UTF-32")
        }
        _ => None,
    };
    if let Some(what) = other {
        let what = format_args!("the body {what}: encode it as UTF-8 without a byte order mark");
        return Err(BadRequest::new(None, what));
    }
    std::str::from_utf8(body).map_err(|e| {
        let at = e.valid_up_to();
        let what = format_args!("the body is not UTF-8 at byte {at}: encode it as UTF-8");
        BadRequest::new(None, what)
    })
}
