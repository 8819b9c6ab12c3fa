use bytes::Bytes;
use expect_test::{Expect, expect};

use super::super::Endpoint::*;
use super::super::{Endpoint, Purpose, read};
use super::reading;

fn spliced(endpoint: Endpoint, body: &str) -> Option<String> {
    let info = read(endpoint, body.as_bytes(), &reading()).expect("a good body");
    if !info.splices.has(Purpose::Usage) {
        return None;
    }
    let body = Bytes::copy_from_slice(body.as_bytes());
    let pieces = info.splices.apply(&body, |_| true);
    let text = String::from_utf8(pieces.concat()).expect("text stays text");
    let again = read(endpoint, text.as_bytes(), &reading()).expect("still a good body");
    assert!(again.include_usage, "{text}");
    assert_eq!(again.fingerprint.blocks(), info.fingerprint.blocks());
    Some(text)
}

fn check(body: &str, expected: Expect) {
    expected.assert_eq(&spliced(ChatCompletions, body).unwrap_or_default());
}

// Each kind of body that does not ask for usage; all other bytes stay.
#[test]
fn asking() {
    check(
        r#" { "model":"m","messages":[],"stream":true,"x":1.0e5} "#,
        expect![[
            r#" {"stream_options":{"include_usage":true}, "model":"m","messages":[],"stream":true,"x":1.0e5} "#
        ]],
    );
    check(
        r#"{"stream_options":null,"model":"m","messages":[],"stream":true}"#,
        expect![[
            r#"{"stream_options":{"include_usage":true},"model":"m","messages":[],"stream":true}"#
        ]],
    );
    check(
        r#"{"model":"m","messages":[],"stream":true,"stream_options" : { } }"#,
        expect![[
            r#"{"model":"m","messages":[],"stream":true,"stream_options" : {"include_usage":true } }"#
        ]],
    );
    check(
        r#"{"stream":true,"stream_options":{"a":1},"model":"m","messages":[]}"#,
        expect![[
            r#"{"stream":true,"stream_options":{"include_usage":true,"a":1},"model":"m","messages":[]}"#
        ]],
    );
    check(
        r#"{"stream":true,"stream_options":{"a":1,"include_usage": false},"model":"m","messages":[]}"#,
        expect![[
            r#"{"stream":true,"stream_options":{"a":1,"include_usage": true},"model":"m","messages":[]}"#
        ]],
    );
    check(
        r#"{"stream":true,"stream_options":{"include_usage":null},"model":"m","messages":[]}"#,
        expect![[
            r#"{"stream":true,"stream_options":{"include_usage":true},"model":"m","messages":[]}"#
        ]],
    );
}

// If usage is requested or reported anyway, or there is no stream, nothing is spliced.
#[test]
fn not_asking() {
    let asked = r#"{"model":"m","messages":[],"prompt":"","stream":true,"stream_options":{"include_usage":true}}"#;
    let plain = r#"{"model":"m","messages":[],"prompt":"","input":"","stream":true}"#;
    let whole = r#"{"model":"m","messages":[],"prompt":"","input":""}"#;
    assert_eq!(spliced(ChatCompletions, asked), None);
    assert_eq!(spliced(Completions, asked), None);
    assert_eq!(spliced(ChatCompletions, whole), None);
    assert!(spliced(Completions, plain).is_some());
    let continuous = r#"{"model":"m","messages":[],"stream":true,"stream_options":{"continuous_usage_stats":true}}"#;
    assert_eq!(spliced(ChatCompletions, continuous), None);
    for endpoint in [Responses, Messages, Embeddings, Other] {
        assert_eq!(spliced(endpoint, plain), None);
    }
}

// The pieces around the insertion are slices of the body's own memory.
#[test]
fn nothing_is_copied() {
    let body = Bytes::from_static(br#"{"model":"m","messages":[],"stream":true}"#);
    let info = read(ChatCompletions, &body, &reading()).expect("a good body");
    let pieces = info.splices.apply(&body, |_| true);
    assert_eq!(pieces.len(), 3);
    assert_eq!(pieces[0].as_ptr(), body.as_ptr());
    assert_eq!(pieces[2].as_ptr(), body[1..].as_ptr());
    let whole = info.splices.apply(&body, |_| false);
    assert_eq!((whole.len(), whole[0].as_ptr(), whole[0].len()), (1, body.as_ptr(), body.len()));
}

// If counts in each chunk are wanted, the same splice asks for them, unless the client sets that
// option.
#[test]
fn asking_for_counts() {
    let spliced = |options: &str| {
        let body = format!(r#"{{{options}"model":"m","messages":[],"stream":true}}"#);
        let reading = super::super::Reading { counts: true, ..reading() };
        let info = read(ChatCompletions, body.as_bytes(), &reading).expect("a good body");
        let asks = info.splices.has(Purpose::Usage);
        let pieces = info.splices.apply(&Bytes::from(body.into_bytes()), |_| true).concat();
        let text = String::from_utf8(pieces).expect("text stays text");
        (if asks { text } else { String::new() }, info.counts)
    };
    let rest = r#","model":"m","messages":[],"stream":true}"#;
    for options in ["", "\"stream_options\":null,", "\"stream_options\":{},"] {
        let asked = r#"{"stream_options":{"include_usage":true,"continuous_usage_stats":true}"#;
        assert_eq!(spliced(options), (format!("{asked}{rest}"), true), "{options}");
    }
    let include = |value: &str| format!(r#""stream_options":{{"include_usage":{value}}},"#);
    let both = r#"{"stream_options":{"include_usage":true,"continuous_usage_stats":true}"#;
    assert_eq!(spliced(&include("false")), (format!("{both}{rest}"), true));
    let turned = r#"{"stream_options":{"continuous_usage_stats":true,"include_usage":true}"#;
    assert_eq!(spliced(&include("true")), (format!("{turned}{rest}"), true));
    let own = r#""stream_options":{"include_usage":true,"continuous_usage_stats":true},"#;
    assert_eq!(spliced(own), (String::new(), false));
    let no = r#""stream_options":{"continuous_usage_stats":false},"#;
    let asked = r#"{"stream_options":{"include_usage":true,"continuous_usage_stats":false}"#;
    assert_eq!(spliced(no), (format!("{asked}{rest}"), false));
}
