//! Models under other names: the replica sees its own name, the client the one that it sent.

use std::collections::BTreeMap;
use std::time::Duration;

use meridian_config::{Gateway as Config, ModelSettings, Resume};
use serde_json::Value;

use crate::common::{Region, Replica, Script, call, events, get, post, request};
use crate::forwards::{World, occupy};
use crate::records::{DONE, Files, stopped};

const MS: Duration = Duration::from_millis(1);
const CHAT: &str = "/v1/chat/completions";
const BODY: &str =
    r#"{"messages":[{"role":"user","content":"hi"}],"model":"gpt \"4\"","stream":STREAM}"#;

/// `gpt "4"` is an alias of `m`.
pub(crate) fn aliased(config: &mut Config) {
    let alias = ModelSettings { alias: Some("m".to_owned()), ..ModelSettings::default() };
    config.models = BTreeMap::from([("gpt \"4\"".to_owned(), alias)]);
}

fn chunk(model: &str, text: &str) -> String {
    let model = serde_json::to_string(model).unwrap();
    format!(
        "data: {{\"id\":\"c\",\"model\":{model},\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n"
    )
}

fn body(stream: bool) -> String {
    BODY.replace("STREAM", if stream { "true" } else { "false" })
}

/// The body that a replica got last.
fn sent(replica: &Replica) -> Value {
    serde_json::from_slice(&replica.last().body).unwrap()
}

// A stream and a whole answer of each endpoint: the replica gets its own name and every other byte
// as it was, the client gets its own, and the length of a whole answer is right.
#[tokio::test(start_paused = true)]
async fn each_side_has_its_name() {
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], aliased).await;
    let stream = [chunk("m", "model"), chunk("m", "s"), DONE.to_owned()];
    let stream: Vec<&str> = stream.iter().map(String::as_str).collect();
    replica.then(Script::stream(&stream, MS));
    let answer = post(region.listen, CHAT, &body(true)).await;
    let expected = [chunk("gpt \"4\"", "model"), chunk("gpt \"4\"", "s"), DONE.to_owned()].concat();
    assert_eq!(answer.text(), expected);
    assert_eq!(sent(&replica)["model"], "m");
    for (path, rest) in [
        (CHAT, r#""messages":[{"role":"user","content":"hi"}]"#),
        ("/v1/completions", r#""prompt":"hi""#),
        ("/v1/embeddings", r#""input":"hi""#),
        ("/v1/responses", r#""input":"hi""#),
        ("/v1/messages", r#""max_tokens":9,"messages":[{"role":"user","content":"hi"}]"#),
    ] {
        replica.then(Script::json(200, r#"{"id":"x","model":"m","data":[{"model":"m"}]}"#));
        let asked = |name: &str| format!(r#"{{"z":1.0e5, "model" : "{name}",{rest}}}"#);
        let answer = post(region.listen, path, &asked(r#"gpt \"4\""#)).await;
        let shown = r#"{"id":"x","model":"gpt \"4\"","data":[{"model":"m"}]}"#;
        assert_eq!((answer.status, answer.text()), (200, shown), "{path}");
        assert!(!answer.headers.contains_key("content-length"), "{path}");
        assert_eq!(replica.last().text(), asked("m"), "{path}");
    }
    let status = region.settled().await;
    assert_eq!((status.requests.accepted, status.requests.done), (6, 6));
}

// An alias is listed like its model, and is found by its name; it takes the place of a model that a
// replica serves under the same name.
#[tokio::test(start_paused = true)]
async fn listed_and_first() {
    let (a, b) = (Replica::of(&["m"]).await, Replica::of(&["gpt \\\"4\\\""]).await);
    let region = Region::with(&[&a, &b], aliased).await;
    let list = get(region.listen, "/v1/models").await.json();
    let mut names: Vec<_> =
        list["data"].as_array().unwrap().iter().map(|m| m["id"].clone()).collect();
    names.sort_by_key(Value::to_string);
    assert_eq!(names, ["gpt \"4\"", "m"]);
    assert_eq!(list["data"][1]["owned_by"], "vllm");
    for _ in 0..3 {
        assert_eq!(post(region.listen, CHAT, &body(false)).await.status, 200);
    }
    assert_eq!((a.count(), b.count()), (3, 0));
}

// An alias of a model that no replica serves waits for one like the model, and is refused then.
#[tokio::test(start_paused = true)]
async fn an_alias_of_nothing() {
    let replica = Replica::of(&["other"]).await;
    let region = Region::with(&[&replica], aliased).await;
    let answer = post(region.listen, CHAT, &body(false)).await;
    assert_eq!((answer.status, answer.code().as_str()), (503, "held_too_long"));
    assert_eq!(region.settled().await.requests.rejected, 1);
}

// A forwarded request has the model's own name, and the first gateway puts the alias into the
// answer. The peer has an alias of the same name for another model, and does not use it.
#[tokio::test(start_paused = true)]
async fn peers_know_the_models_name() {
    let (here, there) = (Replica::start().await, Replica::of(&["m", "n"]).await);
    let mut world = World::of(&[&[&here], &[&there]]);
    aliased(&mut world.configs[0]);
    let other = ModelSettings { alias: Some("n".to_owned()), ..ModelSettings::default() };
    world.configs[1].models = BTreeMap::from([("m".to_owned(), other)]);
    let regions = world.start().await;
    let [us, eu] = &regions[..] else { panic!("two regions") };
    let busy = occupy(us, &here).await;
    let stream = [chunk("m", "a"), DONE.to_owned()];
    let stream: Vec<&str> = stream.iter().map(String::as_str).collect();
    there.then(Script::stream(&stream, MS));
    let answer = post(us.listen, CHAT, &body(true)).await;
    assert_eq!(answer.header("x-meridian-region"), "eu");
    assert_eq!(answer.text(), chunk("gpt \"4\"", "a") + DONE);
    assert_eq!(sent(&there)["model"], "m");
    there.then(Script::json(200, r#"{"model":"m"}"#));
    let answer = post(us.listen, CHAT, &body(false)).await;
    assert_eq!(
        (answer.header("x-meridian-region"), answer.text()),
        ("eu", r#"{"model":"gpt \"4\""}"#)
    );
    drop(busy);
    us.settled().await;
    eu.settled().await;
}

// A broken stream that another replica resumes has one name in all its chunks, and both replicas get
// the model's own.
#[tokio::test(start_paused = true)]
async fn a_resumed_stream() {
    let (a, b) = (Replica::start().await, Replica::start().await);
    let region = Region::with(&[&a, &b], |c| {
        aliased(c);
        c.resume = Some(Resume::default());
        c.probe.down_after = 1_000_000;
    })
    .await;
    a.then(Script::sse().event(&chunk("m", "Once")).event("data: {\"model\":\"m").wait(MS).close());
    let rest = [chunk("m", " more"), DONE.to_owned()];
    b.then(Script::stream(&rest.iter().map(String::as_str).collect::<Vec<_>>(), MS));
    let answer = post(region.listen, CHAT, &body(true)).await;
    let texts: Vec<&str> = events(answer.text());
    assert_eq!(texts.len(), 3, "{texts:?}");
    assert!(texts[..2].iter().all(|text| text.contains(r#""model":"gpt \"4\"""#)), "{texts:?}");
    assert_eq!((&sent(&a)["model"], &sent(&b)["model"]), (&"m".into(), &"m".into()));
    assert_eq!(region.settled().await.requests.done, 1);
}

// Metrics, the access log and the journal name the model, and the log also has the alias.
#[tokio::test(start_paused = true)]
async fn records_name_the_model() {
    let replica = Replica::start().await;
    let files = Files::new("aliases");
    let region = Region::with(&[&replica], |c| {
        files.set(c);
        aliased(c);
    })
    .await;
    for name in [r#"gpt \"4\""#, "m"] {
        let body = format!(r#"{{"model":"{name}","messages":[]}}"#);
        assert_eq!(call(region.listen, request("POST", CHAT, &body)).await.status, 200);
    }
    let metrics = get(region.admin, "/metrics").await;
    let counted = r#"meridian_http_requests_total{model="m",tenant="",from="client",outcome="done",status="200"} 2"#;
    assert!(metrics.text().contains(counted), "{}", metrics.text());
    stopped(region).await;
    let log = files.log();
    assert_eq!((&log[0]["model"], &log[0]["alias"]), (&"m".into(), &"gpt \"4\"".into()));
    assert_eq!((&log[1]["model"], log[1].get("alias")), (&"m".into(), None));
    let models: Vec<_> = files.journal().iter().map(|line| line["model"].clone()).collect();
    assert!(models.iter().all(|model| *model == models[0]), "{models:?}");
}
