//! Gateways that follow a control plane: they apply its registry, survive its loss, and adopt the
//! replicas of a region without gateways.

use std::time::Duration;

use meridian_config::Gateway as Config;
use meridian_protocol::admin::Status;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::common::{Open, Region, Replica, Script, call, chat, config, eventually, open};
use crate::discovery::List;
use crate::plane::Plane;

/// The gateway of a region, named after it, which follows the control plane.
fn follower(plane: &Plane, region: &str, replicas: &[&Replica]) -> Config {
    named(plane, region, &format!("{region}-1"), replicas)
}

fn named(plane: &Plane, region: &str, name: &str, replicas: &[&Replica]) -> Config {
    let text =
        format!("version: 1\ncontrol: {{url: '{}', name: {name}, lease: 3s}}\n", plane.url());
    let mut config = config(replicas);
    config.region = region.to_owned();
    config.control = Config::read(&text).unwrap().control;
    config
}

async fn add(plane: &Plane, name: &str, region: &str, replica: &Replica) {
    let record = json!({"region": region, "spec": {"url": replica.url()}});
    let (status, said) =
        plane.ask("PUT", &format!("/admin/replicas/{name}?force=true"), record).await;
    assert_eq!(status, 201, "{said}");
}

async fn change(plane: &Plane, method: &str, path: &str) {
    let (status, said) = plane.ask(method, path, Value::Null).await;
    assert_eq!(status, 200, "{said}");
}

fn word(status: &Status) -> &str {
    &status.control.as_ref().unwrap().state
}

/// The states of the local replicas.
fn states(status: &Status) -> Vec<&str> {
    status.replicas.iter().map(|one| one.state.as_str()).collect()
}

fn serves(status: &Status) -> bool {
    states(status) == ["up"] && !status.replicas[0].models.is_empty()
}

// Gateways apply what operators write: a replica is added, drained, resumed and removed, a whole
// region is drained. A replica of the gateway's own file without a record stays.
#[tokio::test(start_paused = true)]
async fn the_registry_is_done() {
    let plane = Plane::start("").await;
    let (own, far) = (Replica::start().await, Replica::start().await);
    let eu = Region::start(follower(&plane, "eu", &[&own])).await;
    eu.until("the control plane is followed", |s| word(s) == "up").await;
    add(&plane, "a", "eu", &far).await;
    let both = ["up", "up"];
    eu.until("it is added", |s| states(s) == both).await;
    change(&plane, "POST", "/admin/replicas/a/drain").await;
    eu.until("it drains", |s| states(s) == ["up", "draining"]).await;
    change(&plane, "POST", "/admin/replicas/a/undrain").await;
    eu.until("it serves again", |s| states(s) == both).await;
    change(&plane, "POST", "/admin/regions/eu/drain").await;
    eu.until("its region drains", |s| states(s) == ["draining", "draining"]).await;
    let found = Replica::start().await;
    let spec = format!(r#"{{"url": "{}"}}"#, found.url());
    eu.admin("POST", "/admin/replicas", &spec).await;
    eu.until("a replica added meanwhile drains too", |s| states(s) == ["draining"; 3]).await;
    let peer = call(eu.listen, chat("hi")).await;
    assert_eq!(peer.status, 503, "{}", peer.text());
    eu.admin("DELETE", "/admin/replicas/r2", "").await;
    let other = Replica::start().await;
    let spec = format!(r#"{{"url": "{}"}}"#, other.url());
    eu.admin("POST", "/admin/replicas", &spec).await;
    eu.until("the next replica with its id drains too", |s| states(s) == ["draining"; 3]).await;
    eu.admin("DELETE", "/admin/replicas/2", "").await;
    change(&plane, "POST", "/admin/regions/eu/undrain").await;
    eu.until("its region serves again", |s| states(s) == both).await;
    change(&plane, "DELETE", "/admin/replicas/a").await;
    eu.until("it is gone", |s| states(s) == ["up"]).await;
    assert_eq!(eu.status().await.replicas[0].url, own.url());
    assert_eq!(eu.status().await.control.unwrap().problems, [""; 0]);
}

// Beyond the limit, a gateway has the first of the registry's replicas by address. One problem names
// the limit, the status and the metrics count those left out, and one of them joins when another
// leaves, also without any change in the registry.
#[tokio::test(start_paused = true)]
async fn beyond_the_limit() {
    let plane = Plane::start("").await;
    let own = Replica::start().await;
    for n in [4, 2, 3] {
        let spec = json!({"url": format!("http://127.0.0.{n}:1")});
        let record = json!({"region": "eu", "spec": spec});
        let (status, said) =
            plane.ask("PUT", &format!("/admin/replicas/r{n}?force=true"), record).await;
        assert_eq!(status, 201, "{said}");
    }
    let mut config = follower(&plane, "eu", &[&own]);
    config.limits.replicas = 2;
    let eu = Region::start(config).await;
    let left_out = |n| move |s: &Status| s.control.as_ref().unwrap().left_out == n;
    let here = |s: &Status| s.replicas.iter().map(|r| r.url.clone()).collect::<Vec<_>>();
    let status = eu.until("two are left out", left_out(2)).await;
    assert_eq!(here(&status), [own.url(), "http://127.0.0.2:1".to_owned()]);
    let problems = status.control.unwrap().problems;
    assert_eq!(problems.len(), 1);
    assert!(problems[0].starts_with("limits.replicas: the gateway has 2 replicas"), "{problems:?}");
    let page = eu.admin("GET", "/metrics", "").await;
    let line = "meridian_replicas_left_out{source=\"control plane\"} 2";
    assert!(page.text().contains(line), "{}", page.text());

    eu.admin("DELETE", "/admin/replicas/0", "").await;
    let status = eu.until("one is left out", left_out(1)).await;
    let mut there = here(&status);
    there.sort_unstable();
    assert_eq!(there, ["http://127.0.0.2:1", "http://127.0.0.3:1"]);
    change(&plane, "DELETE", "/admin/replicas/r2").await;
    let status = eu.until("none is left out", left_out(0)).await;
    assert_eq!((status.replicas.len(), status.control.unwrap().problems.len()), (2, 0));
}

// A removed replica stays out although the gateway's own file lists it. It comes back when its
// record is deleted and it is added again.
#[tokio::test(start_paused = true)]
async fn the_registry_decides_over_the_file() {
    let plane = Plane::start("").await;
    let replica = Replica::start().await;
    add(&plane, "a", "eu", &replica).await;
    change(&plane, "DELETE", "/admin/replicas/a").await;
    let eu = Region::start(follower(&plane, "eu", &[&replica])).await;
    eu.until("it is left out", |s| word(s) == "up" && s.replicas.is_empty()).await;
    add(&plane, "a", "eu", &replica).await;
    eu.until("it is there", serves).await;
}

// The control plane sees the gateway and, through its reports, the replica.
#[tokio::test(start_paused = true)]
async fn the_gateway_is_seen() {
    let plane = Plane::start("").await;
    let replica = Replica::start().await;
    replica.load(3, 8, 0.5);
    add(&plane, "a", "eu", &replica).await;
    let eu = Region::start(follower(&plane, "eu", &[])).await;
    eu.until("it is there", serves).await;
    let seen = || async {
        let seen = plane.get("/admin/replicas").await[0]["seen"]["eu-1"]["state"].clone();
        (seen == "up").then_some(())
    };
    eventually("the replica is seen up", seen).await;
    let needed = || async {
        let status = plane.get("/admin/status").await;
        let eu = status["regions"]["eu"].clone();
        (eu["work"].as_f64()? > 0.5).then_some(eu)
    };
    let eu = eventually("its load is reported", needed).await;
    assert_eq!((&eu["up"], &eu["gateways"][0]), (&json!(1), &json!("eu-1")), "{eu}");
    assert!(eu["needed"].as_u64().unwrap() >= 1, "{eu}");
}

// A gateway that starts without replicas, since the control plane is down, delays the first client
// until it learns of a replica, and refuses it after five seconds without one.
#[tokio::test(start_paused = true)]
async fn the_first_client_waits_for_the_first_replica() {
    let mut plane = Plane::start("").await;
    let replica = Replica::start().await;
    add(&plane, "a", "eu", &replica).await;
    plane.stop().await;
    let eu = Region::start(follower(&plane, "eu", &[])).await;
    let (asked, start) = (call(eu.listen, chat("hi")), Instant::now());
    let restart = async {
        sleep(Duration::from_secs(1)).await;
        plane.start_again().await;
    };
    let (answer, ()) = tokio::join!(asked, restart);
    assert_eq!(answer.status, 200);
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());

    plane.stop().await;
    let us = Region::start(named(&plane, "us", "us-1", &[])).await;
    let start = Instant::now();
    assert_ne!(call(us.listen, chat("hi")).await.status, 200);
    assert!(start.elapsed() >= Duration::from_secs(5), "{:?}", start.elapsed());
}

// A replica that dies while it drains is down from the moment when it should take requests again.
#[tokio::test(start_paused = true)]
async fn a_replica_that_died_while_it_drained() {
    let plane = Plane::start("").await;
    let replica = Replica::start().await;
    add(&plane, "a", "eu", &replica).await;
    let eu = Region::start(follower(&plane, "eu", &[])).await;
    eu.until("it is up", |s| states(s) == ["up"]).await;
    change(&plane, "POST", "/admin/replicas/a/drain").await;
    eu.until("it drains", |s| states(s) == ["draining"]).await;
    replica.stop().await;
    sleep(Duration::from_secs(30)).await;
    change(&plane, "POST", "/admin/replicas/a/undrain").await;
    let status = eu
        .until("its interval is down", |s| {
            let standing = s.replicas[0].standing.as_ref();
            states(s) == ["down"] && standing.is_some_and(|one| one.now.state == "down")
        })
        .await;
    assert_eq!(status.replicas[0].standing.as_ref().unwrap().now.cause, "refused");
}

// Without a control plane the gateway starts with its own file and reports that. It follows one
// that comes up later. When that is gone, the gateway keeps its state and reports the loss, in
// status and metrics. When it is back, missed changes are applied.
#[tokio::test(start_paused = true)]
async fn the_control_plane_may_be_gone() {
    let mut plane = Plane::start("").await;
    let (own, far) = (Replica::start().await, Replica::start().await);
    add(&plane, "a", "eu", &far).await;
    plane.stop().await;
    let eu = Region::with(&[&own], |config| *config = follower(&plane, "eu", &[&own])).await;
    let status = eu.until("it is shown", |s| s.control.as_ref().unwrap().lost_s.is_some()).await;
    assert_eq!((word(&status), states(&status)), ("unseen", vec!["up"]));
    assert_eq!(call(eu.listen, chat("hi")).await.status, 200);

    plane.start_again().await;
    eu.until("its replica is added", |s| word(s) == "up" && states(s) == ["up", "up"]).await;
    let before = eu.status().await.control.unwrap();
    plane.stop().await;
    let lost = eu.until("it is lost", |s| word(s) == "lost").await.control.unwrap();
    assert_eq!((lost.losses, lost.revision), (2, before.revision));
    sleep(Duration::from_secs(60)).await;
    let status = eu.status().await;
    assert_eq!((word(&status), states(&status)), ("lost", vec!["up", "up"]));
    let problems = status.control.unwrap().problems;
    assert!(problems.iter().all(|p| p.contains("cannot connect")), "{problems:?}");
    assert_eq!(problems.len(), 2, "both the lease and the watch have failed");
    assert_eq!(call(eu.listen, chat("hi")).await.status, 200);
    let page = eu.admin("GET", "/metrics", "").await;
    let page = String::from_utf8(page.body.to_vec()).unwrap();
    assert!(page.contains("meridian_control_up{} 0"), "{page}");
    assert!(page.contains("meridian_control_losses_total{} 2"), "{page}");

    plane.start_again().await;
    change(&plane, "POST", "/admin/replicas/a/drain").await;
    let status = eu.until("it catches up", |s| states(s) == ["up", "draining"]).await;
    assert_eq!(word(&status), "up");
    eu.until("it is alive there", |s| s.control.as_ref().unwrap().leased).await;
}

// A control plane that lost its file empties no fleet: replicas unknown to it stay, and belong to
// it again once they are added.
#[tokio::test(start_paused = true)]
async fn a_lost_store_empties_no_fleet() {
    let mut plane = Plane::start("").await;
    let replica = Replica::start().await;
    add(&plane, "a", "eu", &replica).await;
    let eu = Region::start(follower(&plane, "eu", &[])).await;
    eu.until("it is there", serves).await;
    plane.stop().await;
    plane.lose_file();
    plane.start_again().await;
    let gateways = || async { plane.get("/admin/gateways").await[0]["name"].as_str().map(drop) };
    eventually("the gateway is alive in the new store", gateways).await;
    sleep(Duration::from_secs(10)).await;
    assert!(serves(&eu.status().await));
    add(&plane, "b", "eu", &replica).await;
    change(&plane, "DELETE", "/admin/replicas/b").await;
    eu.until("the new store decides", |s| s.replicas.is_empty()).await;
}

/// us, eu and asia, where us is nearer to eu.
async fn three(plane: &Plane) {
    for (region, record) in [
        ("us", json!({"rtt_ms": {"eu": 92.0, "asia": 167.0}})),
        ("asia", json!({"rtt_ms": {"eu": 230.0}})),
    ] {
        let (status, said) = plane.ask("PUT", &format!("/admin/regions/{region}"), record).await;
        assert_eq!(status, 200, "{said}");
    }
}

// A gateway that vanishes counts as gone when its lease has run out. Then exactly one gateway, the
// nearest, adopts its replica. When its own gateway is back, the adopter sends no new requests
// there, waits for its current ones, and drops the replica. The counts of both agree.
#[tokio::test(start_paused = true)]
async fn a_lost_gateways_replica_is_adopted_once_and_handed_back() {
    let plane = Plane::start("").await;
    three(&plane).await;
    let replica = Replica::start().await;
    add(&plane, "a", "eu", &replica).await;
    let us = Region::start(follower(&plane, "us", &[])).await;
    let asia = Region::start(follower(&plane, "asia", &[])).await;
    let eu = Region::start(follower(&plane, "eu", &[])).await;
    eu.until("eu serves its own", serves).await;
    let three = |s: &Status| s.control.as_ref().unwrap().gateways.len() == 3;
    us.until("us sees all gateways", three).await;
    asia.until("asia sees all gateways", three).await;

    eu.served.abort();
    let start = Instant::now();
    let adopted = async || {
        for (region, who) in [(&us, "us"), (&asia, "asia")] {
            let there = region.status().await.control.unwrap().adopted_replicas;
            assert!(there == 0 || who == "us", "asia is farther away");
            if there > 0 {
                return Some(());
            }
        }
        None
    };
    eventually("us adopts", adopted).await;
    let took = start.elapsed();
    assert!((1..=6).contains(&took.as_secs()), "a lease of 3 s was missed after {took:?}");
    us.until("it serves", serves).await;
    for _ in 0..50 {
        sleep(Duration::from_millis(200)).await;
        let (us, asia) = (us.status().await, asia.status().await);
        assert_eq!((states(&us), states(&asia)), (vec!["up"], vec![]));
        assert_eq!(us.control.unwrap().adopted, ["eu"]);
    }
    assert_eq!(call(us.listen, chat("hi")).await.status, 200);

    replica.then(Script::silence());
    let listen = us.listen;
    let open = tokio::spawn(async move { call(listen, chat("long")).await });
    us.until("a request runs there", |s| s.requests.in_flight == 1).await;
    let eu = Region::start(follower(&plane, "eu", &[])).await;
    eu.until("eu serves its own again", serves).await;
    us.until("us drains it", |s| states(s) == ["draining"]).await;
    sleep(Duration::from_secs(5)).await;
    assert_eq!(us.status().await.requests.in_flight, 1, "the running request continues");
    open.abort();
    let handed = |s: &Status| s.replicas.is_empty();
    let status = us.until("us has handed it back", handed).await;
    assert_eq!(status.control.unwrap().adopted, [""; 0]);
    assert_eq!(call(eu.listen, chat("hi")).await.status, 200);
    assert_eq!((us.settled().await.requests.done, eu.settled().await.requests.done), (1, 1));
}

// A gateway that shuts down in order deregisters: its replica is adopted at once, not a lease
// later.
#[tokio::test(start_paused = true)]
async fn a_gateway_that_goes_says_so() {
    let plane = Plane::start("").await;
    three(&plane).await;
    let replica = Replica::start().await;
    add(&plane, "a", "eu", &replica).await;
    let us = Region::start(follower(&plane, "us", &[])).await;
    let mut eu = Region::start(follower(&plane, "eu", &[])).await;
    eu.until("it is alive", |s| s.control.as_ref().unwrap().leased).await;
    let start = Instant::now();
    eu.shut_down();
    us.until("us adopts", |s| !s.replicas.is_empty()).await;
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}

// Gateways of one region share its replicas. A second one with the same name gets an error, and
// gets the name when the first one's lease has run out.
#[tokio::test(start_paused = true)]
async fn one_region_shares_and_names_are_single() {
    let plane = Plane::start("").await;
    let replica = Replica::start().await;
    add(&plane, "a", "eu", &replica).await;
    let one = Region::start(named(&plane, "eu", "eu-1", &[])).await;
    let two = Region::start(named(&plane, "eu", "eu-2", &[])).await;
    one.until("the first serves", serves).await;
    two.until("the second serves", serves).await;
    let twin = Region::start(named(&plane, "eu", "eu-1", &[])).await;
    let taken = |s: &Status| {
        s.control.as_ref().unwrap().problems.iter().any(|p| p.contains("`eu-1` exists already"))
    };
    let status = twin.until("the name is taken", taken).await;
    assert!(!status.control.unwrap().leased);
    one.served.abort();
    twin.until("it has the name", |s| s.control.as_ref().unwrap().leased).await;
}

// Policy and weights change under traffic: by name, by a weight alone, and back to the gateway's
// own. An unknown policy is reported and changes nothing.
#[tokio::test(start_paused = true)]
async fn the_policy_changes_at_run_time() {
    let plane = Plane::start("").await;
    let replica = Replica::start().await;
    let eu =
        Region::with(&[&replica], |config| *config = follower(&plane, "eu", &[&replica])).await;
    eu.until("it is alive", |s| s.control.as_ref().unwrap().leased).await;
    let set = async |policy: Value| {
        let (status, said) = plane.ask("PUT", "/admin/regions/eu/policy", policy).await;
        assert_eq!(status, 200, "{said}");
    };
    let in_force = || async {
        let config = eu.admin("GET", "/admin/config", "").await.json();
        Some(config["policy"].clone())
    };
    set(json!("chwbl")).await;
    let status = eu.until("chwbl decides", |s| s.policy == "chwbl").await;
    assert_eq!(status.replicas[0].state, "up");
    assert_eq!(call(eu.listen, chat("hi")).await.status, 200);
    let bounded = json!({"name": "chwbl", "load_factor": 1.5});
    set(bounded.clone()).await;
    let changed = || async { in_force().await.filter(|policy| *policy == bounded) };
    eventually("its bound is another one", changed).await;
    set(json!("meridian")).await;
    eu.until("meridian decides", |s| s.policy == "meridian").await;
    assert_eq!(call(eu.listen, chat("hi")).await.status, 200);
    change(&plane, "DELETE", "/admin/regions/eu/policy").await;
    eu.until("its own decides", |s| s.policy == "round_robin").await;
    assert_eq!(in_force().await.unwrap(), json!("round_robin"));
    assert_eq!(eu.settled().await.requests.done, 2);
}

// Neither the status nor the configuration shows the token.
#[tokio::test(start_paused = true)]
async fn the_token_is_not_shown() {
    const TOKEN: &str = "0123456789abcdef";
    let plane = Plane::start(&format!("token: {TOKEN}\n")).await;
    let mut config = follower(&plane, "eu", &[]);
    config.control.as_mut().unwrap().token = Some(TOKEN.into());
    let eu = Region::start(config).await;
    eu.until("it is admitted", |s| s.control.as_ref().unwrap().leased).await;
    for path in ["/admin/config", "/admin/status", "/metrics"] {
        let page = eu.admin("GET", path, "").await;
        assert!(!page.text().contains(TOKEN), "{path}: {}", page.text());
    }
    let mut stranger = follower(&plane, "us", &[]);
    stranger.control.as_mut().unwrap().token = Some("another-token-of-it".into());
    let us = Region::start(stranger).await;
    let refused =
        |s: &Status| s.control.as_ref().unwrap().problems.iter().any(|p| p.contains("401"));
    us.until("it is refused", refused).await;
    assert!(!us.status().await.control.unwrap().leased);
}

/// A request that runs at the replica until the test drops it.
async fn hang(region: &Region, replica: &Replica) -> Open {
    replica.then(Script::unfinished().hang());
    let mut running = open(region.listen, chat("long")).await;
    running.read_to("{").await;
    running
}

fn state_of<'a>(status: &'a Status, replica: &Replica) -> &'a str {
    let row = status.replicas.iter().find(|row| row.url == replica.url());
    row.map_or("", |row| row.state.as_str())
}

// A replica that an operator removes keeps draining when its region drains and serves again.
#[tokio::test(start_paused = true)]
async fn a_region_that_serves_again_resumes_no_removed_replica() {
    let plane = Plane::start("").await;
    let (a, b) = (Replica::start().await, Replica::start().await);
    let eu = Region::with(&[&a, &b], |config| *config = follower(&plane, "eu", &[&a, &b])).await;
    eu.until("the control plane is followed", |s| word(s) == "up").await;
    let running = hang(&eu, &a).await;
    assert_eq!(eu.admin("DELETE", "/admin/replicas/r0?drain=true", "").await.status, 202);
    eu.until("it drains", |s| states(s) == ["draining", "up"]).await;
    change(&plane, "POST", "/admin/regions/eu/drain").await;
    eu.until("its region drains", |s| states(s) == ["draining"; 2]).await;
    change(&plane, "POST", "/admin/regions/eu/undrain").await;
    let status = eu.until("the other serves again", |s| state_of(s, &b) == "up").await;
    assert_eq!(state_of(&status, &a), "draining");
    drop(running);
    eu.until("it is gone", |s| states(s) == ["up"]).await;
}

// A replica that a source removes and lists again keeps draining while its region drains, and one
// that the source removes keeps draining when the region serves again.
#[tokio::test(start_paused = true)]
async fn a_source_and_a_region_drain_apart() {
    let plane = Plane::start("").await;
    let (a, b) = (Replica::start().await, Replica::start().await);
    let list = List::new("region-drains");
    list.of(&[&a, &b]);
    let mut config = follower(&plane, "eu", &[]);
    config.discovery = vec![list.source()];
    let eu = Region::start(config).await;
    eu.until("both serve", |s| states(s) == ["up", "up"]).await;
    let running = [hang(&eu, &a).await, hang(&eu, &b).await];
    let listed = |n: usize| move |s: &Status| s.discovery[0].replicas == n;
    list.of(&[&b]);
    eu.until("a is no longer listed", listed(1)).await;
    change(&plane, "POST", "/admin/regions/eu/drain").await;
    eu.until("the region drains", |s| states(s) == ["draining"; 2]).await;
    list.of(&[&a, &b]);
    let status = eu.until("a is listed again", listed(2)).await;
    assert_eq!(states(&status), ["draining"; 2]);
    list.of(&[&a]);
    eu.until("b is no longer listed", listed(1)).await;
    change(&plane, "POST", "/admin/regions/eu/undrain").await;
    let status = eu.until("a serves again", |s| state_of(s, &a) == "up").await;
    assert_eq!(state_of(&status, &b), "draining");
    drop(running);
    eu.until("b is gone", |s| states(s) == ["up"]).await;
}
