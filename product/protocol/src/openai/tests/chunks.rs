use bytes::Bytes;
use proptest::prelude::*;

use super::super::Endpoint::*;
use super::super::{Answer, Endpoint, MAX_EVENT, Summary};

/// A stream with everything that matters for cutting: comments, names, CRLF, data in two lines,
/// nulls, usage alone, usage with a choice, escapes, an end.
const SPLICED: &str = concat!(
    ": ping\n\n",
    "event: x\ndata: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}],\"usage\":null}\n\n",
    "data: {\"id\":\"c\",\"usage\" : null , \"choices\":[{\"index\":0,\"delta\":{\"content\":\"\\\"usage\\\":null\"}}]}\r\n\r\n",
    "data: { \"usage\":null, \"choices\":[{\"index\":0,\"delta\":{\"content\":\"\\u00e9\"}}] }\n\n",
    "data:{\"choices\":[],\"prompt_filter_results\":[]}\n\n",
    "data: {\"choices\":\ndata: [{\"index\":0,\"delta\":{\"content\":\"d\"}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"text\":\"\",\"matched_stop\":null}],\"usage\":null}\n\n",
    "data: {\"choices\":[{\"index\":0,\"text\":\"\",\"finish_reason\":\"length\"}],\"usage\":{\"completion_tokens\":3}}\n\n",
    "data: {\"choices\":[ ],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":4}}\n\n",
    "data: [DONE]\n\n",
);

const PLAIN: &str = concat!(
    ": ping\n\n",
    "event: x\ndata: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n",
    "data: {\"id\":\"c\" , \"choices\":[{\"index\":0,\"delta\":{\"content\":\"\\\"usage\\\":null\"}}]}\r\n\r\n",
    "data: { \"choices\":[{\"index\":0,\"delta\":{\"content\":\"\\u00e9\"}}] }\n\n",
    "data:{\"choices\":[],\"prompt_filter_results\":[]}\n\n",
    "data: {\"choices\":\ndata: [{\"index\":0,\"delta\":{\"content\":\"d\"}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"text\":\"\",\"matched_stop\":null}],\"usage\":null}\n\n",
    "data: {\"choices\":[{\"index\":0,\"text\":\"\",\"finish_reason\":\"length\"}],\"usage\":{\"completion_tokens\":3}}\n\n",
    "data: [DONE]\n\n",
);

const ENDPOINTS: [Endpoint; 5] = [ChatCompletions, Completions, Responses, Messages, Embeddings];

struct Run {
    passed: Vec<u8>,
    firsts: usize,
    ends: usize,
    summary: Summary,
}

/// Feeds `bytes` cut at `cuts` (any numbers: taken modulo the length).
fn run(mut answer: Answer, bytes: &[u8], cuts: &[usize]) -> Run {
    let mut cuts: Vec<usize> = cuts.iter().map(|c| c % (bytes.len() + 1)).collect();
    cuts.extend([0, bytes.len()]);
    cuts.sort_unstable();
    let (mut passed, mut firsts, mut ends) = (Vec::new(), 0, 0);
    for pair in cuts.windows(2) {
        let feed = answer.feed(Bytes::copy_from_slice(&bytes[pair[0]..pair[1]]));
        passed.extend_from_slice(&feed.pass);
        firsts += usize::from(feed.first_token);
        ends += usize::from(feed.ended);
    }
    let summary = answer.finish();
    passed.extend_from_slice(&summary.rest);
    Run { passed, firsts, ends, summary }
}

fn text(run: &Run) -> &str {
    std::str::from_utf8(&run.passed).expect("cut between characters nowhere")
}

// With the splice undone, the stream equals that of a request that did not ask for usage.
#[test]
fn undone() {
    let run = run(Answer::new(ChatCompletions, true, true, true), SPLICED.as_bytes(), &[]);
    assert_eq!(text(&run), PLAIN);
    assert_eq!((run.firsts, run.ends, run.summary.complete), (1, 1, true));
    let usage = run.summary.usage.expect("usage");
    assert_eq!((usage.prompt_tokens, usage.completion_tokens), (9, 4));
    assert_eq!(run.summary.reply.as_deref(), Some("a\"usage\":nulléd".as_bytes()));
}

// A chunk that completes an event passes it on, without copying.
#[test]
fn nothing_is_delayed_or_copied() {
    for undo in [false, true] {
        let mut answer = Answer::new(ChatCompletions, true, undo, false);
        let event =
            Bytes::from_static(b"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n");
        let pass = answer.feed(event.clone()).pass;
        assert_eq!((pass.as_ptr(), pass.len()), (event.as_ptr(), event.len()));
        let half = event.slice(..20);
        assert_eq!(answer.feed(half).pass.len(), if undo { 0 } else { 20 });
        assert_eq!(
            answer.feed(event.slice(20..)).pass.len(),
            if undo { event.len() } else { event.len() - 20 }
        );
    }
}

// An event longer than the limit still passes, and the events after it are read again.
#[test]
fn a_long_event_passes() {
    let long = format!(
        "data: {{\"choices\":[{{\"x\":\"{}\"}}],\"usage\":null}}\n\n",
        "y".repeat(MAX_EVENT)
    );
    let stream = [&long, SPLICED].concat();
    let cuts: Vec<usize> = (0..stream.len()).step_by(60_000).collect();
    for undo in [false, true] {
        let run = run(Answer::new(ChatCompletions, true, undo, false), stream.as_bytes(), &cuts);
        let after = if undo { PLAIN } else { SPLICED };
        assert!(text(&run) == [&long, after].concat(), "undo {undo}");
        assert!(run.summary.complete);
    }
}

// A stream that breaks off in mid-event passes all its bytes, and is not complete.
#[test]
fn broken_off() {
    let bytes = &SPLICED.as_bytes()[..60];
    for undo in [false, true] {
        let run = run(Answer::new(ChatCompletions, true, undo, false), bytes, &[30]);
        assert_eq!(run.passed, bytes);
        assert!(!run.summary.complete);
    }
}

proptest! {
    // However a stream is cut into chunks, the bytes and the summary are the same.
    #[test]
    fn cuts_leave_no_trace(cuts in prop::collection::vec(any::<usize>(), 0..40), undo: bool) {
        for endpoint in [ChatCompletions, Completions] {
            let new = || Answer::new(endpoint, true, undo, true);
            let whole = run(new(), SPLICED.as_bytes(), &[]);
            let cut = run(new(), SPLICED.as_bytes(), &cuts);
            prop_assert_eq!(text(&cut), text(&whole));
            prop_assert_eq!(text(&cut), if undo { PLAIN } else { SPLICED });
            prop_assert_eq!(cut.summary.usage, whole.summary.usage);
            prop_assert_eq!(&cut.summary.reply, &whole.summary.reply);
            prop_assert_eq!((cut.firsts, cut.ends), (whole.firsts, whole.ends));
        }
    }

    // An answer in one object ends once, wherever it is cut.
    #[test]
    fn json_cuts(cuts in prop::collection::vec(any::<usize>(), 0..20)) {
        let json = br#"{"id":"resp_1","a":"}\"\\","b":[{"c":{}}],"usage":{"input_tokens":5,"output_tokens":1}} "#;
        let run = run(Answer::new(Responses, false, true, true), json, &cuts);
        prop_assert_eq!(&run.passed, json);
        prop_assert_eq!((run.firsts, run.ends, run.summary.complete), (1, 1, true));
        prop_assert_eq!(run.summary.usage.map(|u| u.prompt_tokens), Some(5));
        prop_assert_eq!(run.summary.response_id.as_deref(), Some("resp_1"));
    }

    // No bytes make the scanner panic, and without a splice they pass unchanged.
    #[test]
    fn no_panic(
        words in prop::collection::vec(prop::sample::select(vec![
            "data: ", "\n\n", "\r\n\r\n", "\n", "{", "}", "\"usage\":", "null", "\"choices\":[]",
            "\"content\":\"", "\"", "\\", "\"tool_calls\":[", "event: message_delta\n", ",", "\u{e9}",
            "[DONE]", "\"type\":\"", "response.completed", "\"delta\":", "]",
        ]), 0..60),
        cuts in prop::collection::vec(any::<usize>(), 0..10),
        stream: bool,
    ) {
        let bytes = words.concat();
        for endpoint in ENDPOINTS {
            for undo in [false, true] {
                let run = run(Answer::new(endpoint, stream, undo, true), bytes.as_bytes(), &cuts);
                prop_assert!(undo || run.passed == bytes.as_bytes());
            }
        }
    }
}
