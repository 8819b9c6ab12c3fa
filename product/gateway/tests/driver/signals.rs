//! From the engines' metrics pages to the pick.

use std::time::Duration;

use tokio::time::Instant;

use crate::common::{Region, Replica, Script, call, chat, eventually, open};

const MS: Duration = Duration::from_millis(1);

async fn picked(region: &Region) -> String {
    let answer = call(region.listen, chat("hi")).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.header("x-meridian-replica").to_owned()
}

// When an engine's page reports that it has become busy, the next pick after one probe interval is
// the other one; when the loads swap, so do the picks.
#[tokio::test(start_paused = true)]
async fn picks_follow_pending() {
    let (a, b) = (Replica::start().await, Replica::start().await);
    let region = Region::with(&[&a, &b], |c| c.policy.name = "least_outstanding".into()).await;
    for (loads, at) in [((30, 0), "r1"), ((0, 30), "r0"), ((30, 0), "r1")] {
        a.load(loads.0, loads.0, 0.1);
        b.load(loads.1, loads.1, 0.1);
        // Four reports that agree are needed before foreign load is believed.
        for _ in 0..10 {
            picked(&region).await;
            tokio::time::sleep(100 * MS).await;
        }
        for _ in 0..3 {
            assert_eq!(picked(&region).await, at, "{loads:?}");
        }
    }
}

// Admission by pending: one probe interval after an engine reports a queue it gets no more
// requests, and one interval after the queue is gone it does.
#[tokio::test(start_paused = true)]
async fn admission_follows_pending() {
    let (a, b) = (Replica::start().await, Replica::start().await);
    let region = Region::with(&[&a, &b], |c| {
        c.admission = Some(meridian_config::AdmissionMode::Pending);
    })
    .await;
    // Traffic keeps the probes at their busy interval.
    for (pending, expected) in
        [(3, vec!["r1"; 4]), (0, vec!["r0", "r1", "r0", "r1"]), (9, vec!["r1"; 4])]
    {
        picked(&region).await;
        a.load(pending, 0, 0.0);
        tokio::time::sleep(120 * MS).await;
        let mut picks = Vec::new();
        for _ in 0..4 {
            picks.push(picked(&region).await);
        }
        if pending == 0 {
            picks.sort();
            assert_eq!(picks, ["r0", "r0", "r1", "r1"]);
        } else {
            assert_eq!(picks, expected, "pending {pending}");
        }
    }
    let row = region.status().await.replicas[0].clone();
    assert_eq!(row.pending, 9);
}

// A full KV cache keeps prompts away in the same way, and the status page shows it.
#[tokio::test(start_paused = true)]
async fn admission_follows_kv() {
    let (a, b) = (Replica::start().await, Replica::start().await);
    let region = Region::with(&[&a, &b], |c| {
        c.admission = Some(meridian_config::AdmissionMode::PendingKv);
    })
    .await;
    // An empty replica always has capacity, so each has one running request.
    let long = Script::unfinished().wait(20_000 * MS).send("}");
    a.then(long.clone());
    b.then(long);
    let mut running = [open(region.listen, chat("a")).await, open(region.listen, chat("b")).await];
    for one in &mut running {
        one.read_to("{").await;
    }
    a.load(0, 1, 1.0);
    b.load(0, 1, 0.2);
    tokio::time::sleep(120 * MS).await;
    for _ in 0..4 {
        assert_eq!(picked(&region).await, "r1");
    }
    assert!((region.status().await.replicas[0].kv_used - 1.0).abs() < 1e-6);
    a.load(0, 1, 0.2);
    b.load(0, 1, 1.0);
    tokio::time::sleep(120 * MS).await;
    for _ in 0..4 {
        assert_eq!(picked(&region).await, "r0");
    }
}

// Queued requests are sent when a probe reports free capacity, without any other event.
#[tokio::test(start_paused = true)]
async fn news_releases_the_held() {
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], |c| {
        c.admission = Some(meridian_config::AdmissionMode::Pending);
    })
    .await;
    replica.load(5, 5, 0.5);
    region.until("the queue is seen", |s| s.replicas[0].pending == 5).await;
    let listen = region.listen;
    let held = tokio::spawn(async move { call(listen, chat("hi")).await.status });
    region.until("it is held", |s| s.held == 1).await;
    // The next probe finds the request queued, and from then on probes use the busy interval.
    tokio::time::sleep(1200 * MS).await;
    assert_eq!((region.status().await.held, replica.count()), (1, 0));
    replica.load(0, 5, 0.5);
    let began = Instant::now();
    assert_eq!(held.await.unwrap(), 200);
    assert!(began.elapsed() <= 150 * MS, "{:?}", began.elapsed());
}

// A replica that stops answering its probes is down after down_after misses and gets no requests;
// it is up again when it answers again.
#[tokio::test(start_paused = true)]
async fn down_and_up() {
    let (a, b) = (Replica::start().await, Replica::start().await);
    let region = Region::with(&[&a, &b], |c| {
        c.probe.down_after = 3;
        c.timeouts.probe = meridian_protocol::units::Span::millis(200);
    })
    .await;
    a.answers_probes(false);
    let began = Instant::now();
    let asked = a.probes();
    region.until("it is down", |s| s.replicas[0].state == "down").await;
    // An idle replica is probed each second, and from its first miss on every 100 ms.
    assert!(began.elapsed() >= 600 * MS && began.elapsed() < 2500 * MS, "{:?}", began.elapsed());
    assert!(a.probes() - asked >= 3);
    for _ in 0..4 {
        assert_eq!(picked(&region).await, "r1");
    }
    a.answers_probes(true);
    let began = Instant::now();
    region.until("it is up", |s| s.replicas[0].state == "up").await;
    assert!(began.elapsed() < 1500 * MS, "{:?}", began.elapsed());
    let picks = [picked(&region).await, picked(&region).await];
    assert!(picks.contains(&"r0".to_owned()), "{picks:?}");
}

// Idle replicas are probed rarely, busy ones often.
#[tokio::test(start_paused = true)]
async fn pace() {
    let (a, b) = (Replica::start().await, Replica::start().await);
    let region = Region::of(&[&a, &b]).await;
    let probes = || a.probes() - a.lists();
    tokio::time::sleep(5000 * MS).await;
    let before = probes();
    tokio::time::sleep(10_000 * MS).await;
    let idle = probes() - before;
    // Its load page and its health check.
    assert!((18..=22).contains(&idle), "{idle} requests in 10 idle seconds");
    a.then(Script::unfinished().wait(10_000 * MS).send("}"));
    b.then(Script::unfinished().wait(10_000 * MS).send("}"));
    a.load(0, 1, 0.0);
    b.load(0, 1, 0.0);
    let before = probes();
    let both = [open(region.listen, chat("1")).await, open(region.listen, chat("2")).await];
    tokio::time::sleep(5000 * MS).await;
    let busy = probes() - before;
    assert!((40..=60).contains(&busy), "{busy} probes in 5 busy seconds");
    drop(both);
    region.settled().await;
}

// A replica that is still loading joins when it answers, and no request waits for it.
#[tokio::test(start_paused = true)]
async fn late_replicas_join() {
    let replica = Replica::start().await;
    replica.answers_probes(false);
    let region = Region::start(crate::common::config(&[&replica])).await;
    let answer = call(region.listen, chat("hi")).await;
    assert_eq!((answer.status, answer.code().as_str()), (503, "no_replica"));
    assert!(!answer.header("retry-after").is_empty());
    tokio::time::sleep(10_000 * MS).await;
    replica.answers_probes(true);
    eventually("it serves", async || {
        (call(region.listen, chat("hi")).await.status == 200).then_some(())
    })
    .await;
    let row = region.status().await.replicas[0].clone();
    assert_eq!((row.engine.as_str(), row.models.as_slice()), ("vllm", &["m".to_owned()][..]));
}

// A load report in an answer's header counts for the replica that sent it, and not for another one
// that has its id by the time the answer comes.
#[tokio::test(start_paused = true)]
async fn a_late_report_of_a_replica_that_left() {
    let (a, b) = (Replica::start().await, Replica::start().await);
    let region = Region::of(&[&a]).await;
    let head = "HTTP/1.1 200 OK\r\nendpoint-load-metrics: TEXT named_metrics.num_requests_waiting=30, named_metrics.kv_cache_usage_perc=0.9\r\ncontent-length: 2\r\n\r\n{}";
    a.then(Script::default().wait(5000 * MS).send(head));
    let listen = region.listen;
    let running = tokio::spawn(async move { call(listen, chat("hi")).await.status });
    region.until("it runs", |s| s.replicas[0].outstanding == 1).await;
    assert_eq!(region.admin("DELETE", "/admin/replicas/r0", "").await.status, 200);
    let body = format!(r#"{{"url":"{}"}}"#, b.url());
    assert_eq!(region.admin("POST", "/admin/replicas", &body).await.status, 201);
    region.until("it has the id and serves", |s| s.replicas[0].models == ["m"]).await;
    assert_eq!(running.await.unwrap(), 200);
    assert_eq!(region.status().await.replicas[0].pending, 0);
}
