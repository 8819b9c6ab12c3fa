use super::super::Endpoint::*;
use super::super::{Endpoint, RequestInfo};
use super::{ok, print};

/// 2.5 MB of base64 that starts with `first`.
fn base64(first: char) -> String {
    format!("{first}{}", "iVBORw0KGgoAAAANSUhEUg".repeat(113_636))
}

fn with(endpoint: Endpoint, body: &str, first: char) -> RequestInfo {
    ok(endpoint, &body.replace("$B64", &base64(first)))
}

// Defect images-in-tool-outputs: an image in a tool's output counts like one in a user's message, and not as 625,016 tokens of text.
#[test]
fn in_tool_outputs() {
    let user = r#"{"model":"m","input":[{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,$B64"}]}]}"#;
    let tool = r#"{"model":"m","input":[{"type":"function_call_output","call_id":"1","output":[{"type":"input_image","image_url":"data:image/png;base64,$B64"}]}]}"#;
    // A mark and a hash; around them two marks and the role, `user` or `tool`.
    assert_eq!(with(Responses, user, 'i').prompt_bytes, 15);
    assert_eq!(with(Responses, tool, 'i').prompt_bytes, 15);
}

/// Where media may stand: the body, and the bytes that its prompt counts.
const PLACES: [(Endpoint, &str, u64); 24] = [
    // OpenAI's chat, and the parts of engines and of chat templates.
    (
        ChatCompletions,
        r#"[{"type":"image_url","image_url":{"url":"data:image/png;base64,$B64"}}]"#,
        9,
    ),
    (
        ChatCompletions,
        r#"[{"type":"input_audio","input_audio":{"data":"$B64","format":"wav"}}]"#,
        9,
    ),
    (ChatCompletions, r#"[{"type":"file","file":{"filename":"a.pdf","file_data":"$B64"}}]"#, 9),
    (
        ChatCompletions,
        r#"[{"type":"video_url","video_url":{"url":"data:video/mp4;base64,$B64"}}]"#,
        9,
    ),
    (
        ChatCompletions,
        r#"[{"type":"audio_url","audio_url":{"url":"data:audio/wav;base64,$B64"}}]"#,
        9,
    ),
    (ChatCompletions, r#"[{"type":"image","image":"$B64"}]"#, 9),
    (ChatCompletions, r#"[{"type":"image_embeds","image_embeds":{"grid":"$B64"}}]"#, 9),
    (ChatCompletions, r#"[{"image_url":"data:image/png;base64,$B64"}]"#, 9),
    (ChatCompletions, r#"[{"type":"image_url","text":"a b","image_url":"$B64"}]"#, 12),
    (ChatCompletions, r#"[{"type":"new","deep":[{"in":"$B64"}]}]"#, 9 + 31),
    (ChatCompletions, r#"{"type":"image_url","image_url":"$B64"}"#, 9),
    // Anthropic's messages, with outputs of tools.
    (
        Messages,
        r#"[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"$B64"}}]"#,
        9,
    ),
    (Messages, r#"[{"type":"document","source":{"type":"base64","data":"$B64"},"title":"t"}]"#, 9),
    (Messages, r#"[{"type":"document","source":{"type":"text","data":"some text"}}]"#, 9),
    (
        Messages,
        r#"[{"type":"document","source":{"type":"content","content":[{"type":"text","text":"ab"},{"type":"image","source":{"data":"$B64"}}]}}]"#,
        11,
    ),
    (
        Messages,
        r#"[{"type":"tool_result","content":[{"type":"image","source":{"data":"$B64"}}]}]"#,
        10,
    ),
    (
        Messages,
        r#"[{"type":"mcp_tool_result","content":[{"type":"text","text":"ab"},{"type":"image","source":{"data":"$B64"}}]}]"#,
        12,
    ),
    (
        Messages,
        r#"[{"type":"web_fetch_tool_result","content":{"type":"web_fetch_result","url":"u","content":{"type":"document","source":{"type":"base64","data":"$B64"}}}}]"#,
        10,
    ),
    // The items of OpenAI's Responses.
    (
        Responses,
        r#"{"type":"computer_call_output","output":{"type":"computer_screenshot","image_url":"data:image/png;base64,$B64"}}"#,
        9,
    ),
    (
        Responses,
        r#"{"type":"custom_tool_call_output","output":[{"type":"input_text","text":"ab"},{"type":"input_file","file_data":"data:application/pdf;base64,$B64"}]}"#,
        11,
    ),
    (Responses, r#"{"type":"image_generation_call","id":"ig","result":"$B64"}"#, 9),
    (Responses, r#"{"type":"function_call_output","output":{"shot":"$B64"}}"#, 9 + 9),
    (
        Responses,
        r#"{"type":"function_call_output","output":[["data:image/png;base64,$B64",5]]}"#,
        9 + 4,
    ),
    (Responses, r#"{"type":"new_call","pages":[{"png":"$B64"}]}"#, 9 + 38),
];

fn around(endpoint: Endpoint, what: &str) -> String {
    match endpoint {
        Responses => format!(r#"{{"model":"m","input":[{what}]}}"#),
        _ => format!(r#"{{"model":"m","messages":[{{"role":"user","content":{what}}}]}}"#),
    }
}

// Defect images-in-tool-outputs: media cost the same wherever they stand, also in forms of parts that the gateway does not know.
#[test]
fn everywhere() {
    for (endpoint, what, expected) in PLACES {
        let body = around(endpoint, what);
        // Two marks and the role, `user` or `tool`.
        assert_eq!(with(endpoint, &body, 'i').prompt_bytes, 6 + expected, "{what}");
    }
}

// Other media in the same place are another prompt.
#[test]
fn told_apart() {
    for (endpoint, what, _) in PLACES.iter().filter(|(_, what, _)| what.contains("$B64")) {
        let whole = |first| {
            let info = with(*endpoint, &around(*endpoint, what), first);
            let mut fingerprint = info.fingerprint;
            fingerprint.push(&[0; 8]);
            fingerprint.into_blocks()
        };
        assert_eq!(whole('i'), whole('i'), "{what}");
        assert_ne!(whole('i'), whole('j'), "{what}");
    }
}

// A text is what a tokenizer reads, whatever it looks like: in a message, in a tool's output, and in
// the arguments of a call. An output of one text part is that text.
#[test]
fn text_stays_text() {
    let length = base64('i').len() as u64;
    let bodies = [
        (ChatCompletions, r#""$B64""#, 0),
        (ChatCompletions, r#"[{"type":"text","text":"$B64"}]"#, 0),
        (Messages, r#"[{"type":"tool_result","content":"$B64"}]"#, 1),
        (Messages, r#"[{"type":"tool_use","name":"f","input":{"a":"$B64"}}]"#, 3 + 8),
        (Responses, r#"{"type":"function_call_output","output":"$B64"}"#, 0),
        (Responses, r#"{"type":"mcp_call","name":"f","arguments":"{}","output":"$B64"}"#, 16),
    ];
    for (endpoint, what, more) in bodies {
        let info = with(endpoint, &around(endpoint, what), 'i');
        assert_eq!(info.prompt_bytes, 6 + length + more, "{what}");
    }
    let output = |output: &str| {
        let item = format!(r#"{{"type":"function_call_output","output":{output}}}"#);
        print(&ok(Responses, &around(Responses, &item)))
    };
    assert_eq!(output(r#""some text""#), output(r#"[{"type":"input_text","text":"some text"}]"#));
}

// The call of a custom tool is text, and continues the assistant's message like any other call.
#[test]
fn calls_of_custom_tools() {
    let call =
        r#"{"model":"m","input":[{"type":"custom_tool_call","name":"f","input":"*** a patch"}]}"#;
    assert_eq!(ok(Responses, call).prompt_bytes, 2 + 9 + 2 + 1 + 11);
}

// Parts inside parts are read to a few levels and use no stack beyond them.
#[test]
fn parts_in_parts() {
    let open = r#"{"type":"tool_result","content":"#;
    let nested = |n: usize| open.repeat(n) + r#""ab""# + &"}".repeat(n);
    let bytes = |n| ok(Messages, &around(Messages, &nested(n))).prompt_bytes;
    assert_eq!([bytes(1), bytes(2)], [6 + 1 + 2, 6 + 2 + 2]);
    assert!(bytes(60) > 60 * 10, "deep parts count as JSON");
    let body = around(Messages, &nested(50_000));
    let bad = super::super::read(Messages, body.as_bytes(), &super::reading());
    assert!(bad.is_err_and(|bad| bad.message.contains("nests deeper")));
}
