use bytes::Bytes;
use expect_test::{Expect, expect};
use serde_json::Value;

use super::super::Endpoint::*;
use super::super::NoPrefillLeg::{self, *};
use super::super::{Endpoint, Purpose, Splices, prefill_leg, read};
use super::reading;

fn leg(endpoint: Endpoint, body: &str) -> Result<String, NoPrefillLeg> {
    let splices = prefill_leg(endpoint, body.as_bytes(), &Splices::default())?;
    let pieces = splices.apply(&Bytes::copy_from_slice(body.as_bytes()), |_| true);
    Ok(String::from_utf8(pieces.concat()).expect("text stays text"))
}

fn check(endpoint: Endpoint, body: &str, expected: Expect) {
    expected.assert_eq(&leg(endpoint, body).expect("a leg"));
}

// Each limit that is given becomes 1, and the endpoint's own is added if it is missing. The stream
// ends, and members that a limit of 1 forbids go; all else stays as it is.
#[test]
fn limited() {
    check(
        ChatCompletions,
        r#"{"model":"m","max_tokens":null,"max_completion_tokens":7,"messages":[]}"#,
        expect![[
            r#"{"stream":false,"model":"m","max_tokens":1,"max_completion_tokens":1,"messages":[]}"#
        ]],
    );
    check(
        Completions,
        r#" { "min_tokens" : 3 , "model":"m","prompt":"x", "stream": true,"stream_options":{"include_usage":true} } "#,
        expect![[r#" {"max_tokens":1,  "model":"m","prompt":"x", "stream": false } "#]],
    );
    check(
        Responses,
        r#"{"model":"m","input":"x","max_tokens":5,"stream":null}"#,
        expect![[
            r#"{"max_output_tokens":1,"model":"m","input":"x","max_tokens":1,"stream":false}"#
        ]],
    );
    check(
        Messages,
        r#"{"model":"m","max_tokens":4096,"thinking":{"type":"enabled","budget_tokens":2048},"messages":[]}"#,
        expect![[
            r#"{"stream":false,"model":"m","max_tokens":1,"thinking":{"type":"enabled","budget_tokens":2048},"messages":[]}"#
        ]],
    );
    check(
        Completions,
        r#"{"rid":"a","min_tokens":1,"bootstrap_room":5,"stream_options":null,"model":"m","prompt":["x"],"max_tokens":9,"vllm_xargs":{"kv_transfer_params":1},"min\u005ftokens2":1}"#,
        expect![[
            r#"{"stream":false,"model":"m","prompt":["x"],"max_tokens":1,"vllm_xargs":{},"min\u005ftokens2":1}"#
        ]],
    );
}

// Requests that one replica serves whole, and near misses.
#[test]
fn whole() {
    let table = [
        (r#""prompt":"x","n":2"#, Err(Answers)),
        (r#""prompt":"x","n":1.0"#, Err(Answers)),
        (r#""prompt":"x","best_of":3"#, Err(Answers)),
        (r#""prompt":"x","use_beam_search":true"#, Err(Answers)),
        (r#""prompt":"x","n":1,"best_of":null,"use_beam_search":false"#, Ok(())),
        (r#""prompt":["x","y"]"#, Err(Prompts)),
        (r#""prompt":[[1,2],[3]]"#, Err(Prompts)),
        (r#""prompt":"x","prompt_embeds":"AAAA""#, Err(Prompts)),
        (r#""prompt":["x"],"prompt_embeds":null"#, Ok(())),
        (r#""prompt":[[1,2]]"#, Ok(())),
        (r#""prompt":[1,2,3]"#, Ok(())),
        (r#""prompt":"x","echo":true"#, Err(PromptBack)),
        (r#""prompt":"x","prompt_logprobs":0"#, Err(PromptBack)),
        (r#""prompt":"x","echo":false,"prompt_logprobs":null,"logprobs":2"#, Ok(())),
        (r#""prompt":"x","truncate_prompt_tokens":-1"#, Err(Truncation)),
        (r#""prompt":"x","truncate_prompt_tokens":null"#, Ok(())),
        (r#""prompt":"x","max_tokens":0"#, Err(NoToken)),
        (r#""prompt":"x","max_output_tokens":0"#, Ok(())),
        (r#""prompt":"x","max_tokens":1,"max_tokens":9"#, Err(Twice)),
        (r#""prompt":"x","max_tokens":1,"max_tokens":9,"stream":true"#, Err(Twice)),
        (r#""prompt":"x","min_tokens":1,"min\u005ftokens":9"#, Err(Twice)),
        (r#""prompt":"x","n":1,"n":2"#, Err(Twice)),
        (r#""prompt":"x"}{"#, Err(Unreadable)),
        (r#""prompt":"#, Err(Unreadable)),
    ];
    for (members, expected) in table {
        let body = format!("{{\"model\":\"m\",{members}}}");
        assert_eq!(leg(Completions, &body).map(|_| ()), expected, "{members}");
    }
    let response =
        |members: &str| leg(Responses, &format!("{{\"model\":\"m\",{members}}}")).map(|_| ());
    assert_eq!(
        response(r#""input":[{"role":"user"},{"role":"user"}],"truncation":"disabled""#),
        Ok(())
    );
    assert_eq!(response(r#""input":"x","truncation":"auto""#), Err(Truncation));
    assert_eq!(response(r#""input":"x","truncation":null"#), Err(Truncation));
    assert_eq!(response(r#""input":"x","previous_response_id":"resp_1""#), Err(Stored));
    assert_eq!(response(r#""input":"x","background":true"#), Err(Stored));
    assert_eq!(response(r#""input":"x","max_output_tokens":0"#), Err(NoToken));
    for endpoint in [Embeddings, CountTokens, Tokenize, Models, Other] {
        assert_eq!(leg(endpoint, r#"{"model":"m","input":"x"}"#), Err(NoPrefillLeg::Endpoint));
    }
    for body in ["", "[]", "null", "{", "{}", " { \"min_tokens\":1 , \"rid\":2 }", "\u{feff}{}"] {
        assert_eq!(leg(Completions, body), Err(Unreadable), "{body}");
    }
}

// The leg has the tenant's salt, and does not ask for usage.
#[test]
fn beside_the_usual_splices() {
    for own in ["", r#""cache_salt":"own","#] {
        let body = format!(r#"{{{own}"model":"m","messages":[],"stream":true}}"#);
        let mut info = read(ChatCompletions, body.as_bytes(), &reading()).expect("a good body");
        info.salt("5a17");
        let splices = prefill_leg(ChatCompletions, body.as_bytes(), &info.splices).expect("a leg");
        assert!(!splices.has(Purpose::Usage) && splices.has(Purpose::CacheSalt));
        let pieces = splices.apply(&Bytes::from(body.into_bytes()), |_| true).concat();
        let sent: Value = serde_json::from_slice(&pieces).expect("JSON");
        assert_eq!(
            sent,
            serde_json::json!({"cache_salt":"5a17","model":"m","messages":[],"stream":false,"max_tokens":1})
        );
    }
}

// Members are inserted into any object, whatever the cuts leave of it, and into nothing else.
#[test]
fn inserting() {
    let added = [Bytes::from_static(b"\"p\":"), Bytes::from_static(b"1")];
    let inserted = |body: &'static str| {
        let splices = read(Other, body.as_bytes(), &reading()).expect("a good body").splices;
        let body = Bytes::from(body);
        assert_eq!(splices.with_members(&body, &[]), splices);
        let pieces = splices.with_members(&body, &added).apply(&body, |_| true).concat();
        let text = String::from_utf8(pieces).expect("text stays text");
        serde_json::from_str::<Value>(&text).expect("JSON stays JSON");
        text
    };
    assert_eq!(inserted("{}"), r#"{"p":1}"#);
    assert_eq!(inserted(" { } "), r#" {"p":1 } "#);
    assert_eq!(inserted(r#"{"rid":1}"#), r#"{"p":1}"#);
    assert_eq!(inserted(r#"{ "rid" : 1 , "dp_rank":2 ,"rid":3 }"#), r#"{"p":1   }"#);
    assert_eq!(inserted(r#"{"a":2}"#), r#"{"p":1,"a":2}"#);
    assert_eq!(inserted(r#"{"rid":1,"a":2}"#), r#"{"p":1,"a":2}"#);
    assert_eq!(inserted(r#"{ "a":2,"rid":1}"#), r#"{"p":1, "a":2}"#);
    assert_eq!(inserted(r#"{"vllm_xargs":{"rid":1}}"#), r#"{"p":1,"vllm_xargs":{}}"#);
    assert_eq!(inserted(r#"[{"a":2}]"#), r#"[{"a":2}]"#);
    assert_eq!(inserted("7"), "7");
}
