//! Replicas die and come back under load while clients hang up, and nothing is lost.
//!
//! Model engines suffice, because they die like any other process. A seed determines the kills.
//! Their timing relative to the requests depends on the machine, and must not matter.

use std::time::Duration;

use crate::common::{LIMIT, fleet, must, status_when, up};
use meridian_base::Rng;
use meridian_fleet::{
    Client, EngineCounts, EngineSpec, Error, Fleet, Gateway, GatewaySpec, LoadSpec, Process,
};

const SEED: u64 = 20;
const REPLICAS: usize = 4;
const KILLS: usize = 10;
/// Longest pause between two kills.
const REST_MS: usize = 400;
/// Another process may hold the port of a dead engine for a moment.
const TRIES: usize = 50;

/// Permitted failures of requests on a killed replica, as a client sees them: an error event in a
/// stream that had started, or a refusal if no other replica was left to try. Any other failure is
/// a fault of the gateway.
const HONEST: [&str; 3] = ["error_event", "http_503", "http_5xx"];

fn spec(listen: &str) -> EngineSpec {
    EngineSpec { listen: listen.to_owned(), time_scale: 16.0, ..EngineSpec::default() }
}

/// Starts an engine again at the address of the one that was killed.
async fn revive(fleet: &Fleet, name: &str, url: &str) -> Process {
    let address = url.trim_start_matches("http://");
    for _ in 1..TRIES {
        match fleet.engine(name, &spec(address)).await {
            Err(Error::EndedEarly { .. }) => tokio::time::sleep(Duration::from_millis(100)).await,
            other => return must(other),
        }
    }
    must(fleet.engine(name, &spec(address)).await)
}

/// Kills an engine, pauses, restarts it and pauses, ten times. Sometimes a second one is dead too.
async fn kill_and_revive(fleet: &Fleet, engines: &mut [Process]) {
    let mut rng = Rng::new(SEED);
    for _ in 0..KILLS / 2 {
        let first = rng.below(REPLICAS);
        let second = (first + 1 + rng.below(REPLICAS - 1)) % REPLICAS;
        for victim in [first, second] {
            must(engines[victim].kill().await);
            tokio::time::sleep(Duration::from_millis(rng.below(REST_MS) as u64)).await;
        }
        for victim in [second, first] {
            let (name, url) = (engines[victim].name(), engines[victim].said(0));
            let revived = revive(fleet, name, url).await;
            engines[victim] = revived;
            tokio::time::sleep(Duration::from_millis(rng.below(REST_MS) as u64)).await;
        }
    }
}

async fn region(fleet: &Fleet, client: &Client) -> (Vec<Process>, Gateway) {
    let mut engines = Vec::new();
    for n in 0..REPLICAS {
        engines.push(must(fleet.engine(&format!("engine-{n}"), &spec("127.0.0.1:0")).await));
    }
    let spec = GatewaySpec {
        replicas: engines.iter().map(|engine| engine.said(0).to_owned()).collect(),
        ..GatewaySpec::default()
    };
    let gateway = must(fleet.gateway("gateway", &spec).await);
    status_when(client, &gateway, "all replicas up", up(REPLICAS)).await;
    (engines, gateway)
}

// Ten kills and restarts of replicas under load, with clients that hang up: every request ends
// exactly once, by the client's counts and by the gateway's. Afterwards nothing is in flight
// anywhere: not in the gateway, not in its counts for a replica, not in an engine.
#[tokio::test]
async fn kills_and_revivals_lose_nothing() {
    let (fleet, client) = (fleet(), Client::new());
    let (mut engines, gateway) = region(&fleet, &client).await;
    let args = [
        ["--workload", "sessions"],
        ["--system-bytes", "1500"],
        ["--max-tokens", "48"],
        ["--clients", "24"],
        ["--abort-share", "0.2"],
        ["--abort-within", "400ms"],
        ["--drain", "100s"],
        ["--check-gateway", &gateway.admin],
    ];
    let spec = LoadSpec {
        url: gateway.url.clone(),
        duration: 10 * LIMIT,
        args: args.into_iter().flatten().map(str::to_owned).collect(),
    };
    let mut load = must(fleet.load("load", &spec).await);
    kill_and_revive(&fleet, &mut engines).await;
    load.process.terminate();
    let report = must(load.report(2 * LIMIT).await);

    let counts = report.counts;
    println!("{counts:?} {:?}", report.errors);
    assert!(counts.ok > 0 && counts.aborted > 0, "a run without load shows nothing: {counts:?}");
    assert_eq!(counts.sent, counts.ok + counts.aborted + counts.errors, "{counts:?}");
    assert_eq!(report.rows[0].lost, Some(0), "{report:?}");
    for (kind, count) in &report.errors {
        let honest = *count == 0 || HONEST.contains(&kind.as_str());
        assert!(honest, "{count} requests ended with {kind}: {report:?}");
    }

    // The gateway becomes idle with all replicas back, and has counted the end of every request.
    let status = status_when(&client, &gateway, "rest, and all replicas back", |status| {
        up(REPLICAS)(status) && status.requests.in_flight == 0
    })
    .await;
    let r = status.requests;
    let ended = r.done + r.client_error + r.rejected + r.failed + r.cancelled;
    assert_eq!(r.accepted, ended, "{r:?}");
    assert_eq!(status.held, 0);
    for replica in &status.replicas {
        assert_eq!((replica.outstanding, replica.running), (0, 0), "{replica:?}");
    }
    let urls: Vec<&str> = engines.iter().map(|engine| engine.said(0)).collect();
    assert_eq!(must(EngineCounts::ask(&client, urls).await).outstanding, 0);
    // The client's own comparison with the gateway, count by count: a request whose client hung up
    // may be in one of two of them.
    let check = report.gateway.unwrap_or_default();
    for row in check["rows"].as_array().expect("the load compared its counts") {
        let [least, most, gateway] = ["least", "most", "gateway"].map(|key| row[key].as_u64());
        assert!(least <= gateway && gateway <= most && least.is_some(), "{row}");
    }
}
