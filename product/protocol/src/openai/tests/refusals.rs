use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::super::Endpoint::*;
use super::super::{Endpoint, read};
use super::reading;

fn check(endpoint: Endpoint, body: &[u8], expected: Expect) {
    let bad = read(endpoint, body, &reading()).expect_err("a bad body");
    expected.assert_eq(&format!("{}: {bad}", bad.param.unwrap_or("-")));
}

fn chat(body: &str, expected: Expect) {
    check(ChatCompletions, body.as_bytes(), expected);
}

// A body that is not a JSON object.
#[test]
fn no_object() {
    check(
        ChatCompletions,
        b"",
        expect!["-: the body is empty: send a JSON object with `model` and `messages`"],
    );
    check(
        Completions,
        b"{\"model\":\"\xFF\"}",
        expect!["-: the body is not UTF-8 at byte 10: encode it as UTF-8"],
    );
    chat("[]", expect!["-: the body is an array: send a JSON object (line 1, column 2)"]);
    chat(r#""secret""#, expect!["-: the body is a string: send a JSON object (line 1, column 8)"]);
    chat(
        r#"{"model":"m""#,
        expect![
            "-: the body is not one valid JSON object: EOF while parsing an object at line 1 column 12; check its quoting"
        ],
    );
    chat(
        r#"{"model":"m",}"#,
        expect![
            "-: the body is not one valid JSON object: trailing comma at line 1 column 14; check its quoting"
        ],
    );
    chat(
        r#"{"model":"m","messages":[]} secret"#,
        expect![
            "-: the body is not one valid JSON object: trailing characters at line 1 column 29; check its quoting"
        ],
    );
    chat(
        "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"a\nb\"}]}",
        expect![[
            r#"-: the body is not one valid JSON object: control character (\u0000-\u001F) found while parsing a string at line 1 column 52; check its quoting"#
        ]],
    );
}

// A field that is missing.
#[test]
fn fields() {
    chat(
        r#"{"messages":[]}"#,
        expect!["model: `model` is missing: send the name of a model of /v1/models"],
    );
    chat(
        r#"{"model":"m"}"#,
        expect![[
            r#"messages: `messages` is missing: send an array of messages such as {"role": "user", "content": "..."}"#
        ]],
    );
    chat(
        r#"{"model":"","messages":[]}"#,
        expect!["model: `model` is missing: send the name of a model of /v1/models"],
    );
}

// A field of another type, or given twice.
#[test]
fn types() {
    chat(r#"{"model":5,"messages":[]}"#, expect!["model: `model` is a number: send a string"]);
    chat(
        r#"{"model":"m","model":"n","messages":[]}"#,
        expect!["model: `model` is given twice: send it once (line 1, column 20)"],
    );
    chat(
        r#"{"model":"m","messages":[],"messages":[]}"#,
        expect!["messages: `messages` is given twice: send it once (line 1, column 37)"],
    );
    chat(
        r#"{"model":"m","messages":"secret"}"#,
        expect!["messages: `messages` is a string: send an array (line 1, column 32)"],
    );
    chat(
        r#"{"model":"m","messages":null}"#,
        expect!["messages: `messages` is null: send an array (line 1, column 28)"],
    );
    chat(
        r#"{"model":"m","messages":[],"stream":"secret"}"#,
        expect!["stream: `stream` is a string: send true or false"],
    );
    chat(
        r#"{"model":"m","messages":[],"max_tokens":"secret"}"#,
        expect!["max_tokens: `max_tokens` is a string: send a whole number"],
    );
    chat(
        r#"{"model":"m","messages":[],"stream_options":[]}"#,
        expect![[
            r#"stream_options: `stream_options` is an array: send an object such as {"include_usage": true}"#
        ]],
    );
    chat(
        r#"{"model":"m","messages":[],"stream_options":{"include_usage":[]}}"#,
        expect![
            "stream_options: in `stream_options`, `include_usage` is an array: send true or false"
        ],
    );
    chat(
        r#"{"model":"m","messages":[],"tools":{}}"#,
        expect!["tools: `tools` is an object: send an array of tools"],
    );
}

// The fields of the endpoints other than chat.
#[test]
fn other_endpoints() {
    check(
        Completions,
        br#"{"model":"m"}"#,
        expect![
            "prompt: `prompt` is missing: send a string, an array of strings or an array of token ids"
        ],
    );
    check(
        Completions,
        br#"{"model":"m","prompt":true}"#,
        expect![
            "prompt: `prompt` is a boolean: send a string, an array of strings or an array of token ids"
        ],
    );
    check(
        Completions,
        br#"{"model":"m","prompt":[true]}"#,
        expect!["prompt: in `prompt`, an element is a boolean: send strings or token ids"],
    );
    check(
        Completions,
        br#"{"model":"m","prompt":[1,-2]}"#,
        expect![
            "prompt: in `prompt`, an element is not a token id: send integers from 0 to 4294967295"
        ],
    );
    check(
        Responses,
        br#"{"model":"m"}"#,
        expect!["input: `input` is missing: send a string or an array of items"],
    );
    check(
        Responses,
        br#"{"model":"m","input":5}"#,
        expect!["input: `input` is a number: send a string or an array of items"],
    );
    check(
        Embeddings,
        br#"{"model":"m"}"#,
        expect![
            "input: `input` is missing: send a string, an array of strings or an array of token ids"
        ],
    );
}

// Errors inside the messages.
#[test]
fn messages() {
    chat(
        r#"{"model":"m","messages":["secret"]}"#,
        expect!["messages: in `messages`, a string is in place of an object (line 1, column 33)"],
    );
    chat(
        r#"{"model":"m","messages":[{"role":"user"},{"content":"x"}]}"#,
        expect!["messages: in `messages`, message 1 has no `role` (line 1, column 57)"],
    );
    chat(
        r#"{"model":"m","messages":[{"role":5}]}"#,
        expect![
            "messages: in `messages`, a `role` is a number: send a string (message 0, counted from 0)"
        ],
    );
    chat(
        r#"{"model":"m","messages":[{"role":"user","role":"user"}]}"#,
        expect![
            "messages: in `messages`, a member `role` is given twice: send it once (line 1, column 46)"
        ],
    );
    chat(
        r#"{"model":"m","messages":[{"role":"user","content":5}]}"#,
        expect![
            "messages: in `messages`, a content is a number: send a string or an array of parts (message 0, counted from 0)"
        ],
    );
    chat(
        r#"{"model":"m","messages":[{"role":"user","content":[5]}]}"#,
        expect![
            "messages: in `messages`, a number is in place of an object (message 0, counted from 0)"
        ],
    );
    chat(
        r#"{"model":"m","messages":[{"role":"user","tool_calls":[5]}]}"#,
        expect![
            "messages: in `messages`, a number is in place of an object (message 0, counted from 0)"
        ],
    );
}

// Nesting is limited in every field, known or not, and uses no stack.
#[test]
fn nesting() {
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    chat(
        &format!(r#"{{"model":"m","messages":[],"x":{deep}}}"#),
        expect![
            "-: `a field` nests deeper than 128 levels: send a flatter value (line 1, column 200032)"
        ],
    );
    chat(
        &format!(r#"{{"model":"m","messages":[],"tools":{deep}}}"#),
        expect!["tools: `tools` nests deeper than 128 levels: send a flatter value"],
    );
    chat(
        &format!(r#"{{"model":"m","messages":[{{"role":"user","content":{deep}}}]}}"#),
        expect![
            "messages: in `messages`, an array is in place of an object (message 0, counted from 0)"
        ],
    );
    let open = "[".repeat(100_000);
    chat(
        &format!(r#"{{"model":"m","messages":{open}"#),
        expect!["messages: in `messages`, an array is in place of an object (line 1, column 26)"],
    );
}

// Too many messages.
#[test]
fn many() {
    let many = vec![r#"{"role":"user"}"#; 70_000].join(",");
    chat(
        &format!(r#"{{"model":"m","messages":[{many}]}}"#),
        expect![
            "messages: in `messages`, there are more than 65536 elements: send fewer (line 1, column 1048617)"
        ],
    );
}

const ENDPOINTS: [Endpoint; 7] =
    [ChatCompletions, Completions, Responses, Embeddings, Messages, Models, Other];

/// JSON-like text made of the words that the reader searches for.
fn jsonish() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "\"model\"",
        "\"messages\"",
        "\"role\"",
        "\"content\"",
        "\"m\"",
        "\"secret\"",
        "\"prompt\"",
        "\"input\"",
        "\"tools\"",
        "\"stream_options\"",
        "\"include_usage\"",
        "\"\\u00\"",
        "\"\\ud800\"",
        "null",
        "true",
        "5",
        "-1e9",
        " ",
    ]);
    prop::collection::vec(words, 0..40).prop_map(|words| words.concat())
}

proptest! {
    // No bytes make the reader panic.
    #[test]
    fn no_panic_on_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for endpoint in ENDPOINTS {
            let _ = read(endpoint, &bytes, &reading());
        }
    }

    // No sequence of JSON tokens makes it panic either, and no refusal quotes the body.
    #[test]
    fn no_panic_and_no_quotes(body in jsonish(), value in jsonish()) {
        let wrapped = [
            body,
            format!(r#"{{"model":"m","messages":[{{"role":"user","content":{value}}}]}}"#),
            format!(r#"{{"model":"m","prompt":{value},"input":{value},"stream_options":{value}}}"#),
        ];
        for (endpoint, body) in ENDPOINTS.into_iter().flat_map(|e| wrapped.iter().map(move |b| (e, b))) {
            if let Err(bad) = read(endpoint, body.as_bytes(), &reading()) {
                prop_assert!(!bad.message.contains("secret"), "{}", bad);
            }
        }
    }
}
