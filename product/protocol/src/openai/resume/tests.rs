use super::*;
use expect_test::{Expect, expect};

const CHAT: Endpoint = Endpoint::ChatCompletions;

fn chunk(id: &str, choices: &str, more: &str) -> String {
    format!(
        "data: {{\"id\":\"{id}\",\"created\":7,\"model\":\"m\",\"choices\":[{choices}]{more}}}\n\n"
    )
}

fn delta(id: &str, delta: &str) -> String {
    chunk(
        id,
        &format!("{{\"index\":0,\"delta\":{{{delta}}},\"logprobs\":null,\"finish_reason\":null}}"),
        "",
    )
}

fn feed(thread: &mut Thread, piece: &str) -> String {
    let pass = thread.feed(Bytes::copy_from_slice(piece.as_bytes()));
    String::from_utf8(pass.to_vec()).unwrap()
}

fn thread(endpoint: Endpoint) -> Thread {
    Thread::new(endpoint, 1000, Counts::Asis).unwrap()
}

fn take_up(thread: &mut Thread, body: &str) -> Result<String, Lost> {
    let continued = thread.take_up(&Bytes::copy_from_slice(body.as_bytes()), None)?;
    Ok(String::from_utf8(continued.body.to_vec()).unwrap())
}

/// A chat that broke after two pieces of text, the second of which contains an escape.
fn broken() -> Thread {
    let mut thread = thread(CHAT);
    feed(&mut thread, &delta("a", "\"role\":\"assistant\",\"content\":\"\""));
    feed(&mut thread, &delta("a", "\"content\":\"Once \""));
    feed(&mut thread, &delta("a", "\"content\":\"\\\"upon\\\"\\u00e9\""));
    thread
}

const BODY: &str =
    r#"{"model":"m","messages":[{"role":"user","content":"tell"}],"max_tokens":9,"stream":true}"#;

fn check(endpoint: Endpoint, text: &str, body: &str, expected: Expect) {
    let mut thread = thread(endpoint);
    let said = match endpoint {
        Endpoint::Completions => chunk("a", &format!("{{\"index\":0,\"text\":\"{text}\"}}"), ""),
        _ => delta("a", &format!("\"content\":\"{text}\"")),
    };
    feed(&mut thread, &said);
    let made = take_up(&mut thread, body);
    if let Ok(made) = &made {
        serde_json::from_str::<serde_json::Value>(made).unwrap();
    }
    expected.assert_eq(&made.unwrap_or_else(|lost| lost.word().to_owned()));
}

// The text so far becomes the beginning of the reply, its tokens are subtracted from the limits,
// and every other byte of the client's body stays.
#[test]
fn requests() {
    check(
        CHAT,
        "Once \\\"upon\\\"",
        BODY,
        expect![[
            r#"{"continue_final_message":true,"add_generation_prompt":false,"model":"m","messages":[{"role":"user","content":"tell"},{"role":"assistant","content":"Once \"upon\""}],"max_tokens":8,"stream":true}"#
        ]],
    );
    let spaced = "{ \"messages\" : [ {\"role\":\"user\",\"content\":[]} ] , \"max_completion_tokens\" : 2, \"model\":\"m\",\"stream\":true, \"logprobs\":false,\"tools\":[],\"stop\":null,\"grammar\":null}";
    check(
        CHAT,
        "x",
        spaced,
        expect![[
            r#"{"continue_final_message":true,"add_generation_prompt":false, "messages" : [ {"role":"user","content":[]} ,{"role":"assistant","content":"x"}] , "max_completion_tokens" : 1, "model":"m","stream":true, "logprobs":false,"tools":[],"stop":null,"grammar":null}"#
        ]],
    );
    let body = r#"{"prompt":"Say \"hi\"","max_tokens":5,"stream":true,"model":"m"}"#;
    check(
        Endpoint::Completions,
        " hi\\n",
        body,
        expect![[r#"{"prompt":"Say \"hi\" hi\n","max_tokens":4,"stream":true,"model":"m"}"#]],
    );
    // No limit, or one that means none.
    let body = r#"{"messages":[{"role":"user"}],"max_tokens":-1,"stream":true,"model":"m"}"#;
    check(
        CHAT,
        "x",
        body,
        expect![[
            r#"{"continue_final_message":true,"add_generation_prompt":false,"messages":[{"role":"user"},{"role":"assistant","content":"x"}],"max_tokens":-1,"stream":true,"model":"m"}"#
        ]],
    );
}

// A request for more than the text of one choice, or with an unknown field, is not resumed.
#[test]
fn refused_requests() {
    let user = "\"messages\":[{\"role\":\"user\",\"content\":\"\"}]";
    for more in [
        "\"tools\":[{}]",
        "\"n\":2",
        "\"logprobs\":true",
        "\"response_format\":{\"type\":\"json_object\"}",
        "\"guided_json\":{\"a\":1}",
        "\"anything_new\":1",
        "\"continue_final_message\":true",
        "\"max_tokens\":\"9\"",
        "\"max_tokens\":1.5",
    ] {
        check(CHAT, "x", &format!("{{{user},{more},\"stream\":true}}"), expect!["request"]);
    }
    let text = "\"response_format\":{\"type\":\"text\"}";
    let mut known = broken();
    assert!(take_up(&mut known, &format!("{{{user},{text},\"stream\":true}}")).is_ok());
    for messages in ["[]", "[{\"role\":\"assistant\",\"content\":\"a\"}]", "[{}]"] {
        check(
            CHAT,
            "x",
            &format!("{{\"messages\":{messages},\"stream\":true}}"),
            expect!["request"],
        );
    }
    for prompt in [
        "\"prompt\":\"a\"",
        "\"prompt\":[1],\"max_tokens\":4",
        "\"prompt\":[\"a\"],\"max_tokens\":4",
    ] {
        check(
            Endpoint::Completions,
            "x",
            &format!("{{{prompt},\"stream\":true}}"),
            expect!["request"],
        );
    }
    check(CHAT, "x", &BODY.replace('9', "1"), expect!["spent"]);
}

// Before the first text any request is sent again unchanged.
#[test]
fn nothing_said() {
    let body = r#"{"messages":[],"tools":[{}],"n":3,"stream":true}"#;
    let mut thread = thread(CHAT);
    feed(&mut thread, &delta("a", "\"role\":\"assistant\",\"content\":\"\""));
    assert_eq!(take_up(&mut thread, body).as_deref(), Ok(body));
}

// An answer with anything but the text of one choice, with its finish reason sent, or longer than
// the limit, is not resumed.
#[test]
fn refused_answers() {
    let lost = |pieces: &[String]| {
        let mut thread = broken();
        pieces.iter().for_each(|piece| drop(feed(&mut thread, piece)));
        take_up(&mut thread, BODY).expect_err("is lost")
    };
    for more in [
        "\"tool_calls\":[{\"index\":0}]",
        "\"reasoning_content\":\"hm\"",
        "\"refusal\":\"no\"",
        "\"anything\":1",
    ] {
        assert_eq!(lost(&[delta("a", more)]), Lost::NotText, "{more}");
    }
    for choices in [
        "{\"index\":1,\"delta\":{\"content\":\"b\"}}",
        "{\"index\":0,\"delta\":{}},{\"index\":1,\"delta\":{}}",
        "{\"index\":0,\"delta\":{\"content\":\"b\"},\"logprobs\":{\"content\":[{}]}}",
    ] {
        assert_eq!(lost(&[chunk("a", choices, "")]), Lost::NotText, "{choices}");
    }
    assert_eq!(lost(&["data: {\"error\":{}}\n\n".to_owned()]), Lost::NotText);
    assert_eq!(lost(&[delta("a", "\"content\":\"\\ud800\"")]), Lost::NotText);
    let end = "{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\",\"stop_reason\":null}";
    assert_eq!(lost(&[chunk("a", end, "")]), Lost::Finished);
    let long = format!("\"content\":\"{}\"", "x".repeat(1000));
    assert_eq!(lost(&[delta("a", &long)]), Lost::TooLong);
    // The first reason is kept.
    assert_eq!(lost(&[chunk("a", end, ""), delta("a", &long)]), Lost::Finished);
    assert!(Thread::new(Endpoint::Responses, 1, Counts::Asis).is_none());
}

// The continuation has the first answer's id and names, opens no second time, and counts the whole.
#[test]
fn seam() {
    let mut thread = broken();
    take_up(&mut thread, BODY).unwrap();
    assert_eq!(feed(&mut thread, &delta("b", "\"role\":\"assistant\",\"content\":\"\"")), "");
    assert_eq!(feed(&mut thread, &delta("b", "\"role\":\"assistant\",\"content\":null")), "");
    let text = delta("b", "\"content\":\" a\"");
    assert_eq!(feed(&mut thread, &text), delta("a", "\"content\":\" a\""));
    let both = delta("b", "\"role\":\"assistant\",\"content\":\" time\"");
    assert_eq!(feed(&mut thread, &both), delta("a", "\"content\":\" time\""));
    let usage = |id, prompt, said, cached| {
        let usage = format!(
            ",\"usage\":{{\"prompt_tokens\":{prompt},\"total_tokens\":24,\"completion_tokens\":{said},\"prompt_tokens_details\":{{\"cached_tokens\":{cached}}}}}"
        );
        chunk(id, "", &usage)
    };
    assert_eq!(feed(&mut thread, &usage("b", 22, 2, 21)), usage("a", 20, 4, 20));
    assert_eq!(feed(&mut thread, "data: [DONE]\n\n: bye\n\n"), "data: [DONE]\n\n: bye\n\n");
    let own = Usage {
        prompt_tokens: 22,
        cached_tokens: Some(3),
        completion_tokens: 2,
        prefill_us: Some(1),
    };
    let whole =
        Usage { prompt_tokens: 20, cached_tokens: Some(3), completion_tokens: 4, prefill_us: None };
    assert_eq!(thread.whole(own), whole);
    assert_eq!(thread.text(), Some("Once \"upon\"é a time".as_bytes()));
}

// After two breaks the third answer starts with both texts, and the limit shrinks by both.
#[test]
fn broken_twice() {
    let mut thread = broken();
    take_up(&mut thread, BODY).unwrap();
    feed(&mut thread, &delta("b", "\"content\":\" a\""));
    feed(&mut thread, "data: {\"id\":\"half");
    let body = take_up(&mut thread, BODY).unwrap();
    assert!(body.contains(r#"{"role":"assistant","content":"Once \"upon\"é a"}"#), "{body}");
    assert!(body.contains("\"max_tokens\":6"), "{body}");
    assert_eq!(
        feed(&mut thread, &delta("c", "\"content\":\"!\"")),
        delta("a", "\"content\":\"!\"")
    );
}

// Tokens are the pieces of the stream, or the engine's counts.
#[test]
fn tokens() {
    let left = |more: &str| {
        let mut thread = broken();
        let choice = "{\"index\":0,\"delta\":{\"content\":\"x\"}}";
        feed(&mut thread, &chunk("a", choice, more));
        let body: serde_json::Value =
            serde_json::from_str(&take_up(&mut thread, BODY).unwrap()).unwrap();
        body["max_tokens"].as_u64()
    };
    assert_eq!(left(""), Some(6));
    assert_eq!(left(",\"usage\":null"), Some(6));
    assert_eq!(left(",\"usage\":{\"completion_tokens\":5}"), Some(4));
    assert_eq!(left(",\"timings\":{\"predicted_n\":8}"), Some(1));
}

// However a stream is cut into pieces, the same bytes pass, and only in complete events.
#[test]
fn any_cut() {
    let parts =
        ["\"role\":\"assistant\",\"content\":\"\"", "\"content\":\"b\"", "\"content\":\"c\""];
    let whole: String =
        parts.map(|part| delta("b", part)).concat() + ": ping\r\n\r\ndata: [DONE]\n\n";
    for later in [false, true] {
        let fresh = || {
            let mut thread = broken();
            if later {
                take_up(&mut thread, BODY).unwrap();
            }
            thread
        };
        let expected = feed(&mut fresh(), &whole);
        for at in 0..whole.len() {
            let mut thread = fresh();
            let (a, b) = whole.split_at(at);
            let first = feed(&mut thread, a);
            assert!(first.is_empty() || first.ends_with("\n\n") || first.ends_with("\n\r\n"));
            assert_eq!(first + &feed(&mut thread, b), expected, "{at}");
            assert_eq!(thread.text(), Some("Once \"upon\"ébc".as_bytes()));
        }
    }
}

// An event of more than a mebibyte passes unchanged, and ends the thread.
#[test]
fn endless_event() {
    let mut thread = broken();
    let piece = "x".repeat(MAX_EVENT / 2);
    assert_eq!(feed(&mut thread, &piece), "");
    assert_eq!(feed(&mut thread, &piece), "");
    assert_eq!(feed(&mut thread, "y").len(), MAX_EVENT + 1);
    assert_eq!(take_up(&mut thread, BODY), Err(Lost::NotText));
}

// A count in each chunk that the client did not ask for is read and removed, or is null if the
// client asked for usage at the end. llama.cpp's own last chunk stays unchanged.
#[test]
fn counts() {
    let count = |n: u32| format!(",\"usage\":{{\"prompt_tokens\":20,\"completion_tokens\":{n}}}");
    let say = |more: &str| chunk("a", "{\"index\":0,\"delta\":{\"content\":\"b\"}}", more);
    let shown = |counts, later: bool| {
        let mut thread = Thread::new(CHAT, 1000, counts).unwrap();
        if later {
            feed(&mut thread, &say(&count(3)));
            take_up(&mut thread, BODY).unwrap();
        }
        let text = feed(&mut thread, &say(&count(4)));
        let body: serde_json::Value =
            serde_json::from_str(&take_up(&mut thread, BODY).unwrap()).unwrap();
        (text, body["max_tokens"].as_u64().unwrap())
    };
    assert_eq!(shown(Counts::Hidden, false), (say(""), 5));
    assert_eq!(shown(Counts::Null, false), (say(",\"usage\":null"), 5));
    assert_eq!(shown(Counts::Asis, false), (say(&count(4)), 5));
    assert_eq!(shown(Counts::Hidden, true), (say(""), 2));
    let own = ",\"usage\":{\"prompt_tokens\":17,\"completion_tokens\":7}";
    assert_eq!(shown(Counts::Asis, true), (say(own), 2));
    let mut thread = Thread::new(CHAT, 1000, Counts::Hidden).unwrap();
    for last in [say(&(count(9) + ",\"timings\":{}")), chunk("a", "", &count(9))] {
        assert_eq!(feed(&mut thread, &last), last);
    }
}

// Defect small-overflows: token counts beyond any real one are added up to the largest number, and no
// further.
#[test]
fn huge_counts() {
    let mut thread = thread(CHAT);
    let said = "{\"index\":0,\"delta\":{\"content\":\"x\"},\"finish_reason\":null}";
    let usage = ",\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":18446744073709551615,\"total_tokens\":18446744073709551615}";
    let body = r#"{"model":"m","messages":[{"role":"user","content":"tell"}],"stream":true}"#;
    for id in ["a", "b", "c"] {
        feed(&mut thread, &chunk(id, said, usage));
        assert!(take_up(&mut thread, body).is_ok(), "{id}");
    }
}
