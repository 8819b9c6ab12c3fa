//! Several control planes on one etcd.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::etcd::Cluster;
use crate::plane::{Plane, Watching};
use crate::stores::until;

fn replica(port: u16) -> Value {
    json!({"region": "eu", "spec": {"url": format!("http://10.0.0.1:{port}")}})
}

async fn announced(plane: &Plane, name: &str) -> String {
    let gateway = json!({"region": "eu", "address": "http://10.0.0.2:8080", "version": "1"});
    let body = json!({"gateway": gateway, "lease": "3s"});
    let (status, said) = plane.ask("POST", &format!("/admin/gateways/{name}"), body).await;
    assert_eq!(status, 201, "{said}");
    said["lease"].as_str().unwrap().to_owned()
}

async fn leader(plane: &Plane) -> String {
    let found = async || plane.get("/admin/status").await["leader"].is_string();
    until(found).await;
    plane.get("/admin/status").await["leader"].as_str().unwrap().to_owned()
}

// What one control plane writes all of them show, with the same revisions and under the same name. A
// gateway moves from one to another with its lease, a follower with its revision. Reports to one count
// at all. One leads; if it ends, another one does.
#[tokio::test]
async fn several_control_planes_are_one() {
    let cluster = Cluster::start(3, &[]);
    let mut planes = Vec::new();
    for _ in 0..3 {
        planes.push(Plane::on(&cluster.section(), "").await);
    }
    let held = planes[0].snapshot().await;
    assert_eq!(planes[0].ask("PUT", "/admin/replicas/a?force=true", replica(1)).await.0, 201);
    let lease = announced(&planes[1], "eu-1").await;
    for plane in &planes {
        let now = plane.snapshot().await;
        assert_eq!((now.replicas.len(), now.gateways.len()), (1, 1));
        assert_eq!(now, planes[0].snapshot().await);
        let mut follower = held.clone();
        let mut watch = Watching::begin(plane, &follower, None).await;
        watch.until(&mut follower, |s| s.gateways.len() == 1 && s.replicas.len() == 1).await;
    }
    let load = json!({"seen": {"state": "up"}, "utilisation": 0.7, "running": 7, "pending": 0});
    let report = |replicas: Value| json!({"lease": lease, "held": 0, "replicas": replicas});
    let renewed = planes[2].ask("PUT", "/admin/gateways/eu-1", report(json!({"a": load}))).await;
    assert_eq!(renewed.0, 200, "{}", renewed.1);
    for plane in &planes {
        let up = async || plane.get("/admin/status").await["regions"]["eu"]["up"] == json!(1);
        until(up).await;
        assert_eq!(plane.get("/admin/status").await["regions"]["eu"]["needed"], json!(1));
    }
    // A third one hears that the replica is gone, though another one stored it.
    let renewed = planes[0].ask("PUT", "/admin/gateways/eu-1", report(json!({}))).await;
    assert_eq!(renewed.0, 200, "{}", renewed.1);
    let unseen = async || planes[1].get("/admin/replicas").await[0]["seen"] == json!({});
    until(unseen).await;
    let left = format!("/admin/gateways/eu-1?lease={lease}");
    assert_eq!(planes[1].ask("DELETE", &left, Value::Null).await.0, 200);
    for plane in &planes {
        let cause = async || {
            let all = plane.get("/admin/intervals").await;
            all["gateways"][0]["intervals"]
                .as_array()
                .and_then(|i| i.last().cloned())
                .is_some_and(|last| last["cause"] == "left")
        };
        until(cause).await;
    }
    let first = leader(&planes[0]).await;
    assert_eq!(
        (first.clone(), first.clone()),
        (leader(&planes[1]).await, leader(&planes[2]).await)
    );
    let at =
        planes.iter().position(|plane| first.ends_with(plane.url().trim_start_matches("http://")));
    planes.remove(at.expect("the leader is named after its address")).stop().await;
    for plane in &planes {
        until(async || leader(plane).await != first).await;
    }
}

// A store that is restored from a snapshot has another name: followers have to read it again, and
// so miss no change that has the number of an earlier one.
#[tokio::test]
async fn a_restored_store_has_another_name() {
    let mut cluster = Cluster::start(1, &[]);
    let plane = Plane::on(&cluster.section(), "").await;
    plane.ask("PUT", "/admin/replicas/a?force=true", replica(1)).await;
    let snapshot = cluster.dir().join("snapshot.db").display().to_string();
    cluster.ctl_all(&["snapshot", "save", &snapshot]).unwrap();
    for port in 2..20 {
        let path = format!("/admin/replicas/r{port}?force=true");
        assert_eq!(plane.ask("PUT", &path, replica(port)).await.0, 201);
    }
    let held = plane.snapshot().await;
    let mut watch = Watching::begin(&plane, &held, None).await;
    // It has seen the newest revision.
    sleep(Duration::from_secs(2)).await;
    cluster.kill(0);
    cluster.restore(&snapshot);
    cluster.restart(0);
    cluster.whole();
    until(async || plane.ask("GET", "/admin/registry", Value::Null).await.0 == 200).await;
    until(async || plane.snapshot().await.store != held.store).await;
    let now = plane.snapshot().await;
    assert_eq!(now.replicas.len(), 1, "the snapshot is older");
    assert!(now.revision < held.revision);
    // The old watch has ended, and cannot be resumed.
    while watch.event_or_end().await.is_some() {}
    let path = format!("/admin/watch?from={}&store={}", held.revision + 1, held.store);
    let (status, said) = plane.ask("GET", &path, Value::Null).await;
    assert_eq!((status, &said["error"]["code"]), (409, &json!("other_store")));
}

// While etcd is lost a control plane answers 503 and ends its watches; afterwards it goes on, and
// starts of further control planes wait for it.
#[tokio::test]
async fn a_control_plane_outlives_its_store() {
    let mut cluster = Cluster::start(1, &[]);
    let plane = Plane::on(&cluster.section(), "").await;
    plane.ask("PUT", "/admin/replicas/a?force=true", replica(1)).await;
    let held = plane.snapshot().await;
    let mut watch = Watching::begin(&plane, &held, None).await;
    cluster.kill(0);
    let (status, said) = plane.ask("PUT", "/admin/replicas/b?force=true", replica(2)).await;
    assert_eq!((status, &said["error"]["code"]), (503, &json!("store_unavailable")), "{said}");
    while watch.event_or_end().await.is_some() {}
    let section = cluster.section();
    let second = tokio::spawn(async move { Plane::on(&section, "").await });
    sleep(Duration::from_secs(1)).await;
    assert!(!second.is_finished());
    cluster.restart(0);
    let second = second.await.unwrap();
    let ok = async || plane.ask("GET", "/admin/registry", Value::Null).await.0 == 200;
    until(ok).await;
    assert_eq!(second.snapshot().await.replicas, held.replicas);
    let (status, said) = plane.ask("PUT", "/admin/replicas/b?force=true", replica(2)).await;
    assert_eq!(status, 201, "{said}");
}

// A registry moves from a file to etcd and back: what operators wrote is the same. Records that differ
// are changed only on request, and an export with an invalid record changes nothing.
#[tokio::test]
async fn a_registry_moves_there_and_back() {
    let (file, back) = (Plane::start("").await, Plane::start("").await);
    let cluster = Cluster::start(1, &[]);
    let etcd = Plane::on(&cluster.section(), "").await;
    let eu = json!({"rtt_ms": {"us": 92.0}, "policy": "p2c", "labels": {"jurisdiction": "eu"}});
    assert_eq!(file.ask("PUT", "/admin/regions/eu?force=true", eu).await.0, 200);
    for n in 0..250 {
        let path = format!("/admin/replicas/r{n}");
        assert_eq!(file.ask("PUT", &path, replica(n + 1)).await.0, 201);
    }
    file.ask("DELETE", "/admin/replicas/r7", Value::Null).await;
    announced(&file, "eu-1").await;
    let exported = file.get("/admin/export").await;
    let imported = async |plane: &Plane, query: &str, export: &Value| {
        plane.ask("POST", &format!("/admin/import{query}"), export.clone()).await
    };
    let (status, said) = imported(&etcd, "", &exported).await;
    assert_eq!((status, said), (200, json!({"added": 251, "changed": 0, "same": 0})));
    let records = |export: &Value| (export["regions"].clone(), export["replicas"].clone());
    let there = etcd.get("/admin/export").await;
    assert_eq!(records(&there), records(&exported));
    assert!(etcd.snapshot().await.gateways.is_empty());
    imported(&back, "", &there).await;
    assert_eq!(records(&back.get("/admin/export").await), records(&exported));

    etcd.ask("POST", "/admin/replicas/r1/drain", Value::Null).await;
    let before = etcd.snapshot().await;
    let (status, said) = imported(&etcd, "", &exported).await;
    let message = said["error"]["message"].as_str().unwrap();
    assert!(
        status == 400 && message.contains("1 records are different here: desired/replica/r1"),
        "{said}"
    );
    let mut bad = exported.clone();
    bad["replicas"]["x y"] = bad["replicas"]["r1"].clone();
    assert_eq!(imported(&etcd, "?replace=true", &bad).await.0, 400);
    let mut newer = exported.clone();
    newer["version"] = json!(2);
    assert_eq!(imported(&etcd, "?replace=true", &newer).await.0, 400);
    assert_eq!(etcd.snapshot().await, before);
    let (status, said) = imported(&etcd, "?replace=true", &exported).await;
    assert_eq!((status, said), (200, json!({"added": 0, "changed": 1, "same": 250})));
    assert_eq!(etcd.snapshot().await.replicas["r1"].wanted.name(), "up");
}
