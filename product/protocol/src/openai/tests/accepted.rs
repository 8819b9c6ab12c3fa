use bytes::Bytes;

use super::super::Endpoint::*;
use super::super::{Head, Purpose, read, read_as, without_mark};
use super::{ok, reading};

// Defect narrow-schema: a body that an engine takes is not refused, whatever OpenAI's schema says.
#[test]
fn what_engines_take() {
    let chat = [
        r#""messages":[]"#,
        r#""messages":[{"role":"developer","content":"x"},{"role":"function","name":"f","content":null}]"#,
        r#""messages":[{"role":"tool","content":{"type":"text","text":"x"}}]"#,
        r#""messages":[{"role":"assistant"}],"tools":null,"functions":null,"tool_choice":null"#,
        r#""messages":[],"max_tokens":null,"stream":null,"n":null,"stop":null,"user":null,"metadata":null"#,
        r#""messages":[],"max_tokens":100.0,"n":1.0,"max_completion_tokens":"100","stream":"False""#,
        r#""messages":[],"stream":1,"stream_options":{"include_usage":"true"}"#,
        r#""messages":[],"stream_options":null,"cache_salt":["a","b"],"session_id":5,"user":{"a":1}"#,
    ];
    let completions = [
        r#""prompt":"""#,
        r#""prompt":[]"#,
        r#""prompt":[1,2]"#,
        r#""prompt":[[1,2],[3]]"#,
        r#""prompt":["a",[1,2]]"#,
        r#""prompt":[12,34,"text",56]"#,
        r#""prompt":[["text",12],"b"]"#,
        r#""prompt":{"prompt_string":"a <__media__>","multimodal_data":["aGk="]}"#,
        r#""prompt":null,"prompt_embeds":"aGk=""#,
        r#""prompt_embeds":["aGk=","aGo="]"#,
    ];
    let embeddings = [
        r#""input":"""#,
        r#""input":[[1],[2]]"#,
        r#""input":[{"text":"a","image":"aGk="}]"#,
        r#""messages":[{"role":"user","content":"x"}]"#,
        r#""messages":[{"role":"user","content":"x"}],"input":null"#,
        r#""content":"x""#,
    ];
    let messages = [
        r#""messages":[{"role":"user","content":"x"}],"system":[{"type":"text","text":"s"}],"max_tokens":1e2"#,
        r#""messages":[{"role":"system","content":"x"},{"role":"user","content":[]}],"system":null"#,
    ];
    let responses = [
        r#""input":[]"#,
        r#""input":"x","instructions":null,"previous_response_id":null,"stream":"on""#,
        r#""input":[{"role":"user","content":"x"},{"type":"item_reference","id":"a"}]"#,
        r#""input":[{"type":"function_call_output","output":[1,null,["x"]]}]"#,
        r#""input":[{"type":"unheard_of"}]"#,
    ];
    let all = [
        (ChatCompletions, &chat[..]),
        (Completions, &completions),
        (Embeddings, &embeddings),
        (Messages, &messages),
        (Responses, &responses),
    ];
    for (endpoint, members) in all {
        for members in members {
            let body = format!("{{\"model\":\"m\",{members}}}\r\n\t ");
            let read = read(endpoint, body.as_bytes(), &reading());
            assert_eq!(read.map(|info| info.model), Ok("m".to_owned()), "{members}");
        }
    }
}

// Defect narrow-schema: truth values and numbers in the forms that pydantic takes are read as engines read them.
#[test]
fn loose_values() {
    let stream = |value: &str| {
        ok(ChatCompletions, &format!(r#"{{"model":"m","messages":[],"stream":{value}}}"#)).stream
    };
    for (value, expected) in [("1", true), ("\"true\"", true), ("\"Yes\"", true), ("0", false)] {
        assert_eq!(stream(value), expected, "{value}");
    }
    let body = r#"{"model":"m","messages":[],"stream":1,"max_tokens":" 100 ","n":"2","stream_options":{"include_usage":1}}"#;
    let info = ok(ChatCompletions, body);
    assert_eq!((info.max_tokens, info.replies, info.include_usage), (Some(100), 2, true));
    assert!(!info.splices.has(Purpose::Usage));
    // Token ids and texts in turn are one prompt.
    let mixed = ok(Completions, r#"{"model":"m","prompt":[12,"text",56],"n":3}"#);
    assert_eq!(mixed.replies, 3);
    // Embedded messages are the prompt of a chat.
    let chat = r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#;
    assert_eq!(ok(Embeddings, chat).prompt_bytes, ok(ChatCompletions, chat).prompt_bytes);
}

// Defect narrow-schema: a body with UTF-8's byte order mark, which shells of Windows write, is read without it.
#[test]
fn byte_order_marks() {
    let json = r#"{"model":"m","messages":[]}"#;
    let marked = Bytes::from(format!("\u{FEFF}{json}"));
    assert_eq!(without_mark(marked), json);
    let text = Bytes::from("\u{FEFF}a file");
    assert_eq!(without_mark(text.clone()), text);
}

// Defect multipart-model: a body without a model is of the query's, or of the only one that there is, and engines get its name.
#[test]
fn without_a_model() {
    let only = |name: &str| match name {
        "" => Some("m"),
        "alias" => Some("served"),
        _ => None,
    };
    for (target, body, model, alias, sent) in [
        ("/", r#"{"prompt":"a"}"#, "m", None, r#"{"model":"m","prompt":"a"}"#),
        ("/", r#"{"prompt":"a","model":null}"#, "m", None, r#"{"prompt":"a","model":"m"}"#),
        ("/", r#"{"model":"","prompt":"a"}"#, "m", None, r#"{"model":"m","prompt":"a"}"#),
        ("/?model=q", r#"{"prompt":"a"}"#, "q", None, r#"{"model":"q","prompt":"a"}"#),
        ("/?model=q", r#"{"model":"b","prompt":"a"}"#, "b", None, r#"{"model":"b","prompt":"a"}"#),
        (
            "/?model=alias",
            r#"{"prompt":"a"}"#,
            "served",
            Some("alias"),
            r#"{"model":"served","prompt":"a"}"#,
        ),
    ] {
        let place = (Completions, Head { target, content_type: b"" });
        let info = read_as(place, body.as_bytes(), &reading(), only).expect("a good body");
        assert_eq!((info.model.as_str(), info.alias.as_deref()), (model, alias), "{target} {body}");
        let pieces = info.splices.apply(&Bytes::from(body), |purpose| purpose == Purpose::Model);
        assert_eq!(pieces.concat(), sent.as_bytes(), "{target} {body}");
        // It shares prefixes with a request that names it.
        let named = format!(r#"{{"model":"{model}","prompt":"a"}}"#);
        assert_eq!(info.head, ok(Completions, &named).head);
    }
    // Nor is it lost where another field is unlike the API's.
    for (body, model) in [
        (r#"{"model":"m","stream":"maybe"}"#, "m"),
        (r#"{"stream":[],"n":{},"model":"alias"}"#, "served"),
    ] {
        let place = (Tokenize, Head::default());
        let info = read_as(place, body.as_bytes(), &reading(), only).expect("passes");
        assert_eq!(info.model, model, "{body}");
    }
    // Elsewhere nothing is added to a body that names none, since its form is the engine's own.
    let place = (Other, Head { target: "/generate", content_type: b"" });
    let info = read_as(place, br#"{"inputs":"a"}"#, &reading(), only).expect("is JSON");
    assert_eq!((info.model.as_str(), info.splices.iter().count()), ("", 0));
    let place = (Other, Head { target: "/generate?model=alias", content_type: b"" });
    let info = read_as(place, b"text", &reading(), only).expect("passes");
    assert_eq!(info.target.as_deref(), Some("/generate?model=served"));
    assert_eq!((info.model.as_str(), info.alias.as_deref()), ("served", Some("alias")));
}
