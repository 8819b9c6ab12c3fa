//! Metrics of requests by model and tenant: they agree with the access log and the journal, which come
//! from the same record, and no client can make the page longer.

use std::collections::BTreeMap;

use meridian_config::{AdmissionMode, Resume};
use serde_json::Value;

use crate::common::{Region, Replica, Script, call, chat, get, open, post, request, stream_chat};
use crate::forwards::{World, occupy_with};
use crate::records::{ANSWER, DONE, Files, MS, USAGE, WORD, stopped};
use crate::tenants::{bearing, tenant};

const KEYS: [&str; 2] = ["mk-0123456789abcdefghij", "mk-zyxwvutsrqponmlkjihg"];

/// One sample of a metrics page.
pub(crate) struct Sample {
    labels: BTreeMap<String, String>,
    pub(crate) value: f64,
}

impl Sample {
    pub(crate) fn label(&self, name: &str) -> &str {
        self.labels.get(name).map_or("", String::as_str)
    }
}

/// The samples of one name. Labels in tests have no quotes and commas.
pub(crate) fn samples(page: &str, name: &str) -> Vec<Sample> {
    let mut all = Vec::new();
    for line in page.lines() {
        let Some(rest) = line.strip_prefix(name) else { continue };
        let (labels, value) = match rest.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
            Some(split) => split,
            None if rest.starts_with(' ') => ("", rest),
            None => continue,
        };
        let pairs = labels.split(',').filter_map(|pair| pair.split_once('='));
        let pairs =
            pairs.map(|(name, value)| (name.to_owned(), value.trim_matches('"').to_owned()));
        let value = value.split_whitespace().next().unwrap().parse().unwrap();
        all.push(Sample { labels: pairs.collect(), value });
    }
    all
}

pub(crate) fn sum(page: &str, name: &str, label: &str, value: &str) -> f64 {
    let all = samples(page, name);
    all.iter().filter(|one| one.label(label) == value).map(|one| one.value).sum()
}

/// Compares a page with the lines of an access log.
fn agree(page: &str, log: &[Value], here: &str) {
    let text = |line: &Value, name: &str| match &line[name] {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut of_log: BTreeMap<Vec<String>, f64> = BTreeMap::new();
    for line in log {
        let labels = ["model", "tenant", "outcome", "status"];
        *of_log.entry(labels.map(|name| text(line, name)).to_vec()).or_default() += 1.0;
    }
    let mut of_page: BTreeMap<Vec<String>, f64> = BTreeMap::new();
    for sample in samples(page, "meridian_http_requests_total") {
        let labels = ["model", "tenant", "outcome", "status"];
        let labels = labels.map(|name| sample.label(name).to_owned()).to_vec();
        *of_page.entry(labels).or_default() += sample.value;
    }
    assert_eq!(of_page, of_log, "{here}");
    let having = |name: &str| log.iter().filter(|line| line.get(name).is_some()).count() as f64;
    let count = |name: &str| samples(page, name).iter().map(|one| one.value).sum::<f64>();
    for (metric, field) in [("ttft", "ttft_ms"), ("tpot", "tpot_ms"), ("queue", "queue_ms")] {
        let name = format!("meridian_{metric}_gateway_seconds_count");
        assert_eq!(count(&name), having(field), "{here}: {field}");
    }
    let done = |line: &&Value| line["outcome"] == "done" && line.get("queue_ms").is_some();
    let done = log.iter().filter(done).count() as f64;
    assert_eq!(count("meridian_e2e_gateway_seconds_count"), done, "{here}");
    let counted = |line: &&Value| line.get("completion_tokens").is_some() && line["hops"] == 0;
    for kind in ["prompt", "cached", "completion"] {
        let of = |line: &Value| line[format!("{kind}_tokens")].as_f64().unwrap_or(0.0);
        let tokens: f64 = log.iter().filter(counted).map(of).sum();
        assert_eq!(sum(page, "meridian_tokens_total", "kind", kind), tokens, "{here}: {kind}");
    }
}

/// Requests that end in every way, at a gateway with two replicas.
async fn mixed(region: &Region, a: &Replica, b: &Replica) {
    let send = async |key: usize, stream: bool| {
        let request = if stream { stream_chat("hi") } else { chat("hi") };
        call(region.listen, bearing(request, KEYS[key])).await.status
    };
    let stream = Script::stream(&[WORD, WORD, USAGE, DONE], MS);
    for (script, key, streams, status) in [
        (Script::json(200, ANSWER), 0, false, 200),
        (stream.clone(), 1, true, 200),
        (Script::json(422, "{}"), 1, false, 422),
        (Script::json(299, ANSWER), 0, false, 299),
    ] {
        a.always(script.clone());
        b.always(script);
        assert_eq!(send(key, streams).await, status);
    }
    // Retries, on both replicas.
    a.always(Script::json(500, "{}"));
    b.always(Script::json(500, "{}"));
    send(0, false).await;
    a.always(Script::default().close());
    send(1, false).await;
    a.always(Script::json(503, "{}"));
    b.always(Script::json(503, "{}"));
    send(0, false).await;
    // A stream that resumes, and one that cannot.
    a.always(Script::sse().event(WORD).wait(MS).close());
    b.always(stream.clone());
    for _ in 0..2 {
        send(0, true).await;
    }
    b.always(Script::sse().event(WORD).wait(MS).close());
    send(1, true).await;
    // A client that leaves.
    a.always(Script::sse().event(WORD).hang());
    b.always(Script::sse().event(WORD).hang());
    let mut left = open(region.listen, bearing(stream_chat("hi"), KEYS[1])).await;
    left.read_to("choices").await;
    drop(left);
    // Refusals before admission, and the gateway's own answers.
    call(region.listen, chat("hi")).await;
    let unknown = request("POST", "/v1/messages", r#"{"model":"x","messages":[]}"#);
    call(region.listen, bearing(unknown, KEYS[0])).await;
    call(region.listen, bearing(request("GET", "/nowhere", ""), KEYS[0])).await;
    call(region.listen, bearing(request("GET", "/v1/models", ""), KEYS[1])).await;
}

// Answers, refusals before and after admission, errors of engines, retries, a broken stream that
// resumes and one that does not, clients that leave: each is in the metrics under the labels that its
// line in the access log has, and the counts of the journal and the status page are those of the
// requests with a model.
#[tokio::test(start_paused = true)]
async fn a_mixed_load() {
    let files = Files::new("mixed");
    let (a, b) = (Replica::start().await, Replica::start().await);
    let region = Region::with(&[&a, &b], |c| {
        files.set(c);
        c.tenants = vec![tenant("acme", KEYS[0]), tenant("zoo", KEYS[1])];
        c.held.max_wait = meridian_protocol::units::Span::millis(300);
        c.resume = Some(Resume::default());
        c.breaker.failures = 1000;
    })
    .await;
    mixed(&region, &a, &b).await;
    let counts = region.settled().await.requests;
    let page = get(region.admin, "/metrics").await;
    assert_eq!(stopped(region).await, counts);
    let (log, journal) = (files.log(), files.journal());
    // A status that HTTP does not define counts under its class.
    let mut shown = log.clone();
    shown.iter_mut().filter(|l| l["status"] == 299).for_each(|l| l["status"] = "2xx".into());
    agree(page.text(), &shown, "all");
    assert_eq!(log.len() as u64, counts.accepted + 4);
    for (outcome, n) in [
        ("done", counts.done),
        ("client_error", counts.client_error),
        ("rejected", counts.rejected),
        ("failed", counts.failed),
        ("cancelled", counts.cancelled),
    ] {
        let of = |lines: &[Value]| lines.iter().filter(|l| l["outcome"] == outcome).count() as u64;
        assert_eq!(of(&journal), n, "{outcome}");
        let admitted = samples(page.text(), "meridian_http_requests_total");
        let admitted = admitted.iter().filter(|s| s.label("model") == "m");
        let admitted = admitted.filter(|s| s.label("outcome") == outcome).map(|s| s.value);
        assert_eq!(admitted.sum::<f64>(), n as f64, "{outcome}");
        assert!(n > 0, "the load has no {outcome}: {counts:?}");
    }
}

// The queue's time is counted without a log and a journal too, and a request in flight is only in the
// count of first tokens.
#[tokio::test(start_paused = true)]
async fn without_files() {
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], |c| {
        c.admission = Some(AdmissionMode::Outstanding(1));
    })
    .await;
    let count = async |name: &str| {
        let page = get(region.admin, "/metrics").await;
        sum(page.text(), name, "model", "m")
    };
    assert_eq!(count("meridian_ttft_gateway_seconds_count").await, 0.0);
    replica.then(Script::sse().event(WORD).hang());
    let mut first = open(region.listen, stream_chat("hi")).await;
    first.read_to("choices").await;
    assert_eq!(count("meridian_ttft_gateway_seconds_count").await, 1.0);
    assert_eq!(count("meridian_queue_gateway_seconds_count").await, 0.0);
    let listen = region.listen;
    let queued = tokio::spawn(async move { call(listen, chat("hi")).await.status });
    region.until("it is queued", |s| s.held == 1).await;
    std::thread::sleep(20 * MS);
    drop(first);
    assert_eq!(queued.await.unwrap(), 200);
    region.settled().await;
    assert_eq!(count("meridian_queue_gateway_seconds_count").await, 2.0);
    assert!(count("meridian_queue_gateway_seconds_sum").await >= 0.02);
    assert_eq!(count("meridian_http_requests_total").await, 2.0);
}

// A forwarded request counts at both gateways, told apart by `from`, and its tokens only at the first.
#[tokio::test(start_paused = true)]
async fn forwarded() {
    let (here, there) = (Replica::start().await, Replica::start().await);
    let mut world = World::of(&[&[&here], &[&there]]);
    world.configs[0].tenants = vec![tenant("acme", KEYS[0])];
    world.configs[1].tenants = vec![tenant("acme", KEYS[0])];
    let regions = world.start().await;
    let busy = occupy_with(&regions[0], &here, KEYS[0]).await;
    there.then(Script::json(200, ANSWER));
    assert_eq!(call(regions[0].listen, bearing(chat("hi"), KEYS[0])).await.status, 200);
    drop(busy);
    // The streams that were cancelled count as they passed: with a token of the prompt each.
    for (region, from, prompt) in [(&regions[0], "client", 14.0), (&regions[1], "peer", 0.0)] {
        region.settled().await;
        let page = get(region.admin, "/metrics").await;
        let all = samples(page.text(), "meridian_http_requests_total");
        let done: Vec<_> = all.iter().filter(|one| one.label("outcome") == "done").collect();
        assert_eq!(done.len(), 1, "{}", page.text());
        let of = ["model", "tenant", "from", "status"].map(|name| done[0].label(name));
        assert_eq!((of, done[0].value), (["m", "acme", from, "200"], 1.0));
        assert_eq!(sum(page.text(), "meridian_tokens_total", "kind", "prompt"), prompt);
    }
}

// Whatever clients write into a model's name, a tenant's header, a path or a method, the page has the
// same series as after the first of each kind.
#[tokio::test(start_paused = true)]
async fn clients_cannot_grow_the_page() {
    let replica = Replica::start().await;
    let region = Region::of(&[&replica]).await;
    let mut lines = Vec::new();
    for n in 0..60 {
        let mut own = chat("hi");
        own.headers_mut().insert("x-tenant-id", format!("t{n}").parse().unwrap());
        assert_eq!(call(region.listen, own).await.status, 200);
        let body = format!(r#"{{"model":"m{n}","messages":[]}}"#);
        assert_eq!(post(region.listen, "/v1/chat/completions", &body).await.status, 404);
        assert_eq!(post(region.listen, &format!("/v1/p{n}"), "{}").await.status, 404);
        region.settled().await;
        let page = get(region.admin, "/metrics").await;
        assert_eq!(
            sum(page.text(), "meridian_http_requests_total", "tenant", "other"),
            f64::from(n + 1)
        );
        lines.push(page.text().lines().count());
    }
    assert_eq!(lines[1..].iter().filter(|count| **count != lines[1]).count(), 0, "{lines:?}");
}
