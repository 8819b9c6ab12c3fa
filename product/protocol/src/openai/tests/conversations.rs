use bytes::Bytes;
use meridian_base::Fingerprinter;

use super::super::Endpoint::*;
use super::super::{Answer, Endpoint, push_reply};
use super::ok;

/// Feeds an answer and returns its reply.
fn reply(endpoint: Endpoint, stream: bool, answer: &str) -> Vec<u8> {
    let mut scanner = Answer::new(endpoint, stream, false, true);
    scanner.feed(Bytes::copy_from_slice(answer.as_bytes()));
    scanner.finish().reply.expect("asked for")
}

/// The fingerprint of `turn`, extended by `answer`, is a prefix of that of `next`, and covers at
/// least `next` without its last message.
fn check(endpoint: Endpoint, turn: &str, stream: bool, answer: &str, next: &str, last: &str) {
    let mut grown: Fingerprinter = ok(endpoint, turn).fingerprint;
    push_reply(endpoint, &mut grown, &reply(endpoint, stream, answer));
    let next = ok(endpoint, next).fingerprint;
    assert_eq!(grown.bytes() + last.len() as u64, next.bytes(), "{answer}");
    assert!(grown.blocks().len() > 1, "{answer}");
    assert_eq!(grown.blocks(), &next.blocks()[..grown.blocks().len()], "{answer}");
}

/// The marks and the role of a last message `{"role":"user","content":"so?"}`.
const LAST: &str = "..user...";

// Equal prompts to a base model and to its adapters have no block in common: the engine's KV differs.
#[test]
fn models_share_no_prefix() {
    let prompt = "the same text for every model, longer than one block of 64 bytes, and then some";
    let blocks = |model: &str| {
        let body =
            format!(r#"{{"model":"{model}","messages":[{{"role":"user","content":"{prompt}"}}]}}"#);
        ok(ChatCompletions, &body).fingerprint.into_blocks()
    };
    let all = ["base", "base-sql", "base-law"].map(blocks);
    assert!(!all[0].is_empty());
    assert_eq!(all[0], blocks("base"));
    for (one, other) in [(0, 1), (0, 2), (1, 2)] {
        assert!(all[one].iter().all(|block| !all[other].contains(block)), "{one} {other}");
    }
}

// Each beginning of a conversation is a prefix of the whole.
#[test]
fn prefixes() {
    let messages: Vec<String> = (0..12)
        .map(|i| format!(r#"{{"role":"{}","content":"turn {i}"}}"#, ["user", "assistant"][i % 2]))
        .collect();
    let body = |n: usize| format!(r#"{{"model":"m","messages":[{}]}}"#, messages[..n].join(","));
    let whole = ok(ChatCompletions, &body(12)).fingerprint;
    for n in 0..12 {
        let part = ok(ChatCompletions, &body(n)).fingerprint;
        assert_eq!(part.blocks(), &whole.blocks()[..part.blocks().len()], "{n}");
        assert!(part.bytes() < whole.bytes());
    }
}

// A streamed chat reply equals the assistant's message of the next turn, including escapes.
#[test]
fn a_streamed_chat_reply() {
    check(
        ChatCompletions,
        r#"{"model":"m","messages":[{"role":"user","content":"hello"}]}"#,
        true,
        concat!(
            "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n",
            "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Caf\\u00e9 \\\"one\\\"\"}}]}\n\n",
            "data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"another choice\"}}]}\n\n",
            "data: {\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"hm\",\"content\": \"\\n two\"}}]}\n\n",
            "data: [DONE]\n\n",
        ),
        r#"{"model":"m","messages":[{"role":"user","content":"hello"},
            {"role":"assistant","content":"Café \"one\"\n two"},{"role":"user","content":"so?"}]}"#,
        LAST,
    );
}

// Tool calls of a streamed chat reply, their arguments in pieces.
#[test]
fn streamed_tool_calls() {
    check(
        ChatCompletions,
        r#"{"model":"m","messages":[{"role":"user","content":"hello"}]}"#,
        true,
        concat!(
            "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Let me\"}}]}\n\n",
            "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"\"}}]}}]}\n\n",
            "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"{\\\"x\\\":\"}}]}}]}\n\n",
            "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\" 1}\"}}]}}]}\n\n",
            "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":1,\"id\":\"b\",\"function\":{\"name\":\"g\",\"arguments\":\"{}\"}}]}}]}\n\n",
        ),
        r#"{"model":"m","messages":[{"role":"user","content":"hello"},
            {"role":"assistant","content":"Let me","tool_calls":[
              {"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\": 1}"}},
              {"id":"b","type":"function","function":{"name":"g","arguments":"{}"}}]},
            {"role":"user","content":"so?"}]}"#,
        LAST,
    );
}

// The same from an answer in one piece.
#[test]
fn a_whole_chat_reply() {
    check(
        ChatCompletions,
        r#"{"model":"m","messages":[{"role":"user","content":"hello"}]}"#,
        false,
        r#"{"id":"x","choices":[{"index":0,"message":{"role":"assistant","content":"Yes\u0021","tool_calls":[
            {"function":{"name":"f","arguments":"{}"}}]}},{"index":1,"message":{"content":"No"}}]}"#,
        r#"{"model":"m","messages":[{"role":"user","content":"hello"},
            {"role":"assistant","content":"Yes!","tool_calls":[{"function":{"name":"f","arguments":"{}"}}]},
            {"role":"user","content":"so?"}]}"#,
        LAST,
    );
}

// A completion continues at the end of its prompt.
#[test]
fn completions() {
    let turn = r#"{"model":"m","prompt":"once upon a time"}"#;
    let next = r#"{"model":"m","prompt":"once upon a time there was a king"}"#;
    let whole = r#"{"choices":[{"index":0,"text":" there was"}]}"#;
    let stream = "data: {\"choices\":[{\"index\":0,\"text\":\" there\"}]}\n\ndata: {\"choices\":[{\"text\":\" was\",\"index\":0}]}\n\n";
    check(Completions, turn, false, whole, next, " a king");
    check(Completions, turn, true, stream, next, " a king");
}

// Items of the responses API, whole and streamed.
#[test]
fn responses() {
    let turn = r#"{"model":"m","instructions":"be brief","input":"hello"}"#;
    let next = r#"{"model":"m","instructions":"be brief","input":[{"role":"user","content":"hello"},
        {"type":"reasoning","summary":[]},
        {"type":"message","role":"assistant","content":[{"type":"output_text","text":"Yes."}]},
        {"type":"function_call","call_id":"c","name":"f","arguments":"{}"},
        {"role":"user","content":[{"type":"input_text","text":"so?"}]}]}"#;
    let whole = r#"{"id":"resp_1","output":[{"type":"reasoning","id":"r","summary":[]},
        {"type":"message","role":"assistant","content":[{"type":"output_text","text":"Yes."}]},
        {"type":"function_call","call_id":"c","name":"f","arguments":"{}"}]}"#;
    let stream = concat!(
        "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_1\"}}\n\n",
        "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"Ye\"}\n\n",
        "data: {\"type\":\"response.output_text.delta\",\"delta\":\"s.\"}\n\n",
        "data: {\"type\":\"response.output_item.added\",\"item\":{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\",\"arguments\":\"\"}}\n\n",
        "data: {\"type\":\"response.function_call_arguments.delta\",\"delta\":\"{}\"}\n\n",
    );
    check(Responses, turn, false, whole, next, LAST);
    check(Responses, turn, true, stream, next, LAST);
}

// Blocks of Anthropic's messages, whole and streamed; the input of a tool comes as text there.
#[test]
fn messages() {
    let turn = r#"{"model":"m","system":[{"type":"text","text":"be brief","cache_control":{}}],"messages":[{"role":"user","content":"hello"}]}"#;
    let next = r#"{"model":"m","system":"be brief","messages":[{"role":"user","content":"hello"},
        {"role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"Yes."},
          {"type":"tool_use","id":"t","name":"f","input":{"x":1,"y":"a b"}}]},
        {"role":"user","content":"so?"}]}"#;
    let whole = r#"{"id":"msg_1","type":"message","content":[{"type":"text","text":"Yes."},
        {"type":"tool_use","id":"t","name":"f","input":{"x":1,"y":"a b"}}]}"#;
    let stream = concat!(
        "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"hm\"}}\n\n",
        "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"text_delta\",\"text\":\"Yes.\"}}\n\n",
        "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":2,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"f\",\"input\":{}}}\n\n",
        "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":2,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"x\\\": 1,\"}}\n\n",
        "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":2,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\" \\\"y\\\": \\\"a b\\\"}\"}}\n\n",
        "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":2}\n\n",
    );
    check(Messages, turn, false, whole, next, LAST);
    check(Messages, turn, true, stream, next, LAST);
}
