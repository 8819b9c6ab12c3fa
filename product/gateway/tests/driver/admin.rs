//! The admin port: replicas that join and leave under traffic, explanations, metrics, and secrets
//! that no page may show.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use meridian_protocol::admin::{Explanation, Replica as Row};

use crate::common::{Region, Replica, Script, call, chat, get, open, post, stream_chat};

const MS: Duration = Duration::from_millis(1);
/// An address where nothing listens.
const FAR: &str = "http://198.51.100.7:8000";
const PROMPT: &str = "the walrus and the carpenter";
const SESSION: &str = "session-of-alice-42";
const TENANT: &str = "tenant-acme";
const ID: &str = "a-clients-own-id-4711";

async fn add(region: &Region, replica: &Replica) -> Row {
    let answer =
        region.admin("POST", "/admin/replicas", &format!(r#"{{"url":"{}"}}"#, replica.url())).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    let row: Row = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(row.url, replica.url());
    region
        .until("it is up", |s| {
            s.replicas.iter().any(|r| r.id == row.id && r.state == "up" && !r.models.is_empty())
        })
        .await;
    row
}

// A replica is identified by its address, and reached at the address for this region's gateways.
#[tokio::test(start_paused = true)]
async fn a_replica_may_be_reached_elsewhere() {
    let replica = Replica::start().await;
    let mut spec = replica.spec();
    spec.from = [(String::from("local"), std::mem::replace(&mut spec.url, FAR.to_owned()))].into();
    let region = Region::with(&[], |config| config.replicas = vec![spec]).await;
    assert_eq!(call(region.listen, chat("hi")).await.status, 200);
    assert_eq!((replica.count(), region.status().await.replicas[0].url.as_str()), (1, FAR));
    let bad = r#"{"url": "http://10.0.0.1:1", "from": {"local": "ten"}}"#;
    let refused = region.admin("POST", "/admin/replicas", bad).await;
    assert!(refused.status == 400 && refused.text().contains("`ten`"), "{}", refused.text());
}

// Replicas are added, drained and removed while requests run; no request is lost.
#[tokio::test(start_paused = true)]
async fn replicas_come_and_go() {
    let (a, b) = (Replica::start().await, Replica::start().await);
    let region = Region::of(&[&a]).await;
    for replica in [&a, &b] {
        replica.always(
            Script::default().wait(3 * MS).send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"),
        );
    }
    let listen = region.listen;
    let traffic = tokio::spawn(async move {
        for n in 0..400 {
            let answer = call(listen, chat("hi")).await;
            assert_eq!(answer.status, 200, "request {n}: {}", answer.text());
            tokio::time::sleep(5 * MS).await;
        }
    });
    region.until("traffic runs", |s| s.requests.done > 20).await;
    assert_eq!(add(&region, &b).await.id, 1);
    region.until("both serve", |s| s.replicas[1].done > 20).await;
    assert_eq!(region.admin("DELETE", "/admin/replicas/r0?drain=true", "").await.status, 202);
    let before = a.count();
    region.until("it has ended and left", |s| s.replicas.len() == 1).await;
    region.until("the other keeps serving", |s| s.replicas[0].done > 60).await;
    assert_eq!(a.count(), before, "a draining replica gets no new requests");
    assert_eq!(add(&region, &a).await.id, 0, "the lowest free id");
    traffic.await.unwrap();
    let status = region.settled().await;
    assert_eq!((status.requests.done, status.requests.accepted), (400, 400));
    assert!(a.count() > before);
}

// A replica removed during a stream lets it end. A replica that joins meanwhile is a different one,
// and their counts stay separate.
#[tokio::test(start_paused = true)]
async fn removed_under_a_stream() {
    let (a, b) = (Replica::start().await, Replica::start().await);
    let region = Region::of(&[&a]).await;
    a.then(Script::stream(
        &["data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n", "data: [DONE]\n\n"],
        3000 * MS,
    ));
    let mut running = open(region.listen, stream_chat("hi")).await;
    running.read_to("choices").await;
    assert_eq!(region.admin("DELETE", "/admin/replicas/0", "").await.status, 200);
    assert_eq!(region.admin("DELETE", "/admin/replicas/0", "").await.status, 404);
    assert!(region.status().await.replicas.is_empty());
    add(&region, &b).await;
    assert_eq!(call(region.listen, chat("hi")).await.status, 200);
    assert_eq!(b.count(), 1);
    let whole = running.rest().await;
    assert!(whole.text().ends_with("data: [DONE]\n\n") && !whole.cut);
    let status = region.settled().await;
    assert_eq!((status.requests.done, status.replicas.len()), (2, 1));
    assert_eq!((status.replicas[0].dispatched, status.replicas[0].done), (1, 1));
}

// An invalid replica is refused with the field and the remedy, and nothing changes.
#[tokio::test(start_paused = true)]
async fn bad_replicas() {
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], |c| c.limits.replicas = 2).await;
    let twin = format!(r#"{{"url":"{}/"}}"#, replica.url());
    for (body, says) in [
        (twin.as_str(), "already"),
        (r#"{"url":"ftp://10.0.0.1:80"}"#, "http://"),
        (r#"{"url":"10.0.0.1:80"}"#, "http://"),
        (r#"{"url":"http://10.0.0.1:80/v1"}"#, "path"),
        (r#"{"url":"http://10.0.0.1:80","weight":0}"#, "weight"),
        (r#"{"url":"http://10.0.0.1:80","engine":"abacus"}"#, "abacus"),
        (r#"{"url":"http://10.0.0.1:80","colour":"red"}"#, "colour"),
        (r#"{"uri":"http://10.0.0.1:80"}"#, "uri"),
        ("{}", "url"),
        ("junk", "url"),
        ("", "url"),
    ] {
        let answer = region.admin("POST", "/admin/replicas", body).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_replica"), "{body}");
        assert!(answer.text().contains(says), "{body}: {}", answer.text());
    }
    let long = region.admin("POST", "/admin/replicas", &"x".repeat(100 << 10)).await;
    assert_eq!(long.status, 400);
    for path in
        ["/admin/replicas/7", "/admin/replicas/x", "/admin/replicas/", "/admin/replicas/99999"]
    {
        assert_eq!(region.admin("DELETE", path, "").await.status, 404, "{path}");
    }
    assert_eq!(region.admin("GET", "/nothing", "").await.code(), "unknown_path");
    assert_eq!(region.status().await.replicas.len(), 1);
    let other = Replica::start().await;
    add(&region, &other).await;
    let answer = region.admin("POST", "/admin/replicas", r#"{"url":"http://10.0.0.1:80"}"#).await;
    assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_replica"));
    let says = "limits.replicas: the gateway has 2 replicas, as many as it may; raise the limit";
    assert!(answer.text().contains(says), "{}", answer.text());
}

fn explanation(answer: &crate::common::Answer) -> Explanation {
    assert_eq!(answer.status, 200, "{}", answer.text());
    serde_json::from_slice(&answer.body).unwrap()
}

// A decision can be found by the gateway's id and by the client's own.
#[tokio::test(start_paused = true)]
async fn explain() {
    let (a, b) = (Replica::start().await, Replica::start().await);
    let region = Region::with(&[&a, &b], |c| c.policy.name = "meridian".into()).await;
    let ours = call(region.listen, chat("hi")).await;
    let mut named = chat("hi");
    named.headers_mut().insert("x-request-id", "my-own.7".parse().unwrap());
    let theirs = call(region.listen, named).await;
    for answer in [ours, theirs] {
        let id = answer.header("x-request-id");
        let why = explanation(&get(region.admin, &format!("/admin/explain/{id}")).await);
        assert_eq!((why.id.as_str(), why.policy.as_str(), why.attempt), (id, "meridian", 1));
        // The log uses the gateway's own id, which finds the decision as well.
        let logged =
            explanation(&get(region.admin, &format!("/admin/explain/{}", why.logged_as)).await);
        assert_eq!((logged.picked.as_ref(), logged.attempt), (why.picked.as_ref(), 1));
        assert!(why.logged_as.starts_with("req-"), "{}", why.logged_as);
        let at: usize = answer.header("x-meridian-replica")[1..].parse().unwrap();
        assert_eq!(why.picked, Some([&a, &b][at].url()));
        assert_eq!(why.reason, answer.header("x-meridian-reason"));
        assert_eq!(why.candidates.len(), 2);
    }
    for id in ["req-00000000-1", "nobody", "", "%00"] {
        let answer = get(region.admin, &format!("/admin/explain/{id}")).await;
        assert_eq!((answer.status, answer.code().as_str()), (404, "unknown_request"), "{id}");
    }
}

// An explanation says how the request ended: a stream with its times, a request that the engine
// refused, and one that runs until its client disconnects.
#[tokio::test(start_paused = true)]
async fn explanations_have_outcomes() {
    let replica = Replica::start().await;
    let region = Region::of(&[&replica]).await;
    let event = "data: {\"choices\":[{\"delta\":{\"content\":\"w\"}}]}\n\n";
    let of =
        async |id: &str| explanation(&get(region.admin, &format!("/admin/explain/{id}")).await);

    let paced = Script::sse().wait(20 * MS).event(event).wait(30 * MS);
    replica.then(paced.event("data: [DONE]\n\n").send("0\r\n\r\n"));
    let streamed = call(region.listen, stream_chat("hi")).await;
    region.settled().await;
    let ending = of(streamed.header("x-request-id")).await.ending;
    assert_eq!(ending.outcome.as_deref(), Some("done"), "{ending:?}");
    let (first, total) = (ending.first_token_ms.unwrap(), ending.total_ms.unwrap());
    assert!(first >= 20.0 && total >= first + 30.0, "{ending:?}");

    replica.then(Script::json(400, "{}"));
    let refused = call(region.listen, chat("hi")).await;
    let ending = of(refused.header("x-request-id")).await.ending;
    assert_eq!(ending.outcome.as_deref(), Some("client_error"), "{ending:?}");
    assert_eq!(ending.first_token_ms, None, "{ending:?}");

    replica.then(Script::sse().event(event).hang());
    let running = open(region.listen, stream_chat("hi")).await;
    let id = running.head.headers["x-request-id"].to_str().unwrap().to_owned();
    let ending = of(&id).await.ending;
    assert_eq!((&ending.outcome, ending.total_ms), (&None, None), "{ending:?}");
    drop(running);
    region.settled().await;
    assert_eq!(of(&id).await.ending.outcome.as_deref(), Some("cancelled"));
}

// A dry run decides with all candidates and their terms, and sends nothing.
#[tokio::test(start_paused = true)]
async fn dry_runs() {
    let (a, b) = (Replica::start().await, Replica::start().await);
    let region = Region::with(&[&a, &b], |c| c.policy.name = "meridian".into()).await;
    for _ in 0..3 {
        let mut request = chat(PROMPT);
        request.headers_mut().insert("x-meridian-dry-run", "true".parse().unwrap());
        let answer = call(region.listen, request).await;
        let why = explanation(&answer);
        assert_eq!(why.candidates.len(), 2);
        assert!(why.candidates.iter().all(|c| !c.terms.is_empty()), "{why:?}");
        assert!(why.picked.is_some());
        assert!(!answer.text().contains("walrus"));
    }
    assert_eq!(a.count() + b.count(), 0, "nothing was sent");
    assert_eq!(region.settled().await.requests.accepted, 0);
}

/// Checks a page of OpenMetrics text: every sample belongs to a declared family, no family is
/// declared twice or split, numbers are valid, and the page ends with EOF.
fn check_open_metrics(page: &str) -> usize {
    let body = page.strip_suffix("# EOF\n").expect("ends with EOF");
    let mut seen = std::collections::BTreeSet::new();
    let (mut family, mut kind, mut samples) = (String::new(), String::new(), 0);
    for line in body.lines() {
        if let Some(rest) = line.strip_prefix("# ") {
            let mut words = rest.splitn(3, ' ');
            let (what, name, text) = (words.next().unwrap(), words.next().unwrap(), words.next());
            match what {
                "HELP" => {
                    family = name.to_owned();
                    assert!(seen.insert(family.clone()), "{name} is declared twice");
                }
                "TYPE" => kind = text.unwrap().to_owned(),
                "UNIT" => assert!(name.ends_with(text.unwrap()), "{line}"),
                _ => panic!("{line}"),
            }
            assert_eq!(name, family, "{line}");
            continue;
        }
        let (name, rest) = line.split_at(line.find(['{', ' ']).expect("a name and a value"));
        let suffix = name.strip_prefix(&family).unwrap_or_else(|| panic!("{line} in {family}"));
        let suffixes: &[&str] = match kind.as_str() {
            "counter" => &["_total"],
            "gauge" => &[""],
            "histogram" => &["_bucket", "_sum", "_count"],
            other => panic!("{other}: {line}"),
        };
        assert!(suffixes.contains(&suffix), "{line}");
        let value = match rest.strip_prefix('{') {
            Some(labels) => labels.split_once("} ").expect("labels are closed").1,
            None => rest.trim_start(),
        };
        value.parse::<f64>().unwrap_or_else(|e| panic!("{line}: {e}"));
        samples += 1;
    }
    samples
}

/// Client input must not appear in any output about the gateway.
fn tells_nothing(what: &str, text: &str) {
    for secret in
        [PROMPT, "walrus", "carpenter", SESSION, TENANT, "alice", "Bearer", "a test's secret", ID]
    {
        assert!(!text.contains(secret), "{what} shows {secret:?}: {text}");
    }
}

/// Requests with every outcome, all with a prompt, a session, a tenant, a key and an id.
async fn traffic(region: &Region, a: &Replica, b: &Replica) {
    let event = "data: {\"choices\":[{\"delta\":{\"content\":\"carpenter\"}}]}\n\n";
    let done = Script::stream(&[event, "data: [DONE]\n\n"], MS);
    let broken = Script::sse().event(event).wait(MS).close();
    let scripts = [
        done,
        broken,
        Script::json(400, "{\"error\":\"walrus\"}"),
        Script::json(500, "{\"error\":\"walrus\"}"),
        Script::json(429, "{\"error\":\"walrus\"}"),
        Script::default().send("walrus\r\n\r\n").close(),
    ];
    for script in scripts {
        a.always(script.clone());
        b.always(script);
        let mut request = stream_chat(PROMPT);
        for (name, value) in [
            ("x-session-id", SESSION),
            ("x-tenant-id", TENANT),
            ("authorization", "Bearer alice"),
            ("x-request-id", ID),
        ] {
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        call(region.listen, request).await;
    }
    let body = format!(r#"{{"model":"m","user":"{SESSION}","messages":"{PROMPT}"}}"#);
    assert_eq!(post(region.listen, "/v1/chat/completions", &body).await.status, 400);
    let body = format!(r#"{{"model":"{PROMPT}","messages":[]}}"#);
    assert_eq!(post(region.listen, "/v1/chat/completions", &body).await.status, 404);
    assert_eq!(post(region.listen, "/v1/completions", PROMPT).await.status, 400);
}

// The metrics page is well-formed and its labels contain no client input.
#[tokio::test(start_paused = true)]
async fn metrics() {
    let (a, b) = (Replica::start().await, Replica::start().await);
    let region = Region::of(&[&a, &b]).await;
    check_open_metrics(get(region.admin, "/metrics").await.text());
    traffic(&region, &a, &b).await;
    region.settled().await;
    let answer = get(region.admin, "/metrics").await;
    assert!(answer.header("content-type").starts_with("application/openmetrics-text"));
    let samples = check_open_metrics(answer.text());
    assert!((50..2000).contains(&samples), "{samples}");
    tells_nothing("/metrics", answer.text());
    for sample in ["meridian_requests_total{outcome=\"done\"}", "meridian_requests_in_flight 0"] {
        assert!(answer.text().contains(sample), "{sample}: {}", answer.text());
    }
}

// No other page shows client input either.
#[tokio::test(start_paused = true)]
async fn pages_keep_secrets() {
    let (a, b) = (Replica::start().await, Replica::start().await);
    let region = Region::of(&[&a, &b]).await;
    let answer = call(region.listen, chat(PROMPT)).await;
    let explain = format!("/admin/explain/{}", answer.header("x-request-id"));
    traffic(&region, &a, &b).await;
    for path in [&explain[..], "/admin/status", "/admin/replicas", "/admin/config"] {
        let page = get(region.admin, path).await;
        assert_eq!(page.status, 200, "{path}");
        tells_nothing(path, page.text());
    }
    let config = get(region.admin, "/admin/config").await.json();
    assert_eq!(config["secret"], "(set)");
    assert_eq!(config["policy"], "round_robin");
}

/// The lines of a log.
#[derive(Clone, Default)]
pub(crate) struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

// Log lines, down to the finest level, contain no client input either.
#[tokio::test(start_paused = true)]
async fn logs_keep_secrets() {
    // With a single subscriber, a log line that another test's thread writes first would be cached
    // as disabled, since that thread has no subscriber. A second subscriber prevents that.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter("meridian_gateway=trace,meridian_protocol=trace,meridian_routing=trace")
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let (a, b) = (Replica::start().await, Replica::start().await);
    let region = Region::of(&[&a, &b]).await;
    traffic(&region, &a, &b).await;
    region.settled().await;
    let text = lines.text();
    assert!(text.contains("attempt failed") && text.contains("replica found"), "{text}");
    tells_nothing("the log", &text);
}

// Health is about the process, readiness about the region.
#[tokio::test(start_paused = true)]
async fn health_and_readiness() {
    let region = Region::start(crate::common::config(&[])).await;
    assert_eq!(get(region.admin, "/health").await.status, 200);
    assert_eq!(get(region.admin, "/ready").await.status, 503);
    let answer = call(region.listen, chat("hi")).await;
    assert_eq!((answer.status, answer.code().as_str()), (503, "no_replica"));
    let replica = Replica::start().await;
    add(&region, &replica).await;
    assert_eq!(get(region.admin, "/ready").await.status, 200);
    assert_eq!(call(region.listen, chat("hi")).await.status, 200);
    replica.answers_probes(false);
    region.until("it is down", |s| s.replicas[0].state == "down").await;
    assert_eq!(get(region.admin, "/ready").await.status, 503);
    assert_eq!(get(region.admin, "/health").await.status, 200);
}

// A request whose path names no model goes to any served one, even while other replicas are
// starting.
#[tokio::test(start_paused = true)]
async fn paths_without_a_model() {
    let (a, b) = (Replica::of(&["first"]).await, Replica::of(&["second"]).await);
    let region = Region::with(&[&a], |c| c.paths = vec!["/tokenize".into()]).await;
    let starting = Replica::start().await;
    starting.answers_probes(false);
    let body = format!(r#"{{"url":"{}"}}"#, starting.url());
    assert_eq!(region.admin("POST", "/admin/replicas", &body).await.status, 201);
    assert_eq!(post(region.listen, "/tokenize", "{}").await.status, 200);
    add(&region, &b).await;
    assert_eq!(region.admin("DELETE", "/admin/replicas/0", "").await.status, 200);
    let answer = post(region.listen, "/tokenize", "{}").await;
    assert_eq!((answer.status, b.count()), (200, 1), "{}", answer.text());
}

// An explanation names the replicas of its time: one that left keeps its address there, also when
// another replica has its id.
#[tokio::test(start_paused = true)]
async fn explanations_name_the_replicas_of_their_time() {
    let (a, b) = (Replica::start().await, Replica::start().await);
    let region = Region::of(&[&a]).await;
    let first = call(region.listen, chat("hi")).await.header("x-request-id").to_owned();
    let of = async |id: &str| {
        let answer = get(region.admin, &format!("/admin/explain/{id}")).await;
        let why: Explanation = serde_json::from_slice(&answer.body).unwrap();
        let newest = get(region.admin, "/admin/decisions").await.json();
        let newest = newest.as_array().unwrap().iter().find(|d| d["id"] == id).unwrap().clone();
        assert_eq!(newest["picked"].as_str(), why.picked.as_deref());
        (why.picked.unwrap(), why.candidates[0].url.clone())
    };
    assert_eq!(region.admin("DELETE", "/admin/replicas/r0", "").await.status, 200);
    assert_eq!(of(&first).await, (a.url(), a.url()), "it left");
    tokio::time::sleep(10 * MS).await;
    assert_eq!(add(&region, &b).await.id, 0);
    tokio::time::sleep(10 * MS).await;
    let second = call(region.listen, chat("hi")).await.header("x-request-id").to_owned();
    assert_eq!(of(&first).await, (a.url(), a.url()), "another replica has its id");
    assert_eq!(of(&second).await, (b.url(), b.url()));
}
