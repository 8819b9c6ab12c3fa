//! The control plane over sockets: its API, its watch, its leases. On each store; with the file in paused
//! time.

use std::time::Duration;

use crate::plane::{Plane, Watching};
use crate::stores;
use meridian_protocol::registry::Snapshot;
use serde_json::{Value, json};

fn replica(region: &str, port: u16) -> Value {
    json!({"region": region, "spec": {"url": format!("http://10.0.0.1:{port}")}})
}

fn announce(region: &str) -> Value {
    let gateway = json!({"region": region, "address": "http://10.0.0.2:8080", "version": "1"});
    json!({"gateway": gateway, "lease": "3s"})
}

/// An announcement with public addresses.
fn announce_at(public: &[&str]) -> Value {
    let mut announce = announce("eu");
    announce["gateway"]["public"] = json!(public);
    announce
}

/// The lease that a gateway is granted.
async fn announced(plane: &Plane, name: &str, region: &str) -> String {
    let (status, said) =
        plane.ask("POST", &format!("/admin/gateways/{name}"), announce(region)).await;
    assert_eq!(status, 201, "{said}");
    said["lease"].as_str().unwrap().to_owned()
}

// Replicas are added, drained, resumed, removed and deleted. The region of one gets a record at
// once, and lists show the result.
#[tokio::test]
async fn replicas_by_name() {
    let plane = stores::plane("").await;
    assert_eq!(plane.ask("PUT", "/admin/replicas/a?force=true", replica("eu", 1)).await.0, 201);
    let wanted = async || plane.get("/admin/replicas").await[0]["wanted"].clone();
    assert_eq!(wanted().await, "up");
    assert_eq!(plane.get("/admin/regions").await[0]["name"], "eu");
    for (method, path, then) in [
        ("POST", "/admin/replicas/a/drain", "draining"),
        ("POST", "/admin/replicas/a/undrain", "up"),
        ("DELETE", "/admin/replicas/a", "removed"),
    ] {
        assert_eq!(plane.ask(method, path, Value::Null).await.0, 200, "{path}");
        assert_eq!(wanted().await, then);
    }
    assert_eq!(plane.ask("DELETE", "/admin/replicas/a?forget=true", Value::Null).await.0, 200);
    assert_eq!(plane.get("/admin/replicas").await, json!([]));
    assert_eq!(plane.ask("DELETE", "/admin/regions/eu", Value::Null).await.0, 200);
    assert_eq!(plane.get("/admin/regions").await, json!([]));
}

// A region's record is stored as a whole, its policy can be changed alone, and a change against an
// older revision is refused.
#[tokio::test]
async fn regions_and_their_policies() {
    let plane = stores::plane("").await;
    let eu = json!({"rtt_ms": {"us": 92.0}, "adopters": ["us"], "policy": "p2c"});
    let (_, said) = plane.ask("PUT", "/admin/regions/eu?force=true", eu).await;
    let first = said["revision"].as_u64().unwrap();
    let chwbl = json!({"name": "chwbl", "load_factor": 1.5});
    let (status, said) = plane.ask("PUT", "/admin/regions/eu/policy", chwbl.clone()).await;
    assert_eq!(status, 200, "{said}");
    let late = plane.ask("PUT", &format!("/admin/regions/eu?at={first}"), json!({})).await;
    assert_eq!((late.0, &late.1["error"]["code"]), (409, &json!("changed")));
    let region = &plane.get("/admin/regions").await[0];
    assert_eq!((&region["policy"], &region["rtt_ms"]["us"]), (&chwbl, &json!(92.0)));
    plane.ask("DELETE", "/admin/regions/eu/policy", Value::Null).await;
    assert_eq!(plane.get("/admin/regions").await[0]["policy"], Value::Null);
    plane.ask("POST", "/admin/regions/eu/drain", Value::Null).await;
    assert_eq!(plane.get("/admin/status").await["regions"]["eu"]["wanted"], "draining");
}

// Every invalid input is refused with the field, the value and the remedy, and changes nothing.
#[tokio::test]
async fn bad_input_is_reported() {
    let plane = stores::plane("").await;
    plane.ask("PUT", "/admin/replicas/a?force=true", replica("eu", 1)).await;
    let before = plane.snapshot().await;
    let spec = |spec: Value| json!({"region": "eu", "spec": spec});
    let cases = [
        ("PUT", "/admin/replicas/B%20", replica("eu", 2), 400, "is not a name; use 1 to 63"),
        ("PUT", "/admin/replicas/b", replica("E U", 2), 400, "region \"E U\" is not a name"),
        ("PUT", "/admin/replicas/a", replica("eu", 2), 409, "replica `a` exists already"),
        ("PUT", "/admin/replicas/b", replica("eu", 1), 400, "the address of replica `a`"),
        ("PUT", "/admin/replicas/b", spec(json!({"url": "10.0.0.1"})), 400, "has no scheme; write"),
        (
            "PUT",
            "/admin/replicas/b",
            spec(json!({"url": "http://b:1", "weight": 0})),
            400,
            "weight: 0",
        ),
        ("PUT", "/admin/replicas/b", json!({"regoin": "eu"}), 400, "regoin"),
        ("PUT", "/admin/replicas/b", json!(7), 400, "send {\"region\""),
        ("POST", "/admin/replicas/c/drain", Value::Null, 404, "there is no replica `c`; list"),
        ("DELETE", "/admin/replicas/a?forget=true", Value::Null, 409, "remove it first"),
        ("DELETE", "/admin/regions/eu", Value::Null, 409, "has replicas or gateways"),
        ("PUT", "/admin/regions/eu", json!({"rtt_ms": {"us": -1.0}}), 400, "rtt_ms.us: -1"),
        ("PUT", "/admin/regions/eu", json!({"adopters": ["U"]}), 400, "\"U\" is not a name"),
        ("PUT", "/admin/regions/ap_south", json!({}), 400, "\"ap_south\" is not a name"),
        ("PUT", "/admin/replicas/b?force=true", replica("ap_south", 2), 400, "\"ap_south\" is no"),
        ("POST", "/admin/regions/eu./drain?force=true", Value::Null, 400, "\"eu.\" is not a name"),
        ("POST", "/admin/gateways/g", announce("1eu"), 400, "region \"1eu\" is not a name"),
        ("PUT", "/admin/regions/eu?at=x", json!({}), 400, "at: `x` is not a number"),
        ("PUT", "/admin/regions/eu/policy", json!("fastest"), 400, "`fastest` is unknown"),
        ("PUT", "/admin/regions/eu/policy", json!({"name": "p2c", "q": 1}), 400, "policy.q: "),
        ("PUT", "/admin/regions/us/policy", json!("p2c"), 404, "there is no region `us`"),
        ("POST", "/admin/gateways/g", json!({}), 400, "missing field"),
        ("POST", "/admin/gateways/g", announce_at(&["0.0.0.0"]), 400, "gateway.public[0]: 0.0.0.0"),
        ("PUT", "/admin/gateways/g", json!({"lease": "?"}), 400, "lease: `?` is not a lease"),
        ("PUT", "/admin/gateways/g", json!({"lease": "ff"}), 410, "request a new one"),
        ("DELETE", "/admin/gateways/g?lease=ff", Value::Null, 410, "request a new one"),
        ("PATCH", "/admin/replicas/a", Value::Null, 404, "served here: GET"),
    ];
    for (method, path, body, status, part) in cases {
        let (got, said) = plane.ask(method, path, body).await;
        let message = said["error"]["message"].as_str().unwrap_or_default();
        assert_eq!(got, status, "{method} {path}: {said}");
        assert!(message.contains(part), "{method} {path}: {part:?} is not in {message:?}");
    }
    assert_eq!(plane.snapshot().await, before);
}

// A watch from a revision that the store does not have is refused, and an unknown path.
#[tokio::test]
async fn bad_watches_are_reported() {
    let plane = stores::plane("").await;
    for (path, status) in [
        ("/admin/watch?from=x", 400),
        ("/admin/watch?from=99", 409),
        ("/admin/watch?from=1&store=another", 409),
        ("/nothing", 404),
    ] {
        assert_eq!(plane.ask("GET", path, Value::Null).await.0, status, "{path}");
    }
}

// Defect control-token: if a token is configured, a client without it can neither change nor read
// anything: no record, no watch, no metric. Health checks need none.
#[tokio::test]
async fn a_token_guards_everything_but_health() {
    let plane = stores::plane("token: 0123456789abcdef\n").await;
    let add = async |token: Option<&str>| {
        plane.with("PUT", "/admin/replicas/a?force=true", replica("eu", 1), token).await.0
    };
    assert_eq!(add(None).await, 401);
    assert_eq!(add(Some("0123456789abcdeg")).await, 401);
    assert_eq!(add(Some("0123456789abcde")).await, 401);
    assert_eq!(add(Some("0123456789abcdef")).await, 201);
    for path in [
        "/metrics",
        "/admin/status",
        "/admin/intervals",
        "/admin/registry",
        "/admin/names",
        "/admin/route53",
        "/admin/export",
        "/admin/watch",
        "/admin/regions",
        "/admin/gateways",
        "/admin/replicas",
        "/admin/anything",
    ] {
        let get = async |token| plane.with("GET", path, Value::Null, token).await.0;
        assert_eq!((get(None).await, get(Some("0123456789abcdeg")).await), (401, 401), "{path}");
        if path == "/admin/registry" {
            assert_eq!(get(Some("0123456789abcdef")).await, 200);
        }
    }
    assert_eq!(plane.with("GET", "/health", Value::Null, None).await.0, 200);
}

// A follower that starts from a snapshot ends up with the current state. After a broken connection
// it first gets the missed changes, each once; a browser resumes with the last event's id.
#[tokio::test]
async fn a_watch_goes_on_after_a_break() {
    let plane = stores::plane("").await;
    let mut held = plane.snapshot().await;
    let mut watch = Watching::begin(&plane, &held, None).await;
    plane.ask("PUT", "/admin/replicas/a?force=true", replica("eu", 1)).await;
    let lease = announced(&plane, "eu-1", "eu").await;
    watch.until(&mut held, |s| s.gateways.len() == 1).await;
    assert_eq!(held, plane.snapshot().await);

    drop(watch);
    plane.ask("PUT", "/admin/replicas/b?force=true", replica("eu", 2)).await;
    plane.ask("DELETE", "/admin/replicas/a", Value::Null).await;
    plane.ask("DELETE", &format!("/admin/gateways/eu-1?lease={lease}"), Value::Null).await;
    let last = held.revision.to_string();
    for id in [None, Some(last.as_str())] {
        let mut again = held.clone();
        let mut watch = Watching::begin(&plane, &again, id).await;
        let updates = watch.until(&mut again, |s| s.gateways.is_empty()).await;
        // The gateway's record says that it leaves, and is gone then.
        assert_eq!((updates, again), (4, plane.snapshot().await));
    }
}

// Defect small-overflows: a follower that names the largest number as its last event has to read
// the registry again, as one that names any other revision to come.
#[tokio::test]
async fn a_revision_to_come_is_refused() {
    let plane = stores::plane("").await;
    for last in ["18446744073709551615", "18446744073709551614", "99999"] {
        let headers = [("host", "localhost"), ("last-event-id", last)];
        assert_eq!(plane.raw("GET", "/admin/watch", "", &headers).await.0, 409, "{last}");
    }
}

// While nothing changes, a follower gets a beat every second.
#[tokio::test]
async fn silence_has_beats() {
    let plane = stores::plane("").await;
    let held = plane.snapshot().await;
    let mut watch = Watching::begin(&plane, &held, None).await;
    let start = tokio::time::Instant::now();
    for _ in 0..5 {
        assert_eq!(watch.event().await.0, "beat");
    }
    stores::took(start, 4..=6);
}

// A gateway that renews stays alive. One that is silent for its lease is gone; every follower is
// notified, and its name is free again. One that deregisters is gone at once.
#[tokio::test]
async fn leases_run_out() {
    let plane = stores::plane("").await;
    let lease = announced(&plane, "eu-1", "eu").await;
    let (status, said) = plane.ask("POST", "/admin/gateways/eu-1", announce("eu")).await;
    assert_eq!((status, &said["error"]["code"]), (409, &json!("name_taken")));
    let up = json!({"state": "up"});
    let report = json!({"lease": lease, "replicas": {"a": {"seen": up}}, "rtt_ms": {"us": 92.0}});
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(plane.ask("PUT", "/admin/gateways/eu-1", report.clone()).await.0, 200);
    }
    let mut held = plane.snapshot().await;
    assert_eq!(held.gateways["eu-1"].rtt_ms["us"], 92.0);
    let mut watch = Watching::begin(&plane, &held, None).await;
    let start = tokio::time::Instant::now();
    watch.until(&mut held, |s| s.gateways.is_empty()).await;
    stores::took(start, 2..=5);
    let (status, _) = plane.ask("PUT", "/admin/gateways/eu-1", report).await;
    assert_eq!(status, 410);

    let lease = announced(&plane, "eu-1", "eu").await;
    let leave = format!("/admin/gateways/eu-1?lease={lease}");
    assert_eq!(plane.ask("DELETE", &leave, Value::Null).await.0, 200);
    assert_eq!(plane.snapshot().await.gateways.len(), 0);
}

// Gateways' observations of replicas are in the list under their names while the gateways are
// alive; their reports yield the metric for autoscalers.
#[tokio::test]
async fn reports_become_lists_and_metrics() {
    let plane = stores::plane("target: 0.5\n").await;
    plane.ask("PUT", "/admin/replicas/a?force=true", replica("eu", 1)).await;
    let lease = announced(&plane, "eu-1", "eu").await;
    let load = json!({"seen": {"state": "up"}, "utilisation": 0.75, "running": 6, "pending": 2});
    let report = json!({"lease": lease, "held": 2, "replicas": {"a": load}});
    assert_eq!(plane.ask("PUT", "/admin/gateways/eu-1", report).await.0, 200);
    assert_eq!(plane.get("/admin/replicas").await[0]["seen"]["eu-1"]["state"], "up");
    // 0.75 + (2 + 2) / (6 / 0.75) = 1.25, at half use 2.5 replicas.
    let page = plane.text("/metrics").await;
    for line in [
        "meridian_region_replicas_needed{region=\"eu\"} 3",
        "meridian_region_work{region=\"eu\"} 1.25",
        "meridian_region_replicas_up{region=\"eu\"} 1",
        "meridian_region_gateways{region=\"eu\"} 1",
        "meridian_region_held{region=\"eu\"} 2",
    ] {
        assert!(page.contains(line), "{line} is not in\n{page}");
    }
    let is_unseen = async || plane.get("/admin/replicas").await[0]["seen"] == json!({});
    stores::until(is_unseen).await;
    let page = plane.text("/metrics").await;
    assert!(!page.contains("replicas_needed{"), "no gateway reports eu any more:\n{page}");
}

// After a restart with its file, a control plane has all acknowledged changes and the same name.
// Gateways get a whole lease to come back, and a follower resumes where it was.
#[tokio::test]
async fn a_restart_keeps_everything() {
    let mut plane = stores::plane("").await;
    plane.ask("PUT", "/admin/replicas/a?force=true", replica("eu", 1)).await;
    let lease = announced(&plane, "eu-1", "eu").await;
    let mut held: Snapshot = plane.snapshot().await;
    plane.stop().await;
    plane.start_again().await;
    assert_eq!(plane.snapshot().await, held);
    let mut watch = Watching::begin(&plane, &held, None).await;
    assert_eq!(plane.ask("PUT", "/admin/gateways/eu-1", json!({"lease": lease})).await.0, 200);
    plane.ask("POST", "/admin/replicas/a/drain", Value::Null).await;
    assert_eq!(watch.until(&mut held, |s| s.replicas["a"].wanted.name() == "draining").await, 1);
}
