use bytes::Bytes;
use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::Value;

use super::super::Endpoint::*;
use super::super::{Endpoint, Purpose, read};
use super::{print, reading};

fn stripped(endpoint: Endpoint, body: &str) -> String {
    let info = read(endpoint, body.as_bytes(), &reading()).expect("a good body");
    let body = Bytes::copy_from_slice(body.as_bytes());
    let whole = info.splices.stripped(&body);
    assert_eq!(whole.as_ptr() == body.as_ptr(), info.splices.engine_fields().next().is_none());
    String::from_utf8(whole.to_vec()).expect("text stays text")
}

fn check(body: &str, expected: Expect) {
    let left = stripped(Other, body);
    serde_json::from_str::<Value>(&left).expect("JSON stays JSON");
    expected.assert_eq(&left);
}

// The member is removed with one comma, wherever it is; every other byte stays.
#[test]
fn members_go() {
    check(r#"{"kv_transfer_params":{"a":[1,2]}}"#, expect!["{}"]);
    check(r#" { "bootstrap_room" : 7 , "a" : 1.0e5 } "#, expect![[r#" {  "a" : 1.0e5 } "#]]);
    check(r#"{"a":1 , "bootstrap_room" : 7 }"#, expect![[r#"{"a":1  }"#]]);
    check(r#"{"a":1,"ec_transfer_params":null,"b":2}"#, expect![[r#"{"a":1,"b":2}"#]]);
    check(
        r#"{"bootstrap_host":"h","bootstrap_port":1,"bootstrap_new":{"x":","},"a":1,"disagg_x":[","],"routed_dp_rank":0}"#,
        expect![[r#"{"a":1}"#]],
    );
    check(r#"{"dp_rank":1,"dp_rank":2,"dp_rank":3}"#, expect!["{}"]);
    check(
        r#"{"request_id":"resp_1","rid":["a","b"],"sampling_params":{"rid":"x"},"metadata":{"rid":"own","request_id":"own"}}"#,
        expect![[r#"{"sampling_params":{},"metadata":{"rid":"own","request_id":"own"}}"#]],
    );
}

// Every duplicate is removed, however its name is escaped.
#[test]
fn names_are_read_not_compared() {
    check(
        "{\"kv_transfer\\u005Fparams\":1,\"a\":\"\\\\\",\n\t\"\\u006bv_transfer_params\"\r:{},\"kv_transfer_params\":3,\"b\":\"\\\"\"}",
        expect![[r#"{"a":"\\","b":"\""}"#]],
    );
    // A quote and backslashes before the name make it another name.
    check(
        r#"{"a\\":1,"\"kv_transfer_params":2,"kv_transfer_params\\":3,"kv_transfer_params":4}"#,
        expect![[r#"{"a\\":1,"\"kv_transfer_params":2,"kv_transfer_params\\":3}"#]],
    );
}

// Private fields are also removed from the containers that an engine reads, at any depth. In the
// client's own values the same name stays.
#[test]
fn containers_and_content() {
    check(
        r#"{"vllm_xargs":{"kv_transfer_params":{"do_remote_prefill":true},"k":1},"sampling_params":{"extra_args":{"kv_transfer_params":1}}}"#,
        expect![[r#"{"vllm_xargs":{"k":1},"sampling_params":{"extra_args":{}}}"#]],
    );
    check(
        r#"[{"text":"a","bootstrap_room":1},[{"bootstrap_room":1,"text":"b"}]]"#,
        expect![[r#"[{"text":"a"},[{"text":"b"}]]"#]],
    );
    check(
        r#"{"sampling_params":[{"bootstrap_room":1},{"n":1,"custom_params":{"disagg_x":1}}],"extra_body":{"nvext":{"prefill_worker_id":1}},"parameters":{"bootstrap_room":2}}"#,
        expect![[
            r#"{"sampling_params":[{},{"n":1,"custom_params":{}}],"extra_body":{"nvext":{}},"parameters":{}}"#
        ]],
    );
    for own in [
        r#"{"messages":[{"role":"user","kv_transfer_params":1}],"metadata":{"bootstrap_host":"h"}}"#,
        r#"{"tools":[{"function":{"parameters":{"properties":{"bootstrap_host":{"type":"string"}}}}}]}"#,
        r#"{"response_format":{"json_schema":{"schema":{"properties":{"dp_rank":{}}}}}}"#,
        r#"{"sampling_params":{"json_schema":{"bootstrap_host":1},"text":"kv_transfer_params"}}"#,
        r#"{"vllm_xargs":null,"sampling_params":5,"nvext":"kv_transfer_params","x":"\ud800"}"#,
    ] {
        assert_eq!(stripped(Other, own), own);
    }
}

// The prompt is fingerprinted as if the field were absent, and the cuts combine with the splices
// for usage and salt.
#[test]
fn beside_the_other_splices() {
    let clean = r#"{"model":"m","stream":true,"cache_salt":"own","messages":[{"role":"user","content":"hello there, hello"}]}"#;
    let dirty = clean
        .replace("{\"model\"", r#"{"kv_transfer_params":{},"bootstrap_room":5,"model""#)
        .replace("own\",", r#"own","vllm_xargs":{"kv_transfer_params":1},"#);
    let mut infos =
        [clean, &dirty].map(|b| read(ChatCompletions, b.as_bytes(), &reading()).expect("good"));
    assert_eq!(print(&infos[0]), print(&infos[1]));
    infos.iter_mut().for_each(|info| info.salt("5a17"));
    let sent = |i: usize, body: &str| {
        let pieces = infos[i].splices.apply(&Bytes::copy_from_slice(body.as_bytes()), |_| true);
        serde_json::from_slice::<Value>(&pieces.concat()).expect("JSON")
    };
    let mut expected = sent(0, clean);
    assert_eq!(
        (&expected["cache_salt"], &expected["stream_options"]["include_usage"]),
        (&"5a17".into(), &true.into())
    );
    expected["vllm_xargs"] = serde_json::json!({});
    assert_eq!(sent(1, &dirty), expected);
    let names: Vec<_> = infos[1].splices.engine_fields().map(|f| f.family()).collect();
    assert_eq!(names, ["kv_transfer_params", "bootstrap_*", "kv_transfer_params"]);
    assert!(!infos[0].splices.iter().any(|s| matches!(s.purpose, Purpose::Strip(_))));
}

// A salt becomes the first member, or replaces the client's, even if that is null.
#[test]
fn salts() {
    let salted = |body: &str| {
        let mut info = read(Completions, body.as_bytes(), &reading()).expect("a good body");
        info.salt("5a17");
        String::from_utf8(
            info.splices.apply(&Bytes::copy_from_slice(body.as_bytes()), |_| true).concat(),
        )
        .expect("text")
    };
    assert_eq!(
        salted(r#" {"model":"m","prompt":"x"}"#),
        r#" {"cache_salt":"5a17","model":"m","prompt":"x"}"#
    );
    for own in ["null", "\"\"", "\"theirs\""] {
        let body = |salt: &str| format!(r#"{{"model":"m","cache_salt" : {salt} ,"prompt":"x"}}"#);
        assert_eq!(salted(&body(own)), body("\"5a17\""));
    }
}

// A number of private fields that no honest client sends is refused.
#[test]
fn too_many() {
    let many = vec![r#""bootstrap_room":1"#; 65].join(",");
    let bad = read(Other, format!("{{{many}}}").as_bytes(), &reading()).expect_err("too many");
    assert_eq!(bad.param, Some("bootstrap_room"));
    assert!(bad.message.starts_with("there are more than 64 fields"), "{bad}");
}

/// A JSON text, with the spelling of its names and gaps.
#[derive(Clone, Debug)]
enum Json {
    Leaf(&'static str),
    List(Vec<Json>),
    Object(Vec<(&'static str, u8, Json)>),
}

const GAPS: [&str; 4] = ["", " ", "\n\t", "  \r\n"];

impl Json {
    fn write(&self, out: &mut String) {
        match self {
            Json::Leaf(text) => out.push_str(text),
            Json::List(items) => {
                out.push('[');
                for (i, item) in items.iter().enumerate() {
                    out.push_str(if i == 0 { "" } else { " ," });
                    item.write(out);
                }
                out.push(']');
            }
            Json::Object(members) => {
                out.push('{');
                for (i, (name, style, value)) in members.iter().enumerate() {
                    let gap = GAPS[usize::from(style % 4)];
                    out.push_str(if i == 0 { "" } else { "," });
                    out.push_str(gap);
                    quote(name, *style, out);
                    out.push_str(gap);
                    out.push(':');
                    out.push_str(gap);
                    value.write(out);
                    out.push_str(gap);
                }
                out.push('}');
            }
        }
    }
}

/// A name with some characters written as escapes.
fn quote(name: &str, style: u8, out: &mut String) {
    out.push('"');
    for (i, c) in name.chars().enumerate() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if style >= 128 && (i + usize::from(style)) % 3 == 0 => {
                let code = u32::from(c);
                out.push_str(&if style.is_multiple_of(2) {
                    format!("\\u{code:04x}")
                } else {
                    format!("\\u{code:04X}")
                });
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

const NAMES: [&str; 24] = [
    "kv_transfer_params",
    "ec_transfer_params",
    "bootstrap_room",
    "bootstrap_host",
    "disagg_prefill_dp_rank",
    "disaggregated_params",
    "routed_dp_rank",
    "data_parallel_rank",
    "decode_tp_size",
    "vllm_xargs",
    "extra_args",
    "sampling_params",
    "nvext",
    "parameters",
    "messages",
    "metadata",
    "tools",
    "a",
    "",
    "\"",
    "\\",
    "\"kv_transfer_params",
    "kv_transfer_params\\",
    "é😀",
];

fn json() -> impl Strategy<Value = Json> {
    let leaf = prop::sample::select(vec![
        "null",
        "true",
        "-1.5e3",
        "\"\"",
        "\"a,b:{}\"",
        "\"\\\"\"",
        "\"\\\\\"",
        "\"kv_transfer_params\"",
        "{}",
        "[]",
    ]);
    let leaf = leaf.prop_map(Json::Leaf);
    leaf.prop_recursive(5, 60, 6, |inner| {
        let member = (prop::sample::select(NAMES.to_vec()), any::<u8>(), inner.clone());
        prop_oneof![
            1 => prop::collection::vec(inner, 0..4).prop_map(Json::List),
            3 => prop::collection::vec(member, 0..6).prop_map(Json::Object),
        ]
    })
}

/// The documented rule, implemented a second time: private fields are removed from objects that are
/// reached only through containers and arrays.
fn naive(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(naive),
        Value::Object(members) => {
            let engines = [
                "kv_transfer_params",
                "ec_transfer_params",
                "disaggregated_params",
                "routed_dp_rank",
                "decode_tp_size",
            ];
            let prefixes = ["bootstrap_", "disagg_", "data_parallel_rank"];
            members.retain(|name, _| {
                !engines.contains(&name.as_str()) && !prefixes.iter().any(|p| name.starts_with(p))
            });
            let containers = ["vllm_xargs", "extra_args", "sampling_params", "nvext", "parameters"];
            for (name, value) in members {
                if containers.contains(&name.as_str()) {
                    naive(value);
                }
            }
        }
        _ => {}
    }
}

fn compare(endpoint: Endpoint, text: &str) -> Result<(), TestCaseError> {
    let info = match read(endpoint, text.as_bytes(), &reading()) {
        Ok(info) => info,
        Err(bad) => {
            prop_assert!(bad.message.contains("more than 64"), "{}: {}", bad, text);
            return Ok(());
        }
    };
    let left = info.splices.stripped(&Bytes::copy_from_slice(text.as_bytes()));
    let mut expected: Value = serde_json::from_str(text).expect("made as JSON");
    naive(&mut expected);
    let found: Value = match serde_json::from_slice(&left) {
        Ok(found) => found,
        Err(e) => return Err(TestCaseError::fail(format!("{e}: {text} became {left:?}"))),
    };
    prop_assert_eq!(found, expected, "{}", text);
    // A second pass finds nothing.
    let again = read(endpoint, &left, &reading()).expect("still readable");
    prop_assert_eq!(again.splices.engine_fields().count(), 0);
    prop_assert_eq!(print(&again), print(&info));
    Ok(())
}

proptest! {
    // Comparison with the naive twin, on an engine's own path.
    #[test]
    fn as_the_twin(json in json()) {
        let mut text = String::new();
        json.write(&mut text);
        compare(Other, &text)?;
    }

    // The same around the members of a chat.
    #[test]
    fn as_the_twin_in_a_chat(
        before in prop::collection::vec((prop::sample::select(NAMES.to_vec()), any::<u8>(), json()), 0..4),
        after in prop::collection::vec((prop::sample::select(NAMES.to_vec()), any::<u8>(), json()), 0..4),
    ) {
        let own = |name: &&(&str, u8, Json)| !["messages", "tools", "metadata"].contains(&name.0);
        let members = |list: &[(&'static str, u8, Json)]| {
            let mut text = String::new();
            Json::Object(list.iter().filter(own).cloned().collect()).write(&mut text);
            text[1..text.len() - 1].to_owned()
        };
        let (before, after) = (members(&before), members(&after));
        let middle = r#""model":"m","messages":[{"role":"user","content":"x","dp_rank":1}]"#;
        let parts: Vec<&str> =
            [before.as_str(), middle, after.as_str()].into_iter().filter(|p| !p.trim().is_empty()).collect();
        let text = format!("{{{}}}", parts.join(","));
        compare(ChatCompletions, &text)?;
    }
}
