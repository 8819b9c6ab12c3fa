//! Three vLLM engines that load adapters while they run, and a gateway in front of them.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use meridian_fleet::{Answer, Client, Fleet, Gateway, GatewaySpec};
use meridian_protocol::admin::Status;
use serde_json::{Value, json};

use super::ask::{Asked, COMPLETION, Said};
use super::engines::{self, Engine, LIMIT, Place};
use super::world::{PATIENT, warm_up};
use crate::common::{fleet, must, status_when, text, up};

/// The adapter's name.
pub(super) const ADAPTER: &str = "sql";
/// Tokens of an answer.
const TOKENS: u32 = 16;
/// Interval between two looks at the gateway's list.
const LOOK: Duration = Duration::from_millis(10);

/// The engines, their gateway, and the adapter's folder.
pub(super) struct Trio {
    pub(super) engines: Vec<Engine>,
    pub(super) gateway: Gateway,
    client: Client,
    folder: PathBuf,
    // Dropped last: it ends all processes.
    _fleet: Fleet,
}

/// What loading an adapter took.
#[derive(Debug, Clone, Copy)]
pub(super) struct Took {
    /// Until the engine answered that it is loaded.
    pub(super) load: Duration,
    /// From there until the gateway's list had it.
    pub(super) listed: Duration,
    /// The engine's lists read meanwhile.
    pub(super) reads: u64,
}

impl Trio {
    /// Installs and starts everything; returns when the gateway lists all replicas' model.
    pub(super) async fn start() -> Trio {
        let fleet = fleet();
        let parts = engines::install(&fleet).await;
        let folder = parts.adapter(&fleet, ADAPTER, 1);
        let mut engines = Vec::new();
        for name in ["engine-0", "engine-1", "engine-2"] {
            let place = Place::new(name, false).with_adapters();
            engines.push(place.start(&fleet, &parts).await);
        }
        for engine in &mut engines {
            engine.ready().await;
            warm_up(engine).await;
        }
        let spec = GatewaySpec {
            replicas: engines.iter().map(|engine| engine.url.clone()).collect(),
            further: PATIENT.into(),
            ..GatewaySpec::default()
        };
        let gateway = must(fleet.gateway("gateway", &spec).await);
        let client = Client::new();
        let served = |s: &_| up(3)(s) && s.replicas.iter().all(|r| !r.models.is_empty());
        status_when(&client, &gateway, "three replicas", served).await;
        Trio { engines, gateway, client, folder, _fleet: fleet }
    }

    /// A request of an engine about the adapter.
    async fn request(&self, verb: &str, engine: usize) -> Answer {
        let url = format!("{}/v1/{verb}_lora_adapter", self.engines[engine].url);
        let body = json!({"lora_name": ADAPTER, "lora_path": self.folder});
        let answer = must(self.client.post(&url, body.to_string()).await);
        assert_eq!(answer.status, 200, "{verb}: {}", String::from_utf8_lossy(&answer.body));
        answer
    }

    /// Loads the adapter into an engine, and waits until the gateway lists it.
    pub(super) async fn load(&self, engine: usize) -> Took {
        let start = Instant::now();
        self.request("load", engine).await;
        let (load, before) = (start.elapsed(), self.reads(engine).await);
        let start = Instant::now();
        self.until_listed(true).await;
        let listed = start.elapsed();
        Took { load, listed, reads: self.reads(engine).await - before }
    }

    /// Unloads it, and returns without a wait.
    pub(super) async fn unload(&self, engine: usize) {
        self.request("unload", engine).await;
    }

    /// Waits until the gateway lists the adapter, or does not.
    pub(super) async fn until_listed(&self, wanted: bool) {
        let start = Instant::now();
        while self.listed().await.iter().any(|name| name == ADAPTER) != wanted {
            assert!(start.elapsed() < LIMIT, "listed: not {wanted} within {LIMIT:?}");
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Waits until exactly these replicas list the adapter in the gateway's status.
    pub(super) async fn until_served_by(&self, wanted: &[&str]) {
        let lists = |status: &Status| {
            let replicas = status.replicas.iter();
            let serving = replicas.filter(|replica| replica.models.iter().any(|m| m == ADAPTER));
            serving.map(|replica| &*replica.name).eq(wanted.iter().copied())
        };
        status_when(&self.client, &self.gateway, "replicas with the adapter", lists).await;
    }

    /// The models that the gateway lists.
    pub(super) async fn listed(&self) -> Vec<String> {
        let url = format!("{}/v1/models", self.gateway.url);
        let list = must(self.client.get(&url).await).value();
        let models = list["data"].as_array().expect("a list").iter();
        models.map(|model| model["id"].as_str().expect("a name").to_owned()).collect()
    }

    /// How often an engine was asked for its list, as it counts.
    async fn reads(&self, engine: usize) -> u64 {
        self.counted(engine, &["handler=\"/v1/models\"", "method=\"GET\""]).await
    }

    /// How many completions an engine has refused, as it counts.
    pub(super) async fn refused(&self, engine: usize) -> u64 {
        self.counted(engine, &["handler=\"/v1/completions\"", "status=\"4xx\""]).await
    }

    async fn counted(&self, engine: usize, labels: &[&str]) -> u64 {
        self.engines[engine].page().await.count_with("http_requests_total", labels).unwrap_or(0)
    }

    /// The gateway's refusal of a request for the adapter: its status and code.
    pub(super) async fn refusal(&self) -> (u16, Value) {
        let body = asked(ADAPTER, 9000).body.to_string();
        let url = format!("{}{COMPLETION}", self.gateway.url);
        let answer = must(self.client.post(&url, body).await);
        (answer.status, answer.value()["error"]["code"].take())
    }

    /// The gateway's answers to several requests at once.
    pub(super) async fn at_once(&self, model: &str, seeds: std::ops::Range<u64>) -> Vec<Said> {
        let asks = seeds.map(|seed| {
            let (asked, url) = (asked(model, seed), self.gateway.url.clone());
            tokio::spawn(async move { asked.at(&url).await })
        });
        let mut all = Vec::new();
        for answer in asks.collect::<Vec<_>>() {
            all.push(answer.await.expect("the request does not panic"));
        }
        all
    }
}

/// A request for a model, whose answer depends on the whole prompt.
pub(super) fn asked(model: &str, seed: u64) -> Asked {
    let mut asked = Asked::new(COMPLETION, &text(seed, 40), TOKENS, false);
    asked.body["model"] = model.into();
    asked
}
