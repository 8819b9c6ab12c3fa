//! Traces of two gateways in Rotel, a collector for OpenTelemetry, over gRPC and over HTTP.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use flate2::read::GzDecoder;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use meridian_fleet::venv::{self, Pins};
use meridian_fleet::{
    Certificates, Client, EngineSpec, Fleet, Gateway, GatewaySpec, PeersSpec, Process, Program,
    free_port,
};
use meridian_protocol::admin::Role;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use prost::Message;
use serde_json::Value;
use tokio::net::TcpListener;

use crate::common::{LIMIT, chat, fleet, must, status_when, up};

const PINS: Pins = Pins { name: "Rotel", key: "ROTEL_PIP", module: "rotel" };
const ID: &str = "0af7651916cd43dd8448eb211c80319c";
const SENDER: &str = "b7ad6b7169203331";
/// Requests besides the one in the client's trace.
const FURTHER: usize = 20;

/// A collector, and the spans that it forwards over HTTP.
struct Collector {
    process: Process,
    /// For gRPC, and for HTTP.
    ports: [u16; 2],
    requests: Arc<Mutex<Vec<ExportTraceServiceRequest>>>,
}

impl Collector {
    async fn start(fleet: &Fleet, name: &str, ports: [u16; 2]) -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a free port");
        let sink = format!("http://{}", listener.local_addr().expect("has an address"));
        let requests: Arc<Mutex<Vec<_>>> = Arc::default();
        tokio::spawn(keep(listener, requests.clone()));
        let home = venv::home(Path::new(env!("CARGO_MANIFEST_DIR")), "rotel");
        let python = must(venv::install(&home, PINS).await);
        let [grpc, http] = ports.map(|port| format!("127.0.0.1:{port}"));
        let args = [
            ["--otlp-grpc-endpoint", &grpc],
            ["--otlp-http-endpoint", &http],
            ["--exporter", "otlp"],
            ["--otlp-exporter-protocol", "http"],
            ["--otlp-exporter-endpoint", &sink],
            ["--batch-timeout", "50ms"],
        ];
        let program = Program::new(name, agent(&python))
            .args(["start"].into_iter().chain(args.into_iter().flatten()));
        let mut process = must(fleet.start(program).await);
        let start = Instant::now();
        for port in ports {
            while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
                let ended = process.ended();
                assert!(ended.is_none() && start.elapsed() < LIMIT, "{}", process.log_tail());
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        Collector { process, ports, requests }
    }

    /// The spans, once those of this many requests have arrived, from both gateways together.
    async fn spans_of(&self, requests: usize) -> Vec<Span> {
        let start = Instant::now();
        loop {
            let spans: Vec<Span> =
                self.requests.lock().expect("no panic").iter().flat_map(spans).collect();
            let found = spans.iter().filter(|span| span.is_request()).count();
            if found == requests {
                return spans;
            }
            assert!(start.elapsed() < LIMIT, "{found} of {requests}: {}", self.process.log_tail());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// The collector's program, which its package carries.
fn agent(python: &Path) -> PathBuf {
    let script =
        "import pathlib, rotel; print(pathlib.Path(rotel.__file__).parent / 'rotel-agent')";
    let output = Command::new(python).args(["-c", script]).output().expect("Python runs");
    String::from_utf8(output.stdout).expect("is text").trim().into()
}

/// Keeps what the collector sends.
async fn keep(listener: TcpListener, requests: Arc<Mutex<Vec<ExportTraceServiceRequest>>>) {
    while let Ok((stream, _)) = listener.accept().await {
        let requests = requests.clone();
        let take = service_fn(move |request: Request<Incoming>| {
            let requests = requests.clone();
            async move {
                let gzip = request.headers().get("content-encoding").is_some_and(|c| c == "gzip");
                let body = request.into_body().collect().await?.to_bytes();
                let mut plain = Vec::new();
                match gzip {
                    true => GzDecoder::new(&body[..]).read_to_end(&mut plain).map(drop),
                    false => (&body[..]).read_to_end(&mut plain).map(drop),
                }
                .expect("is compressed as it says");
                let message = ExportTraceServiceRequest::decode(&plain[..]).expect("is OTLP");
                requests.lock().expect("no panic").push(message);
                Ok::<_, hyper::Error>(Response::new(Full::<Bytes>::default()))
            }
        });
        let server = hyper::server::conn::http1::Builder::new();
        tokio::spawn(server.serve_connection(TokioIo::new(stream), take));
    }
}

/// A span as the collector received it.
#[derive(Clone, Debug)]
struct Span {
    /// The region of its gateway.
    region: String,
    trace: String,
    id: String,
    parent: String,
    name: String,
    from: u64,
    to: u64,
    attributes: BTreeMap<String, String>,
}

impl Span {
    fn is_request(&self) -> bool {
        self.name.starts_with("POST ")
    }

    /// An attribute; empty if absent.
    fn text(&self, name: &str) -> &str {
        self.attributes.get(name).map(String::as_str).unwrap_or_default()
    }

    /// The same as a number; -1 if absent.
    fn number(&self, name: &str) -> i64 {
        self.text(name).parse().unwrap_or(-1)
    }
}

fn spans(request: &ExportTraceServiceRequest) -> Vec<Span> {
    let hex = |id: &[u8]| id.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let mut found = Vec::new();
    for resource in &request.resource_spans {
        let of = attributes(&resource.resource.as_ref().expect("is there").attributes);
        assert_eq!(of["service.name"], "meridian", "{of:?}");
        for span in resource.scope_spans.iter().flat_map(|scope| &scope.spans) {
            found.push(Span {
                region: of["meridian.region"].clone(),
                trace: hex(&span.trace_id),
                id: hex(&span.span_id),
                parent: hex(&span.parent_span_id),
                name: span.name.clone(),
                from: span.start_time_unix_nano,
                to: span.end_time_unix_nano,
                attributes: attributes(&span.attributes),
            });
        }
    }
    found
}

fn attributes(list: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |value: &Any| match value {
        Any::StringValue(text) => text.clone(),
        Any::IntValue(count) => count.to_string(),
        Any::BoolValue(flag) => flag.to_string(),
        Any::DoubleValue(number) => number.to_string(),
        _ => String::new(),
    };
    let pair = |one: &KeyValue| Some((one.key.clone(), text(one.value.as_ref()?.value.as_ref()?)));
    list.iter().filter_map(pair).collect()
}

/// A region's gateway that follows the other one, writes an access log, and sends its traces to the
/// collector.
async fn gateway(
    fleet: &Fleet,
    certs: &Certificates,
    (region, own, other, theirs): (&str, u16, &str, u16),
    replicas: &[(&Process, Option<&'static str>)],
    traces: &str,
) -> Gateway {
    let (certificate, key) = certs.of(&format!("{region}-1"));
    let at = |port: u16| std::net::SocketAddr::from(([127, 0, 0, 1], port));
    let peers = PeersSpec {
        listen: at(own).to_string(),
        files: [certs.ca(), certificate, key],
        gateways: vec![(format!("{other}-1"), other.to_owned(), at(theirs))],
        accept: Vec::new(),
        digests: None,
    };
    let url = |process: &Process| process.said(0).to_owned();
    let roles = replicas.iter().filter_map(|(process, role)| Some((url(process), (*role)?)));
    let log = fleet.dir().join(format!("{region}.access"));
    let spec = GatewaySpec {
        region: region.to_owned(),
        policy: "round_robin".to_owned(),
        replicas: replicas.iter().map(|(process, _)| url(process)).collect(),
        roles: roles.collect(),
        peers: Some(peers),
        // A killed replica is found out by a request, not by a probe.
        further: format!(
            "probe: {{busy: 60s, idle: 60s, stale: 600s}}\naccess_log: {{to: {}}}\n{traces}",
            log.display()
        ),
        ..GatewaySpec::default()
    };
    must(fleet.gateway(region, &spec).await)
}

fn logged(fleet: &Fleet, region: &str) -> Vec<Value> {
    let text =
        std::fs::read_to_string(fleet.dir().join(format!("{region}.access"))).expect("is there");
    text.lines().map(|line| serde_json::from_str(line).expect("is JSON")).collect()
}

/// Checks one trace: one span alone has its parent elsewhere, each other one lies within its parent
/// if both are of one gateway, and siblings of one kind do not overlap.
fn check(spans: &[&Span], sender: &str) {
    let ids: BTreeSet<&str> = spans.iter().map(|span| span.id.as_str()).collect();
    assert_eq!(ids.len(), spans.len(), "each span has an id of its own");
    let tops: Vec<_> = spans.iter().filter(|span| !ids.contains(span.parent.as_str())).collect();
    assert_eq!((tops.len(), tops[0].parent.as_str()), (1, sender), "{tops:?}");
    for span in spans {
        let of_parent = |other: &&&Span| other.parent == span.id && other.region == span.region;
        let mut children: Vec<&&Span> = spans.iter().filter(of_parent).collect();
        children.sort_by_key(|child| child.from);
        for child in &children {
            assert!(span.from <= child.from && child.to <= span.to, "{child:?} in {span:?}");
        }
        // The hops in turn add up to no more than the whole.
        let sum: u64 = children.iter().map(|child| child.to - child.from).sum();
        assert!(sum <= span.to - span.from, "{span:?}: {children:?}");
    }
}

/// Two regions, `us` with two engines and `eu` with a prefill and a decode engine, and a collector.
struct World {
    client: Client,
    collector: Collector,
    near: [Process; 2],
    us: Gateway,
    eu: Gateway,
    _pair: [Process; 2],
    // Last: it removes the folder of the others.
    fleet: Fleet,
}

impl World {
    async fn start() -> World {
        let (fleet, client) = (fleet(), Client::new());
        let [grpc, http] = [must(free_port()), must(free_port())];
        let collector = Collector::start(&fleet, "collector", [grpc, http]).await;
        let named = |region: &str| (format!("{region}-1"), region.to_owned());
        let certs = must(fleet.certificates(&[named("us"), named("eu")]).await);
        let engine = async |name: &str, role: Role| {
            let spec = EngineSpec { time_scale: 100.0, role, ..EngineSpec::default() };
            must(fleet.engine(name, &spec).await)
        };
        let near = [engine("near-0", Role::Both).await, engine("near-1", Role::Both).await];
        let pair = [engine("prefill", Role::Prefill).await, engine("decode", Role::Decode).await];
        let ports = ("us", must(free_port()), "eu", must(free_port()));
        let engines = [(&near[0], None), (&near[1], None)];
        let traces = format!("traces: {{endpoint: 'http://127.0.0.1:{grpc}'}}\n");
        let us = gateway(&fleet, &certs, ports, &engines, &traces).await;
        let engines = [(&pair[0], Some("prefill")), (&pair[1], Some("decode"))];
        let ports = (ports.2, ports.3, ports.0, ports.1);
        let traces = format!("traces: {{endpoint: 'http://127.0.0.1:{http}', protocol: http}}\n");
        let eu = gateway(&fleet, &certs, ports, &engines, &traces).await;
        status_when(&client, &us, "two replicas", up(2)).await;
        status_when(&client, &eu, "a pair", up(2)).await;
        status_when(&client, &us, "us follows eu", |s| s.peers[0].eligible > 0).await;
        World { client, collector, near, us, eu, _pair: pair, fleet }
    }

    async fn post(&self, n: usize, traceparent: Option<&str>) {
        let body = chat(&format!("hello {n}"), 8, true).replace("meridian-tiny", "llama-3.1-8b");
        let headers: Vec<_> = traceparent.map(|text| ("traceparent", text)).into_iter().collect();
        let url = format!("{}/v1/chat/completions", self.us.url);
        let answer = must(must(self.client.open(&url, body, &headers).await).whole().await);
        assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
    }

    /// Whether a gateway has lost the spans of one request.
    async fn has_lost_one(&self, gateway: &Gateway) -> bool {
        let page = must(self.client.get(&format!("{}/metrics", gateway.admin)).await);
        let text = String::from_utf8_lossy(&page.body).into_owned();
        text.contains("meridian_records_dropped_total{sink=\"traces\"} 1\n")
    }

    /// Checks that the requests and the failed attempts of a region are those of its access log.
    fn agrees_with_log(&self, spans: &[Span], region: &str) {
        let here = || spans.iter().filter(|span| span.region == region);
        let requests = here().filter(|span| span.is_request());
        let mut traced: Vec<_> = requests.map(|span| span.text("meridian.request_id")).collect();
        let log = logged(&self.fleet, region);
        let mut logged: Vec<_> = log.iter().filter_map(|line| line["id"].as_str()).collect();
        traced.sort_unstable();
        logged.sort_unstable();
        assert_eq!(traced, logged, "{region}");
        let retries = log.iter().filter_map(|line| line["retries"].as_i64()).sum::<i64>();
        let failed = here().filter(|span| span.text("error.type") == "unreached").count();
        assert_eq!(failed as i64, retries, "{region}");
    }
}

// A request in its client's trace, whose two attempts at home fail, is forwarded to a region that
// splits it: all of its spans at both gateways are one trace with the right parents. Every request
// in the access logs has one trace. A collector that ends loses spans, and gets them again after its
// restart, while no request fails.
#[tokio::test]
async fn a_retry_a_forward_and_two_legs() {
    let mut world = World::start().await;
    for n in 0..FURTHER {
        world.post(n, None).await;
    }
    for engine in &mut world.near {
        must(engine.kill().await);
    }
    world.post(FURTHER, Some(&format!("00-{ID}-{SENDER}-01"))).await;

    let spans = world.collector.spans_of(FURTHER + 2).await;
    let mut traces: BTreeMap<&str, Vec<&Span>> = BTreeMap::new();
    for span in &spans {
        traces.entry(&span.trace).or_default().push(span);
    }
    assert_eq!(traces.len(), FURTHER + 1);
    for (id, spans) in &traces {
        check(spans, if *id == ID { SENDER } else { "" });
    }
    whole(&traces[ID]);
    for region in ["us", "eu"] {
        world.agrees_with_log(&spans, region);
    }
    let drawn = perfetto(&world.eu);
    let legs = drawn["traceEvents"].as_array().expect("a list").iter();
    assert_eq!(legs.filter(|event| event["name"] == "prefill").count(), 1, "{drawn}");

    must(world.collector.process.kill().await);
    world.post(100, None).await;
    let start = Instant::now();
    while !(world.has_lost_one(&world.us).await && world.has_lost_one(&world.eu).await) {
        assert!(start.elapsed() < LIMIT, "lost spans are not counted");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let again = Collector::start(&world.fleet, "again", world.collector.ports).await;
    world.post(101, None).await;
    again.spans_of(2).await;
    let log = std::fs::read_to_string(world.us.process.log()).expect("there is a log");
    assert_eq!(log.matches("does not take traces").count(), 1, "{log}");
    assert!(log.contains("traces are sent again"), "{log}");
}

/// The trace that `meridian explain --perfetto` prints of a gateway.
fn perfetto(gateway: &Gateway) -> Value {
    let mut command = Command::new(crate::programs::MERIDIAN);
    let output = command.args(["explain", "--perfetto", "--admin", &gateway.admin]).output();
    let output = output.expect("the binary runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("is JSON")
}

/// Checks the trace that has everything.
fn whole(spans: &[&Span]) {
    let find = |region: &str, name: &str| {
        let is = |span: &&&Span| span.region == region && span.name == name;
        spans.iter().find(is).unwrap_or_else(|| panic!("{region} has no {name}: {spans:#?}"))
    };
    let attempts = |region: &str| -> Vec<&&Span> {
        let is = |span: &&&Span| span.region == region && span.name == "chat llama-3.1-8b";
        let mut attempts: Vec<_> = spans.iter().filter(is).collect();
        attempts.sort_by_key(|span| span.from);
        attempts
    };
    let request = find("us", "POST /v1/chat/completions");
    let tries = attempts("us");
    let errors: Vec<_> = tries.iter().map(|span| span.text("error.type")).collect();
    assert_eq!(errors, ["unreached", "unreached", ""]);
    assert!(tries.iter().all(|span| span.parent == request.id));
    assert_eq!(tries[2].text("meridian.peer"), "eu/eu-1");
    assert_eq!(request.number("meridian.retries"), 2);
    let served = find("eu", "POST /v1/chat/completions");
    assert_eq!((&served.parent, served.number("meridian.hops")), (&tries[2].id, 1));
    let there = attempts("eu");
    let (prefill, decode) = (find("eu", "prefill"), find("eu", "decode"));
    assert_eq!((there.len(), &prefill.parent, &decode.parent), (1, &there[0].id, &there[0].id));
    assert!(prefill.to <= decode.from, "{prefill:?} {decode:?}");
    assert_eq!(find("eu", "kv wait").parent, decode.id);
    for span in [request, served] {
        assert!(span.number("gen_ai.usage.output_tokens") > 0, "{span:?}");
    }
}
