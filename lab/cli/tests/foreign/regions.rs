//! `meridian up` with three regions: faults from its page in a browser and from the page's API.

use std::time::{Duration, Instant};

use crate::browser::Browser;
use crate::common::{LIMIT, fleet, must};
use meridian_fleet::Client;
use serde_json::{Value, json};

/// The page of a run.
struct Page {
    url: String,
    client: Client,
}

impl Page {
    async fn order(&self, act: &str, what: &str, name: &str) -> Value {
        let order = json!({ "act": act, "what": what, "name": name }).to_string();
        must(self.client.post(&format!("{}/orders", self.url), order).await).value()
    }

    /// Waits until the state fulfils a condition; returns that state.
    async fn when(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let start = Instant::now();
        loop {
            let answer = must(self.client.get(&format!("{}/state", self.url)).await);
            let state = answer.value();
            if holds(&state) {
                return state;
            }
            assert!(start.elapsed() < LIMIT, "{what}: not within {LIMIT:?}\n{state:#}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

fn region<'a>(state: &'a Value, name: &str) -> &'a Value {
    let regions = state["regions"].as_array().map_or(&[][..], Vec::as_slice);
    regions.iter().find(|r| r["name"] == name).unwrap_or(&Value::Null)
}

/// The number of replicas that are up for a region's gateway.
fn up(state: &Value, name: &str) -> usize {
    let replicas = region(state, name)["page"]["status"]["replicas"].as_array();
    replicas.map_or(0, |all| all.iter().filter(|r| r["state"] == "up").count())
}

/// Processes with this text in their command line.
fn processes(text: &str) -> usize {
    let all = std::fs::read_dir("/proc").expect("there is /proc").flatten();
    all.filter(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(text)
    })
    .count()
}

// The page shows a run in real time next to a simulation of the region_local topology.
#[tokio::test]
async fn the_other_topology_stands_beside() {
    let fleet = fleet();
    // Long enough that even a slow machine finishes the simulation before the run ends.
    let args = ["up", "--load", "light", "--for", "60s"];
    let mut run = must(fleet.meridian("up", args, &["  page     "]).await);
    let page = Page { url: run.said(0).to_owned(), client: Client::new() };
    let beside = |s: &Value| s["beside"]["all"]["ttft_p50_ms"].as_f64().is_some_and(|ms| ms > 0.0);
    let state = page.when("the other topology is known", beside).await;
    assert_eq!(state["beside"]["name"], "region_local without pools, simulated");
    assert_eq!(state["beside"]["regions"].as_array().map(Vec::len), Some(3));
    run.terminate();
    assert!(must(run.wait(LIMIT).await).success());
}

// The page shows every region and replica. Its buttons kill the process of a gateway; the nearest
// living gateway adopts the replicas and returns them when the gateway is restarted. Replicas and
// links can be killed and restored too. Orders for unknown ones are refused with their names. Every
// request ends, and the run reports that counts were not compared.
#[tokio::test]
async fn what_the_page_kills_is_dead_and_comes_back() {
    let fleet = fleet();
    let args = ["up", "--time-scale", "4", "--load", "light"];
    let ready = &["  page     ", "  logs     "];
    let mut run = must(fleet.meridian("up", args, ready).await);
    let page = Page { url: run.said(0).to_owned(), client: Client::new() };
    let gateway = format!("{}/eu-gateway.yaml", run.said(1));
    let answered = |state: &Value, name| region(state, name)["clients"]["ok"].as_u64() > Some(0);
    page.when("answers everywhere", |s| ["us", "eu", "asia"].iter().all(|r| answered(s, r))).await;
    assert_eq!(processes(&gateway), 1);

    let (url, profile) = (page.url.clone(), fleet.dir().join("browser"));
    let browser = tokio::task::spawn_blocking(move || {
        let mut browser = Browser::open(&url, &profile);
        for region in ["us", "eu", "asia"] {
            let tiles = format!("document.querySelectorAll('#tiles-{region} .tile').length == 4");
            browser.when("a tile for each replica", &tiles);
        }
        let pool = "document.querySelector('#tiles-asia').textContent.includes('prefill pool')";
        browser.when("the pools of a region", pool);
        browser.click("[data-order='kill gateway eu']");
        let dead = "document.querySelector('#tiles-eu h3').textContent == 'eu: gateway dead'";
        browser.when("the page says so", dead);
        browser
    });
    let browser = browser.await.expect("the page is as it should be");
    assert_eq!(processes(&gateway), 0);
    page.when("adopted by the nearest", |s| up(s, "us") == 8).await;
    let browser = tokio::task::spawn_blocking(move || {
        let mut browser = browser;
        let adopted = "document.querySelector('#tiles-eu .state').textContent == 'up, by us'";
        browser.when("the page shows the adopted", adopted);
        browser.click("[data-order='revive gateway eu']");
        browser.when("it lives", "document.querySelector('#tiles-eu h3').textContent == 'eu'");
    });
    browser.await.expect("the page is as it should be");
    assert_eq!(processes(&gateway), 1);
    page.when("handed back", |s| up(s, "eu") == 4 && up(s, "us") == 4).await;

    assert_eq!(page.order("kill", "replica", "asia-engine-2").await, json!({}));
    page.when("a replica less", |s| up(s, "asia") == 3).await;
    assert_eq!(page.order("revive", "replica", "asia-engine-2").await, json!({}));
    page.when("it is back", |s| up(s, "asia") == 4).await;

    let peers = |s: &Value, state: &str| {
        let peers =
            region(s, "us")["page"]["status"]["peers"].as_array().cloned().unwrap_or_default();
        peers.iter().any(|p| p["region"] == "asia" && p["state"] == state)
    };
    assert_eq!(page.order("kill", "link", "us/asia").await, json!({}));
    page.when("the peer is gone", |s| peers(s, "gone")).await;
    assert_eq!(page.order("revive", "link", "us/asia").await, json!({}));
    page.when("the peer is back", |s| peers(s, "up")).await;

    let refused = page.order("kill", "replica", "mars-engine-0").await;
    let why = refused["error"]["message"].as_str().unwrap_or_default();
    assert!(why.contains("name mars-engine-0: is not there; use one of us-engine-0"), "{why}");
    let refused = page.order("paint", "region", "us").await;
    assert!(refused["error"]["message"].as_str().unwrap_or_default().contains("kill"), "{refused}");

    run.terminate();
    let status = must(run.wait(LIMIT).await);
    let log = std::fs::read_to_string(run.log()).expect("there is a log");
    assert!(status.success(), "{log}");
    assert!(
        log.contains("every request ended; killed processes took their counts with them"),
        "{log}"
    );
}
