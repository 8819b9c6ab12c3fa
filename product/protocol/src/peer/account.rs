//! The usage that a peer reports for an answer it streamed, in trailers after the last byte.
//!
//! The gateway that received the request learns from it how many tokens were cached. It cannot read
//! that from the stream: the forwarded body is the client's own and does not ask for usage.

use http::header::{HeaderMap, HeaderName, HeaderValue};

use crate::openai::Usage;

const USAGE: HeaderName = HeaderName::from_static("x-meridian-usage");

/// The trailers that report a usage.
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

/// The usage in trailers.
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

    // A usage reads back as the same, whichever fields the engine left out. Invalid trailers yield
    // none.
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
