//! Images, sounds, videos and files: each counts as a mark and a hash, wherever it stands.
//!
//! What a part of a known form contains is found by its field. In everything else, such as a form
//! that is newer than this file, it is found by its bytes: a `data:` URL, or a long run of base64.
//! Only text is spared, since there an engine's tokenizer reads the letters.

use memchr::memchr;
use meridian_base::{Fingerprinter, keyed, mix};
use serde_json::value::RawValue;

use super::{MEDIA, Writer};
use crate::openai::bad::{BadRequest, MAX_DEPTH};
use crate::openai::raw::{Object, given};
use crate::openai::text::{Piece, Sink, compact, walk};

/// The fields of parts that contain media or their addresses, in OpenAI's and Anthropic's forms, in
/// those of engines, and in those of chat templates.
const FIELDS: [&str; 19] = [
    "image_url",
    "source",
    "file",
    "file_id",
    "file_data",
    "file_url",
    "input_audio",
    "audio_url",
    "video_url",
    "url",
    "image",
    "video",
    "audio",
    "image_data",
    "video_data",
    "audio_data",
    "image_embeds",
    "audio_embeds",
    "result",
];

/// A shorter run of base64 may be a name or a key, and costs little as text.
const LEAST_BASE64: usize = 512;
/// The shortest line of base64 that is broken into lines (RFC 7468 has 64 letters, RFC 2045 76).
const LEAST_LINE: usize = 60;
/// The longest type and parameters of a `data:` URL that are looked at.
const MOST_TYPE: usize = 256;

impl<S: Sink> Writer<S> {
    /// The media of a part, if it has a field for them.
    pub(super) fn media(&mut self, part: &RawValue) -> Result<bool, BadRequest> {
        let slots = Object::open(&FIELDS, self.param, part)?;
        let mut hash = Hash::new(self.seed);
        let mut known = false;
        for value in slots.into_iter().filter_map(given) {
            known = true;
            hash.value(value, self.param)?;
        }
        if known {
            self.stand_in(hash);
        }
        Ok(known)
    }

    /// A value of an unknown form: JSON, with the media in it recognised by their bytes.
    pub(super) fn unknown(&mut self, value: &RawValue) -> Result<(), BadRequest> {
        let json = value.get().as_bytes();
        let written = walk(json, MAX_DEPTH, |piece| match piece {
            Piece::Text(raw) if is_media(raw) => {
                let mut hash = Hash::new(self.seed);
                hash.text(raw);
                self.stand_in(hash);
            }
            piece => piece.compact(&mut self.fingerprint),
        });
        written.map_err(|_| BadRequest::deep(Some(self.param)))
    }

    fn stand_in(&mut self, hash: Hash) {
        self.fingerprint.push(MEDIA);
        self.fingerprint.push(&hash.finish().to_le_bytes());
    }
}

/// Whether a string of JSON, given without its quotes, is media and no text.
fn is_media(raw: &[u8]) -> bool {
    is_data_url(raw) || raw.len() >= LEAST_BASE64 && is_base64(raw)
}

/// RFC 2397: `data:`, a type and parameters, a comma. Text that begins with the same word has a
/// space or a brace before its first comma.
fn is_data_url(raw: &[u8]) -> bool {
    let Some((scheme, rest)) = raw.split_at_checked("data:".len()) else { return false };
    if !scheme.eq_ignore_ascii_case(b"data:") {
        return false;
    }
    let head = &rest[..rest.len().min(MOST_TYPE)];
    let of_type = |b: &u8| b.is_ascii_alphanumeric() || b"/+-._=;:*\\".contains(b);
    memchr(b',', head).is_some_and(|comma| comma > 0 && head[..comma].iter().all(of_type))
}

/// Base64 of either alphabet, as JSON has it: escapes of `/`, `+` and `=` included, and line breaks
/// after long lines. Text fails at its first space.
fn is_base64(raw: &[u8]) -> bool {
    let (mut at, mut line) = (0, 0);
    while let Some(&byte) = raw.get(at) {
        let (letters, length) = match byte {
            b'\\' => match raw.get(at + 1) {
                Some(b'/') => (1, 2),
                Some(b'u') => (1, 6),
                Some(b'n' | b'r') if line == 0 || line >= LEAST_LINE => (0, 2),
                _ => return false,
            },
            b'+' | b'/' | b'-' | b'_' | b'=' => (1, 1),
            byte if byte.is_ascii_alphanumeric() => (1, 1),
            _ => return false,
        };
        line = if letters == 0 { 0 } else { line + letters };
        at += length;
    }
    true
}

/// A hash of values of any length: a fingerprint with a padded last block, so that every byte
/// counts.
struct Hash(Fingerprinter);

impl Hash {
    const BLOCK: usize = 1024;

    fn new(seed: u64) -> Hash {
        Hash(Fingerprinter::new(seed, keyed(seed, b"media"), Hash::BLOCK))
    }

    /// A string of JSON, given without its quotes.
    fn text(&mut self, raw: &[u8]) {
        Piece::Text(raw).compact(&mut self.0);
    }

    fn value(&mut self, value: &RawValue, param: &'static str) -> Result<(), BadRequest> {
        let json = value.get().as_bytes();
        compact(json, MAX_DEPTH, &mut self.0).map_err(|_| BadRequest::deep(Some(param)))
    }

    fn finish(mut self) -> u64 {
        let bytes = self.0.bytes();
        self.0.push(&[0; Hash::BLOCK]);
        mix(self.0.blocks().last().copied().unwrap_or_default(), bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Media are known by their bytes as JSON writes them, and text that looks similar is not taken
    // for them.
    #[test]
    fn by_bytes() {
        let base64 = "iVBORw0KGgo".repeat(60);
        let lines = "A".repeat(76) + "\\n";
        let words = "word\\n".repeat(200);
        let table: [(&[u8], bool); 14] = [
            (b"data:image/png;base64,iVBOR", true),
            (b"DATA:image\\/svg+xml;charset=utf-8,<svg/>", true),
            (b"data: {\\\"a\\\": 1}, and more", false),
            (b"data:", false),
            (b"data:no comma", false),
            (b"dat", false),
            (base64.as_bytes(), true),
            (&base64.as_bytes()[..LEAST_BASE64 - 1], false),
            (&base64.replace('G', "\\/").into_bytes(), true),
            (&(base64.clone() + "\\u003d").into_bytes(), true),
            (&lines.repeat(9).into_bytes(), true),
            (words.as_bytes(), false),
            (&base64.replace('G', " ").into_bytes(), false),
            (&base64.replace('G', "\u{e9}").into_bytes(), false),
        ];
        for (raw, expected) in table {
            assert_eq!(is_media(raw), expected, "{}", String::from_utf8_lossy(raw));
        }
    }
}
