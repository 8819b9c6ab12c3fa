//! Servers are killed in mid-stream, and their streams continue on other servers with the text of
//! an unbroken run.

use std::collections::BTreeSet;

use crate::common::{LIMIT, fleet, llamacpp, must, status_when, text, up};
use meridian_fleet::llamacpp::ServerSpec;
use meridian_fleet::{Client, EngineSpec, Fleet, Gateway, GatewaySpec, Process};
use serde_json::{Value, json};

const CHAT: &str = "/v1/chat/completions";
const COMPLETION: &str = "/v1/completions";

/// Tokens of an answer: enough that no answer ends before the kill takes effect.
const TOKENS: u64 = 300;
/// Pieces after which the server is killed.
const BEFORE_KILL: usize = 20;

/// A client's view of a stream.
#[derive(Debug, Default, PartialEq)]
struct Said {
    text: String,
    pieces: Vec<String>,
    ids: BTreeSet<String>,
    roles: usize,
    finish: Vec<String>,
    done: usize,
    usage: Value,
}

/// Requests a stream and reads it to its end; `after` kills a process after that many pieces.
async fn say(url: &str, body: &Value, mut after: Option<(usize, &mut Process)>) -> Said {
    let mut stream = must(Client::new().open(url, body.to_string(), &[]).await);
    assert_eq!(stream.status, 200, "{url}");
    let mut said = Said::default();
    while let Some(event) = must(stream.next().await) {
        assert!(!event.is_error(), "{}", event.data);
        if event.is_done() {
            said.done += 1;
            continue;
        }
        said.take(&event.value());
        if after.as_ref().is_some_and(|(n, _)| *n == said.pieces.len()) {
            let (_, victim) = after.take().expect("it was looked at");
            must(victim.kill().await);
        }
    }
    said
}

impl Said {
    fn take(&mut self, chunk: &Value) {
        self.ids.insert(format!("{} {}", chunk["id"], chunk["model"]));
        if let Some(usage) = chunk.get("usage").filter(|usage| !usage.is_null()) {
            self.usage = usage.clone();
        }
        let choice = &chunk["choices"][0];
        self.roles += usize::from(choice["delta"]["role"].is_string());
        self.finish.extend(choice["finish_reason"].as_str().map(str::to_owned));
        let text = choice["delta"]["content"].as_str().or(choice["text"].as_str());
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            self.text.push_str(text);
            self.pieces.push(text.to_owned());
        }
    }

    /// Compares it with the answer of an unbroken run.
    fn is(&self, whole: &Said) {
        assert_eq!(self.text, whole.text);
        let once = |said: &Said| (said.ids.len(), said.roles, said.finish.clone(), said.done);
        assert_eq!(once(self), once(whole));
        for count in ["prompt_tokens", "completion_tokens", "total_tokens"] {
            assert_eq!(self.usage[count], whole.usage[count], "{count}: {}", self.usage);
        }
    }
}

fn body(path: &str, prompt: &str) -> Value {
    let mut body = json!({
        "max_tokens": TOKENS, "temperature": 0, "ignore_eos": true, "stream": true,
        "stream_options": {"include_usage": true},
    });
    if path == CHAT {
        body["messages"] = json!([{"role": "user", "content": prompt}]);
    } else {
        body["prompt"] = prompt.into();
    }
    body
}

/// A request with its answer, such that every prefix of the answer is tokenized into the tokens
/// that were generated. A model with random weights often generates other tokens than the tokenizer
/// would choose for the same text. Such a text, sent back, is a different prompt.
async fn faithful(server: &str, path: &str) -> (Value, Said) {
    'prompts: for seed in 0..400 {
        let mut body = body(path, &text(seed, 12));
        body["model"] = "meridian-tiny".into();
        let whole = say(&format!("{server}{path}"), &body, None).await;
        if whole.pieces.len() as u64 != TOKENS {
            continue;
        }
        let mut prefix = String::new();
        for (n, piece) in whole.pieces.iter().enumerate() {
            prefix.push_str(piece);
            let asked = json!({"content": prefix}).to_string();
            let tokens = must(Client::new().post(&format!("{server}/tokenize"), asked).await);
            if tokens.value()["tokens"].as_array().map(Vec::len) != Some(n + 1) {
                continue 'prompts;
            }
        }
        return (body, whole);
    }
    panic!("no prompt of 400 has an answer that is tokenized as it was generated");
}

/// Starts a gateway that dispatches streams to its replicas in turn.
async fn gateway(fleet: &Fleet, servers: &[Process]) -> Gateway {
    let spec = GatewaySpec {
        policy: "round_robin".into(),
        admission: Some("blind".into()),
        replicas: servers.iter().map(|server| server.said(0).to_owned()).collect(),
        resume: true,
        ..GatewaySpec::default()
    };
    let gateway = must(fleet.gateway("gateway", &spec).await);
    status_when(&Client::new(), &gateway, "all replicas up", up(servers.len())).await;
    gateway
}

/// Kills the server of a stream after its start; the whole answer must be the same as an unbroken
/// one.
async fn broken(
    gateway: &Gateway,
    servers: &mut [Process],
    path: &str,
    asked: &Value,
    whole: &Said,
) {
    let client = Client::new();
    let before = status_when(&client, gateway, "rest", |s| s.requests.in_flight == 0).await;
    // The header of an answer shows which replica is the next in turn.
    let mut peek = asked.clone();
    peek["max_tokens"] = 1.into();
    let url = format!("{}{path}", gateway.url);
    let living = before.replicas.iter().filter(|r| r.state == "up").count();
    let mut next = String::new();
    // A whole round, so that the next one starts with the same replica.
    for n in 0..living {
        let stream = must(client.open(&url, peek.to_string(), &[]).await);
        if n == 0 {
            next = stream.header("x-meridian-replica").unwrap_or_default().to_owned();
        }
        must(stream.whole().await);
    }
    let at: usize = next.trim_start_matches('r').parse().expect("a replica's id");
    let said = say(&url, asked, Some((BEFORE_KILL, &mut servers[at]))).await;
    said.is(whole);
    let after = status_when(&client, gateway, "rest", |s| s.requests.in_flight == 0).await;
    assert_eq!(after.requests.failed, 0, "{:?}", after.requests);
    assert_eq!(after.requests.accepted, after.requests.done, "{:?}", after.requests);
    assert_eq!(after.replicas[at].failed, 1, "it broke there: {:?}", after.replicas[at]);
    status_when(&client, gateway, "it is down", |s| s.replicas[at].state == "down").await;
}

// Real llama.cpp: a completion and a chat; the server of each is killed in mid-stream.
#[tokio::test]
async fn llamacpp_streams_are_resumed() {
    let (fleet, installed) = (fleet(), llamacpp().await);
    let spec = ServerSpec { slots: 1, context: 2048, port: 0 };
    let mut servers = Vec::new();
    for n in 0..3 {
        servers.push(must(fleet.llamacpp(&format!("server-{n}"), &installed, spec).await));
    }
    let one = servers[0].said(0).to_owned();
    let mut asked = Vec::new();
    for path in [COMPLETION, CHAT] {
        let found = tokio::time::timeout(LIMIT, faithful(&one, path)).await;
        asked.push((path, found.expect("such a prompt is soon found")));
    }
    let gateway = gateway(&fleet, &servers).await;
    for (path, (body, whole)) in &asked {
        broken(&gateway, &mut servers, path, body, whole).await;
    }
}

// Model engines put several tokens into one event when they are late; all tokens are counted.
#[tokio::test]
async fn model_engines_streams_are_resumed() {
    let fleet = fleet();
    let spec = EngineSpec { time_scale: 10.0, ..EngineSpec::default() };
    let mut engines = Vec::new();
    for n in 0..2 {
        engines.push(must(fleet.engine(&format!("engine-{n}"), &spec).await));
    }
    let mut asked = body(CHAT, &text(1, 12));
    asked["model"] = "llama-3.1-8b".into();
    let whole = say(&format!("{}{CHAT}", engines[0].said(0)), &asked, None).await;
    assert_eq!(whole.text.len() as u64, 4 * TOKENS, "four bytes a token");
    let gateway = gateway(&fleet, &engines).await;
    broken(&gateway, &mut engines, CHAT, &asked, &whole).await;
}
