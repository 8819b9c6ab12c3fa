//! Claude Code's billing line: no part of the prompt, and not forwarded.

use bytes::Bytes;

use super::{ok, print};
use crate::openai::Endpoint;

const FIRST: &str = r#"{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1.197.c40; cc_entrypoint=cli; cch=36ee5;"}"#;
const SECOND: &str = r#"{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1.197.1c3; cc_entrypoint=cli; cch=0aaa9;"}"#;
const REST: &str =
    r#"{"type":"text","text":"You are Claude Code","cache_control":{"type":"ephemeral"}}"#;

fn body(system: &str) -> String {
    format!(
        r#"{{"model":"m","max_tokens":9,"system":{system},"messages":[{{"role":"user","content":"hi"}}]}}"#
    )
}

fn sent(endpoint: Endpoint, system: &str) -> String {
    let body = body(system);
    let info = ok(endpoint, &body);
    let pieces = info.splices.apply(&Bytes::from(body), |_| true);
    String::from_utf8(pieces.concat()).expect("UTF-8")
}

// Two conversations that differ in the line have one prompt, that of a client without it.
#[test]
fn conversations_share_their_prompt() {
    let of = |system: &str| print(&ok(Endpoint::Messages, &body(system)));
    let without = of(&format!("[{REST}]"));
    for line in [FIRST, SECOND] {
        assert_eq!(of(&format!("[{line},{REST}]")), without);
        assert_eq!(of(&format!("[\n {line} ,\n {REST}]")), without);
        assert_eq!(
            sent(Endpoint::Messages, &format!("[ {line} , {REST}]")),
            body(&format!("[ {REST}]"))
        );
        assert_eq!(sent(Endpoint::Messages, &format!("[{line}]")), body("[]"));
    }
}

// Only Claude Code's own form is cut: a line elsewhere may be something that a user quotes.
#[test]
fn all_else_stays() {
    let quoted = [
        format!("[{REST},{FIRST}]"),
        r#""x-anthropic-billing-header: in a text""#.to_owned(),
        r#"[{"type":"text","text":"see x-anthropic-billing-header: x"}]"#.to_owned(),
        r#"[{"type":"image","x":"x-anthropic-billing-header: x"}]"#.to_owned(),
    ];
    for system in quoted {
        assert_eq!(sent(Endpoint::Messages, &system), body(&system));
    }
    let line = format!("[{FIRST},{REST}]");
    assert_eq!(sent(Endpoint::ChatCompletions, &line), body(&line));
}
