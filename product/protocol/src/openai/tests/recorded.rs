//! Recorded streams of a real llama.cpp server, see `recorded/SOURCE.md`.

use bytes::Bytes;

use super::super::Endpoint::*;
use super::super::{Answer, Endpoint, Usage};

/// Normalizes ids, times and measured speeds, which differ between runs.
fn normal(text: &str) -> String {
    let mut out = String::new();
    let mut number = false;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("chatcmpl-") {
            out += "ID";
            rest = after.trim_start_matches(|c: char| c.is_ascii_alphanumeric());
            continue;
        }
        if c.is_ascii_digit() || number && c == '.' {
            out += if number { "" } else { "0" };
            number = true;
        } else {
            number = false;
            out.push(c);
        }
        rest = &rest[c.len_utf8()..];
    }
    out
}

fn undone(endpoint: Endpoint, asked: &str, size: usize) -> (String, Option<Usage>) {
    let mut answer = Answer::new(endpoint, true, true, false);
    let mut passed = Vec::new();
    for chunk in asked.as_bytes().chunks(size) {
        passed.extend_from_slice(&answer.feed(Bytes::copy_from_slice(chunk)).pass);
    }
    let summary = answer.finish();
    passed.extend_from_slice(&summary.rest);
    assert!(summary.complete);
    (String::from_utf8(passed).expect("text"), summary.usage)
}

fn check(endpoint: Endpoint, plain: &str, asked: &str) {
    let mut unasked = Answer::new(endpoint, true, false, false);
    unasked.feed(Bytes::copy_from_slice(plain.as_bytes()));
    let want = unasked.finish().usage;
    assert!(
        want.is_some_and(|usage| usage.cached_tokens > Some(0) && usage.completion_tokens == 4)
    );
    for size in [1, 2, 7, 100, 333, 100_000] {
        let (passed, usage) = undone(endpoint, asked, size);
        assert_eq!(normal(&passed), normal(plain), "chunks of {size}");
        // The two runs' times differ; both report one.
        assert!(usage.and_then(|u| u.prefill_us).is_some(), "chunks of {size}");
        let counts = |usage: Option<Usage>| usage.map(|u| Usage { prefill_us: None, ..u });
        assert_eq!(counts(usage), counts(want), "chunks of {size}");
    }
}

// A chat that asked for usage and one that did not: after undoing the splice they are equal, and
// the engine's unasked `timings` contain the same numbers.
#[test]
fn llamacpp_chat() {
    let asked = include_str!("recorded/llamacpp_chat_asked.txt");
    let plain = include_str!("recorded/llamacpp_chat_plain.txt");
    assert_ne!(normal(asked), normal(plain));
    check(ChatCompletions, plain, asked);
}

// llama.cpp's completions report usage whether asked or not.
#[test]
fn llamacpp_completion() {
    check(
        Completions,
        include_str!("recorded/llamacpp_completion_plain.txt"),
        include_str!("recorded/llamacpp_completion_asked.txt"),
    );
}
