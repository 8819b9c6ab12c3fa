//! Other models for requests that their own cannot serve: each cause, and what the client, the
//! replicas and the records see.

use std::time::Duration;

use meridian_config::{AdmissionMode, Gateway as Config, ModelLimits, ModelSettings, TellClients};
use meridian_protocol::admin::Status;
use meridian_protocol::units::Span;
use serde_json::Value;

use crate::aliases::aliased;
use crate::common::{Answer, Region, Replica, Script, get, open, post, request};
use crate::forwards::{World, occupy};
use crate::records::{DONE, Files, stopped};

const MS: Duration = Duration::from_millis(1);
const CHAT: &str = "/v1/chat/completions";
const WHOLE: &str = r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#;
const STREAM: &str = r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}"#;
const ANSWER: &str =
    r#"{"id":"x","model":"n","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":1}}"#;

/// `m` falls back to `n`.
fn falls_back(config: &mut Config) {
    to(config, &["n"], None);
}

fn to(config: &mut Config, models: &[&str], after: Option<Duration>) {
    let fallbacks = models.iter().map(|model| (*model).to_owned()).collect();
    let fallback_after = after.map(Span);
    let settings = ModelSettings { fallbacks, fallback_after, ..ModelSettings::default() };
    config.models.insert("m".to_owned(), settings);
    config.probe.down_after = 1_000_000;
}

fn chunk(text: &str) -> String {
    format!(
        "data: {{\"id\":\"c\",\"model\":\"n\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n"
    )
}

fn stream(text: &str) -> Script {
    Script::stream(&[&chunk(text), DONE], MS)
}

/// The answer of `n`, and its name where a client looks for it.
fn is_of_n(answer: &Answer) {
    assert_eq!((answer.status, answer.header("x-meridian-fallback")), (200, "n"), "{answer:?}");
    assert!(answer.text().contains(r#""model":"n""#), "{}", answer.text());
}

fn model_of(replica: &Replica) -> Value {
    serde_json::from_slice::<Value>(&replica.last().body).unwrap()["model"].clone()
}

async fn counted(region: &Region, n: u64) -> bool {
    let page = get(region.admin, "/metrics").await.text().to_owned();
    let line = format!("meridian_fallbacks_total{{model=\"m\",to=\"n\"}} {n}\n");
    if n == 0 { !page.contains("meridian_fallbacks_total{") } else { page.contains(&line) }
}

/// One replica of each model.
async fn two() -> [Replica; 2] {
    let [m, n] = [Replica::of(&["m"]).await, Replica::of(&["n"]).await];
    n.always(Script::json(200, ANSWER));
    [m, n]
}

// Attempts that fail, and engines that are full: the other model answers, and the client learns which
// one it was, also where it may learn nothing of the fleet. The request counts once.
#[tokio::test(start_paused = true)]
async fn retries_exhausted() {
    for status in [500, 503] {
        let [m, n] = two().await;
        let region = Region::with(&[&m, &n], |c| {
            falls_back(c);
            c.tell_clients = Some(TellClients::Nothing);
            c.held.max_wait = Span::millis(300);
        })
        .await;
        m.always(Script::json(status, r#"{"error":{"message":"no"}}"#));
        let answer = post(region.listen, CHAT, WHOLE).await;
        is_of_n(&answer);
        assert_eq!(answer.header("x-meridian-replica"), "");
        assert_eq!(model_of(&n), "n");
        let status = region.settled().await.requests;
        assert_eq!((status.accepted, status.done), (1, 1));
        assert!(counted(&region, 1).await);
    }
}

// A queue that is full, or in which the request has waited too long.
#[tokio::test(start_paused = true)]
async fn queues() {
    for max in [0, 8] {
        let [m, n] = two().await;
        let region = Region::with(&[&m, &n], |c| {
            falls_back(c);
            c.admission = Some(AdmissionMode::Outstanding(1));
            (c.held.max, c.held.max_wait) = (max, Span::secs(3));
        })
        .await;
        let busy = occupy(&region, &m).await;
        is_of_n(&post(region.listen, CHAT, WHOLE).await);
        drop(busy);
        assert_eq!(region.settled().await.requests.accepted, 2);
        assert!(counted(&region, 1).await);
    }
}

// A model that no replica serves, at its own name and at an alias, and fallbacks that are not served
// either.
#[tokio::test(start_paused = true)]
async fn unknown_models() {
    let [_, n] = two().await;
    let region = Region::with(&[&n], |c| {
        aliased(c);
        to(c, &["gone", "n"], None);
    })
    .await;
    is_of_n(&post(region.listen, CHAT, WHOLE).await);
    let alias = WHOLE.replace(r#""m""#, r#""gpt \"4\"""#);
    is_of_n(&post(region.listen, CHAT, &alias).await);
    assert!(counted(&region, 2).await);
    let list = get(region.listen, "/v1/models").await;
    assert!(!list.text().contains("gpt"), "{}", list.text());
}

// If no model serves it, the client gets a refusal that names the model it is of. The last fallback
// is waited for, since a replica of it may come.
#[tokio::test(start_paused = true)]
async fn all_refuse() {
    let [m, n] = two().await;
    let region = Region::with(&[&m, &n], falls_back).await;
    m.always(Script::json(500, r#"{"error":{"message":"m"}}"#));
    n.always(Script::json(500, r#"{"error":{"message":"n"}}"#));
    let answer = post(region.listen, CHAT, WHOLE).await;
    assert_eq!((answer.status, answer.header("x-meridian-fallback")), (502, "n"), "{answer:?}");
    let requests = region.settled().await.requests;
    assert_eq!((requests.accepted, requests.failed), (1, 1));
    let other = Region::with(&[&n], |c| to(c, &["gone"], None)).await;
    let answer = post(other.listen, CHAT, WHOLE).await;
    assert_eq!((answer.status, answer.code().as_str()), (503, "held_too_long"));
    assert_eq!(answer.header("x-meridian-fallback"), "gone");
}

// A client's mistake stays with its model: neither the engine's 400 nor its 404 is tried elsewhere.
// The same for a body that the gateway refuses, and a request that continues a response.
#[tokio::test(start_paused = true)]
async fn mistakes() {
    let [m, n] = two().await;
    let region = Region::with(&[&m, &n], falls_back).await;
    for status in [400, 404] {
        m.then(Script::json(status, r#"{"error":{"message":"no"}}"#));
        assert_eq!(post(region.listen, CHAT, WHOLE).await.status, status);
    }
    assert_eq!(post(region.listen, CHAT, r#"{"model":"m"}"#).await.status, 400);
    m.always(Script::json(500, "{}"));
    let continued = r#"{"model":"m","input":"hi","previous_response_id":"resp_1"}"#;
    assert_eq!(post(region.listen, "/v1/responses", continued).await.status, 502);
    assert_eq!(n.count(), 0);
    assert!(counted(&region, 0).await);
}

// A model at its limit, whose place is free again when the other model's answer has ended.
#[tokio::test(start_paused = true)]
async fn limits() {
    let [m, n] = two().await;
    let region = Region::with(&[&m, &n], |c| {
        falls_back(c);
        let limits = ModelLimits { requests: Some(1), tokens_per_minute: None };
        c.models.get_mut("m").unwrap().limits = limits;
    })
    .await;
    let busy = occupy(&region, &m).await;
    is_of_n(&post(region.listen, CHAT, WHOLE).await);
    drop(busy);
    region.settled().await;
    m.always(Script::json(500, "{}"));
    is_of_n(&post(region.listen, CHAT, WHOLE).await);
    m.always(Script::json(200, r#"{"id":"x","model":"m","choices":[]}"#));
    assert_eq!(post(region.listen, CHAT, WHOLE).await.header("x-meridian-fallback"), "");
}

// A stream without a first token in time goes to the other model: the engine's connection is closed,
// and the machine has one request at one replica. An answer in one piece is waited for.
#[tokio::test(start_paused = true)]
async fn after_a_time() {
    let [m, n] = two().await;
    let region = Region::with(&[&m, &n], |c| to(c, &["n"], Some(5000 * MS))).await;
    m.then(Script::silence());
    n.then(Script::sse().event(&chunk("hi")).hang());
    let mut answer = open(region.listen, request("POST", CHAT, STREAM)).await;
    assert_eq!(answer.head.headers["x-meridian-fallback"], "n");
    answer.read_to("hi").await;
    let at = |s: &Status| (s.replicas[0].outstanding, s.replicas[1].outstanding);
    region.until("only the second works", |s| at(s) == (0, 1) && m.hangups() == 1).await;
    drop(answer);
    region.until("neither works", |s| at(s) == (0, 0)).await;
    m.then(Script::default().wait(20_000 * MS).answers(r#"{"model":"m"}"#));
    let whole = post(region.listen, CHAT, WHOLE).await;
    assert_eq!((whole.status, whole.header("x-meridian-fallback")), (200, ""));
    let requests = region.settled().await.requests;
    assert_eq!((requests.accepted, requests.done, requests.cancelled), (2, 1, 1));
    assert!(counted(&region, 1).await);
}

// A first token in time stops the clock, and the last model has as long as any request.
#[tokio::test(start_paused = true)]
async fn in_time() {
    let [m, n] = two().await;
    let region = Region::with(&[&m, &n], |c| to(c, &["gone", "n"], Some(5000 * MS))).await;
    m.then(
        Script::sse()
            .wait(4000 * MS)
            .event(&chunk("a"))
            .wait(9000 * MS)
            .event(DONE)
            .send("0\r\n\r\n"),
    );
    let answer = post(region.listen, CHAT, STREAM).await;
    assert_eq!((answer.status, answer.header("x-meridian-fallback")), (200, ""));
    assert!(answer.text().ends_with(DONE));
    m.then(Script::silence());
    n.then(Script::sse().wait(30_000 * MS).event(&chunk("b")).event(DONE).send("0\r\n\r\n"));
    is_of_n(&post(region.listen, CHAT, STREAM).await);
    assert_eq!((m.hangups(), n.hangups()), (1, 0));
}

// A client that disconnects while the other model works, or while the first does.
#[tokio::test(start_paused = true)]
async fn disconnects() {
    let [m, n] = two().await;
    let region = Region::with(&[&m, &n], |c| to(c, &["n"], Some(5000 * MS))).await;
    for (count, at) in [1, 6000].into_iter().enumerate() {
        m.then(Script::silence());
        n.then(Script::silence());
        let client = open(region.listen, request("POST", CHAT, STREAM));
        assert!(tokio::time::timeout(at * MS, client).await.is_err());
        let requests = region.settled().await.requests;
        assert_eq!((requests.accepted, requests.cancelled), (count as u64 + 1, count as u64 + 1));
        region.until("the engines know", |_| m.hangups() + n.hangups() == 1 + 2 * count).await;
    }
}

// The fallback is tried with a peer that serves it, under its own name. The peer gives nothing to
// fallbacks of its own.
#[tokio::test(start_paused = true)]
async fn at_a_peer() {
    let (here, there) = (Replica::of(&["m"]).await, Replica::of(&["n"]).await);
    there.always(Script::json(200, ANSWER));
    let mut world = World::of(&[&[&here], &[&there]]);
    falls_back(&mut world.configs[0]);
    let other = ModelSettings { fallbacks: vec!["m".to_owned()], ..ModelSettings::default() };
    world.configs[1].models.insert("n".to_owned(), other);
    let regions = world.start().await;
    let [us, eu] = &regions[..] else { panic!("two regions") };
    here.always(Script::json(500, "{}"));
    let answer = post(us.listen, CHAT, WHOLE).await;
    is_of_n(&answer);
    assert_eq!(answer.header("x-meridian-region"), "eu");
    us.settled().await;
    eu.settled().await;
    assert!(counted(us, 1).await && counted(eu, 0).await);
}

// Metrics, the access log and the journal have one record of the request, with the model that served
// it, and the log has the fallback.
#[tokio::test(start_paused = true)]
async fn one_record() {
    let [m, n] = two().await;
    let files = Files::new("fallbacks");
    let region = Region::with(&[&m, &n], |c| {
        files.set(c);
        to(c, &["n"], Some(5000 * MS));
    })
    .await;
    m.always(Script::json(500, "{}"));
    is_of_n(&post(region.listen, CHAT, WHOLE).await);
    m.always(Script::silence());
    n.then(stream("hi"));
    is_of_n(&post(region.listen, CHAT, STREAM).await);
    let page = get(region.admin, "/metrics").await.text().to_owned();
    let line = r#"meridian_http_requests_total{model="n",tenant="",from="client",outcome="done",status="200"} 2"#;
    assert!(page.contains(line), "{page}");
    assert!(!page.contains(r#"meridian_http_requests_total{model="m""#), "{page}");
    assert!(counted(&region, 2).await);
    assert_eq!(stopped(region).await.accepted, 2);
    let log = files.log();
    assert_eq!(log.len(), 2);
    for line in &log {
        assert_eq!((&line["model"], &line["fallback"]), (&"n".into(), &"n".into()), "{line}");
    }
    assert_eq!(files.journal().len(), 2);
}

// Defect fallbacks-and-killers: a body that kills engines kills one more engine, whatever number of
// other models there are for it.
#[tokio::test(start_paused = true)]
async fn a_body_that_kills_does_not_kill_a_model_after_the_other() {
    let models = ["m", "n", "o", "p", "q"];
    let mut replicas = Vec::new();
    for model in models {
        replicas.push(Replica::of(&[model]).await);
    }
    let all: Vec<&Replica> = replicas.iter().collect();
    let region = Region::with(&all, |c| to(c, &models[1..], None)).await;
    let death = Script::default().wait(MS).close();
    for replica in &replicas {
        replica.always(death.clone());
    }
    let counts = || replicas.iter().map(Replica::count).collect::<Vec<_>>();
    let answer = post(region.listen, CHAT, WHOLE).await;
    assert_eq!((answer.status, answer.code().as_str()), (502, "engine_died"));
    assert_eq!(counts(), [1, 1, 0, 0, 0]);
    // One that the second engine survives is answered by it.
    replicas[1].always(Script::json(200, ANSWER));
    is_of_n(&post(region.listen, CHAT, WHOLE).await);
    assert_eq!(counts(), [2, 2, 0, 0, 0]);
}
