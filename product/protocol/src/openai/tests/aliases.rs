//! A model under another name: the splice in the request, and the name in the answer.

use bytes::Bytes;
use proptest::prelude::*;

use super::super::Endpoint::*;
use super::super::{
    Answer, Endpoint, Head, Purpose, RequestInfo, find_model, merge_models, prefill_leg, read,
    read_as,
};
use super::reading;

fn aliased(endpoint: Endpoint, body: &str, alias: &str, served: &str) -> RequestInfo {
    let served = |name: &str| (name == alias).then_some(served);
    read_as((endpoint, Head::default()), body.as_bytes(), &reading(), served).expect("a good body")
}

/// The body that a replica gets.
fn sent(info: &RequestInfo, body: &str) -> String {
    let body = Bytes::copy_from_slice(body.as_bytes());
    let pieces = info.splices.apply(&body, |purpose| purpose == Purpose::Model);
    String::from_utf8(pieces.concat()).expect("text stays text")
}

// Wherever the member is and however it is written, only its value changes, and nested members of
// the same name stay. The facts are those of a request with the engines' name.
#[test]
fn requests() {
    for (body, expected) in [
        (r#"{"model":"a","messages":[]}"#, r#"{"model":"m","messages":[]}"#),
        (r#" {"messages":[] , "model" :  "a" } "#, r#" {"messages":[] , "model" :  "m" } "#),
        (r#"{"messages":[],"\u006dodel":"\u0061"}"#, r#"{"messages":[],"\u006dodel":"m"}"#),
        (
            r#"{"metadata":{"model":"a"},"messages":[{"role":"user","content":"\"model\":\"a\""}],"model":"a"}"#,
            r#"{"metadata":{"model":"a"},"messages":[{"role":"user","content":"\"model\":\"a\""}],"model":"m"}"#,
        ),
        (
            r#"{"kv_transfer_params":1,"model":"a","messages":[]}"#,
            r#"{"kv_transfer_params":1,"model":"m","messages":[]}"#,
        ),
    ] {
        let info = aliased(ChatCompletions, body, "a", "m");
        assert_eq!((info.model.as_str(), info.alias.as_deref()), ("m", Some("a")), "{body}");
        let text = sent(&info, body);
        assert_eq!(text, expected);
        let own = read(ChatCompletions, text.as_bytes(), &reading()).expect("a good body");
        assert_eq!(own.fingerprint.blocks(), info.fingerprint.blocks());
        assert_eq!((own.head, own.alias), (info.head, None));
    }
}

// Names of any characters are matched as text and written as JSON.
#[test]
fn names() {
    let body = r#"{"model":"mod\u00e8le \"x\"","messages":[]}"#;
    let info = aliased(ChatCompletions, body, "modèle \"x\"", "m\\é\"");
    assert_eq!(sent(&info, body), r#"{"model":"m\\é\"","messages":[]}"#);
    assert_eq!((info.model.as_str(), info.alias.as_deref()), ("m\\é\"", Some("modèle \"x\"")));
}

// Other models, and the engines' own name, leave the body as it is.
#[test]
fn others() {
    for (body, served) in
        [(r#"{"model":"b","messages":[]}"#, "m"), (r#"{"model":"a","messages":[]}"#, "a")]
    {
        let info = aliased(ChatCompletions, body, "a", served);
        assert_eq!((info.alias.as_deref(), info.splices.iter().count()), (None, 0), "{body}");
    }
}

// A member that is given twice is refused. On an engine's own path the last one counts, for the
// facts and for the change.
#[test]
fn twice() {
    let body = r#"{"model":"a","model":"b","messages":[]}"#;
    let error =
        read_as((ChatCompletions, Head::default()), body.as_bytes(), &reading(), |_| Some("m"));
    assert_eq!(error.expect_err("is refused").param, Some("model"));
    let body = r#"{"model":"b","model":"a"}"#;
    let info = aliased(Tokenize, body, "a", "m");
    assert_eq!(sent(&info, body), r#"{"model":"b","model":"m"}"#);
}

// The other splices stay, and the prefill leg and a continuation have the engines' name, too.
#[test]
fn with_other_splices() {
    let body = r#"{"kv_transfer_params":{},"model":"a","messages":[],"stream":true}"#;
    let info = aliased(ChatCompletions, body, "a", "m");
    let bytes = Bytes::copy_from_slice(body.as_bytes());
    assert_eq!(
        info.splices.apply(&bytes, |_| true).concat(),
        br#"{"stream_options":{"include_usage":true},"model":"m","messages":[],"stream":true}"#
    );
    assert_eq!(&info.splices.stripped(&bytes)[..], br#"{"model":"m","messages":[],"stream":true}"#);
    let leg = prefill_leg(ChatCompletions, &bytes, &info.splices).expect("has a leg");
    assert_eq!(
        leg.apply(&bytes, |_| true).concat(),
        br#"{"max_tokens":1,"model":"m","messages":[],"stream":false}"#
    );
}

/// Feeds `bytes` cut at `cuts` (any numbers: taken modulo the length).
fn shown(mut answer: Answer, bytes: &str, cuts: &[usize]) -> String {
    let mut cuts: Vec<usize> = cuts.iter().map(|c| c % (bytes.len() + 1)).collect();
    cuts.extend([0, bytes.len()]);
    cuts.sort_unstable();
    let mut passed = Vec::new();
    for pair in cuts.windows(2) {
        let piece = Bytes::copy_from_slice(&bytes.as_bytes()[pair[0]..pair[1]]);
        passed.extend_from_slice(&answer.feed(piece).pass);
    }
    passed.extend_from_slice(&answer.finish().rest);
    String::from_utf8(passed).expect("text stays text")
}

/// Answers of each kind with the engine's name, `MODEL`, where the client has its own.
const STREAMS: [(Endpoint, &str); 3] = [
    (
        ChatCompletions,
        concat!(
            ": ping\n\n",
            "data: {\"id\":\"c\",\"model\":MODEL,\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\\\"model\\\":\\\"m\\\"\"}}],\"usage\":null}\n\n",
            "data: {\"usage\":null,\"choices\":[{\"index\":0,\"delta\":{\"model\":\"x\"}}],\"model\" : MODEL }\r\n\r\n",
            "data: {\"model\":null,\"choices\":[{\"index\":0,\"delta\":{}}]}\n\n",
            "data: {\"choices\":[{\"finish_reason\":\"stop\",\"index\":0,\"delta\":{}}],\"model\":MODEL}\n\n",
            "data: {\"choices\":[],\"model\":MODEL,\"usage\":{\"prompt_tokens\":1},\"timings\":{\"cache_n\":0,\"prompt_n\":1,\"predicted_n\":1}}\n\n",
            "data: [DONE]\n\n",
        ),
    ),
    (
        Responses,
        concat!(
            "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r\",\"model\":MODEL,\"metadata\":{\"model\":\"x\"}}}\n\n",
            "data: {\"type\":\"response.output_text.delta\",\"model\":\"x\",\"delta\":\"\\\"model\\\"\"}\n\n",
            "data: {\"response\":{\"model\":MODEL},\"type\":\"response.completed\"}\n\n",
        ),
    ),
    (
        Messages,
        concat!(
            "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"model\":MODEL,\"content\":[]}}\n\n",
            "data: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"\\\"model\\\"\"}}\n\n",
            "data: {\"type\":\"message_stop\"}\n\n",
        ),
    ),
];

const OBJECTS: [&str; 5] = [
    "{\"id\":\"c\",\"object\":\"model\",\"model\":MODEL,\"choices\":[{\"model\":\"x\",\"message\":{\"content\":\"\\\"model\\\":\\\"\\\\\"}}]}",
    " { \"data\" : [\"model\", {\"model\":\"x\"}, \"model\"], \"mode\":\"l\", \"models\":1, \"model\" \n:\t MODEL , \"z\":{}}\n",
    "{\"model\":null,\"x\":\"model\"}",
    "{\"model\":{\"model\":\"x\"},\"y\":[[\"model\"]]}",
    "{\"modelmodel\":\"x\",\"mo\\\"del\":\"x\",\"\":\"model\",\"model\":MODEL}",
];

const ENGINES: &str = r#""meta/llama \"3\" \\""#;
const CLIENTS: (&str, &str) = ("gpt \"4\" é", r#""gpt \"4\" é""#);

proptest! {
    // However an answer is cut, its client sees its own name in place of the engine's, and every
    // other byte as it was; also where usage is removed.
    #[test]
    fn answers(cuts in prop::collection::vec(any::<usize>(), 0..40), undo: bool) {
        let [engines, clients] = [ENGINES, CLIENTS.1].map(|name| move |text: &str| text.replace("MODEL", name));
        for (endpoint, stream) in STREAMS {
            let new = || Answer::new(endpoint, true, undo, true);
            let plain = shown(new(), &clients(stream), &[]);
            prop_assert_eq!(shown(new().naming(Some(CLIENTS.0)), &engines(stream), &cuts), plain);
        }
        for object in OBJECTS {
            let answer = Answer::new(ChatCompletions, false, undo, false).naming(Some(CLIENTS.0));
            prop_assert_eq!(shown(answer, &engines(object), &cuts), clients(object));
        }
    }

    // No bytes make it panic, and bytes without the member pass.
    #[test]
    fn no_panic(
        words in prop::collection::vec(prop::sample::select(vec![
            "data: ", "\n\n", "{", "}", "[", "\"model\"", ":", "\"", "\\", ",", "null", "\u{e9}", " ",
        ]), 0..60),
        cuts in prop::collection::vec(any::<usize>(), 0..10),
        stream: bool,
    ) {
        let text = words.concat();
        for endpoint in [ChatCompletions, Responses, Messages, Embeddings] {
            let answer = Answer::new(endpoint, stream, false, false).naming(Some("a"));
            let shown = shown(answer, &text, &cuts);
            prop_assert!(text.contains("\"model\"") || shown == text);
        }
    }
}

// Bytes of an object pass as they arrive, without a copy where nothing changes.
#[test]
fn nothing_is_held_back() {
    let mut answer = Answer::new(ChatCompletions, false, false, false).naming(Some("a"));
    for (piece, pass) in [
        ("{\"mo", "{\"mo"),
        ("del\":\"m", "del\":\"a\""),
        ("m", ""),
        ("\",\"b", ",\"b"),
        ("\":1}", "\":1}"),
    ] {
        assert_eq!(answer.feed(Bytes::from(piece)).pass, pass);
    }
    let rest = Bytes::from_static(b"  ");
    assert_eq!(answer.feed(rest.clone()).pass.as_ptr(), rest.as_ptr());
}

// An alias is listed with its model's fields, in place of a model of the same name; one whose model
// is not served is not listed.
#[test]
fn lists() {
    let list = br#"{"data":[{"id":"m","object":"model","max_model_len":4,"root":"m"},{"object":"model","id":"b"}]}"#;
    let aliases = [("a", "m"), ("b", "m"), ("c", "gone")];
    let merged = merge_models(&[list], aliases.into_iter());
    assert_eq!(
        std::str::from_utf8(&merged).expect("is text"),
        r#"{"object":"list","data":[{"id":"m","object":"model","max_model_len":4,"root":"m"},{"id":"a","object":"model","max_model_len":4,"root":"m"},{"id":"b","object":"model","max_model_len":4,"root":"m"}]}"#
    );
    let found = find_model(&merged, "a").expect("is listed");
    assert_eq!(found, r#"{"id":"a","object":"model","max_model_len":4,"root":"m"}"#);
}
