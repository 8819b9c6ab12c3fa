//! The page on the admin port: its files, who may open it, and its state.

use std::time::Duration;

use meridian_config::KeyHash;
use meridian_gateway::Given;
use meridian_protocol::admin::{Explanation, Level, Snapshot};

use crate::admin_browser::raw;
use crate::common::{Region, Replica, Script, call, chat, config, stream_chat};

const TOKEN: &str = "mk-0123456789abcdefghij";

async fn snapshot(region: &Region, path: &str) -> Snapshot {
    serde_json::from_slice(&region.admin("GET", path, "").await.body).unwrap()
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

// Without tokens the page opens at once. Its files have a type, a policy without inline code, and a
// hash: a browser that has a file gets a 304.
#[tokio::test(start_paused = true)]
async fn the_page_and_its_files() {
    let region = Region::of(&[&Replica::start().await]).await;
    for (path, kind) in
        [("/", "text/html"), ("/page/main.js", "text/javascript"), ("/page/base.css", "text/css")]
    {
        let answer = region.admin("GET", path, "").await;
        assert_eq!(answer.status, 200, "{path}");
        assert!(answer.header("content-type").starts_with(kind), "{path}");
        let policy = answer.header("content-security-policy");
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        let host = region.admin.to_string();
        let known = [("host", host.as_str()), ("if-none-match", answer.header("etag"))];
        let again = raw(&region, "GET", path, "", &known).await;
        assert_eq!((again.status, again.body.len()), (304, 0), "{path}");
    }
    assert_eq!(region.admin("GET", "/page/other.js", "").await.status, 404);
    assert_eq!(region.admin("POST", "/", "{}").await.status, 404);
    let wrong = region.admin("GET", "/admin/page?since=yesterday", "").await;
    assert_eq!((wrong.status, wrong.code().as_str()), (400, "invalid_parameter"));
}

// With tokens, a browser without a session goes to the login, and a program gets the usual refusal.
// Files are the same for everyone; the state is not.
#[tokio::test(start_paused = true)]
async fn the_page_needs_a_login() {
    let replica = Replica::start().await;
    let mut config = config(&[&replica]);
    config.admin_access.tokens = vec![KeyHash::of(TOKEN.as_bytes())];
    let region = Region::start(config).await;
    let host = region.admin.to_string();
    let host = ("host", host.as_str());
    let first = raw(&region, "GET", "/", "", &[host]).await;
    assert_eq!((first.status, first.header("location")), (303, "/login"));
    let wrong = [host, ("authorization", "Bearer mk-other-other-other-other")];
    assert_eq!(raw(&region, "GET", "/", "", &wrong).await.status, 401);
    assert_eq!(raw(&region, "GET", "/page/main.js", "", &[host]).await.status, 200);
    for path in ["/admin/page", "/admin/page/stream"] {
        assert_eq!(raw(&region, "GET", path, "", &[host]).await.code(), "no_token", "{path}");
        let foreign = [("host", "evil.example")];
        assert_eq!(raw(&region, "GET", path, "", &foreign).await.code(), "foreign_host", "{path}");
    }
    let body = format!(r#"{{"token":"{TOKEN}"}}"#);
    let json = ("content-type", "application/json");
    let session = raw(&region, "POST", "/login", &body, &[host, json]).await;
    let cookie = session.header("set-cookie").split(';').next().unwrap();
    let inside = [host, ("cookie", cookie)];
    assert_eq!(raw(&region, "GET", "/", "", &inside).await.status, 200);
    let again = raw(&region, "GET", "/login", "", &inside).await;
    assert_eq!((again.status, again.header("location")), (303, "/"), "it is inside already");
}

// The state has what the requests did: rates, latencies and tokens by interval, the decisions, and
// their comparison with the alternatives. A reload does not touch the history.
#[tokio::test(start_paused = true)]
async fn the_state_has_the_last_hour() {
    let (near, far) = (Replica::start().await, Replica::start().await);
    let given = Given::from(config(&[&near, &far]));
    let reload = given.reload.clone();
    let region = Region::start(given).await;
    region.until("both are up", |s| s.replicas.iter().all(|r| r.state == "up")).await;
    let events = [r#"data: {"choices":[{"delta":{"content":"a"}}]}"#, "data: [DONE]"];
    let events = events.map(|event| format!("{event}\n\n"));
    for replica in [&near, &far] {
        replica.always(Script::stream(
            &events.each_ref().map(String::as_str),
            Duration::from_millis(80),
        ));
    }
    for _ in 0..12 {
        let request = stream_chat("hi");
        assert_eq!(call(region.listen, request).await.status, 200);
        pass(2).await;
    }
    reload.notify_one();
    pass(6).await;
    let Snapshot { state, points } = snapshot(&region, "/admin/page").await;
    assert_eq!((state.health.level, state.health.problems.len()), (Level::Ok, 0));
    let sum: f32 = points.iter().map(|p| p.requests_per_s * p.seconds).sum();
    assert_eq!(sum.round(), 12.0, "{points:?}");
    assert!(points.len() >= 3 && points.windows(2).all(|w| w[0].at_s < w[1].at_s), "{points:?}");
    assert!(points.iter().any(|p| p.ttft_p50_ms.is_some()), "{points:?}");
    assert!(points.iter().all(|p| p.errors_per_s == 0.0), "{points:?}");
    let saved = state.saved;
    assert_eq!((saved.decided, saved.compared, saved.forwarded), (12, 12, 0));
    assert!(saved.region_local_ms <= saved.picked_ms + 1e-3, "the best is never later: {saved:?}");
    assert!(saved.region_local_ms <= saved.round_robin_ms + 1e-3, "{saved:?}");
    assert_eq!(state.decisions.len(), 12);
    let id = &state.decisions[0].id;
    let answer = region.admin("GET", &format!("/admin/explain/{id}"), "").await;
    let explanation: Explanation = serde_json::from_slice(&answer.body).unwrap();
    assert!(explanation.predicted_first_token_ms.is_some_and(|ms| ms > 0.0));
    let newest = points.last().unwrap().at_s;
    let later = snapshot(&region, &format!("/admin/page?since={newest}")).await;
    assert!(later.points.len() <= 2 && later.points[0].at_s >= newest, "{:?}", later.points);
}

// A replica that stops is a problem with its name; so are requests that fail.
#[tokio::test(start_paused = true)]
async fn a_dead_replica_is_named() {
    let (one, two) = (Replica::start().await, Replica::start().await);
    let region = Region::of(&[&one, &two]).await;
    region.until("both are up", |s| s.replicas.iter().all(|r| r.state == "up")).await;
    two.stop().await;
    region.until("one is down", |s| s.replicas.iter().any(|r| r.state == "down")).await;
    let health = snapshot(&region, "/admin/page").await.state.health;
    assert_eq!(health.level, Level::Degraded);
    assert!(
        health.problems.iter().any(|p| p.name == "r1" && p.text.contains(&two.url())),
        "{health:?}"
    );
    one.always(Script::json(500, "{}"));
    pass(30).await;
    assert!(call(region.listen, chat("hi")).await.status >= 500);
    pass(2).await;
    let health = snapshot(&region, "/admin/page").await.state.health;
    assert!(health.problems.iter().any(|p| p.kind == "requests"), "{health:?}");
    one.stop().await;
    region.until("none is up", |s| s.replicas.iter().all(|r| r.state == "down")).await;
    assert_eq!(snapshot(&region, "/admin/page").await.state.health.level, Level::Down);
}
