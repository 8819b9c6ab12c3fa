//! Replicas as users see them: names that are never reused, the description, and why a replica does
//! not answer.

use std::time::Duration;

use meridian_protocol::admin::AddReplica;

use crate::common::{Region, Replica, Script, call, chat, eventually, get};

const MS: Duration = Duration::from_millis(1);

async fn add(region: &Region, replica: &Replica) -> serde_json::Value {
    let body = format!(r#"{{"url":"{}"}}"#, replica.url());
    let answer = region.admin("POST", "/admin/replicas", &body).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    region.until("all are up", |s| s.replicas.iter().all(|r| r.state == "up")).await;
    answer.json()
}

// A replica that joins after another has left has a new name, in the answer's header, the status
// page and the metrics; the old name removes no replica.
#[tokio::test(start_paused = true)]
async fn names_are_not_given_again() {
    let (a, b) = (Replica::start().await, Replica::start().await);
    let region = Region::of(&[&a]).await;
    assert_eq!(call(region.listen, chat("hi")).await.header("x-meridian-replica"), "r0");
    assert_eq!(region.admin("DELETE", "/admin/replicas/r0", "").await.status, 200);
    assert_eq!(add(&region, &b).await["name"], "r0.2");
    assert_eq!(call(region.listen, chat("hi")).await.header("x-meridian-replica"), "r0.2");
    let metrics = get(region.admin, "/metrics").await;
    let info = format!(
        "meridian_replica_info{{replica=\"r0.2\",url=\"{}\",engine=\"vllm\",model=\"m\",region=\"local\",role=\"both\"}} 1",
        b.url()
    );
    assert!(metrics.text().contains(&info), "{}", metrics.text());
    assert!(metrics.text().contains("meridian_replica_up{replica=\"r0.2\"} 1"));
    assert!(!metrics.text().contains("replica=\"r0\""), "it left");
    let gone = region.admin("DELETE", "/admin/replicas/r0", "").await;
    assert_eq!((gone.status, gone.code().as_str()), (404, "unknown_replica"));
    assert_eq!(region.admin("DELETE", "/admin/replicas/r0.2", "").await.status, 200);
}

// Defect replica-names: a replica's given name is in the answer's header, on the status page, in the metrics and in
// explanations, and a second replica with it is refused.
#[tokio::test(start_paused = true)]
async fn given_names_are_everywhere() {
    let (a, b) = (Replica::start().await, Replica::start().await);
    let mut config = crate::common::config(&[&a]);
    config.replicas[0].name = Some("eu-gpu-1".to_owned());
    let region = Region::start(config).await;
    region.until("it is up", |s| s.replicas.iter().all(|r| r.state == "up")).await;
    assert_eq!(call(region.listen, chat("hi")).await.header("x-meridian-replica"), "eu-gpu-1");
    assert_eq!(region.status().await.replicas[0].name, "eu-gpu-1");
    let metrics = get(region.admin, "/metrics").await;
    let metrics = metrics.text();
    assert!(metrics.contains("meridian_replica_up{replica=\"eu-gpu-1\"} 1"), "{metrics}");
    assert!(!metrics.contains("replica=\"r0\""), "{metrics}");
    let decisions = region.admin("GET", "/admin/decisions", "").await.json();
    assert_eq!(decisions[0]["name"], "eu-gpu-1", "{decisions}");
    let id = decisions[0]["id"].as_str().unwrap();
    let explained = region.admin("GET", &format!("/admin/explain/{id}"), "").await.json();
    assert_eq!(explained["candidates"][0]["name"], "eu-gpu-1", "{explained}");
    let body = format!(r#"{{"url":"{}","name":"eu-gpu-1"}}"#, b.url());
    let twin = region.admin("POST", "/admin/replicas", &body).await;
    assert_eq!(twin.status, 400);
    assert!(twin.text().contains("name: `eu-gpu-1` is the name of http://"), "{}", twin.text());
    let added = region.admin("POST", "/admin/replicas", &body.replace("-1", "-2")).await;
    assert_eq!((added.status, added.json()["name"].as_str()), (201, Some("eu-gpu-2")));
    assert_eq!(region.admin("DELETE", "/admin/replicas/eu-gpu-2", "").await.status, 200);
}

/// The status page's reason why a replica does not join.
async fn trouble(url: &str, is: impl Fn(&str) -> bool) -> String {
    let mut config = crate::common::config(&[]);
    config.replicas = vec![AddReplica::at(url)];
    config.timeouts.probe = meridian_protocol::units::Span::millis(500);
    let region = Region::start(config).await;
    eventually("it says why", async || {
        let said = region.status().await.replicas[0].trouble.clone()?;
        assert_eq!(call(region.listen, chat("hi")).await.status, 503);
        Some(said).filter(|said| is(said))
    })
    .await
}

// The status page says why a replica does not join: the actual cause, and not that its list is
// missing.
#[tokio::test(start_paused = true)]
async fn why_a_replica_does_not_join() {
    let gone = Replica::start().await;
    gone.stop().await;
    trouble(&gone.url(), |said| {
        said.starts_with("GET /v1/models: cannot connect: Connection refused")
    })
    .await;
    for (script, says) in [
        (Script::silence(), "GET /v1/models: no answer within 500 ms"),
        (Script::default().reset(), "GET /v1/models: "),
        (
            Script::answer(401, "", ""),
            "GET /v1/models: 401 Unauthorized; the replica needs a key: set engine_key",
        ),
        (Script::answer(404, "", ""), "GET /v1/models: 404 Not Found; list the replica's `models`"),
        (Script::answer(500, "", ""), "GET /v1/models: 500"),
        (
            Script::answer(302, "location: /x\r\n", ""),
            "GET /v1/models: 302 Found; the gateway does not follow redirects",
        ),
        (Script::answer(200, "", "<html>"), "GET /v1/models: "),
        (
            Script::default().send("\u{15}\u{3}\u{3}\u{0}\u{2}\u{2}\u{28}").close(),
            "write https:// in `url` if the port has TLS",
        ),
    ] {
        let replica = Replica::start().await;
        replica.page("/v1/models", script);
        trouble(&replica.url(), |said| said.contains(says)).await;
    }
}

// Trouble is temporary: a replica that was loading joins, and the page no longer mentions it.
#[tokio::test(start_paused = true)]
async fn trouble_passes() {
    let replica = Replica::start().await;
    replica.page("/v1/models", Script::answer(503, "", ""));
    let region = Region::start(crate::common::config(&[&replica])).await;
    region.until("it says why", |s| s.replicas[0].trouble.is_some()).await;
    replica.good_page("/v1/models");
    region.until("it is up", |s| s.replicas[0].state == "up").await;
    tokio::time::sleep(1000 * MS).await;
    assert_eq!(region.status().await.replicas[0].trouble, None);
}

// The error of a request that was queued too long gives the reason: full replicas, or replicas that
// are down, failing or draining, with the code for each.
#[tokio::test(start_paused = true)]
async fn why_no_replica_took_it() {
    let (a, b) = (Replica::start().await, Replica::start().await);
    let region = Region::with(&[&a, &b], |c| {
        c.admission = Some(meridian_config::AdmissionMode::Pending);
        c.timeouts.probe = meridian_protocol::units::Span::millis(200);
        c.held.max_wait = meridian_protocol::units::Span::secs(2);
    })
    .await;
    let refused = async |code: &str, says: &[&str]| {
        let answer = call(region.listen, chat("hi")).await;
        assert_eq!((answer.status, answer.code().as_str()), (503, code), "{}", answer.text());
        assert!(!answer.header("retry-after").is_empty());
        assert!(says.iter().all(|said| answer.text().contains(said)), "{}", answer.text());
    };
    a.load(9, 9, 0.5);
    b.load(9, 9, 0.5);
    region.until("both are full", |s| s.replicas.iter().all(|r| r.pending == 9)).await;
    refused("held_too_long", &["2 full", "add replicas"]).await;
    a.answers_probes(false);
    region.until("one is down", |s| s.replicas[0].state == "down").await;
    refused("held_too_long", &["1 full", "1 down (no answer to probes)"]).await;
    assert_eq!(region.admin("DELETE", "/admin/replicas/r1?drain=true", "").await.status, 202);
    region.until("it left", |s| s.replicas.len() == 1).await;
    refused("replicas_unavailable", &["down (no answer to probes)", "/admin/status"]).await;
}
