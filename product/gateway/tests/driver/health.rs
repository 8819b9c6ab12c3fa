//! What engines say about themselves at their health path, beside a load page that answers.

use std::time::Duration;

use crate::common::{Region, Replica, Script, call, chat, open, stream_chat};

const MS: Duration = Duration::from_millis(1);
const EVENT: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n";

fn says(status: u16) -> Script {
    Script::answer(status, "", "")
}

// Defect health-503: an engine that answers its health check with 503 gets no requests, although its load page answers.
// It is asked once in `probe.idle`, and `probe.down_after` probes later it is down. It is up again as
// soon as it says so.
#[tokio::test(start_paused = true)]
async fn its_own_word() {
    for status in [500, 503] {
        let (ill, good) = (Replica::start().await, Replica::start().await);
        let region = Region::of(&[&ill, &good]).await;
        ill.page("/health", says(status));
        // An idle interval, and three probes at the pace of a replica in trouble.
        tokio::time::sleep(2500 * MS).await;
        let row = region.status().await.replicas[0].clone();
        let trouble = row.trouble.unwrap_or_default();
        assert_eq!(row.state, "down", "{status}");
        assert!(trouble.starts_with(&format!("GET /health: {status}")), "{trouble}");
        for _ in 0..4 {
            let answer = call(region.listen, chat("hi")).await;
            assert_eq!((answer.status, answer.header("x-meridian-replica")), (200, "r1"));
        }
        ill.good_page("/health");
        let status = region.until("it is up", |s| s.replicas[0].state == "up").await;
        assert_eq!(status.replicas[0].trouble, None);
    }
}

// Defect health-503: an engine that says 503 is down although pieces of an old answer still stream.
// Neither its streams nor the load in the headers of its answers count as a sign of life then.
#[tokio::test(start_paused = true)]
async fn streams_do_not_contradict_it() {
    let (ill, good) = (Replica::start().await, Replica::start().await);
    let region = Region::of(&[&ill, &good]).await;
    let mut long = Script::sse();
    for _ in 0..100 {
        long = long.event(EVENT).wait(50 * MS);
    }
    ill.then(long.event("data: [DONE]\n\n").send("0\r\n\r\n"));
    let mut answer = open(region.listen, stream_chat("hi")).await;
    let reading = tokio::spawn(async move { answer.read_to("[DONE]").await });
    ill.page("/health", says(503));
    tokio::time::sleep(2500 * MS).await;
    assert_eq!(region.status().await.replicas[0].state, "down");
    reading.await.expect("what flows may end");
}

// Silence and answers that say nothing about the engine take no replica down: a page that is missing,
// forbidden or limited, a redirect, a proxy's error, and no answer at all.
#[tokio::test(start_paused = true)]
async fn no_word_of_its_own() {
    let ways = [301, 401, 404, 405, 429, 501, 502, 504].map(says);
    for script in ways.into_iter().chain([Script::silence(), Script::default().close()]) {
        let replica = Replica::start().await;
        let region = Region::of(&[&replica]).await;
        replica.page("/health", script);
        for _ in 0..8 {
            tokio::time::sleep(1000 * MS).await;
            let row = region.status().await.replicas[0].clone();
            assert_eq!((row.state.as_str(), row.trouble), ("up", None));
        }
    }
}

// Defect health-503: an engine that lists its models while it still loads them joins when its health check says so.
#[tokio::test(start_paused = true)]
async fn loads_first() {
    let (loads, good) = (Replica::start().await, Replica::start().await);
    loads.page("/health", says(503));
    let region = Region::start(crate::common::config(&[&loads, &good])).await;
    region.until("the other one is up", |s| s.replicas[1].state == "up").await;
    for _ in 0..4 {
        let answer = call(region.listen, chat("hi")).await;
        assert_eq!((answer.status, answer.header("x-meridian-replica")), (200, "r1"));
    }
    let row = region.status().await.replicas[0].clone();
    assert!(row.trouble.is_some_and(|why| why.starts_with("GET /health: 503")));
    loads.good_page("/health");
    region
        .until("it is up", |s| s.replicas[0].state == "up" && !s.replicas[0].models.is_empty())
        .await;
    assert_eq!(loads.count(), 0);
}

/// A page of vLLM on which one request runs.
fn runs(tokens: u32) -> Script {
    let page = format!(
        "vllm:num_requests_waiting 0\nvllm:num_requests_running 1\nvllm:generation_tokens_total {tokens}\n"
    );
    Script::answer(200, "content-type: text/plain\r\n", &page)
}

// Defect no-progress: an engine whose requests run and whose metrics and answers stand still gets no new requests until
// something changes, and the status says so. A request that it has may still succeed.
#[tokio::test(start_paused = true)]
async fn nothing_moves() {
    let (hung, good) = (Replica::start().await, Replica::start().await);
    let region = Region::of(&[&hung, &good]).await;
    hung.page("/metrics", runs(1));
    tokio::time::sleep(3000 * MS).await;
    hung.page("/metrics", runs(2));
    hung.then(Script::default().wait(60_000 * MS).answers(r#"{"id":"late","choices":[]}"#));
    let listen = region.listen;
    let waits = tokio::spawn(async move { call(listen, chat("hi")).await });
    tokio::time::sleep(35_000 * MS).await;
    let row = region.status().await.replicas[0].clone();
    let trouble = row.trouble.unwrap_or_default();
    assert!(row.state == "up" && trouble.starts_with("no progress for 3"), "{trouble}");
    for _ in 0..8 {
        let answer = call(region.listen, chat("hi")).await;
        assert_eq!((answer.status, answer.header("x-meridian-replica")), (200, "r1"));
    }
    let answer = waits.await.expect("it ends");
    assert_eq!((answer.status, answer.text()), (200, r#"{"id":"late","choices":[]}"#));
    region.until("its answer is progress", |s| s.replicas[0].trouble.is_none()).await;
}
