use expect_test::{Expect, expect};

use super::super::Endpoint::*;
use super::super::{Endpoint, RequestInfo, read};
use super::{chat, ok, print, reading};

fn check(endpoint: Endpoint, body: &str, expected: Expect) {
    let RequestInfo { model, stream, include_usage, max_tokens, previous_response_id, .. } =
        &ok(endpoint, body);
    let (session, bytes) = (ok(endpoint, body).session.is_some(), ok(endpoint, body).prompt_bytes);
    expected.assert_eq(&format!(
        "{model} stream={stream} usage={include_usage} max={max_tokens:?} session={session} \
         previous={previous_response_id:?} bytes={bytes}"
    ));
}

// Facts from each endpoint's body, with fields in any order and unknown ones ignored.
#[test]
fn facts() {
    check(
        ChatCompletions,
        r#"{"messages":[{"content":"hi","role":"user"}],"stream":true,"user":"u","top_k":[1],
            "model":"m","max_tokens":5,"stream_options":{"include_usage":true}}"#,
        expect!["m stream=true usage=true max=Some(5) session=true previous=None bytes=8"],
    );
    check(
        ChatCompletions,
        r#"{"model":"a\u002fb","messages":[],"stream":null,"max_tokens":-1,"user":""}"#,
        expect!["a/b stream=false usage=false max=None session=false previous=None bytes=0"],
    );
    check(
        ChatCompletions,
        r#"{"model":"m","messages":[],"max_tokens":9,"max_completion_tokens":1e3}"#,
        expect!["m stream=false usage=false max=Some(1000) session=false previous=None bytes=0"],
    );
    check(
        Completions,
        r#"{"model":"m","prompt":"hello","session_params":{"id":7},"n":3}"#,
        expect!["m stream=false usage=false max=None session=true previous=None bytes=5"],
    );
    check(
        Responses,
        r#"{"model":"m","input":"hi","previous_response_id":"resp_1","max_output_tokens":3}"#,
        expect![[
            r#"m stream=false usage=false max=Some(3) session=false previous=Some("resp_1") bytes=8"#
        ]],
    );
    check(
        Messages,
        r#"{"model":"m","system":"s","messages":[{"role":"user","content":"hi"}],"metadata":{"user_id":"u"}}"#,
        expect!["m stream=false usage=false max=None session=true previous=None bytes=17"],
    );
    check(
        Embeddings,
        r#"{"model":"m","input":["ab",[1,2]]}"#,
        expect!["m stream=false usage=false max=None session=false previous=None bytes=12"],
    );
}

// The limit of a reply comes from the endpoint's own field, the largest if there are two; so does
// the number of replies. Fields of other endpoints limit nothing.
#[test]
fn bounds() {
    let cases = [
        (ChatCompletions, r#""messages":[],"max_tokens":9,"max_completion_tokens":1"#, Some(9), 1),
        (ChatCompletions, r#""messages":[],"max_output_tokens":1"#, None, 1),
        (ChatCompletions, r#""messages":[],"max_tokens":-1,"max_completion_tokens":1"#, None, 1),
        (ChatCompletions, r#""messages":[],"n":50,"best_of":60"#, None, 50),
        (Completions, r#""prompt":"a","max_tokens":8000,"max_completion_tokens":1"#, Some(8000), 1),
        (Completions, r#""prompt":"a","n":2,"best_of":5"#, None, 5),
        (Completions, r#""prompt":["a","b"],"n":2,"max_tokens":7"#, Some(7), 4),
        (Completions, r#""prompt":[1,2,3],"n":null"#, None, 1),
        (Completions, r#""prompt":[[1,2],[3]],"n":0"#, None, 2),
        (Completions, r#""prompt":[],"n":1e99"#, None, u32::MAX),
        (Responses, r#""input":"a","max_tokens":1"#, None, 1),
        (Messages, r#""messages":[],"max_tokens":3,"max_output_tokens":1,"n":4"#, Some(3), 1),
    ];
    for (endpoint, fields, most, replies) in cases {
        let info = ok(endpoint, &format!(r#"{{"model":"m",{fields}}}"#));
        assert_eq!((info.max_tokens, info.replies), (most, replies), "{fields}");
    }
}

// Inputs that engines treat as equal have one fingerprint.
#[test]
fn equal_inputs_have_one_fingerprint() {
    let same = [
        [
            r#"{"model":"m","messages":[{"role":"user","content":"caf\u00e9 \ud83d\ude00\n\"x\" a/b"}]}"#,
            r#"{"messages":[{"content":"café 😀\u000a\u0022x\u0022 a\/b","role":"us\u0065r"}],"model":"\u006d"}"#,
        ],
        [
            r#"{"model":"m","messages":[{"role":"user","content":"hello there"}]}"#,
            r#"{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"hello "},{"text":"there","type":"text"}]}]}"#,
        ],
        [
            r#"{"model":"m","tools":[{"type":"function","function":{"name":"f","n":1}}],"messages":[{"role":"user","content":"x"}]}"#,
            "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}], \"tools\" : [ {\"type\": \"functio\\u006e\",\n\t\"function\": {\"name\":\"f\", \"n\" : 1} } ],\"model\":\"m\"}",
        ],
        [
            r#"{"model":"m","messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]}]}"#,
            r#"{"model":"m","messages":[{"role":"assistant","tool_calls":[{"id":"b","function":{"arguments":"{}","name":"f"}}],"reasoning_content":"hm"}]}"#,
        ],
        [
            r#"{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:a/b"}}]}]}"#,
            r#"{"model":"m","messages":[{"role":"user","content":[{"image_url":{"url":"data:a\/b"},"type":"image_url","cache_control":{}}]}]}"#,
        ],
    ];
    for [a, b] in same {
        assert_eq!(print(&chat(a)), print(&chat(b)), "{a}\n{b}");
        assert_eq!(chat(a).head, chat(b).head, "{a}\n{b}");
    }
}

// Inputs that engines treat as different have different fingerprints: text, roles, tools, images,
// scope.
#[test]
fn apart() {
    let bodies = [
        r#"{"model":"m","messages":[{"role":"user","content":"hello there"}]}"#,
        r#"{"model":"n","messages":[{"role":"user","content":"hello there"}]}"#,
        r#"{"model":"m","cache_salt":"s","messages":[{"role":"user","content":"hello there"}]}"#,
        r#"{"model":"m","messages":[{"role":"tool","content":"hello there"}]}"#,
        r#"{"model":"m","messages":[{"role":"user","content":"hello\\there"}]}"#,
        r#"{"model":"m","messages":[{"role":"user","content":"hello \ud83d h"}]}"#,
        r#"{"model":"m","messages":[{"role":"user","content":"hello \ud83e h"}]}"#,
        r#"{"model":"m","tools":[1],"messages":[{"role":"user","content":"hello there"}]}"#,
        r#"{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":"a"}]}]}"#,
        r#"{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":"b"}]}]}"#,
        r#"{"model":"m","messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"1"}}]}]}"#,
        r#"{"model":"m","messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"2"}}]}]}"#,
    ];
    // Padded, so that the last block is complete in each.
    let whole = |body: &str| {
        let mut fingerprint = chat(body).fingerprint;
        fingerprint.push(&[0; 8]);
        fingerprint.into_blocks()
    };
    for (i, a) in bodies.iter().enumerate() {
        for b in &bodies[..i] {
            assert_ne!(whole(a), whole(b), "{a}\n{b}");
        }
    }
}

// A tenant's scope keeps equal prompts apart.
#[test]
fn tenants() {
    let body = br#"{"model":"m","prompt":"0123456789abcdef"}"#;
    let of = |tenant_scope| {
        let reading = super::super::Reading { tenant_scope, ..reading() };
        read(Completions, body, &reading).expect("a good body").fingerprint.into_blocks()
    };
    assert_ne!(of(None), of(Some(1)));
    assert_ne!(of(Some(1)), of(Some(2)));
    assert_eq!(of(Some(2)), of(Some(2)));
}

// The head is the beginning of the first user message, whatever precedes or follows it.
#[test]
fn heads() {
    let body = |system: &str, user: &str| {
        format!(
            r#"{{"model":"m","messages":[{{"role":"system","content":"{system}"}},{{"role":"user","content":"{user}"}}]}}"#
        )
    };
    let head = |system, user| chat(&body(system, user)).head;
    assert_eq!(head("a", "0123456789abcdef and more"), head("b", "0123456789abcdef or less"));
    assert_eq!(head("a", r"012345678\u00399abcdef"), head("b", "01234567899abcdef"));
    assert_ne!(head("a", "0123456789abcdef"), head("a", "0123456789abcdeg"));
}

// The session is the first name found, in the documented order.
#[test]
fn sessions() {
    let names = [
        r#""session_id":"A""#,
        r#""session_params":{"session_id":"B"}"#,
        r#""prompt_cache_key":"C""#,
        r#""user":"D""#,
        r#""metadata":{"user_id":"E"}"#,
    ];
    let session = |parts: &[&str]| {
        chat(&format!(r#"{{"model":"m","messages":[],{}}}"#, parts.join(","))).session
    };
    for (i, name) in names.iter().enumerate() {
        let mut rest: Vec<&str> = names[i..].to_vec();
        rest.reverse();
        assert_eq!(session(&rest), session(&[name]), "{name}");
        assert!(i == 0 || session(&[name]) != session(&[names[i - 1]]), "{name}");
    }
    assert_eq!(session(&[r#""user":null"#, r#""session_id":["x"]"#]), None);
}

// On an engine's own path a body may be any JSON, or none. Nothing that the engine could read is
// refused for its contents.
#[test]
fn other_paths_are_lenient() {
    for body in ["", "\u{0}", "--form", "5", "[1]", r#"{"model":5}"#, r#"{"prompt":{}}"#] {
        let info = read(Other, body.as_bytes(), &reading()).expect("never refused");
        assert_eq!((info.model.as_str(), info.prompt_bytes), ("", 0), "{body}");
    }
    assert_eq!(ok(Other, r#"{"model":"m","user":"u"}"#).model, "m");
    assert_eq!(ok(Other, r#"{"model":"l","model":"m"}"#).model, "m");
}
