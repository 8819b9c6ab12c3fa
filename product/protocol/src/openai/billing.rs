//! Claude Code's billing line, which the prompt goes without.
//!
//! Claude Code's first block of `system` is a line for Anthropic's accounts. It has a hash that differs with every
//! conversation, sub-agent, and in some versions request, so prompts of 30,000 equal tokens would share no prefix. vLLM
//! leaves the line out (vllm#36829), other engines do not.

use memchr::memmem;
use serde_json::value::RawValue;

use super::bad::BadRequest;
use super::raw::{Object, elements, kind, string};
use super::splice::{Purpose, Splice, offset, range};

/// Most bytes before it in the list of blocks.
const BEFORE: usize = 256;
const LINE: &[u8] = b"x-anthropic-billing-header:";

/// The splice that removes the billing line, if the first block of `system` is one.
pub(super) fn line(json: &str, system: &RawValue) -> Option<Splice> {
    let start = &system.get().as_bytes()[..system.get().len().min(BEFORE + LINE.len())];
    if kind(system) != "an array" || memmem::find(start, LINE).is_none() {
        return None;
    }
    let (mut first, mut second) = (None, None);
    // The second block ends the reading: the rest is long, and read for the prompt later.
    let _ = elements(system, "system", |block| match first {
        None => {
            first = Some(block);
            Ok(())
        }
        Some(_) => {
            second = Some(block);
            Err(BadRequest::new(None, String::new()))
        }
    });
    let block = first?;
    let [text] = Object::open(&["text"], "system", block).ok()?;
    string(text?)?.starts_with(LINE).then_some(())?;
    let place = range(json, block.get());
    // With the comma behind it.
    let end = second.map_or(place.end, |second| offset(json, second));
    Some(Splice::cut(Purpose::Billing, place.start, end - place.start))
}
