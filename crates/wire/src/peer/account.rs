//! What a peer says of an answer that it streamed: the usage, in the trailers after the last byte.
//!
//! The gateway that a client came to learns from it what was cached. It cannot read it in the
//! stream: the body that it sent on is the client's own, and does not ask for usage.

use http::header::{HeaderMap, HeaderName, HeaderValue};

use crate::openai::Usage;

const USAGE: HeaderName = HeaderName::from_static("x-meridian-usage");

/// The trailers that tell a usage.
#[must_use]
pub fn usage_trailers(usage: &Usage) -> HeaderMap {
    let some = |n: Option<u64>| n.map_or_else(String::new, |n| n.to_string());
    let text = format!(
        "{},{},{},{}",
        usage.prompt_tokens,
        usage.completion_tokens,
        some(usage.cached_tokens),
        some(usage.prefill_us)
    );
    let value = HeaderValue::from_str(&text).expect("digits and commas are a header value");
    HeaderMap::from_iter([(USAGE, value)])
}

/// The usage that trailers tell.
#[must_use]
pub fn usage_of(trailers: &HeaderMap) -> Option<Usage> {
    let mut fields = trailers.get(&USAGE)?.to_str().ok()?.split(',');
    let mut next = || fields.next().filter(|text| !text.is_empty()).and_then(|t| t.parse().ok());
    let (prompt, completion) = (next(), next());
    Some(Usage {
        prompt_tokens: prompt?,
        completion_tokens: completion?,
        cached_tokens: next(),
        prefill_us: next(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // A usage reads back as the same, whatever the engine left out, and nonsense tells nothing.
    #[test]
    fn read_back() {
        for (cached_tokens, prefill_us) in
            [(None, None), (Some(0), None), (None, Some(9)), (Some(3), Some(4))]
        {
            let usage =
                Usage { prompt_tokens: 12, completion_tokens: 5, cached_tokens, prefill_us };
            assert_eq!(usage_of(&usage_trailers(&usage)), Some(usage));
        }
        assert_eq!(usage_of(&HeaderMap::new()), None);
        for bad in ["", "1", ",1", "a,b", "-1,1"] {
            let trailers = HeaderMap::from_iter([(USAGE, HeaderValue::from_static(bad))]);
            assert_eq!(usage_of(&trailers), None, "{bad}");
        }
    }
}
