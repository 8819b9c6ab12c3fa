//! Engines that answer with 5xx, and engines that die: which side is the cause, and how often a
//! request is retried.

use std::time::Duration;

use crate::common::{Region, Replica, Script, call, chat, post, stream_chat};
use crate::residency::World;

const MS: Duration = Duration::from_millis(1);
const WORDS: &str = r#"{"error":{"message":"this server does not embed","code":501}}"#;

async fn fleet(n: usize) -> (Vec<Replica>, Region) {
    let mut replicas = Vec::new();
    for _ in 0..n {
        replicas.push(Replica::start().await);
    }
    let all: Vec<&Replica> = replicas.iter().collect();
    let region = Region::with(&all, |c| {
        c.probe.down_after = 1_000_000;
        c.attempts = 5;
    })
    .await;
    (replicas, region)
}

fn sent(replicas: &[Replica]) -> usize {
    replicas.iter().map(Replica::count).sum()
}

/// Checks that all breakers are closed and the next request is served.
async fn unharmed(what: &str, replicas: &[Replica], region: &Region) {
    let status = region.settled().await;
    assert!(status.replicas.iter().all(|r| r.breaker == "closed" && r.failed == 0), "{what}");
    for replica in replicas {
        replica.always(Script::json(200, "{}"));
    }
    assert_eq!(call(region.listen, chat("hi")).await.status, 200, "{what}");
}

// An error that every replica would give (llama.cpp answers embeddings with 501) is returned with
// the engine's message after one attempt. However often it occurs, no breaker counts it.
#[tokio::test(start_paused = true)]
async fn what_engines_cannot_do() {
    for status in [501, 505, 510] {
        let (replicas, region) = fleet(3).await;
        for replica in &replicas {
            replica.always(Script::json(status, WORDS));
        }
        for n in 1..=8 {
            let body = r#"{"model":"m","input":"hi"}"#;
            let answer = post(region.listen, "/v1/embeddings", body).await;
            assert_eq!((answer.status, answer.text()), (status, WORDS));
            assert_eq!(sent(&replicas), n, "asked once");
        }
        assert_eq!(region.settled().await.requests.client_error, 8);
        unharmed("501", &replicas, &region).await;
    }
}

// The same error from two replicas is caused by the request: the client gets its message, a third
// replica is not tried, and no breaker counts it.
#[tokio::test(start_paused = true)]
async fn the_same_failure_twice() {
    let (replicas, region) = fleet(3).await;
    let words = r#"{"error":{"message":"index out of range","type":"InternalServerError"}}"#;
    for replica in &replicas {
        replica.always(Script::json(500, words));
    }
    for n in 1..=8 {
        let request = if n % 2 == 0 { stream_chat("hi") } else { chat("hi") };
        let answer = call(region.listen, request).await;
        assert_eq!((answer.status, answer.text()), (500, words));
        assert_eq!(answer.header("x-meridian-refused"), "", "it is not the gateway's own");
        assert_eq!(sent(&replicas), 2 * n);
    }
    unharmed("500", &replicas, &region).await;
}

// If another replica serves the request, the one that failed is the cause: one failure per request.
#[tokio::test(start_paused = true)]
async fn one_replica_fails() {
    let (replicas, region) = fleet(2).await;
    replicas[0].always(Script::json(500, "{}"));
    for _ in 0..20 {
        assert_eq!(call(region.listen, chat("hi")).await.status, 200);
    }
    let status = region.settled().await;
    assert_eq!((status.replicas[0].failed, status.replicas[1].failed), (5, 0));
    assert_eq!((status.replicas[0].breaker.as_str(), replicas[0].count()), ("open", 5));
}

// Replicas fail in different ways: the client gets 502 with the last engine's message, and only the
// first failure counts.
#[tokio::test(start_paused = true)]
async fn different_failures() {
    let (replicas, region) = fleet(3).await;
    for (n, replica) in replicas.iter().enumerate() {
        let words = format!(r#"{{"error":{{"message":"broken in way {n}"}}}}"#);
        replica.always(Script::json(500, &words));
    }
    let answer = call(region.listen, chat("hi")).await;
    assert_eq!((answer.status, answer.code().as_str()), (502, "retries_exhausted"));
    assert!(answer.text().contains("the engine answered 500"), "{}", answer.text());
    assert!(answer.text().contains("broken in way"), "{}", answer.text());
    let status = region.settled().await;
    assert_eq!((status.replicas.iter().map(|r| r.failed).sum::<u64>(), sent(&replicas)), (1, 3));
}

// A 502 or 504 comes from a proxy in front of the engine, so two of them mean two broken replicas.
#[tokio::test(start_paused = true)]
async fn failures_of_proxies() {
    let (replicas, region) = fleet(3).await;
    for replica in &replicas[..2] {
        replica.always(Script::answer(502, "", "bad gateway"));
    }
    for _ in 0..3 {
        let answer = call(region.listen, chat("hi")).await;
        assert_eq!((answer.status, answer.header("x-meridian-replica")), (200, "r2"));
    }
    assert!(region.settled().await.replicas[0].failed >= 1);
}

// A request during which an engine dies is retried on one more engine, and then no more: a body
// that kills engines does not kill a pool. The code says so, and at most one failure is counted.
#[tokio::test(start_paused = true)]
async fn a_body_that_kills() {
    for (what, death) in [
        ("closed", Script::default().wait(MS).close()),
        ("reset", Script::default().wait(MS).reset()),
        ("closed after the head", Script::sse().wait(MS).close()),
        ("reset after the head", Script::head(9).wait(MS).reset()),
    ] {
        let (replicas, region) = fleet(5).await;
        for replica in &replicas {
            replica.always(death.clone());
        }
        let answer = call(region.listen, chat("hi")).await;
        assert_eq!((answer.status, answer.code().as_str()), (502, "engine_died"), "{what}");
        assert_eq!(answer.header("retry-after"), "", "{what}: no retry is suggested");
        assert_eq!(sent(&replicas), 2, "{what}");
        let status = region.settled().await;
        assert_eq!((status.requests.failed, status.requests.accepted), (1, 1), "{what}");
        for replica in &replicas {
            replica.always(Script::json(200, "{}"));
        }
        // If the second engine survives, it answers.
        replicas[2].always(death);
        let before = replicas[2].count();
        for _ in 0..5 {
            assert_eq!(call(region.listen, chat("hi")).await.status, 200, "{what}");
        }
        assert!(replicas[2].count() > before, "{what}");
    }
}

// After a death the second engine is the last, whatever it answers. An engine that can't be reached
// has not received the request and does not count.
#[tokio::test(start_paused = true)]
async fn after_a_death() {
    let (replicas, region) = fleet(4).await;
    replicas[0].always(Script::default().wait(MS).close());
    replicas[1].stop().await;
    for replica in &replicas[2..] {
        replica.always(Script::default().send("SSH-2.0\r\n\r\n").close());
    }
    let answer = call(region.listen, chat("hi")).await;
    assert_eq!((answer.status, answer.code().as_str()), (502, "engine_died"));
    assert_eq!((replicas[0].count(), replicas[2].count(), replicas[3].count()), (1, 1, 0));
}

// One request counts at most one failure, however many replicas fail with it.
#[tokio::test(start_paused = true)]
async fn one_failure_a_request() {
    let (replicas, region) = fleet(3).await;
    for replica in &replicas {
        replica.always(Script::default().send("SSH-2.0\r\n\r\n").close());
    }
    for n in 0..4 {
        let answer = call(region.listen, chat("hi")).await;
        assert_eq!(answer.status, 502, "{n}: {}", answer.text());
    }
    assert_eq!(sent(&replicas), 12, "all three were tried each time");
    let status = region.settled().await;
    assert!(status.replicas.iter().all(|r| r.breaker == "closed"), "{:?}", status.replicas);
}

// Defect fallbacks-and-killers: a body that kills an engine here kills one more in another region,
// not two; and the region that sent it there learns of a death, so that it tries one more engine.
#[tokio::test(start_paused = true)]
async fn a_body_that_kills_in_two_regions() {
    let mut world = World::of(2).await;
    let more = Replica::start().await;
    world.configs[1].replicas.push(more.spec());
    let regions = world.start().await;
    let death = Script::default().wait(MS).close();
    for replica in world.replicas.iter().chain([&more]) {
        replica.always(death.clone());
    }
    let answer = call(regions[0].listen, chat("hi")).await;
    assert_eq!((answer.status, answer.code().as_str()), (502, "engine_died"));
    let (here, there) = (world.counts()[0], world.counts()[1].min(1) + more.count().min(1));
    // Twice the same engine, if the first time was on a kept connection.
    assert!((1..=2).contains(&here) && there == 1, "{here} here, {there} engines there");
}
