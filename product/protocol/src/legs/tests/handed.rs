//! Parameters for the decode leg are taken whole or not at all.

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::NoParams::*;
use super::super::{Finish, Handed, MAX_ANSWER, NoParams, find};
use super::{PAIR, answer, recording};
use crate::openai::Endpoint::{self, ChatCompletions, Completions, Messages, Responses};

/// Reads `text` as an answer of `/v1/completions`.
fn read(text: impl Into<String>) -> Result<Handed, NoParams> {
    Handed::read(Completions, &Bytes::from(text.into().into_bytes()))
}

fn refused(text: impl Into<String>) -> NoParams {
    read(text).expect_err("refused")
}

/// A recorded answer with changed parameters.
fn with(change: impl FnOnce(&mut Value)) -> String {
    let mut answer: Value =
        serde_json::from_slice(&answer(&recording!("completions"))).expect("JSON");
    change(&mut answer["kv_transfer_params"]);
    answer.to_string()
}

// The four endpoints' answers: the parameters, the end, the usage and the cached tokens.
#[test]
fn recorded_answers() {
    let table: [(Value, Endpoint, u64, u64); 6] = [
        (recording!("completions"), Completions, 382, 0),
        (recording!("completions-again"), Completions, 382, 352),
        (recording!("chat-stream"), ChatCompletions, 392, 0),
        (recording!("chat-logprobs"), ChatCompletions, 392, 0),
        (recording!("responses"), Responses, 391, 384),
        (recording!("messages"), Messages, 391, 0),
    ];
    for (recording, endpoint, tokens, cached) in table {
        let handed = Handed::read(endpoint, &answer(&recording)).expect("a good answer");
        let params: Value = serde_json::from_slice(&handed.params()).expect("JSON");
        let decode = &recording["decode_request"]["body"]["kv_transfer_params"];
        assert_eq!(&params, if decode.is_null() { &recording["kv"] } else { decode });
        assert_eq!((handed.tokens, handed.cached_tokens), (Some(tokens), Some(cached)));
        let usage = handed.usage.expect("reported");
        assert_eq!((usage.prompt_tokens, usage.completion_tokens), (tokens, 1));
        assert_eq!(handed.finish, Finish::Limit);
        assert_eq!(Finish::read(endpoint, &answer(&recording)), Ok(Finish::Limit));
    }
}

// A streamed prefill hands nothing over, and the incomplete parameters that stopped an engine are
// refused.
#[test]
fn recorded_refusals() {
    for stream in recording!("streams").as_object().expect("an object").values() {
        assert_eq!(refused(stream.as_str().expect("text")), Unreadable);
    }
    let params = recording!("params");
    let seven = with(|kv| *kv = params["limit-left-at-7"].clone());
    let handed = read(seven).expect("more tokens than the prompt has");
    assert_eq!((handed.tokens, handed.cached_tokens), (Some(398), None));
    let missing = with(|kv| *kv = params["request-id-missing"].clone());
    assert_eq!(refused(missing), Field("remote_request_id"));
    let shortest = with(|kv| *kv = json!({"do_remote_prefill": true, "do_remote_decode": false}));
    assert_eq!(refused(shortest), Field("remote_block_ids"));
    let unfilled = with(|kv| *kv = json!({"do_remote_decode": true, "do_remote_prefill": false}));
    assert_eq!(refused(unfilled), Field("do_remote_prefill"));
}

// Each needed field, missing, null or of another form.
#[test]
fn fields() {
    let odd = [
        ("do_remote_prefill", vec![json!(false), json!("true"), json!(1)]),
        ("do_remote_decode", vec![json!(true), json!("false"), json!(0)]),
        (
            "remote_block_ids",
            vec![
                json!([]),
                json!([[]]),
                json!([[[1]]]),
                json!([-1]),
                json!([1.5]),
                json!(["1"]),
                json!([[null]]),
                json!({"0": [1]}),
                json!(7),
            ],
        ),
        ("remote_request_id", vec![json!(""), json!(" "), json!(7), json!(["x"])]),
        ("remote_engine_id", vec![json!(""), json!({})]),
        ("remote_host", vec![json!(""), json!(false)]),
        (
            "remote_port",
            vec![json!(0), json!(-1), json!(65536), json!(1.0), json!("15600"), json!(1e99)],
        ),
    ];
    for (name, values) in odd {
        let without = with(|kv| drop(kv.as_object_mut().expect("an object").remove(name)));
        assert_eq!(refused(without), Field(name));
        for value in values.into_iter().chain([Value::Null]) {
            let text = value.to_string();
            assert_eq!(refused(with(|kv| kv[name] = value)), Field(name), "{text}");
        }
    }
    for name in ["remote_num_tokens", "remote_prefill_cached_tokens"] {
        assert_eq!(refused(with(|kv| kv[name] = json!("5"))), Field(name));
        assert!(read(with(|kv| kv[name] = Value::Null)).is_ok());
    }
    // The older form of the block ids.
    assert!(read(with(|kv| kv["remote_block_ids"] = json!([1, 2, 3]))).is_ok());
    // Fewer tokens than the prompt has would end a decode engine. Models with a recurrent state hand
    // over all but the last.
    assert!(read(with(|kv| kv["remote_num_tokens"] = json!(381))).is_ok());
    assert_eq!(refused(with(|kv| kv["remote_num_tokens"] = json!(380))), Short);
}

// A prefill that was aborted, or ended in a way that is not known, hands nothing over.
#[test]
fn ends() {
    let params = with(|_| ()).split_once("\"kv_transfer_params\":").expect("there").1.to_owned();
    let params = &params[..=params.find('}').expect("flat")];
    let read = |endpoint, end: &str| {
        let answer = format!("{{{end}\"kv_transfer_params\":{params}}}");
        Handed::read(endpoint, &Bytes::from(answer.into_bytes())).map(|handed| handed.finish)
    };
    let choice = |reason: &str| format!("\"choices\":[{{\"finish_reason\":{reason}}}],");
    for endpoint in [ChatCompletions, Completions] {
        assert_eq!(read(endpoint, &choice("\"length\"")), Ok(Finish::Limit));
        assert_eq!(read(endpoint, &choice("\"st\\u006fp\"")), Ok(Finish::Stop));
        for reason in ["\"abort\"", "\"error\"", "null", "7", "\"\""] {
            assert_eq!(read(endpoint, &choice(reason)), Err(Unfinished), "{reason}");
        }
        for choices in ["", "\"choices\":[],", "\"choices\":null,", "\"choices\":[7],"] {
            assert_eq!(read(endpoint, choices), Err(Unfinished), "{choices}");
        }
    }
    let table = [
        ("\"status\":\"completed\",", Ok(Finish::Stop)),
        ("\"status\":\"failed\",", Err(Unfinished)),
        ("\"status\":\"incomplete\",", Err(Unfinished)),
        (
            "\"status\":\"incomplete\",\"incomplete_details\":{\"reason\":\"content_filter\"},",
            Err(Unfinished),
        ),
        (
            "\"status\":\"incomplete\",\"incomplete_details\":{\"reason\":\"max_output_tokens\"},",
            Ok(Finish::Limit),
        ),
    ];
    for (end, expected) in table {
        assert_eq!(read(Responses, end), expected, "{end}");
    }
    for (reason, expected) in [
        ("max_tokens", Ok(Finish::Limit)),
        ("end_turn", Ok(Finish::Stop)),
        ("stop_sequence", Ok(Finish::Stop)),
        ("refusal", Err(Unfinished)),
    ] {
        assert_eq!(read(Messages, &format!("\"stop_reason\":\"{reason}\",")), expected, "{reason}");
    }
}

// Hostile answers: doubled names, nesting, garbage, size.
#[test]
fn hostile() {
    let good = with(|_| ());
    assert!(read(good.clone()).is_ok());
    assert_eq!(refused(format!("{good} x")), Unreadable);
    assert_eq!(refused(format!("[{good}]")), Unreadable);
    assert_eq!(refused(""), Unreadable);
    let twice = good.replacen('{', "{\"kv_transfer_params\":null,", 1);
    assert_eq!(refused(twice), Unreadable);
    for double in ["\"tp_size\":1,", "\"tp\\u005fsize\":1,", "\"remote_host\":\"h\","] {
        let double =
            good.replace("\"kv_transfer_params\":{", &format!("\"kv_transfer_params\":{{{double}"));
        assert_eq!(refused(double), NotObject);
    }
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(refused(with(|kv| kv["x"] = json!("DEEP")).replace("\"DEEP\"", &deep)), NotObject);
    assert!(read(good.replacen('{', &format!("{{\"x\":{deep},"), 1)).is_ok());
    let many = (0..65).map(|n| format!("\"{n}\":0")).collect::<Vec<_>>().join(",");
    assert_eq!(
        refused(
            good.replace("\"kv_transfer_params\":{", &format!("\"kv_transfer_params\":{{{many},"))
        ),
        NotObject
    );
    for other in ["[]", "7", "\"x\"", "true"] {
        assert_eq!(refused(with(|kv| *kv = serde_json::from_str(other).expect("JSON"))), NotObject);
    }
    assert_eq!(refused(with(|kv| *kv = Value::Null)), Absent);
    assert_eq!(refused("{\"choices\":[{\"finish_reason\":\"length\"}]}"), Absent);
    assert_eq!(refused(" ".repeat(MAX_ANSWER + 1)), TooLarge);
    let bytes = Bytes::from_static(b"{\"x\":\"\xff\"}");
    assert_eq!(Handed::read(Completions, &bytes).map(|_| ()), Err(Unreadable));
}

// No error quotes the answer, and each has a short word. The parameters are in no debug output.
#[test]
fn words() {
    let handed = read(with(|kv| kv["remote_host"] = json!("secret"))).expect("a good answer");
    let added = (find("nixl").expect("known").decode)(&PAIR, Some(&handed));
    assert!(!format!("{handed:?} {added:?}").contains("secret"));
    for reason in [TooLarge, Unreadable, Unfinished, Absent, NotObject, Field("remote_port"), Short]
    {
        assert!(reason.word().chars().all(|c| c.is_ascii_lowercase() || c == '_'));
        assert!(!reason.to_string().is_empty());
    }
}

proptest! {
    // A damaged answer is read or refused. If it is read, its parameters are a slice of it that has
    // every needed field.
    #[test]
    fn damaged(
        changes in prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(b"{}[]\",:0n\\ \xff".to_vec())), 0..6),
        cut in any::<prop::sample::Index>(),
        whole in any::<bool>(),
    ) {
        let mut bytes = answer(&recording!("completions")).to_vec();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if !whole {
            bytes.truncate(cut.index(bytes.len() + 1));
        }
        let bytes = Bytes::from(bytes);
        if let Ok(handed) = Handed::read(Completions, &bytes) {
            let params: Value = serde_json::from_slice(&handed.params()).expect("JSON");
            prop_assert_eq!(&params["do_remote_prefill"], true);
            prop_assert!(params["remote_request_id"].is_string() && params["remote_port"].is_u64());
            prop_assert!(bytes.as_ptr_range().contains(&handed.params().as_ptr()));
        }
    }
}
