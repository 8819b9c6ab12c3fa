//! Usage from recorded answers and streams, in each dialect.

use super::super::{Usage, usage};
use super::page;
use expect_test::{Expect, expect};

fn check(json: &[u8], expected: Expect) {
    expected.assert_eq(&format!("{:?}", usage(json).expect("the answer tells its usage")));
}

/// The usage of a recorded stream, event by event.
fn stream(events: &[u8]) -> (Usage, usize) {
    let text = std::str::from_utf8(events).expect("recorded streams are text");
    let mut total = Usage::default();
    let mut counted = 0;
    for event in text.lines().filter_map(|line| line.strip_prefix("data: ")) {
        if let Some(usage) = usage(event.as_bytes()) {
            total.update(&usage);
            counted += 1;
        }
    }
    (total, counted)
}

#[test]
fn chat() {
    // Complete answers: vLLM's usage with details, llama.cpp's with times.
    check(
        page!("vllm/chat.json"),
        expect![
            "Usage { prompt_tokens: Some(195), cached_tokens: Some(160), completion_tokens: Some(6), timings: None }"
        ],
    );
    check(
        page!("llamacpp/chat.json"),
        expect![
            "Usage { prompt_tokens: Some(195), cached_tokens: Some(179), completion_tokens: Some(6), timings: Some(Timings { cache_n: Some(179), prompt_n: Some(16), prompt_ms: Some(0.557), predicted_n: Some(6), predicted_ms: Some(0.5) }) }"
        ],
    );
}

#[test]
fn responses_and_messages() {
    // The other dialects; Anthropic reports cached tokens separately from the input, and they are
    // added to it.
    check(
        page!("vllm/responses.json"),
        expect![
            "Usage { prompt_tokens: Some(20), cached_tokens: Some(0), completion_tokens: Some(6), timings: None }"
        ],
    );
    check(
        page!("llamacpp/responses.json"),
        expect![
            "Usage { prompt_tokens: Some(21), cached_tokens: Some(10), completion_tokens: Some(6), timings: None }"
        ],
    );
    check(
        page!("vllm/messages.json"),
        expect![
            "Usage { prompt_tokens: Some(195), cached_tokens: Some(192), completion_tokens: Some(6), timings: None }"
        ],
    );
    check(
        page!("llamacpp/messages.json"),
        expect![
            "Usage { prompt_tokens: Some(195), cached_tokens: Some(194), completion_tokens: Some(6), timings: None }"
        ],
    );
}

#[test]
fn streams() {
    // A chat stream reports its usage in one event. A messages stream reports the input at the
    // start and, with vLLM, all of it again at the end: the prompt is 195 tokens either way.
    for (events, counted) in [
        (page!("vllm/chat.sse"), 1),
        (page!("llamacpp/chat.sse"), 1),
        (page!("vllm/messages.sse"), 2),
        (page!("llamacpp/messages.sse"), 2),
    ] {
        let (usage, count) = stream(events);
        assert_eq!(
            (usage.prompt_tokens, usage.completion_tokens, count),
            (Some(195), Some(6), counted)
        );
        assert!(usage.cached_tokens >= Some(192));
    }
}

#[test]
fn llamacpp_times_give_the_prefill_rate() {
    // 0.557 ms for the 16 tokens that were not cached.
    let times = usage(page!("llamacpp/chat.json")).and_then(|usage| usage.timings).unwrap();
    assert_eq!(times.prefill_ms_per_token(), Some(0.557 / 16.0));
}

#[test]
fn wrapped_and_partial() {
    // Responses' last event wraps the answer; a partial object yields the fields it has; without
    // usage the times still yield the tokens.
    check(
        br#"{"type":"response.completed","response":{"id":"r","usage":{"input_tokens":9}}}"#,
        expect![
            "Usage { prompt_tokens: Some(9), cached_tokens: None, completion_tokens: None, timings: None }"
        ],
    );
    check(
        br#"{"usage":{"completion_tokens":3}}"#,
        expect![
            "Usage { prompt_tokens: None, cached_tokens: None, completion_tokens: Some(3), timings: None }"
        ],
    );
    check(
        br#"{"content":"x","timings":{"cache_n":5,"prompt_n":2,"predicted_n":4}}"#,
        expect![
            "Usage { prompt_tokens: Some(7), cached_tokens: Some(5), completion_tokens: Some(4), timings: Some(Timings { cache_n: Some(5), prompt_n: Some(2), prompt_ms: None, predicted_n: Some(4), predicted_ms: None }) }"
        ],
    );
    check(
        br#"{"message":"not an object","usage":{"prompt_tokens":1,"prompt_tokens_details":null}}"#,
        expect![
            "Usage { prompt_tokens: Some(1), cached_tokens: None, completion_tokens: None, timings: None }"
        ],
    );
}

#[test]
fn none_where_there_is_none() {
    // Events without usage, `null`, text that mentions usage, broken JSON.
    for json in [
        &br#"{"choices":[{"delta":{"content":"x"}}]}"#[..],
        br#"{"choices":[],"usage":null}"#,
        br#"{"choices":[{"delta":{"content":"\"usage\": {}"}}]}"#,
        br#"{"usage":{"prompt_tokens":"#,
        br#"{"usage":[1,2]}"#,
        br#"["usage"]"#,
        b"[DONE]",
        b"",
    ] {
        assert_eq!(usage(json), None, "{}", String::from_utf8_lossy(json));
    }
}
