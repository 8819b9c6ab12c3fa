//! LiteLLM in front of a gateway, with the files of examples/litellm-in-front.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::common::{LIMIT, chat, fleet, must, status_when, up};
use meridian_fleet::venv::{self, Pins};
use meridian_fleet::{
    Answer, Client, EngineSpec, Event, Fleet, Gateway, Process, Program, free_port,
};
use serde_json::{Value, json};

const PINS: Pins = Pins { name: "LiteLLM", key: "LITELLM_PIP", module: "uvicorn" };
/// LiteLLM's key for the gateway. The example contains its hash.
const KEY: &str = "example-key-of-litellm-never-use-it";
/// The clients' key for LiteLLM.
const MASTER: &str = "sk-0123456789abcdef0123456789abcdef0123456789abcdef";

fn example(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/litellm-in-front");
    std::fs::read_to_string(root.join(name)).expect("the example is there")
}

/// Replaces one part of a text; the text must contain it.
fn with(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "the example has no `{from}`: {text}");
    text.replace(from, to)
}

/// Starts the gateway of the example in front of these engines.
async fn gateway(fleet: &Fleet, engines: &[Process]) -> (Gateway, PathBuf) {
    let mut yaml = example("gateway.yaml");
    yaml = with(&yaml, "http://127.0.0.1:8000", engines[0].said(0));
    yaml = with(&yaml, "http://127.0.0.1:8001", engines[1].said(0));
    yaml += "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nheld: {max_wait: 1s}\n";
    let path = fleet.dir().join("gateway.yaml");
    std::fs::write(&path, yaml).expect("writes");
    let args = ["gateway".as_ref(), "-c".as_ref(), path.as_os_str()];
    let process = must(fleet.meridian("gateway", args, &["listening on ", "admin on "]).await);
    let (url, admin) = (process.said(0).to_owned(), process.said(1).to_owned());
    (Gateway { process, url, admin, peers: None }, path)
}

/// Starts LiteLLM with the example's file and this gateway as `api_base`; waits until it answers.
async fn litellm(fleet: &Fleet, client: &Client, gateway: &str) -> (Process, String) {
    let home = venv::home(Path::new(env!("CARGO_MANIFEST_DIR")), "litellm");
    let python = must(venv::install(&home, PINS).await);
    let yaml = with(&example("config.yaml"), "http://127.0.0.1:8080", gateway);
    let path = fleet.dir().join("config.yaml");
    std::fs::write(&path, yaml).expect("writes");
    let port = must(free_port()).to_string();
    let file = path.to_str().expect("is text");
    let mut program = Program::new("litellm", python.with_file_name("litellm")).args([
        "--config",
        file,
        "--host",
        "127.0.0.1",
        "--port",
        &port,
    ]);
    let env = [
        ("MERIDIAN_API_KEY", KEY),
        ("LITELLM_MASTER_KEY", MASTER),
        // Use the price list of the package, and do not download a newer one.
        ("LITELLM_LOCAL_MODEL_COST_MAP", "True"),
    ];
    program.env = env.map(|(name, value)| (name.into(), value.into())).into();
    let mut process = must(fleet.start(program).await);
    let (url, start) = (format!("http://127.0.0.1:{port}"), Instant::now());
    while client.get(&format!("{url}/health/liveliness")).await.is_err() {
        let ended = process.ended();
        assert!(ended.is_none() && start.elapsed() < LIMIT, "{}", process.log_tail());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    (process, url)
}

async fn post(client: &Client, url: &str, key: &str, body: String, id: &str) -> Answer {
    let bearer = format!("Bearer {key}");
    let headers = [("authorization", bearer.as_str()), ("x-request-id", id)];
    let url = format!("{url}/v1/chat/completions");
    must(must(client.open(&url, body, &headers).await).whole().await)
}

fn hello(stream: bool) -> String {
    chat("hello", 8, stream).replace("meridian-tiny", "llama-3.1-8b")
}

/// Sets a rate limit for the tenant of the example, by a reload.
async fn limit(gateway: &Gateway, path: &Path) {
    let yaml = std::fs::read_to_string(path).expect("reads");
    let yaml =
        with(&yaml, "- name: litellm\n", "- name: litellm\n    limits: {requests_per_minute: 1}\n");
    std::fs::write(path, yaml).expect("writes");
    gateway.process.hang_up();
    let start = Instant::now();
    let log = || std::fs::read_to_string(gateway.process.log()).expect("there is a log");
    while !log().contains("reloaded on SIGHUP") {
        assert!(start.elapsed() < LIMIT, "{}", log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

// A client of LiteLLM gets the engines' answers through the gateway, whole and streamed. The
// gateway accepts LiteLLM's own key and refuses a client's. The request id reaches the gateway, and
// the gateway's refusals reach the client with their status and reason.
#[tokio::test]
async fn litellm_in_front() {
    let fleet = fleet();
    let client = Client::new();
    let spec = EngineSpec { time_scale: 100.0, ..EngineSpec::default() };
    let mut engines =
        [must(fleet.engine("e0", &spec).await), must(fleet.engine("e1", &spec).await)];
    let (gateway, path) = gateway(&fleet, &engines).await;
    status_when(&client, &gateway, "two replicas", up(2)).await;
    let (process, url) = litellm(&fleet, &client, &gateway.url).await;

    let direct = post(&client, &gateway.url, KEY, hello(false), "direct").await.value();
    let answer = post(&client, &url, MASTER, hello(false), "via-litellm").await;
    let value = answer.value();
    assert_eq!(answer.status, 200, "{value}");
    for part in
        ["/choices/0/message/content", "/choices/0/finish_reason", "/usage/completion_tokens"]
    {
        assert_eq!(value.pointer(part), direct.pointer(part), "{part}: {value} {direct}");
    }
    let replica = answer.header("llm_provider-x-meridian-replica");
    assert!(replica.is_some_and(|name| name.starts_with('r')), "{:?}", answer.headers);
    let explained: Value =
        must(client.json(&format!("{}/admin/explain/via-litellm", gateway.admin)).await);
    assert_eq!(explained["id"], json!("via-litellm"), "{explained}");

    let answer = post(&client, &url, MASTER, hello(true), "stream").await;
    let events = answer.events();
    let contents = events.iter().map(Event::value);
    let streamed: String = contents
        .filter_map(|event| event["choices"][0]["delta"]["content"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(json!(streamed), direct["choices"][0]["message"]["content"], "{events:?}");
    assert!(events.last().is_some_and(Event::is_done), "{events:?}");

    // Without its database, LiteLLM answers 400 to an unknown key.
    for (url, key, status) in [(&url, KEY, 400), (&gateway.url, MASTER, 401)] {
        let answer = post(&client, url, key, hello(false), "key").await;
        assert_eq!(answer.status, status, "{}", answer.value());
    }

    limit(&gateway, &path).await;
    assert_eq!(post(&client, &url, MASTER, hello(false), "first").await.status, 200);
    let answer = post(&client, &url, MASTER, hello(false), "second").await;
    let said = answer.value().to_string();
    assert_eq!(answer.status, 429, "{said}");
    assert!(said.contains("requests") && said.contains("minute"), "{said}");

    std::fs::write(
        &path,
        std::fs::read_to_string(&path).expect("reads").replace("_minute: 1}", "_minute: 600}"),
    )
    .expect("writes");
    gateway.process.hang_up();
    for engine in &mut engines {
        must(engine.kill().await);
    }
    status_when(&client, &gateway, "no replica", up(0)).await;
    let start = Instant::now();
    let answer = loop {
        let answer = post(&client, &url, MASTER, hello(false), "none").await;
        // Retried until the reload.
        if answer.status != 429 {
            break answer;
        }
        assert!(start.elapsed() < LIMIT, "{}", answer.value());
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let said = answer.value().to_string();
    assert_eq!(answer.status, 503, "{said}");
    assert!(said.contains("replica"), "{said}");

    let log = std::fs::read_to_string(process.log()).expect("there is a log");
    assert!(!log.contains("huggingface.co"), "LiteLLM fetches a tokenizer: {log}");
}
