//! Status pages that misbehave. An engine's page may be late, wrong or empty; whether the engine
//! serves is a different question.

use std::time::Duration;

use meridian_protocol::units::Span;

use crate::common::{Region, Replica, Script, call, chat, get, open, stream_chat};

const MS: Duration = Duration::from_millis(1);
const EVENT: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n";

fn slow(body: &str) -> Script {
    let length = body.len();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}");
    Script::default().wait(3000 * MS).send(&head)
}

async fn region(replicas: &[&Replica]) -> Region {
    Region::with(replicas, |c| c.timeouts.probe = Span::secs(1)).await
}

// Status pages slower than timeouts.probe at every replica, including health pages, take no replica
// down while answers stream, and new requests are served throughout.
#[tokio::test(start_paused = true)]
async fn slow_pages_everywhere() {
    let (a, b) = (Replica::start().await, Replica::start().await);
    let region = region(&[&a, &b]).await;
    let mut long = Script::sse();
    for _ in 0..100 {
        long = long.event(EVENT).wait(300 * MS);
    }
    let long = long.event("data: [DONE]\n\n").send("0\r\n\r\n");
    let mut running = Vec::new();
    for replica in [&a, &b] {
        replica.then(long.clone());
        for path in ["/metrics", "/health", "/v1/models", "/props", "/info"] {
            replica.page(path, slow(""));
        }
        running.push(open(region.listen, stream_chat("hi")).await);
    }
    let probes = a.probes();
    let readers =
        running.into_iter().map(|mut one| tokio::spawn(async move { one.read_to("[DONE]").await }));
    let readers: Vec<_> = readers.collect();
    for _ in 0..25 {
        tokio::time::sleep(1000 * MS).await;
        let status = region.status().await;
        let states: Vec<&str> = status.replicas.iter().map(|r| r.state.as_str()).collect();
        assert_eq!(states, ["up", "up"]);
        assert_eq!(call(region.listen, chat("hi")).await.status, 200);
    }
    assert!(a.probes() - probes >= 10, "probes continue");
    for reader in readers {
        reader.await.unwrap();
    }
    // Without answers the probes are the only sign of life.
    region.until("both are down", |s| s.replicas.iter().all(|r| r.state == "down")).await;
}

/// One kind of page: the replica's resulting state and load, and the text of `trouble`.
struct Page {
    what: &'static str,
    script: Script,
    pending: u32,
    kv_used: f32,
    trouble: Option<&'static str>,
}

fn page(what: &'static str, script: Script, trouble: &'static str) -> Page {
    Page { what, script, pending: 0, kv_used: 0.0, trouble: Some(trouble) }
}

fn reported(what: &'static str, text: &str, (pending, kv_used): (u32, f32)) -> Page {
    Page { what, script: Script::answer(200, "", text), pending, kv_used, trouble: None }
}

fn gauges(waiting: &str, running: &str, kv: &str) -> String {
    format!(
        "vllm:num_requests_waiting{{engine=\"0\"}} {waiting}\n\
         vllm:num_requests_running{{engine=\"0\"}} {running}\n\
         vllm:kv_cache_usage_perc{{engine=\"0\"}} {kv}\n"
    )
}

fn pages() -> Vec<Page> {
    let good = gauges("0", "0", "0.0");
    let endless = Script::default()
        .send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        .event(&"x".repeat(9 << 20))
        .hang();
    vec![
        page("slow", slow(&good), "no answer within"),
        page("hanging", Script::silence(), "no answer within"),
        page("half and hanging", Script::head(9999).send("vllm:").hang(), "no answer within"),
        page("huge", endless, "GET /metrics: "),
        page(
            "HTML",
            Script::answer(200, "content-type: text/html\r\n", "<html></html>"),
            "GET /metrics: ",
        ),
        page("404", Script::answer(404, "", ""), "GET /metrics: 404"),
        page("500", Script::answer(500, "", ""), "GET /metrics: 500"),
        page("401", Script::answer(401, "", ""), "GET /metrics: 401"),
        page(
            "gzip",
            Script::answer(200, "content-encoding: gzip\r\n", "\u{1f}\u{8b}\u{8}"),
            "GET /metrics: ",
        ),
        page("no gauges", Script::answer(200, "", "other_metric 1\n"), "GET /metrics: "),
        page("closed", Script::default().close(), "GET /metrics: "),
        page("no HTTP", Script::default().send("SSH-2.0\r\n\r\n").close(), "GET /metrics: "),
    ]
}

// Each kind of page without usable data: the replica is up, since /health says so, with no load but
// its own requests. Requests go to it and to the other one; the status page gives the reason.
#[tokio::test(start_paused = true)]
async fn pages_that_tell_nothing() {
    for Page { what, script, pending, kv_used, trouble } in pages() {
        let (odd, good) = (Replica::start().await, Replica::start().await);
        let region = region(&[&odd, &good]).await;
        odd.page("/metrics", script);
        odd.load(0, 0, 0.0);
        let mut picks = Vec::new();
        for _ in 0..8 {
            tokio::time::sleep(1500 * MS).await;
            let answer = call(region.listen, chat("hi")).await;
            assert_eq!(answer.status, 200, "{what}");
            picks.push(answer.header("x-meridian-replica").to_owned());
        }
        for name in ["r0", "r1"] {
            assert_eq!(picks.iter().filter(|p| *p == name).count(), 4, "{what}: {picks:?}");
        }
        let status = region.settled().await;
        let row = &status.replicas[0];
        assert_eq!((row.state.as_str(), row.breaker.as_str()), ("up", "closed"), "{what}");
        assert_eq!((row.pending, row.kv_used), (pending, kv_used), "{what}");
        let said = row.trouble.as_deref().unwrap_or_default();
        assert!(said.contains(trouble.unwrap_or_default()), "{what}: {said}");
        assert_eq!(status.replicas[1].trouble, None, "{what}");
        assert!(!get(region.admin, "/metrics").await.text().contains("NaN"), "{what}");
        // A repaired page counts at once.
        odd.good_page("/metrics");
        odd.load(7, 3, 0.5);
        region.until("its load is known", |s| s.replicas[0].pending == 7).await;
        assert_eq!(region.status().await.replicas[0].trouble, None, "{what}");
    }
}

// Values that no engine can have: readable ones count within their limits, the rest count as
// absent, and nothing overflows.
#[tokio::test(start_paused = true)]
async fn values_that_cannot_be() {
    let mut of_another = gauges("2", "1", "0.25");
    of_another.push_str("vllm:lora_requests_info{model_name=\"other\"} 9\n");
    let twice = format!("{0}{0}", gauges("2", "1", "0.25"));
    for Page { what, script, pending, kv_used, .. } in [
        reported("NaN", &gauges("NaN", "NaN", "NaN"), (0, 0.0)),
        reported("negative", &gauges("-5", "-1", "-0.5"), (0, 0.0)),
        reported("overflowing", &gauges("1e300", "1e300", "1e300"), (1 << 24, 1.0)),
        reported("infinite", &gauges("+Inf", "+Inf", "+Inf"), (0, 0.0)),
        reported("missing", "vllm:num_requests_waiting{engine=\"0\"} 2\n", (0, 0.0)),
        reported("another model's", &of_another, (2, 0.25)),
        reported("duplicated", &twice, (4, 0.25)),
    ] {
        let (odd, good) = (Replica::start().await, Replica::start().await);
        let region = region(&[&odd, &good]).await;
        odd.page("/metrics", script);
        for _ in 0..6 {
            tokio::time::sleep(500 * MS).await;
            assert_eq!(call(region.listen, chat("hi")).await.status, 200, "{what}");
        }
        tokio::time::sleep(1500 * MS).await;
        let row = region.settled().await.replicas[0].clone();
        assert_eq!(row.state, "up", "{what}");
        assert_eq!((row.pending, row.kv_used), (pending, kv_used), "{what}: {:?}", row.trouble);
    }
}

// A page that alternates between valid and broken is as good as its last answer, and the replica
// stays up throughout.
#[tokio::test(start_paused = true)]
async fn alternating() {
    let (odd, good) = (Replica::start().await, Replica::start().await);
    let region = region(&[&odd, &good]).await;
    odd.load(1, 1, 0.5);
    for turn in 0..12 {
        let broken = turn % 2 == 0;
        match broken {
            true => odd.page("/metrics", Script::answer(500, "", "")),
            false => odd.good_page("/metrics"),
        }
        tokio::time::sleep(1200 * MS).await;
        assert_eq!(call(region.listen, chat("hi")).await.status, 200);
        let row = region.status().await.replicas[0].clone();
        assert_eq!((row.state.as_str(), row.trouble.is_some()), ("up", broken), "turn {turn}");
    }
}
