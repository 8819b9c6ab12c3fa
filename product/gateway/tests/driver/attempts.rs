//! Attempts to have a tenant's request served outside the regions of its rule, or refused
//! permanently although a permitted replica exists. Covers client input, changes while a request
//! waits, and wrong statements of a gateway of the fleet.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Version};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use meridian_config::{AdmissionMode, Gateway as Config, Resume};
use meridian_gateway::Given;
use meridian_protocol::units::Span;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::common::{
    Answer, Region, Replica, Script, call, chat, config, open, request, stream_chat,
};
use crate::residency::{KEY, OTHER, World, kept};
use crate::tenants::bearing;

/// One attempt by a request with the key of the tenant that has the rule.
struct Attempt {
    what: &'static str,
    request: Request<Full<Bytes>>,
    status: u16,
    /// The code of a refusal.
    code: &'static str,
    /// The region whose replica received it.
    served: &'static str,
}

fn served(what: &'static str, request: Request<Full<Bytes>>) -> Attempt {
    Attempt { what, request, status: 200, code: "", served: "eu" }
}

fn refused(
    what: &'static str,
    request: Request<Full<Bytes>>,
    status: u16,
    code: &'static str,
) -> Attempt {
    Attempt { what, request, status, code, served: "" }
}

fn post(path: &str, body: &str) -> Request<Full<Bytes>> {
    request("POST", path, body)
}

/// A chat with these headers and the key.
fn with(headers: &[(&'static str, &'static str)]) -> Request<Full<Bytes>> {
    let mut request = chat("hi");
    for (name, value) in headers {
        let name = HeaderName::from_static(name);
        request.headers_mut().append(name, HeaderValue::from_static(value));
    }
    request
}

const CHAT: &str = "/v1/chat/completions";

/// Headers that gateways exchange, and headers by which a client could claim an identity.
fn by_headers() -> Vec<Attempt> {
    let twice = [("x-meridian-rules", "kept:us"), ("x-meridian-rules", "kept:us")];
    let forward = [
        ("x-meridian-forward", "1"),
        ("x-meridian-hops", "1"),
        ("x-meridian-tenant", "other"),
        ("x-meridian-key", "1"),
    ];
    let mut other_key = with(&[]);
    other_key.headers_mut().insert("x-api-key", HeaderValue::from_static(OTHER));
    vec![
        served("a forged list of rules", with(&[("x-meridian-rules", "kept:us")])),
        served("an empty list of rules", with(&[("x-meridian-rules", "")])),
        served("two forged lists", with(&twice)),
        served("a forged tenant", with(&[("x-meridian-tenant", "other")])),
        served("a forged forward", with(&forward)),
        served("hops of a forward", with(&[("x-meridian-hops", "255")])),
        served("a forged model", with(&[("x-meridian-model", "none")])),
        served("a forged continuation", with(&[("x-meridian-continues", "1")])),
        served("a forged budget", with(&[("x-meridian-budget-ms", "0")])),
        served("a forged affinity key", with(&[("x-meridian-key", "18446744073709551615")])),
        served("a tenant by header", with(&[("x-tenant-id", "other")])),
        served("two tenants", with(&[("x-tenant-id", "acme"), ("x-tenant-id", "other")])),
        served("another tenant's key for another API", other_key),
        served("a region by header", with(&[("x-meridian-region", "us")])),
        served("a rule that was applied", with(&[("x-meridian-residency", "kept")])),
        served("another client", with(&[("x-forwarded-for", "10.0.0.1"), ("forwarded", "for=_x")])),
        served("another session", with(&[("x-session-id", "theirs")])),
        served("a deadline", with(&[("x-slo-ttft-ms", "1")])),
    ]
}

/// Bodies, models and paths.
fn by_content() -> Vec<Attempt> {
    let of = |model: &str| post(CHAT, &format!(r#"{{"model":"{model}","messages":[]}}"#));
    let mut dry = chat("hi");
    dry.headers_mut().insert("x-meridian-dry-run", HeaderValue::from_static("true"));
    let previous = r#"{"model":"m","input":"hi","previous_response_id":"resp_none"}"#;
    vec![
        refused("an unknown model", of("n"), 404, "model_not_found"),
        refused("a model with a space", of("m "), 404, "model_not_found"),
        refused("a model in capitals", of("M"), 404, "model_not_found"),
        served("no model", post(CHAT, r#"{"messages":[]}"#)),
        served("a user in the body", post(CHAT, r#"{"model":"m","user":"other","messages":[]}"#)),
        served(
            "a tenant in the query",
            post(&format!("{CHAT}?tenant=other"), r#"{"model":"m","messages":[]}"#),
        ),
        refused(
            "an unknown response",
            post("/v1/responses", previous),
            404,
            "previous_response_not_found",
        ),
        served("a path that is passed through", post("/v1/extra", "{}")),
        served("one without a body", request("GET", "/v1/extra", "")),
        served("a stream", stream_chat("hi")),
        served("another API", post("/v1/completions", r#"{"model":"m","prompt":"hi"}"#)),
        served("a slash at the end", post(&format!("{CHAT}/"), r#"{"model":"m","messages":[]}"#)),
        refused(
            "a path that is not served",
            post("//v1/chat/completions", "{}"),
            404,
            "unknown_path",
        ),
        Attempt { status: 200, ..refused("a dry run", dry, 200, "") },
    ]
}

fn change(config: &mut Config) {
    kept(config, &["eu", "jurisdiction=eu"]);
    config.held.max_wait = Span::secs(2);
    config.paths = vec!["/v1/extra".to_owned()];
    config.admission = None;
}

/// The numbers of requests that the replicas of us and eu have received.
fn seen(world: &World) -> (usize, usize) {
    let counts = world.counts();
    (counts[0], counts[1])
}

// Whatever a client sends with its key, its request is served in eu or refused for another reason.
// The replica of the region where it enters receives none.
#[tokio::test(start_paused = true)]
async fn what_a_client_sends() {
    let world = World::of(2).await.each(change);
    let regions = world.start().await;
    let attempts: Vec<_> = by_headers().into_iter().chain(by_content()).collect();
    assert!(attempts.len() >= 30, "{}", attempts.len());
    for Attempt { what, request, status, code, served } in attempts {
        let before = seen(&world);
        let answer = call(regions[0].listen, bearing(request, KEY)).await;
        assert_eq!(answer.status, status, "{what}: {}", answer.text());
        if !code.is_empty() {
            assert_eq!(answer.code(), code, "{what}");
        }
        let to_eu = usize::from(served == "eu");
        assert_eq!(seen(&world), (before.0, before.1 + to_eu), "{what}");
        assert_eq!(answer.header("x-meridian-region"), served, "{what}");
    }
    let residency = regions[0].status().await.residency.expect("there is a rule");
    assert_eq!(residency.breaches, 0);
}

/// Sends bytes on a new connection; returns the status line.
async fn raw(region: &Region, text: &str) -> String {
    let mut stream = TcpStream::connect(region.listen).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer.lines().next().unwrap_or_default().to_owned()
}

// Neither the form of the target, nor the case or number of headers, nor HTTP/2 bypasses the rule.
// The clock runs: a paused one may jump past `timeouts.client` while an HTTP/2 body is in transit.
#[tokio::test]
async fn how_a_client_frames_it() {
    let world = World::of(2).await.each(change);
    let regions = world.start().await;
    let body = r#"{"model":"m","messages":[]}"#;
    let text = |target: &str, more: &str| {
        let length = body.len();
        format!(
            "POST {target} HTTP/1.1\r\nHost: g\r\nAUTHORIZATION: bearer {KEY}\r\nConnection: close\r\nContent-Length: {length}\r\n{more}\r\n{body}"
        )
    };
    let two_keys = format!("Authorization: Bearer {OTHER}\r\n");
    for (what, target, more, status) in [
        ("absolute form", "http://us.example/v1/chat/completions", "", "200"),
        ("absolute form of a peer", "https://us-1.us.prod/v1/chat/completions", "", "200"),
        ("odd case", CHAT, "X-MERIDIAN-RULES: kept:us\r\nX-Meridian-TENANT: other\r\n", "200"),
        ("two keys", CHAT, &two_keys, "401"),
    ] {
        let line = raw(&regions[0], &text(target, more)).await;
        assert!(line.contains(status), "{what}: {line}");
    }
    let stream = TcpStream::connect(regions[0].listen).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    let request = Request::post("https://us-1.us.prod/v1/chat/completions")
        .version(Version::HTTP_2)
        .header("authorization", format!("Bearer {KEY}"))
        .header("x-meridian-forward", "1")
        .header("x-meridian-hops", "1")
        .body(Full::new(Bytes::from_static(body.as_bytes())))
        .unwrap();
    let (head, body) = sender.send_request(request).await.unwrap().into_parts();
    let answer = body.collect().await.unwrap().to_bytes();
    let text = String::from_utf8_lossy(&answer);
    assert_eq!(head.status, 200, "HTTP/2: {text}");
    assert_eq!(head.headers["x-meridian-region"], "eu", "HTTP/2: {text}");
    assert_eq!(seen(&world), (0, 4));
}

// Replicas of eu fail, break off or are full. The answer is not a permanent refusal, and none comes
// from us, which is idle.
#[tokio::test(start_paused = true)]
async fn failures_lead_nowhere_else() {
    let world = World::of(2).await.each(|config| {
        change(config);
        config.resume = Some(Resume::default());
        config.probe.down_after = 1_000_000;
    });
    let regions = world.start().await;
    let eu = &world.replicas[1];
    let word = "data: {\"id\":\"a\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"w\"},\"finish_reason\":null}]}\n\n";
    let broken =
        || Script::sse().event(word).event("data: {\"id").wait(Duration::from_millis(1)).close();
    let redirect = format!("location: {}\r\n", world.replicas[0].url());
    for (what, script, streams, may) in [
        ("failures", Script::json(500, "{}"), false, &[502, 503][..]),
        ("a full engine", Script::json(503, "{}"), false, &[503]),
        ("a mistake", Script::json(422, "{}"), false, &[422]),
        ("a redirect to us", Script::answer(307, &redirect, ""), false, &[502, 503]),
        ("a broken stream", broken(), true, &[200]),
    ] {
        eu.always(script);
        let ask = if streams { stream_chat("hi") } else { chat("hi") };
        let answer = call(regions[0].listen, bearing(ask, KEY)).await;
        assert!(may.contains(&answer.status), "{what}: {} {}", answer.status, answer.text());
        assert_eq!(seen(&world).0, 0, "{what}");
        tokio::time::sleep(Duration::from_secs(30)).await;
    }
    eu.always(Script::json(200, "{}"));
    assert_eq!(call(regions[0].listen, bearing(chat("hi"), KEY)).await.status, 200);
}

/// A gateway in us with a replica there and one in de, whose label comes from a file that may
/// change.
struct Labelled {
    file: PathBuf,
    config: Config,
    region: Region,
    us: Replica,
    de: Replica,
}

impl Labelled {
    async fn start() -> Labelled {
        let (us, de) = (Replica::start().await, Replica::start().await);
        let mut config = config(&[&us, &de]);
        kept(&mut config, &["jurisdiction=eu"]);
        config.region = "us".to_owned();
        config.replicas[1].region = Some("de".to_owned());
        config.admission = Some(AdmissionMode::Outstanding(1));
        config.held.max_wait = Span::secs(30);
        let file = std::env::temp_dir()
            .join(format!("meridian-residency-labels-{}.yaml", std::process::id()));
        label(&mut config, "eu");
        std::fs::write(&file, config.print_with_secrets().unwrap()).unwrap();
        let given = Given { file: Some(file.clone()), ..config.clone().into() };
        let region = Region::start(given).await;
        region.until("both are up", |s| s.replicas.iter().all(|r| r.state == "up")).await;
        Labelled { file, config, region, us, de }
    }

    /// Queues a request behind another one that fills the permitted replica, makes a change, and
    /// lets the other one end. Returns the answer, and how many requests the replicas of us and de
    /// have received since.
    async fn held_during(
        &mut self,
        change: impl AsyncFnOnce(&mut Labelled),
    ) -> (Answer, (usize, usize)) {
        self.de.then(Script::sse().event("data: {}\n\n").hang());
        self.de.load(0, 1, 0.1);
        let listen = self.region.listen;
        let mut busy = open(listen, bearing(stream_chat("busy"), KEY)).await;
        busy.read_to("data").await;
        let before = (self.us.count(), self.de.count());
        let held = tokio::spawn(async move { call(listen, bearing(chat("hi"), KEY)).await });
        self.region.until("it is held", |s| s.held == 1).await;
        change(self).await;
        drop(busy);
        self.de.load(0, 0, 0.0);
        let answer = held.await.unwrap();
        (answer, (self.us.count() - before.0, self.de.count() - before.1))
    }

    async fn write(&self) {
        std::fs::write(&self.file, self.config.print_with_secrets().unwrap()).unwrap();
        tokio::time::sleep(Duration::from_secs(6)).await;
    }
}

impl Drop for Labelled {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

fn label(config: &mut Config, jurisdiction: &str) {
    let labels = [("jurisdiction".to_owned(), jurisdiction.to_owned())].into();
    config.residency.labels.insert("de".to_owned(), labels);
}

// Changes while a request waits: none, its rule, the label of the region it waits for, and that of
// the replica. It keeps its rules, and labels count as of the time of sending.
#[tokio::test(start_paused = true)]
async fn what_changes_meanwhile() {
    let mut world = Labelled::start().await;
    let (answer, seen) = world.held_during(async |_| {}).await;
    assert_eq!((answer.status, seen), (200, (0, 1)), "{}", answer.text());
    let another_rule = async |world: &mut Labelled| {
        world.config.residency.rules[0].run_in = vec!["us".to_owned()];
        world.write().await;
        assert_eq!(call(world.region.listen, bearing(chat("new"), KEY)).await.status, 200);
    };
    let (answer, seen) = world.held_during(another_rule).await;
    assert_eq!((answer.status, seen), (200, (1, 1)), "{}", answer.text());
    world.config.residency.rules[0].run_in = vec!["jurisdiction=eu".to_owned()];
    world.write().await;
    let relabelled = async |world: &mut Labelled| {
        label(&mut world.config, "us");
        world.write().await;
    };
    let (answer, seen) = world.held_during(relabelled).await;
    assert_eq!((answer.status, answer.code().as_str(), seen), (503, "held_too_long", (0, 0)));
    let answer = call(world.region.listen, bearing(chat("hi"), KEY)).await;
    assert_eq!((answer.status, answer.code().as_str()), (403, "not_permitted"));
    label(&mut world.config, "eu");
    world.write().await;
    let replaced = async |world: &mut Labelled| {
        let region = &world.region;
        region.admin("DELETE", "/admin/replicas/r1", "").await;
        let spec = format!(
            r#"{{"url": "{}", "region": "de", "labels": {{"jurisdiction": "us"}}}}"#,
            world.de.url()
        );
        assert_eq!(region.admin("POST", "/admin/replicas", &spec).await.status, 201);
    };
    let (answer, seen) = world.held_during(replaced).await;
    assert_eq!((answer.status, answer.code().as_str(), seen), (503, "held_too_long", (0, 0)));
    assert_eq!(world.region.status().await.residency.expect("there is a rule").breaches, 0);
}
