//! Traces: the headers that replicas and peers get, the spans that a collector gets, and the times
//! that the admin port has of the same requests.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use meridian_config::{OtlpProtocol, Traces};
use meridian_gateway::Given;
use meridian_protocol::admin::Times;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tokio::net::TcpListener;

use crate::common::{Region, Replica, Script, call, chat, config, eventually, post, stream_chat};
use crate::forwards::{World, occupy};
use crate::legs::Pools;

const ID: &str = "0af7651916cd43dd8448eb211c80319c";
const SENDER: &str = "b7ad6b7169203331";
const MS: Duration = Duration::from_millis(1);
const ANSWER: &str =
    r#"{"id":"c","choices":[],"usage":{"prompt_tokens":12,"completion_tokens":3}}"#;

fn parent(flags: &str) -> String {
    format!("00-{ID}-{SENDER}-{flags}")
}

/// A collector that keeps the spans.
struct Collector {
    endpoint: String,
    spans: Arc<Mutex<Vec<Span>>>,
}

impl Collector {
    async fn start() -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let spans: Arc<Mutex<Vec<Span>>> = Arc::default();
        let kept = spans.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let kept = kept.clone();
                let take =
                    service_fn(move |request: Request<Incoming>| take(request, kept.clone()));
                let server = hyper::server::conn::http1::Builder::new();
                tokio::spawn(server.serve_connection(TokioIo::new(stream), take));
            }
        });
        Collector { endpoint, spans }
    }

    fn traces(&self, sample: f64) -> Option<Traces> {
        let (endpoint, service_name) = (self.endpoint.clone(), "test".to_owned());
        Some(Traces { endpoint, protocol: OtlpProtocol::Http, sample, service_name })
    }

    /// The spans, once there are this many requests.
    async fn spans(&self, requests: usize) -> Vec<Span> {
        eventually("the spans arrive", async || {
            // The gateway sends them from a thread of its own.
            std::thread::sleep(2 * MS);
            tokio::task::yield_now().await;
            let spans = self.spans.lock().unwrap().clone();
            (spans.iter().filter(|span| is_request(span)).count() == requests).then_some(spans)
        })
        .await
    }
}

async fn take(
    request: Request<Incoming>,
    kept: Arc<Mutex<Vec<Span>>>,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    assert_eq!(request.uri().path(), "/v1/traces");
    assert_eq!(request.headers()["content-type"], "application/x-protobuf");
    let body = request.into_body().collect().await?.to_bytes();
    let message = ExportTraceServiceRequest::decode(body).unwrap();
    for resource in message.resource_spans {
        let attributes = &resource.resource.unwrap().attributes;
        assert!(attributes.iter().any(|a| a.key == "service.name"), "{attributes:?}");
        let scopes = resource.scope_spans.into_iter();
        kept.lock().unwrap().extend(scopes.flat_map(|scope| scope.spans));
    }
    Ok(Response::new(Full::default()))
}

fn is_request(span: &Span) -> bool {
    span.name.starts_with("POST ")
}

fn hex(id: &[u8]) -> String {
    id.iter().map(|b| format!("{b:02x}")).collect()
}

fn names(spans: &[Span]) -> Vec<&str> {
    spans.iter().map(|span| span.name.as_str()).collect()
}

/// An attribute as text; empty if absent.
fn attribute(span: &Span, name: &str) -> String {
    let found = span.attributes.iter().find(|a| a.key == name);
    match found.and_then(|a| a.value.as_ref()?.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(count)) => count.to_string(),
        Some(Value::BoolValue(flag)) => flag.to_string(),
        Some(Value::DoubleValue(number)) => number.to_string(),
        _ => String::new(),
    }
}

/// Checks that all spans are of one trace, that each but the first has its parent among them, and
/// that it lies within it.
fn check(spans: &[Span]) {
    for span in &spans[1..] {
        assert_eq!(span.trace_id, spans[0].trace_id, "{}", span.name);
        let parent = spans.iter().find(|other| other.span_id == span.parent_span_id);
        let parent = parent.unwrap_or_else(|| panic!("{} has no parent", span.name));
        let (from, to) = (span.start_time_unix_nano, span.end_time_unix_nano);
        assert!(from <= to, "{}", span.name);
        assert!(parent.start_time_unix_nano <= from && to <= parent.end_time_unix_nano);
    }
    let mut ids: Vec<_> = spans.iter().map(|span| &span.span_id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), spans.len(), "every span has an id of its own");
}

fn traced(text: &str, traceparent: &str) -> Request<Full<Bytes>> {
    let mut request = chat(text);
    request.headers_mut().insert("traceparent", traceparent.parse().unwrap());
    request.headers_mut().insert("tracestate", "vendor=1".parse().unwrap());
    request.headers_mut().insert("x-request-id", "mine".parse().unwrap());
    request
}

// A request that is retried, in its client's trace: each attempt is a span of its own, and its
// replica gets that span as its parent. The text of the prompt is in none of them.
#[tokio::test(start_paused = true)]
async fn a_retry() {
    let collector = Collector::start().await;
    let replicas = [Replica::start().await, Replica::start().await];
    let region =
        Region::with(&[&replicas[0], &replicas[1]], |c| c.traces = collector.traces(0.0)).await;
    replicas[0].always(Script::answer(503, "", "full"));
    replicas[1].always(Script::json(200, ANSWER));
    assert_eq!(call(region.listen, traced("the secret prompt", &parent("01"))).await.status, 200);
    let spans = collector.spans(1).await;
    check(&spans);
    let expected = [
        "POST /v1/chat/completions",
        "admission",
        "read body",
        "chat m",
        "connect",
        "chat m",
        "connect",
        "first token",
        "relay",
    ];
    assert_eq!(names(&spans), expected);
    assert_eq!(
        (hex(&spans[0].trace_id), hex(&spans[0].parent_span_id)),
        (ID.into(), SENDER.into())
    );
    assert_eq!(spans[0].trace_state, "vendor=1");
    let attempts: Vec<&Span> = spans.iter().filter(|span| span.name == "chat m").collect();
    assert_eq!(attempts.len(), 2);
    assert_eq!(attribute(attempts[0], "error.type"), "full");
    assert_eq!(attribute(attempts[1], "http.request.resend_count"), "1");
    let mut sent: Vec<String> = Vec::new();
    for replica in &replicas {
        sent.extend(
            replica.seen().iter().filter_map(|s| s.header("traceparent").map(str::to_owned)),
        );
        assert!(replica.seen().iter().all(|s| s.header("tracestate") == Some("vendor=1")));
    }
    let mut own: Vec<_> =
        attempts.iter().map(|a| format!("00-{ID}-{}-01", hex(&a.span_id))).collect();
    sent.sort_unstable();
    own.sort_unstable();
    assert_eq!(sent, own);
    for (name, value) in [
        ("http.response.status_code", "200"),
        ("gen_ai.request.model", "m"),
        ("gen_ai.usage.input_tokens", "12"),
        ("gen_ai.usage.output_tokens", "3"),
        ("meridian.request_id", "mine"),
        ("meridian.retries", "1"),
        ("meridian.outcome", "done"),
    ] {
        assert_eq!(attribute(&spans[0], name), value, "{name}");
    }
    assert!(!format!("{spans:?}").contains("secret"));
}

// The sender's decision counts: a request that it does not record passes with its headers, and leaves
// no span. A new trace and a malformed header are recorded by the configured share.
#[tokio::test(start_paused = true)]
async fn decisions() {
    let collector = Collector::start().await;
    let replica = Replica::start().await;
    for (sample, given, recorded) in [
        (1.0, Some(parent("00")), false),
        (0.0, Some(parent("01")), true),
        (0.0, None, false),
        (1.0, None, true),
        (1.0, Some("00-aa-bb-01".to_owned()), true),
        (0.0, Some("00-aa-bb-01".to_owned()), false),
    ] {
        collector.spans.lock().unwrap().clear();
        let mut region = Region::with(&[&replica], |c| c.traces = collector.traces(sample)).await;
        replica.then(Script::json(200, ANSWER));
        let request = given.as_ref().map_or_else(|| chat("hi"), |given| traced("hi", given));
        assert_eq!(call(region.listen, request).await.status, 200);
        let seen = replica.last();
        let sent = seen.header("traceparent").unwrap().to_owned();
        let is_theirs = given.as_ref().is_some_and(|given| given.contains(ID));
        assert_eq!(sent.contains(ID), is_theirs, "{given:?}");
        assert_eq!(sent.ends_with("-01"), recorded, "{given:?}");
        assert_eq!(seen.header("tracestate").is_some(), is_theirs);
        let spans = collector.spans(usize::from(recorded)).await;
        assert!(spans.iter().all(|span| sent.contains(&hex(&span.trace_id))));
        region.shut_down();
        region.served.await.unwrap().unwrap();
        assert_eq!(collector.spans.lock().unwrap().len(), spans.len());
    }
}

// The section is reloaded with the file, and the page of the configuration shows it.
#[tokio::test(start_paused = true)]
async fn reloaded() {
    let collector = Collector::start().await;
    let replica = Replica::start().await;
    let mut config = config(&[&replica]);
    let name = format!("meridian-traces-{}.yaml", std::process::id());
    let file = std::env::temp_dir().join(name);
    std::fs::write(&file, config.print_with_secrets().unwrap()).unwrap();
    let region = Region::start(Given { file: Some(file.clone()), ..config.clone().into() }).await;
    region.until("the replica is up", |s| s.replicas[0].models == ["m"]).await;
    replica.always(Script::json(200, ANSWER));
    for traces in [collector.traces(1.0), None] {
        let is_on = traces.is_some();
        config.traces = traces;
        std::fs::write(&file, config.print_with_secrets().unwrap()).unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(call(region.listen, chat("hi")).await.status, 200);
        assert_eq!(replica.last().header("traceparent").is_some(), is_on);
        let page = region.admin("GET", "/admin/config", "").await;
        assert_eq!(page.text().contains(&collector.endpoint), is_on);
    }
    assert_eq!(names(&collector.spans(1).await).last(), Some(&"relay"));
    std::fs::remove_file(&file).unwrap();
}

// A refused request has a trace, too. It ends with the refusal, whose code is its reason.
#[tokio::test(start_paused = true)]
async fn a_refusal() {
    let collector = Collector::start().await;
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], |c| c.traces = collector.traces(1.0)).await;
    let unknown =
        post(region.listen, "/v1/chat/completions", r#"{"model":"unknown","messages":[]}"#);
    assert_eq!(unknown.await.status, 404);
    let spans = collector.spans(1).await;
    check(&spans);
    assert_eq!(names(&spans), ["POST /v1/chat/completions", "admission", "read body"]);
    assert_eq!(attribute(&spans[0], "meridian.reason"), "model_not_found");
    assert_eq!(attribute(&spans[0], "error.type"), "");
}

// A forwarded request is one trace of two gateways: the peer's spans are below the attempt that
// forwarded it, and the replica's parent is the peer's attempt.
#[tokio::test(start_paused = true)]
async fn a_forward() {
    let collector = Collector::start().await;
    let (here, there) = (Replica::start().await, Replica::start().await);
    let mut world = World::of(&[&[&here], &[&there]]);
    for config in &mut world.configs {
        config.traces = collector.traces(0.0);
    }
    let regions = world.start().await;
    let _busy = occupy(&regions[0], &here).await;
    there.then(Script::json(200, ANSWER));
    assert_eq!(call(regions[0].listen, traced("hi", &parent("01"))).await.status, 200);
    let mut spans = collector.spans(2).await;
    spans.sort_by_key(|span| hex(&span.parent_span_id) != SENDER);
    check(&spans);
    let peer = spans[1..].iter().find(|span| is_request(span)).unwrap();
    let forward = spans.iter().find(|span| span.span_id == peer.parent_span_id).unwrap();
    assert_eq!((forward.name.as_str(), forward.kind), ("chat m", 3));
    assert_eq!(attribute(forward, "meridian.peer"), "eu/eu-1");
    assert_eq!(attribute(peer, "meridian.hops"), "1");
    let seen = there.last();
    let sent = seen.header("traceparent").unwrap();
    let last = spans.iter().find(|span| sent.contains(&hex(&span.span_id))).unwrap();
    assert_eq!(last.parent_span_id, peer.span_id);
}

// Both legs of a split request have spans, which are the parents of what their replicas do.
#[tokio::test(start_paused = true)]
async fn legs() {
    let collector = Collector::start().await;
    let pools = Pools::with(1, 1, None, |c| c.traces = collector.traces(1.0)).await;
    assert_eq!(call(pools.region.listen, chat("hi")).await.status, 200);
    let spans = collector.spans(1).await;
    check(&spans);
    for (name, replica) in [("prefill", &pools.prefill[0]), ("decode", &pools.decode[0])] {
        let leg = spans.iter().find(|span| span.name == name).expect(name);
        let seen = replica.last();
        assert!(seen.header("traceparent").unwrap().contains(&hex(&leg.span_id)), "{name}");
        assert_ne!(attribute(leg, "meridian.replica"), "");
        assert_ne!(attribute(leg, "server.port"), "");
    }
    assert!(names(&spans).contains(&"kv wait"), "{:?}", names(&spans));
}

// A collector that is not there loses spans, which are counted by their requests, and nothing else.
#[tokio::test(start_paused = true)]
async fn no_collector() {
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], |c| {
        let collector = Collector { endpoint: "http://127.0.0.1:9".into(), spans: Arc::default() };
        c.traces = collector.traces(1.0);
    })
    .await;
    replica.always(Script::json(200, ANSWER));
    for _ in 0..5 {
        assert_eq!(call(region.listen, chat("hi")).await.status, 200);
    }
    let line = "meridian_records_dropped_total{sink=\"traces\"} 5";
    eventually("the lost spans are counted", async || {
        std::thread::sleep(2 * MS);
        let page = region.admin("GET", "/metrics", "").await;
        page.text().contains(line).then_some(())
    })
    .await;
    assert_eq!(region.settled().await.requests.done, 5);
}

// A collector that accepts and never answers delays no request, and the gateway ends beside it.
#[tokio::test(start_paused = true)]
async fn a_hung_collector() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let collector = Collector { endpoint, spans: Arc::default() };
    let replica = Replica::start().await;
    let mut region = Region::with(&[&replica], |c| c.traces = collector.traces(1.0)).await;
    replica.always(Script::json(200, ANSWER));
    for _ in 0..3 {
        assert_eq!(call(region.listen, chat("hi")).await.status, 200);
    }
    assert_eq!(region.settled().await.requests.done, 3);
    region.shut_down();
    region.served.await.unwrap().unwrap();
    drop(listener);
}

// The admin port has the times of the newest requests that have ended, with or without traces: of
// all, or of one by the id that its client knows.
#[tokio::test(start_paused = true)]
async fn times() {
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], |c| c.explain_keep = 3).await;
    replica.always(Script::stream(
        &[
            "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"w\"}}]}\n\n",
            "data: [DONE]\n\n",
        ],
        MS,
    ));
    for n in 0..4 {
        let mut request = stream_chat("hi");
        request.headers_mut().insert("x-request-id", format!("mine-{n}").parse().unwrap());
        assert_eq!(call(region.listen, request).await.status, 200);
        assert_eq!(replica.last().header("traceparent"), None);
    }
    let page = async |path: &str| region.admin("GET", path, "").await;
    let times: Times = eventually("all have ended", async || {
        std::thread::sleep(2 * MS);
        let times: Times = serde_json::from_str(page("/admin/times?last=9").await.text()).unwrap();
        let newest = times.requests.last()?.id.clone();
        (newest.as_deref() == Some("mine-3")).then_some(times)
    })
    .await;
    let ids: Vec<_> = times.requests.iter().filter_map(|r| r.id.as_deref()).collect();
    assert_eq!((ids, times.region.as_str()), (vec!["mine-1", "mine-2", "mine-3"], "local"));
    let names: Vec<_> = times.requests[0].spans.iter().map(|span| span.name.as_str()).collect();
    let expected = [
        "POST /v1/chat/completions",
        "admission",
        "read body",
        "chat m",
        "connect",
        "first token",
        "relay",
    ];
    assert_eq!(names, expected);
    let attempt = &times.requests[0].spans[3];
    assert_eq!((attempt.place.as_deref(), attempt.is_call), (Some("r0"), true));
    let one: Times = serde_json::from_str(page("/admin/times/mine-2").await.text()).unwrap();
    assert_eq!(one.requests, times.requests[1..2]);
    let gone = page("/admin/times/mine-0").await;
    assert_eq!((gone.status, gone.code()), (404, "unknown_request".to_owned()));
    assert_eq!(page("/admin/times?last=0").await.status, 400);
}
