//! LoRA adapters that are loaded and unloaded at run time.
#![allow(clippy::unwrap_used, reason = "a test may fail by unwrapping")]

mod common;

use common::{Client, options, read};
use meridian_engined::{Options, Service};
use serde::Deserialize;
use serde_json::Value;
use std::mem::discriminant;

const SQL: &str = r#"{"lora_name":"sql","lora_path":"/adapters/sql"}"#;
/// What vLLM answered; `signals/fixtures/README.md` says how it was recorded.
const RECORDED: &str =
    include_str!("../../../product/protocol/src/signals/fixtures/vllm/lora.json");
const PROMPT: &str = "one prompt of sixty-four bytes and more, so that it fills a whole block here";

async fn engine(max_loras: Option<u32>) -> (Service, Client) {
    let service = Service::start(Options { max_loras, ..options() }).unwrap();
    let client = Client::connect(&service).await;
    (service, client)
}

async fn models(client: &mut Client) -> Vec<(String, Value)> {
    let (_, list) = client.get("/v1/models").await;
    let list: Value = serde_json::from_str(&list).unwrap();
    let entry = |m: &Value| (m["id"].as_str().unwrap().to_owned(), m["parent"].clone());
    list["data"].as_array().unwrap().iter().map(entry).collect()
}

fn ask(model: &str) -> String {
    format!(r#"{{"model":"{model}","prompt":"{PROMPT}","max_tokens":4}}"#)
}

// An adapter is listed with its parent and serves from its loading to its unloading; after that it
// gets a 404 with vLLM's `param`.
#[tokio::test(start_paused = true)]
async fn loaded_and_unloaded() {
    let (_service, mut client) = engine(Some(4)).await;
    let base = models(&mut client).await[0].0.clone();
    let (status, error) = client.json("/v1/completions", &ask("sql")).await;
    assert_eq!((status, error["error"]["param"].as_str()), (404, Some("model")));
    let message = error["error"]["message"].as_str().unwrap();
    assert_eq!(message, format!("the model does not exist here: this engine serves {base}"));

    let (status, said) = read(client.post("/v1/load_lora_adapter", SQL).await).await;
    assert_eq!((status, &*said), (200, "Success: LoRA adapter 'sql' added successfully."));
    let listed = [(base.clone(), Value::Null), ("sql".to_owned(), Value::from(base.clone()))];
    assert_eq!(models(&mut client).await, listed);
    let (status, answer) = client.json("/v1/completions", &ask("sql")).await;
    assert_eq!((status, answer["model"].as_str()), (200, Some("sql")));

    let (_, error) = client.json("/v1/completions", &ask("other")).await;
    assert!(error["error"]["message"].as_str().unwrap().ends_with(&format!("{base}, sql")));

    let (status, said) = read(client.post("/v1/unload_lora_adapter", SQL).await).await;
    assert_eq!((status, &*said), (200, "Success: LoRA adapter 'sql' removed successfully."));
    assert_eq!(models(&mut client).await, listed[..1]);
    assert_eq!(client.json("/v1/completions", &ask("sql")).await.0, 404);
}

// Requests that vLLM refuses are refused.
#[tokio::test(start_paused = true)]
async fn refusals() {
    let (_service, mut client) = engine(Some(4)).await;
    let (load, unload) = ("/v1/load_lora_adapter", "/v1/unload_lora_adapter");
    assert_eq!(read(client.post(load, SQL).await).await.0, 200);
    for (path, body, status, kind) in [
        (load, SQL, 400, "InvalidUserInput"),
        (load, r#"{"lora_name":"a"}"#, 400, "Bad Request"),
        (load, "[]x", 400, "Bad Request"),
        (load, r#"{"lora_name":"","lora_path":"/a"}"#, 400, "InvalidUserInput"),
        (unload, "{}", 400, "Bad Request"),
        (unload, r#"{"lora_name":""}"#, 400, "InvalidUserInput"),
        (unload, r#"{"lora_name":"a"}"#, 404, "NotFoundError"),
    ] {
        let (answered, error) = client.json(path, body).await;
        assert_eq!((answered, error["error"]["type"].as_str()), (status, Some(kind)), "{body}");
    }
    let again = r#"{"lora_name":"sql","lora_path":"/adapters/new","load_inplace":true}"#;
    assert_eq!(read(client.post(load, again).await).await.0, 200);
    // Without adapters the engine has no such paths.
    let (_service, mut client) = engine(None).await;
    assert_eq!(client.json(load, SQL).await.0, 404);
    assert!(!client.get("/metrics").await.1.contains("lora_requests_info"));
}

#[derive(Deserialize)]
struct Step {
    name: String,
    path: String,
    asked: Option<Value>,
    status: u16,
    body: String,
}

/// Each of our members is in the recording, with a value of the same type.
fn assert_form(ours: &Value, theirs: &Value, at: &str) {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            for (name, value) in ours {
                let at = format!("{at}.{name}");
                assert_form(value, theirs.get(name).unwrap_or_else(|| panic!("{at}")), &at);
            }
        }
        (Value::Array(ours), Value::Array(theirs)) => {
            assert_eq!(ours.len(), theirs.len(), "{at}");
            ours.iter().zip(theirs).for_each(|(ours, theirs)| assert_form(ours, theirs, at));
        }
        _ => assert_eq!(discriminant(ours), discriminant(theirs), "{at}: {ours}, {theirs}"),
    }
}

// The requests that were recorded from a real vLLM get its statuses and messages here, and answers and
// lists of its form. Our list leaves out `permission` and has another `root` for the base model, and our
// refusal of an unreadable body does not name the member in `param`.
#[tokio::test(start_paused = true)]
async fn answers_are_those_of_vllm() {
    let mut options = Options { max_loras: Some(2), served_model: "tiny".to_owned(), ..options() };
    options.engine.max_model_len = 4096;
    let mut client = Client::connect(&Service::start(options).unwrap()).await;
    let steps: Vec<Step> = serde_json::from_str(RECORDED).unwrap();
    for Step { name, path, asked, status, body } in steps {
        let ours = match asked {
            Some(asked) => read(client.post(&path, &asked.to_string()).await).await,
            None => client.get(&path).await,
        };
        assert_eq!(ours.0, status, "{name}");
        let Ok(mut theirs) = serde_json::from_str::<Value>(&body) else {
            assert_eq!(ours.1, body, "{name}");
            continue;
        };
        let ours: Value = serde_json::from_str(&ours.1).unwrap();
        let is_unread = theirs["error"]["type"] == "Bad Request";
        if is_unread {
            theirs["error"]["param"] = Value::Null;
        }
        assert_form(&ours, &theirs, &name);
        assert_eq!(ours["error"]["type"], theirs["error"]["type"], "{name}");
        if path.ends_with("_lora_adapter") && !is_unread {
            assert_eq!(ours["error"]["message"], theirs["error"]["message"], "{name}");
        }
        for (ours, theirs) in entries(&ours).zip(entries(&theirs)) {
            let of = |entry: &Value| ["id", "owned_by", "parent"].map(|key| entry[key].clone());
            assert_eq!(of(ours), of(theirs), "{name}");
        }
    }
}

/// The entries of a list; an answer that is none has no entry.
fn entries(list: &Value) -> impl Iterator<Item = &Value> {
    list["data"].as_array().into_iter().flatten()
}

// Adapters of one base model share no blocks of the prefix cache with it or with each other.
#[tokio::test(start_paused = true)]
async fn caches_are_separate() {
    let (_service, mut client) = engine(Some(4)).await;
    let base = models(&mut client).await[0].0.clone();
    for name in ["a", "b"] {
        let body = format!(r#"{{"lora_name":"{name}","lora_path":"/{name}"}}"#);
        assert_eq!(read(client.post("/v1/load_lora_adapter", &body).await).await.0, 200);
    }
    for (model, cached) in [(&*base, 0), ("a", 0), ("b", 0), ("a", 16), (&*base, 16)] {
        let (_, answer) = client.json("/v1/completions", &ask(model)).await;
        let details = &answer["usage"]["prompt_tokens_details"];
        assert_eq!(details["cached_tokens"], cached, "{model}");
    }
}

// The metrics name the adapters of running requests; the newest sample counts.
#[tokio::test(start_paused = true)]
async fn metrics() {
    let (service, mut client) = engine(Some(4)).await;
    assert_eq!(read(client.post("/v1/load_lora_adapter", SQL).await).await.0, 200);
    let info = |running: &str| {
        format!(
            "vllm:lora_requests_info{{max_lora=\"4\",running_lora_adapters=\"{running}\",waiting_lora_adapters=\"\"}}"
        )
    };
    let idle = client.metric(&info("")).await;
    assert!(idle > 0.0);
    let mut other = Client::connect(&service).await;
    let body = r#"{"model":"sql","prompt":"hi","max_tokens":64,"stream":true}"#;
    let running = other.post("/v1/completions", body).await;
    let busy = client.metric(&info("sql")).await;
    assert!(busy >= client.metric(&info("")).await, "the idle sample stays, with its time");
    read(running).await;
    assert!(client.metric(&info("")).await >= busy);
}
