//! Models that are scaled to zero: their requests wait for the first replica for a time of their own,
//! and everything that a client, an autoscaler and a load balancer see meanwhile.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use meridian_config::{Gateway as Config, ModelSettings};
use meridian_protocol::units::Span;
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::common::{Answer, Region, Replica, Script, call, config, get, open, request};
use crate::discovery::List;
use crate::records::{Files, stopped};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const WORD: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n";
const STOP: &str =
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
const DONE: &str = "data: [DONE]\n\n";
const COMMENT: &str = ": keep-alive\n\n";

/// A gateway whose only model, `z`, is scaled to zero. A request waits for five minutes.
async fn at_zero(name: &str, change: impl FnOnce(&mut Config)) -> (List, Region) {
    let list = List::new(name);
    list.of(&[]);
    let mut config = config(&[]);
    config.discovery = vec![list.source()];
    config.models = [("z".to_owned(), from_zero(300))].into();
    change(&mut config);
    (list, Region::start(config).await)
}

fn from_zero(seconds: u64) -> ModelSettings {
    ModelSettings { scale_from_zero: Some(Span::secs(seconds)), ..ModelSettings::default() }
}

fn settings(config: &mut Config) -> &mut ModelSettings {
    config.models.get_mut("z").expect("is there")
}

fn asks(path: &str, stream: bool) -> Request<Full<Bytes>> {
    let body = format!(
        r#"{{"model":"z","stream":{stream},"max_tokens":9,"input":"hi","prompt":"hi","messages":[{{"role":"user","content":"hi"}}]}}"#
    );
    request("POST", path, &body)
}

fn stream() -> Request<Full<Bytes>> {
    asks("/v1/chat/completions", true)
}

fn sent(listen: SocketAddr, request: Request<Full<Bytes>>) -> JoinHandle<Answer> {
    tokio::spawn(async move { call(listen, request).await })
}

fn whole(listen: SocketAddr) -> JoinHandle<Answer> {
    sent(listen, asks("/v1/chat/completions", false))
}

async fn held(region: &Region, requests: u32) {
    region.until("all are queued", |s| s.held == requests).await;
}

async fn has_metric(region: &Region, line: &str) {
    let page = get(region.admin, "/metrics").await;
    assert!(page.text().contains(&format!("{line}\n")), "{line}: {}", page.text());
}

// Fifty requests wait for two minutes, far beyond `held.max_wait`. The gateway is ready and lists the
// model, its gauges say that one replica is needed, and when it comes each request is answered once.
#[tokio::test(start_paused = true)]
async fn fifty_wait_for_the_first_replica() {
    let alias = ModelSettings { alias: Some("z".to_owned()), ..ModelSettings::default() };
    let (list, region) =
        at_zero("fifty", |config| drop(config.models.insert("zed".to_owned(), alias))).await;
    for port in [region.listen, region.admin] {
        assert_eq!(get(port, "/ready").await.status, 200);
    }
    let listed = get(region.listen, "/v1/models").await;
    let ids: Vec<Value> =
        listed.json()["data"].as_array().unwrap().iter().map(|m| m["id"].clone()).collect();
    assert_eq!(ids, ["z", "zed"]);
    assert_eq!(get(region.listen, "/v1/models/z").await.status, 200);
    has_metric(&region, "meridian_model_held{model=\"z\"} 0.0").await;
    has_metric(&region, "meridian_pool_replicas_needed{model=\"z\",role=\"both\"} 0.0").await;
    let waiting: Vec<_> = (0..50).map(|_| whole(region.listen)).collect();
    held(&region, 50).await;
    tokio::time::sleep(120 * SECOND).await;
    held(&region, 50).await;
    has_metric(&region, "meridian_model_held{model=\"z\"} 50.0").await;
    has_metric(&region, "meridian_pool_replicas_needed{model=\"z\",role=\"both\"} 1.0").await;
    let z = Replica::of(&["z"]).await;
    list.of(&[&z]);
    for answer in waiting {
        assert_eq!(answer.await.unwrap().status, 200);
    }
    let status = region.settled().await;
    assert_eq!((z.count(), status.requests.done, status.requests.rejected), (50, 50, 0));
    has_metric(&region, "meridian_model_held{model=\"z\"} 0.0").await;
    has_metric(&region, "meridian_pool_replicas_needed{model=\"z\",role=\"both\"} 1.0").await;
    assert_eq!(get(region.listen, "/v1/models").await.text().matches("\"id\":\"z\"").count(), 1);
}

// Without a model that is scaled to zero, a gateway without replicas is not ready.
#[tokio::test(start_paused = true)]
async fn not_ready_without_one() {
    let (_list, region) =
        at_zero("unready", |config| settings(config).scale_from_zero = None).await;
    assert_eq!(get(region.listen, "/ready").await.status, 503);
    assert!(!get(region.listen, "/v1/models").await.text().contains("\"z\""));
}

// No replica comes: 503 after the model's own time, and not before, with a remedy and `Retry-After`.
#[tokio::test(start_paused = true)]
async fn the_time_runs_out() {
    let files = Files::new("from-zero");
    let (_list, region) = at_zero("time", |config| files.set(config)).await;
    let began = tokio::time::Instant::now();
    let answer = whole(region.listen).await.unwrap();
    let waited = began.elapsed();
    assert!((300 * SECOND..301 * SECOND).contains(&waited), "{waited:?}");
    assert_eq!((answer.status, answer.code().as_str()), (503, "no_replica_in_time"));
    assert_ne!(answer.header("retry-after"), "");
    let says = "no replica of the requested model came within 300 s; check its autoscaler";
    assert!(answer.text().contains(says), "{}", answer.text());
    assert_eq!(stopped(region).await.rejected, 1);
    let log = files.log();
    assert_eq!((&log[0]["status"], &log[0]["outcome"]), (&503.into(), &"rejected".into()));
}

// Such requests take half of the queue, and a client that leaves makes room.
#[tokio::test(start_paused = true)]
async fn the_queue_is_full() {
    let (list, region) = at_zero("full", |config| config.held.max = 4).await;
    let stays = whole(region.listen);
    let leaves = whole(region.listen);
    held(&region, 2).await;
    let full = whole(region.listen).await.unwrap();
    assert_eq!((full.status, full.code().as_str()), (429, "held_full"));
    leaves.abort();
    held(&region, 1).await;
    let other = whole(region.listen);
    held(&region, 2).await;
    tokio::time::sleep(30 * SECOND).await;
    let z = Replica::of(&["z"]).await;
    list.of(&[&z]);
    for answer in [stays, other] {
        assert_eq!(answer.await.unwrap().status, 200);
    }
    let requests = region.settled().await.requests;
    assert_eq!((requests.done, requests.cancelled, requests.rejected), (2, 1, 1));
}

// With `stream_keep_alive` of the model, a stream that waits gets comments, and then the replica's bytes
// unchanged. A quick answer and an answer in one piece have none, and no other model's stream.
#[tokio::test(start_paused = true)]
async fn comments_and_then_the_answer() {
    let other = Replica::of(&["other"]).await;
    let (list, region) = at_zero("comments", |config| {
        settings(config).stream_keep_alive = Some(Span::secs(15));
        config.replicas = vec![other.spec()];
        config.timeouts.first_byte = Span::secs(600);
        config.probe.down_after = 1_000_000;
    })
    .await;
    let [waits, piece] =
        [stream(), asks("/v1/chat/completions", false)].map(|r| sent(region.listen, r));
    held(&region, 2).await;
    tokio::time::sleep(50 * SECOND).await;
    let z = Replica::of(&["z"]).await;
    let events = [WORD, STOP, DONE];
    z.always(Script::stream(&events, MS));
    list.of(&[&z]);
    let (waits, piece) = (waits.await.unwrap(), piece.await.unwrap());
    let comments = COMMENT.repeat(3);
    assert_eq!((waits.status, waits.text()), (200, &*(comments + &events.concat())));
    assert_eq!(waits.header("content-type"), "text/event-stream; charset=utf-8");
    assert_eq!(waits.header("x-meridian-replica"), "", "it was not known at the first comment");
    assert!(!piece.text().contains(COMMENT), "{}", piece.text());
    let quick = call(region.listen, stream()).await;
    assert_eq!((quick.text(), quick.header("x-meridian-replica")), (&*events.concat(), "r1"));
    other.then(
        Script::sse().wait(40 * SECOND).event(WORD).event(STOP).event(DONE).send("0\r\n\r\n"),
    );
    let body = r#"{"model":"other","stream":true,"messages":[{"role":"user","content":"hi"}]}"#;
    let plain = call(region.listen, request("POST", "/v1/chat/completions", body)).await;
    assert_eq!(plain.text(), events.concat());
    assert_eq!(region.settled().await.requests.done, 4);
}

// After a comment the refusal is an error event in the form of each API, and the stream ends. A refusal
// before it keeps its status.
#[tokio::test(start_paused = true)]
async fn comments_and_then_a_refusal() {
    let files = Files::new("from-zero-streams");
    let (_list, region) = at_zero("events", |config| {
        files.set(config);
        settings(config).stream_keep_alive = Some(Span::secs(15));
        settings(config).scale_from_zero = Some(Span::secs(40));
        config.held.max = 2;
    })
    .await;
    for path in ["/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"] {
        let waits = sent(region.listen, asks(path, true));
        held(&region, 1).await;
        let quick = call(region.listen, asks(path, true)).await;
        assert_eq!((quick.status, quick.header("x-meridian-refused")), (429, "held_full"));
        let answer = waits.await.unwrap();
        assert_eq!((answer.status, answer.cut), (200, false), "{path}");
        let event = answer.text().strip_prefix(&COMMENT.repeat(2)).expect(path);
        let named = ["/v1/responses", "/v1/messages"].contains(&path);
        assert_eq!(event.starts_with("event: error\ndata: {"), named, "{path}: {event}");
        assert!(event.contains("no replica of the requested model came within 40 s"), "{event}");
        assert_eq!(event.matches("\n\n").count(), 1, "{path}: {event}");
    }
    assert_eq!(stopped(region).await.rejected, 8);
    // The log has the status of the refusal, although the head was sent.
    let statuses: Vec<u64> = files.log().iter().map(|l| l["status"].as_u64().unwrap()).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 503).count(), 4, "{statuses:?}");
}

// A client leaves while its stream waits, before and after a comment: nothing stays.
#[tokio::test(start_paused = true)]
async fn clients_leave() {
    let (_list, region) = at_zero("leave", |config| {
        settings(config).stream_keep_alive = Some(Span::secs(15));
    })
    .await;
    let early = whole(region.listen);
    let mut late = open(region.listen, stream()).await;
    assert_eq!(late.piece().await.unwrap().unwrap(), COMMENT);
    held(&region, 2).await;
    early.abort();
    held(&region, 1).await;
    drop(late);
    let status = region.settled().await;
    assert_eq!((status.requests.cancelled, status.held), (2, 0));
    has_metric(&region, "meridian_pool_replicas_needed{model=\"z\",role=\"both\"} 0.0").await;
}

// The only replica leaves while streams run: they end whole, and the next request waits for another one.
#[tokio::test(start_paused = true)]
async fn one_to_zero_and_back() {
    let (list, region) = at_zero("back", |_| {}).await;
    let first = Replica::of(&["z"]).await;
    let slow = Script::sse().event(WORD).wait(30 * SECOND).event(STOP).event(DONE);
    first.always(slow.send("0\r\n\r\n"));
    list.of(&[&first]);
    region
        .until("it is up", |s| s.replicas.iter().any(|r| r.state == "up" && !r.models.is_empty()))
        .await;
    let mut streams = Vec::new();
    for _ in 0..3 {
        let mut running = open(region.listen, stream()).await;
        running.read_to(WORD).await;
        streams.push(running);
    }
    list.of(&[]);
    region.until("it drains", |s| s.replicas.iter().all(|r| r.state == "draining")).await;
    let waits = whole(region.listen);
    held(&region, 1).await;
    has_metric(&region, "meridian_pool_replicas_needed{model=\"z\",role=\"both\"} 1.0").await;
    for running in streams {
        let rest = running.rest().await;
        assert!(!rest.cut && rest.text().ends_with(DONE), "{rest:?}");
    }
    region.until("it has left", |s| s.replicas.is_empty()).await;
    tokio::time::sleep(60 * SECOND).await;
    held(&region, 1).await;
    let second = Replica::of(&["z"]).await;
    list.of(&[&second]);
    assert_eq!(waits.await.unwrap().status, 200);
    assert_eq!((first.count(), second.count()), (3, 1));
    assert_eq!(region.settled().await.requests.done, 4);
}

// A replica that came loads its model, and answers 503 meanwhile: the requests that waited for minutes
// have the usual time from then on.
#[tokio::test(start_paused = true)]
async fn the_usual_time_begins_with_the_replica() {
    let (list, region) = at_zero("usual", |_| {}).await;
    let waiting: Vec<_> = (0..3).map(|_| whole(region.listen)).collect();
    held(&region, 3).await;
    tokio::time::sleep(200 * SECOND).await;
    let z = Replica::of(&["z"]).await;
    for _ in 0..3 {
        z.then(Script::answer(503, "", ""));
    }
    list.of(&[&z]);
    for answer in waiting {
        assert_eq!(answer.await.unwrap().status, 200);
    }
    assert_eq!(z.count(), 6);
    region.settled().await;
}

// A model with fallbacks that is scaled to zero is waited for first: its requests show that it is
// needed. Then a fallback answers.
#[tokio::test(start_paused = true)]
async fn fallbacks_come_after_the_wait() {
    let other = Replica::of(&["other"]).await;
    let (list, region) = at_zero("fallback", |config| {
        config.replicas = vec![other.spec()];
        settings(config).fallbacks = vec!["other".to_owned()];
        settings(config).scale_from_zero = Some(Span::secs(60));
    })
    .await;
    region
        .until("the other model is known", |s| s.replicas.iter().all(|r| !r.models.is_empty()))
        .await;
    let began = tokio::time::Instant::now();
    let answer = whole(region.listen).await.unwrap();
    assert_eq!((answer.status, answer.header("x-meridian-fallback")), (200, "other"));
    assert!(began.elapsed() >= 60 * SECOND, "{:?}", began.elapsed());
    let waits = whole(region.listen);
    held(&region, 1).await;
    let z = Replica::of(&["z"]).await;
    list.of(&[&z]);
    let answer = waits.await.unwrap();
    assert_eq!((answer.status, answer.header("x-meridian-fallback")), (200, ""));
    assert_eq!((z.count(), other.count()), (1, 1));
}
