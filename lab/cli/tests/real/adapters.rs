//! LoRA adapters that engines load and unload while they run. The engines are models of vLLM, with its
//! requests, lists and metrics.

use meridian_fleet::{Answer, Client, EngineSpec, Fleet, Gateway, GatewaySpec, Process};
use serde_json::{Value, json};

use crate::common::{fleet, must, status_when, up};

/// Requests in a row whose replica is checked.
const REQUESTS: usize = 8;

struct Region {
    client: Client,
    engines: Vec<Process>,
    gateway: Gateway,
}

impl Region {
    async fn start(fleet: &Fleet) -> Region {
        let args = ["--max-loras", "2"].map(str::to_owned).to_vec();
        let spec = EngineSpec { args, ..EngineSpec::default() };
        let mut engines = Vec::new();
        for name in ["engine-0", "engine-1", "engine-2"] {
            engines.push(must(fleet.engine(name, &spec).await));
        }
        let spec = GatewaySpec {
            policy: "meridian".to_owned(),
            replicas: engines.iter().map(|engine| engine.said(0).to_owned()).collect(),
            ..GatewaySpec::default()
        };
        let gateway = must(fleet.gateway("gateway", &spec).await);
        let client = Client::new();
        let served = |s: &_| up(3)(s) && s.replicas.iter().all(|r| !r.models.is_empty());
        status_when(&client, &gateway, "three replicas", served).await;
        Region { client, engines, gateway }
    }

    /// Loads or unloads an adapter, and waits until the gateway lists it there, or does not.
    async fn change(&self, verb: &str, engine: usize, adapter: &str) {
        let url = format!("{}/v1/{verb}_lora_adapter", self.engines[engine].said(0));
        let body = json!({"lora_name": adapter, "lora_path": format!("/adapters/{adapter}")});
        let answer = must(self.client.post(&url, body.to_string()).await);
        assert_eq!(answer.status, 200, "{:?}", answer.body);
        let url = self.engines[engine].said(0);
        let is_seen = |s: &meridian_protocol::admin::Status| {
            let there = s.replicas.iter().find(|r| r.url == url).expect("the replica is there");
            there.models.iter().any(|model| model == adapter) == (verb == "load")
        };
        status_when(&self.client, &self.gateway, &format!("{verb} {adapter}"), is_seen).await;
    }

    async fn ask(&self, model: &str) -> Answer {
        let body = json!({"model": model, "prompt": "Say something.", "max_tokens": 2});
        must(self.client.post(&self.completions(&self.gateway.url), body.to_string()).await)
    }

    /// The replica that answered.
    async fn answered(&self, model: &str) -> String {
        let answer = self.ask(model).await;
        assert_eq!(answer.status, 200, "{:?}", answer.body);
        answer.header("x-meridian-replica").expect("it names the replica").to_owned()
    }

    async fn listed(&self) -> Vec<String> {
        let list = must(self.client.get(&format!("{}/v1/models", self.gateway.url)).await).value();
        let models = list["data"].as_array().expect("a list").iter();
        models.map(|model| model["id"].as_str().expect("a name").to_owned()).collect()
    }

    fn completions(&self, url: &str) -> String {
        format!("{url}/v1/completions")
    }
}

// An adapter that one engine loads gets its requests there and nowhere else. Unloaded, it gets a 404,
// and the base model is served as before.
#[tokio::test]
async fn adapters_are_served_where_they_are_loaded() {
    let fleet = fleet();
    let region = Region::start(&fleet).await;
    let base = region.listed().await;
    assert_eq!(region.ask("sql").await.status, 404);
    region.change("load", 1, "sql").await;
    let listed = region.listed().await;
    assert_eq!(listed, [base[0].clone(), "sql".to_owned()]);
    for _ in 0..REQUESTS {
        assert_eq!(region.answered("sql").await, "r1");
    }
    // Several at once do not spill to a replica without it.
    let at_once = futures(&region, "sql").await;
    assert!(at_once.iter().all(|replica| replica == "r1"), "{at_once:?}");
    region.change("unload", 1, "sql").await;
    let refused = region.ask("sql").await;
    let error: Value = refused.value();
    assert_eq!((refused.status, &error["error"]["code"]), (404, &json!("model_not_found")));
    assert_eq!(region.listed().await, base);
    assert_eq!(region.ask(&base[0]).await.status, 200);
}

async fn futures(region: &Region, model: &str) -> Vec<String> {
    let (a, b, c, d) = tokio::join!(
        region.answered(model),
        region.answered(model),
        region.answered(model),
        region.answered(model)
    );
    vec![a, b, c, d]
}

// Of two engines that list an adapter, the one that runs requests of it gets the next ones, although
// the other is idle: the other would have to load it first.
#[tokio::test]
async fn the_replica_with_the_adapter_in_use_is_preferred() {
    let fleet = fleet();
    let region = Region::start(&fleet).await;
    for engine in [0, 2] {
        region.change("load", engine, "law").await;
    }
    // A long answer at the engine itself: the gateway knows of it by the metrics only.
    let body = json!({"model": "law", "prompt": "Go on.", "max_tokens": 4000, "stream": true});
    let url = region.completions(region.engines[2].said(0));
    let long = must(region.client.open(&url, body.to_string(), &[]).await);
    assert_eq!(long.status, 200);
    let busy = |s: &meridian_protocol::admin::Status| s.replicas[2].running == 1;
    status_when(&region.client, &region.gateway, "it runs", busy).await;
    for _ in 0..REQUESTS {
        assert_eq!(region.answered("law").await, "r2");
    }
    drop(long);
}
