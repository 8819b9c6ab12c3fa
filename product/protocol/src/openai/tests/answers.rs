use bytes::Bytes;
use expect_test::{Expect, expect};

use super::super::Endpoint::*;
use super::super::{Answer, Endpoint, anthropic_error_json, error_event, error_json};
use super::super::{is_model_missing, merge_models, model_ids, model_list};

/// Feeds `answer` event by event (JSON answers in one piece) and prints the effect of each event.
fn check(endpoint: Endpoint, stream: bool, answer: &str, expected: Expect) {
    let mut scanner = Answer::new(endpoint, stream, false, false);
    let pieces: Vec<&str> =
        if stream { answer.split_inclusive("\n\n").collect() } else { vec![answer] };
    let mut seen = String::new();
    for (i, piece) in pieces.into_iter().enumerate() {
        let feed = scanner.feed(Bytes::copy_from_slice(piece.as_bytes()));
        assert_eq!(feed.pass, piece);
        if feed.first_token {
            seen += &format!("first in {i}, ");
        }
        if feed.ended {
            seen += &format!("ended in {i}, ");
        }
    }
    expected.assert_eq(&format!("{seen}{:?}", scanner.finish()));
}

// vLLM's chat stream with usage: role, tokens, usage alone, the end.
#[test]
fn chat_stream() {
    check(
        ChatCompletions,
        true,
        concat!(
            ": keep-alive\n\n",
            "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n",
            "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"say \\\"usage\\\": 5\"}}]}\n\n",
            "data: {\"id\":\"c\",\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"total_tokens\":11,\"completion_tokens\":2,\"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\n",
            "data: [DONE]\n\n",
        ),
        expect![
            "first in 1, ended in 4, Summary { rest: 0, usage: Some(Usage { prompt_tokens: 9, cached_tokens: Some(4), completion_tokens: 2, prefill_us: None }), response_id: None, complete: true, told: None, reply: None }"
        ],
    );
}

// llama.cpp's chat stream without usage reports its tokens in `timings`.
#[test]
fn llama_cpp_timings() {
    check(
        ChatCompletions,
        true,
        concat!(
            "data: {\"choices\":[{\"finish_reason\":null,\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":null}}]}\n\n",
            "data: {\"choices\":[{\"finish_reason\":\"length\",\"index\":0,\"delta\":{}}],\"timings\":{\"cache_n\":14,\"prompt_n\":1,\"prompt_ms\":0.527,\"predicted_n\":4}}\n\n",
        ),
        expect![
            "first in 0, Summary { rest: 0, usage: Some(Usage { prompt_tokens: 15, cached_tokens: Some(14), completion_tokens: 4, prefill_us: Some(527) }), response_id: None, complete: true, told: None, reply: None }"
        ],
    );
}

// A response: tokens start with the first delta, usage is in the last event.
#[test]
fn response_stream() {
    check(
        Responses,
        true,
        concat!(
            "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_J\",\"status\":\"in_progress\"}}\n\n",
            "event: response.output_item.added\ndata: {\"type\":\"response.output_item.added\",\"item\":{\"id\":\"msg_E\"}}\n\n",
            "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"item_id\":\"msg_E\",\"delta\":\"gn\"}\n\n",
            "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_J\",\"usage\":{\"input_tokens\":12,\"output_tokens\":2,\"total_tokens\":14,\"input_tokens_details\":{\"cached_tokens\":5}}}}\n\n",
        ),
        expect![[
            r#"first in 2, ended in 3, Summary { rest: 0, usage: Some(Usage { prompt_tokens: 12, cached_tokens: Some(5), completion_tokens: 2, prefill_us: None }), response_id: Some("resp_J"), complete: true, told: None, reply: None }"#
        ]],
    );
}

// A message: input tokens come first, without the cached ones, output tokens last.
#[test]
fn message_stream() {
    check(
        Messages,
        true,
        concat!(
            "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"usage\":{\"cache_read_input_tokens\":14,\"input_tokens\":1,\"output_tokens\":0}}}\n\n",
            "event: ping\ndata: {\"type\":\"ping\"}\n\n",
            "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"x\"}}\n\n",
            "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"max_tokens\"},\"usage\":{\"output_tokens\":3}}\n\n",
            "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
        ),
        expect![
            "first in 2, ended in 4, Summary { rest: 0, usage: Some(Usage { prompt_tokens: 15, cached_tokens: Some(14), completion_tokens: 3, prefill_us: None }), response_id: None, complete: true, told: None, reply: None }"
        ],
    );
}

// Answers in one object, of each endpoint.
#[test]
fn whole_answers() {
    check(
        ChatCompletions,
        false,
        r#"{"id":"c","choices":[{"message":{"content":"\"usage\":{\"prompt_tokens\":1} }"}}],"usage":{"prompt_tokens":9,"completion_tokens":2},"prompt_logprobs":null}"#,
        expect![
            "first in 0, ended in 0, Summary { rest: 0, usage: Some(Usage { prompt_tokens: 9, cached_tokens: None, completion_tokens: 2, prefill_us: None }), response_id: None, complete: true, told: None, reply: None }"
        ],
    );
    check(
        Responses,
        false,
        r#"{"completed_at":1,"id":"resp_Q","output":[{"id":"msg_x"}],"usage":{"input_tokens":12,"output_tokens":2,"input_tokens_details":{"cached_tokens":11}}}"#,
        expect![[
            r#"first in 0, ended in 0, Summary { rest: 0, usage: Some(Usage { prompt_tokens: 12, cached_tokens: Some(11), completion_tokens: 2, prefill_us: None }), response_id: Some("resp_Q"), complete: true, told: None, reply: None }"#
        ]],
    );
    check(
        Messages,
        false,
        r#"{"id":"m","content":[],"usage":{"cache_read_input_tokens":14,"input_tokens":1,"output_tokens":3}}"#,
        expect![
            "first in 0, ended in 0, Summary { rest: 0, usage: Some(Usage { prompt_tokens: 15, cached_tokens: Some(14), completion_tokens: 3, prefill_us: None }), response_id: None, complete: true, told: None, reply: None }"
        ],
    );
    check(
        Embeddings,
        false,
        r#"{"data":[{"embedding":[0.1]}],"usage":{"prompt_tokens":3,"total_tokens":3}}"#,
        expect![
            "first in 0, ended in 0, Summary { rest: 0, usage: Some(Usage { prompt_tokens: 3, cached_tokens: None, completion_tokens: 0, prefill_us: None }), response_id: None, complete: true, told: None, reply: None }"
        ],
    );
    check(
        ChatCompletions,
        false,
        r#"{"error":{"message":"no"}}"#,
        expect![
            "first in 0, ended in 0, Summary { rest: 0, usage: None, response_id: None, complete: true, told: Some(ToldError { status: 500 }), reply: None }"
        ],
    );
    check(
        ChatCompletions,
        false,
        r#"{"choices":[{"message":{"content":"cut"#,
        expect![
            "first in 0, Summary { rest: 0, usage: None, response_id: None, complete: false, told: None, reply: None }"
        ],
    );
}

// Usage is found at the end of an answer far longer than the kept part.
#[test]
fn a_long_answer() {
    let text = "x".repeat(100_000);
    let answer = format!(
        r#"{{"choices":[{{"text":"{text}"}}],"usage":{{"prompt_tokens":9,"completion_tokens":2}}}}"#
    );
    for collect in [false, true] {
        let mut scanner = Answer::new(Completions, false, false, collect);
        for piece in answer.as_bytes().chunks(1000) {
            scanner.feed(Bytes::copy_from_slice(piece));
        }
        let summary = scanner.finish();
        assert!(summary.complete);
        assert_eq!(summary.usage.map(|u| u.prompt_tokens), Some(9));
        assert_eq!(summary.reply, collect.then(|| text.clone().into_bytes()));
    }
}

// Errors in both forms, as a body and as an event.
#[test]
fn errors() {
    let text = |bytes: Bytes| String::from_utf8(bytes.to_vec()).expect("JSON is text");
    let all = [
        text(error_json(429, "no_capacity", "all replicas are full: retry later", None)),
        text(error_json(400, "bad_body", "`model` is missing", Some("model"))),
        text(anthropic_error_json(503, "all replicas are full")),
        text(error_event(ChatCompletions, 502, "replica_failed", "the \"replica\" went away")),
        text(error_event(Messages, 502, "replica_failed", "the replica went away")),
    ];
    expect![[r#"
        {"error":{"message":"all replicas are full: retry later","type":"rate_limit_error","param":null,"code":"no_capacity"}}
        {"error":{"message":"`model` is missing","type":"invalid_request_error","param":"model","code":"bad_body"}}
        {"type":"error","error":{"type":"overloaded_error","message":"all replicas are full"}}
        data: {"error":{"message":"the \"replica\" went away","type":"server_error","param":null,"code":"replica_failed"}}


        event: error
        data: {"type":"error","error":{"type":"api_error","message":"the replica went away"}}

    "#]].assert_eq(&all.join("\n"));
}

// Lists are merged by name and keep the first description; invalid lists are left out.
#[test]
fn models() {
    let vllm: &[u8] =
        br#"{"object":"list","data":[{"id":"a","max_model_len":4096,"x":[1, 2]},{"id":"b"}]}"#;
    let llama: &[u8] = br#"{"models":[{"name":"c"}],"object":"list","data":[{"id":"a"},{"id":"c","meta":{"n_ctx":512}}]}"#;
    let merged = merge_models(&[vllm, b"oops", llama, b"{\"data\":[5]}"], [].into_iter());
    expect![[r#"{"object":"list","data":[{"id":"a","max_model_len":4096,"x":[1, 2]},{"id":"b"},{"id":"c","meta":{"n_ctx":512}}]}"#]].assert_eq(std::str::from_utf8(&merged).expect("JSON is text"));
    expect![[r#"Ok([Model { id: "a", max_model_len: None, is_adapter: false }, Model { id: "c", max_model_len: Some(512), is_adapter: false }])"#]].assert_eq(&format!("{:?}", model_list(llama)));
    assert_eq!(model_ids(&merged).expect("a list"), ["a", "b", "c"]);
    let adapters = model_list(br#"{"data":[{"id":"m","parent":null},{"id":"a","parent":"m"}]}"#);
    let adapters: Vec<bool> = adapters.expect("a list").iter().map(|m| m.is_adapter).collect();
    assert_eq!(adapters, [false, true]);
    assert!(model_ids(b"{}").is_err() && model_ids(b"").is_err());
}

// vLLM 0.32.0 before, while and after an adapter is loaded: its lists, and which of its refusals say
// that it does not serve the model.
#[test]
fn adapters_recorded() {
    #[derive(serde::Deserialize)]
    struct Step {
        name: String,
        path: String,
        status: u16,
        body: String,
    }
    let steps = include_str!("../../signals/fixtures/vllm/lora.json");
    let steps: Vec<Step> = serde_json::from_str(steps).expect("steps");
    let mut lists: Vec<Vec<(String, Option<u64>, bool)>> = Vec::new();
    for Step { name, path, status, body } in steps {
        if path == "/v1/models" {
            let list = model_list(body.as_bytes()).expect("a list");
            lists.push(list.into_iter().map(|m| (m.id, m.max_model_len, m.is_adapter)).collect());
        }
        let is_missing = path == "/v1/completions" && status == 404;
        assert_eq!(is_model_missing(body.as_bytes()), is_missing, "{name}");
    }
    let base = || ("tiny".to_owned(), Some(4096), false);
    let all = vec![base(), ("sql".to_owned(), Some(4096), true)];
    assert_eq!(lists, [vec![base()], all, vec![base()]]);
}

// Defect context-lengths: a model is listed with its longest context, whichever replica comes first.
// Engines name it in several ways; one of another type is no length, and the list is still read.
#[test]
fn the_longest_context() {
    let lists =
        [2048, 131_072].map(|n| format!(r#"{{"data":[{{"id":"m","max_model_len":{n}}}]}}"#));
    let unknown = r#"{"data":[{"id":"m","max_model_len":null}]}"#;
    let [short, long] = [lists[0].as_bytes(), lists[1].as_bytes()];
    for pages in [[short, long, unknown.as_bytes()], [unknown.as_bytes(), long, short]] {
        let merged = merge_models(&pages, [].into_iter());
        let expected = r#"{"object":"list","data":[{"id":"m","max_model_len":131072}]}"#;
        assert_eq!(std::str::from_utf8(&merged).expect("JSON is text"), expected);
    }
    for (member, expected) in [
        (r#""max_model_len":4096"#, Some(4096)),
        (r#""meta":{"n_ctx":512,"n_ctx_train":4096}"#, Some(512)),
        (r#""context_length":8192,"max_model_len":null"#, Some(8192)),
        (r#""context_window":8192"#, Some(8192)),
        (r#""max_context_length":8192"#, Some(8192)),
        (r#""max_model_len":"4096""#, None),
        (r#""max_model_len":0,"meta":null"#, None),
        (r#""max_model_len":-1"#, None),
    ] {
        let list = format!(r#"{{"data":[{{"id":"m",{member}}},{{"id":"a","parent":"m"}}]}}"#);
        let models = model_list(list.as_bytes()).expect("a list");
        let lengths: Vec<_> = models.into_iter().map(|model| model.max_model_len).collect();
        assert_eq!(lengths, [expected, expected], "{member}");
    }
}

// A 404 for an unknown model, in the forms of vLLM and of OpenAI, and no other error.
#[test]
fn missing_models() {
    for (body, missing) in [
        (
            r#"{"error":{"message":"The model `a` does not exist.","type":"NotFoundError","param":"model","code":404}}"#,
            true,
        ),
        (
            r#"{"error":{"message":"The model `a` does not exist.","type":"NotFoundError","param":null,"code":404}}"#,
            true,
        ),
        (
            r#"{"object":"error","message":"The model `a` does not exist.","type":"NotFoundError","code":404}"#,
            true,
        ),
        (r#"{"error":{"message":"gone","code":"model_not_found"}}"#, true),
        (
            r#"{"error":{"message":"no such response","param":"previous_response_id","code":404}}"#,
            false,
        ),
        (r#"{"detail":"Not Found"}"#, false),
        (r#"{"error":"not found"}"#, false),
        ("", false),
        ("<html>", false),
    ] {
        assert_eq!(is_model_missing(body.as_bytes()), missing, "{body}");
    }
}
