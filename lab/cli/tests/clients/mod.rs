//! Programs of others that call a gateway, and a model that calls their tools on cue (`model.py`).
//!
//! Each has its own gateway, with two keys: one without limits, and one with few requests a minute.

// Each test program uses its part of this file.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::common::{LIMIT, must, status_when, up};
use meridian_fleet::{Client, Fleet, Gateway, GatewaySpec, Process, Program, free_port};
use meridian_protocol::admin::Status;
use serde_json::Value;

/// The clients' key, and one with a limit of requests. The gateway's file has their hashes.
pub(crate) const KEYS: [&str; 2] =
    ["example-key-of-the-clients-never-use-it", "example-key-of-a-limited-client-never-use-it"];
/// The model that calls tools.
pub(crate) const SCRIPTED: &str = "scripted";
/// Another one, whose replica starts when the gateway has refused a request for it.
pub(crate) const LATE: &str = "late";

const FURTHER: &str = r#"tell_clients: all
held: {max_wait: 200ms}
models:
  scripted: {stream_keep_alive: 1s}
  zero: {scale_from_zero: 3s, stream_keep_alive: 1s}
tenants:
  - name: clients
    keys: ["sha256:bf81dd57207ec53c8cd267cf9a5eedfbb9563ba5b04c81f0e77027b88e329f3b"]
  - name: limited
    keys: ["sha256:94719797971b9f5aba484da6c8558d9af732c94717ddb1667eaf18c35e7d33d3"]
    limits: {requests_per_minute: 60}
"#;

/// A gateway before the scripted model, and the place of the late one.
pub(crate) struct World {
    pub(crate) fleet: Fleet,
    pub(crate) gateway: Gateway,
    pub(crate) model: Process,
    python: PathBuf,
    late: u16,
}

/// A file in `tests/clients`.
pub(crate) fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name)
}

impl World {
    /// Starts it, with further replicas.
    pub(crate) async fn start(fleet: Fleet, python: &Path, further: &[&Process]) -> World {
        let model = model(&fleet, python, SCRIPTED, 0).await;
        let late = must(free_port());
        let mut replicas = vec![model.said(0).to_owned(), format!("http://127.0.0.1:{late}")];
        replicas.extend(further.iter().map(|process| process.said(0).to_owned()));
        let count = replicas.len() - 1;
        let spec = GatewaySpec { replicas, further: FURTHER.into(), ..GatewaySpec::default() };
        let gateway = must(fleet.gateway("gateway", &spec).await);
        status_when(&Client::new(), &gateway, "all but the late replica", up(count)).await;
        World { fleet, gateway, model, python: python.to_owned(), late }
    }

    /// Waits until the gateway has refused a request of this client, and starts the late replica.
    pub(crate) async fn replica_comes_late(&self, client: &mut Process) -> Process {
        let start = Instant::now();
        while self.refusals().await == 0 {
            let ended = client.ended();
            assert!(ended.is_none() && start.elapsed() < LIMIT, "{}", client.log_tail());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.start_late().await
    }

    /// Starts the late replica, and waits until no replica is down.
    pub(crate) async fn start_late(&self) -> Process {
        let late = model(&self.fleet, &self.python, LATE, self.late).await;
        let all_up = |status: &Status| status.replicas.iter().all(|replica| replica.state == "up");
        status_when(&Client::new(), &self.gateway, "all replicas up", all_up).await;
        late
    }

    async fn refusals(&self) -> u64 {
        let page = must(Client::new().scrape(&self.gateway.admin).await);
        page.count("meridian_refusals_total").unwrap_or(0)
    }

    /// The client ends without an error; returns what it printed.
    pub(crate) async fn ends_well(&self, mut client: Process) -> String {
        let ended = must(client.wait(LIMIT).await);
        let log = std::fs::read_to_string(client.log()).expect("there is a log");
        assert!(ended.success(), "{ended}: {log}");
        log
    }

    /// No request is left at the gateway, and none failed there.
    pub(crate) async fn rests(&self, cancelled: u64) {
        let client = Client::new();
        let rest = status_when(&client, &self.gateway, "rest", |s| s.requests.in_flight == 0).await;
        let requests = rest.requests;
        assert_eq!((requests.failed, requests.cancelled), (0, cancelled), "{requests:?}");
    }

    /// The requests that the scripted model has answered.
    pub(crate) async fn seen(&self) -> Vec<Value> {
        must(Client::new().json(&format!("{}/seen", self.model.said(0))).await)
    }

    /// Waits until the number of answers that the scripted model is giving fulfils a condition.
    pub(crate) async fn streams(&self, what: &str, holds: impl Fn(u64) -> bool) {
        let (url, start) = (format!("{}/open", self.model.said(0)), Instant::now());
        while !holds(must(Client::new().json(&url).await)) {
            assert!(start.elapsed() < LIMIT, "{what}: not within {LIMIT:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

async fn model(fleet: &Fleet, python: &Path, name: &str, port: u16) -> Process {
    let program = Program::new(format!("model-{name}"), python)
        .args([file("model.py").into_os_string(), port.to_string().into(), name.into()])
        .ready(&["listening on "]);
    must(fleet.start(program).await)
}
