//! The recorded exchanges, read from their files.

use std::sync::LazyLock;

use bytes::Bytes;
use serde_json::Value;

use crate::engine::Role;

/// One request and its answer.
pub(crate) struct Exchange {
    /// The recording, of which the other leg has the same name.
    pub(crate) name: &'static str,
    /// The engine that answered.
    pub(crate) role: Role,
    pub(crate) path: String,
    /// The body; that of a decode leg without its parameters.
    pub(crate) body: Value,
    pub(crate) answer: Answer,
    /// The parameters in a prefill's answer.
    pub(crate) params: Option<Value>,
    /// Blocks that a prefill pins for each answer.
    pub(crate) blocks: u64,
    /// Answers to the prompts of a request, each with its own blocks.
    pub(crate) answers: usize,
}

/// An answer as recorded.
#[derive(Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Bytes,
}

impl Answer {
    /// From a recording of status, headers and, unless given, body.
    fn of(recorded: &Value, body: Option<&str>) -> Answer {
        let body = body.unwrap_or_else(|| text(&recorded["body"])).to_owned();
        let headers = recorded["headers"].as_object().into_iter().flatten();
        let mut headers: Vec<_> =
            headers.map(|(name, value)| (name.clone(), text(value).to_owned())).collect();
        if headers.is_empty() {
            headers.push(("content-type".to_owned(), "application/json".to_owned()));
        }
        let status = recorded["status"].as_u64().and_then(|status| u16::try_from(status).ok());
        Answer { status: status.unwrap_or(200), headers, body: body.into() }
    }

    /// The answer of an engine in one of the states of `failures.json`.
    pub(crate) fn failure(state: &str) -> Answer {
        Answer::of(&FAILURES[state], None)
    }

    pub(crate) fn streams(&self) -> bool {
        self.headers.iter().any(|(_, value)| value.starts_with("text/event-stream"))
    }
}

/// A file of this crate, or one that the tests of `wire` read too.
macro_rules! recorded {
    (own $name:literal) => {
        json(include_str!(concat!("../recordings/", $name)))
    };
    ($name:literal) => {
        json(include_str!(concat!("../../protocol/src/legs/tests/recorded/", $name, ".json")))
    };
}

static FAILURES: LazyLock<Value> = LazyLock::new(|| recorded!(own "failures.json"));

/// Every exchange. If several have the same request, the first request gets the first answer and
/// further ones the last.
pub(crate) static ALL: LazyLock<Vec<Exchange>> = LazyLock::new(|| {
    let files = [
        ("completions", recorded!("completions")),
        ("completions-again", recorded!("completions-again")),
        ("chat-stream", recorded!("chat-stream")),
        ("chat-logprobs", recorded!("chat-logprobs")),
        ("completions-batch", recorded!("completions-batch")),
        ("completions-n2", recorded!("completions-n2")),
        ("responses", recorded!("responses")),
        ("messages", recorded!("messages")),
    ];
    let answers = recorded!(own "answers.json");
    let streams = recorded!("streams");
    let (mut all, mut variants) = (Vec::new(), Vec::new());
    for (name, file) in &files {
        let rest = answers.as_array().into_iter().flatten().find(|rest| rest["name"] == *name);
        let rest = rest.expect("each recording has its answers");
        let (prefill, decode) = (prefill(name, file, rest), decode(name, file, rest));
        // Variants come later, as the recordings themselves are to be the nearest ones.
        match *name {
            "chat-stream" => variants.push(streamed(&prefill, &streams, "chat")),
            "completions" => variants.push(streamed(&prefill, &streams, "completions")),
            _ => {}
        }
        if prefill.path == "/v1/completions" && prefill.answers == 1 {
            variants.push(refused(&decode));
        }
        all.extend([prefill, decode]);
    }
    all.extend(variants);
    all
});

fn prefill(name: &'static str, file: &Value, rest: &Value) -> Exchange {
    let answer = text(&file["prefill_answer"]);
    let whole = json(answer);
    let params = &whole["kv_transfer_params"];
    let answers = whole["choices"].as_array().map_or(1, Vec::len);
    let request = request(file, rest, "prefill_request");
    Exchange {
        name,
        role: Role::Prefill,
        path: text(&request["path"]).to_owned(),
        body: request["body"].clone(),
        answer: Answer::of(&rest["prefill"], Some(answer)),
        params: Some(params.clone()),
        blocks: blocks(params),
        answers,
    }
}

fn decode(name: &'static str, file: &Value, rest: &Value) -> Exchange {
    let request = request(file, rest, "decode_request");
    let mut body = request["body"].clone();
    if let Some(members) = body.as_object_mut() {
        members.remove("kv_transfer_params");
    }
    let path = text(&request["path"]).to_owned();
    let answer = Answer::of(&rest["decode"], None);
    Exchange { name, role: Role::Decode, path, body, answer, params: None, blocks: 0, answers: 1 }
}

/// A prefill leg that streams: its blocks are pinned, but its answer does not name them.
fn streamed(prefill: &Exchange, streams: &Value, which: &str) -> Exchange {
    let mut body = prefill.body.clone();
    body["stream"] = Value::Bool(true);
    let answer = Answer::of(
        &serde_json::json!({"headers": FAILURES["streamed"][which]}),
        streams[which].as_str(),
    );
    let (path, role) = (prefill.path.clone(), prefill.role);
    Exchange { body, answer, params: None, path, role, ..*prefill }
}

/// A decode leg that asks for too many tokens.
fn refused(decode: &Exchange) -> Exchange {
    let mut body = decode.body.clone();
    body["max_tokens"] = 99_999.into();
    let (path, answer) = (decode.path.clone(), Answer::failure("refused"));
    Exchange { body, answer, path, params: None, ..*decode }
}

fn request<'a>(file: &'a Value, rest: &'a Value, leg: &str) -> &'a Value {
    file.get(leg).unwrap_or(&rest[leg])
}

/// The number of ids in parameters, whose ids are in a list for each cache group.
pub(crate) fn blocks(params: &Value) -> u64 {
    let groups = params["remote_block_ids"].as_array().into_iter().flatten();
    groups.map(|group| group.as_array().map_or(1, Vec::len) as u64).sum()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("recordings are JSON, and tests read all of them")
}
