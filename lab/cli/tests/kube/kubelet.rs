//! In place of kubelets and of the controller of EndpointSlices: pods of a Service, each a model engine at an
//! address of its own, and the slice that lists them.

use std::collections::BTreeMap;
use std::time::Duration;

use meridian_fleet::{Client, EngineSpec, Fleet, Process, Scrape};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::common::{LIMIT, must};

pub(crate) const NAMESPACE: &str = "serving";
pub(crate) const SERVICE: &str = "llama";
/// The port of all engines.
const PORT: u16 = 8000;
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/serving/endpointslices";
/// Nodes that pods are on in turn.
const NODES: usize = 3;

/// Conditions of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    NotReady,
    Ready,
    Terminating,
}

struct Pod {
    ip: String,
    node: usize,
    condition: Condition,
    /// None once it is dead.
    engine: Option<Process>,
}

pub(crate) struct Kubelet {
    pods: BTreeMap<String, Pod>,
    made: usize,
    /// Changes of the slice so far.
    pub(crate) changes: usize,
    client: Client,
}

impl Kubelet {
    /// Makes the namespace and an empty slice of the Service.
    pub(crate) async fn start(cluster: &Cluster) -> Kubelet {
        cluster.namespace(NAMESPACE).await;
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": SERVICE, "labels": {"kubernetes.io/service-name": SERVICE}},
            "addressType": "IPv4", "endpoints": [],
            "ports": [{"name": "http", "port": PORT, "protocol": "TCP"}],
        });
        cluster.create(SLICES, &slice).await;
        Kubelet { pods: BTreeMap::new(), made: 0, changes: 0, client: Client::new() }
    }

    /// The pods in a condition whose engines run.
    pub(crate) fn alive(&self, condition: Condition) -> Vec<String> {
        let all = self.pods.iter().filter(|(_, pod)| pod.condition == condition);
        all.filter(|(_, pod)| pod.engine.is_some()).map(|(name, _)| name.clone()).collect()
    }

    /// The ready pods of the node of a pod.
    pub(crate) fn beside(&self, name: &str) -> Vec<String> {
        let node = self.pods[name].node;
        let ready = self.alive(Condition::Ready);
        ready.into_iter().filter(|name| self.pods[name].node == node).collect()
    }

    /// Starts a pod; it is ready once its engine is. Two changes.
    pub(crate) async fn create(&mut self, cluster: &Cluster, fleet: &Fleet) -> String {
        self.made += 1;
        let name = format!("llama-{}", self.made);
        // A loopback address each: 127.0.0.0/8 is all local.
        let ip = format!("127.9.{}.{}", self.made / 250, 1 + self.made % 250);
        let (node, condition) = (self.made % NODES, Condition::NotReady);
        self.pods.insert(name.clone(), Pod { ip: ip.clone(), node, condition, engine: None });
        self.publish(cluster).await;
        let spec = EngineSpec {
            listen: format!("{ip}:{PORT}"),
            time_scale: 16.0,
            ..EngineSpec::default()
        };
        let engine = must(fleet.engine(&name, &spec).await);
        self.pods.get_mut(&name).expect("it was made").engine = Some(engine);
        self.set(cluster, &name, Condition::Ready).await;
        name
    }

    /// Changes a pod's condition.
    pub(crate) async fn set(&mut self, cluster: &Cluster, name: &str, condition: Condition) {
        self.pods.get_mut(name).expect("it is there").condition = condition;
        self.publish(cluster).await;
    }

    /// Ends a terminating pod as its `preStop` allows: once its engine has no request, or is dead.
    pub(crate) async fn remove(&mut self, cluster: &Cluster, name: &str) {
        let mut pod = self.pods.remove(name).expect("it is there");
        if let Some(engine) = &mut pod.engine {
            let url = engine.said(0).to_owned();
            while running(&must(self.client.scrape(&url).await)) > 0.0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            engine.terminate();
            must(engine.wait(LIMIT).await);
        }
        self.publish(cluster).await;
    }

    /// Kills a pod's engine; its endpoint stays as it is.
    pub(crate) async fn kill(&mut self, name: &str) {
        let pod = self.pods.get_mut(name).expect("it is there");
        must(pod.engine.take().expect("it runs").kill().await);
    }

    async fn publish(&mut self, cluster: &Cluster) {
        let endpoints: Vec<Value> =
            self.pods.iter().map(|(name, pod)| pod.endpoint(name)).collect();
        cluster.patch(&format!("{SLICES}/{SERVICE}"), &json!({"endpoints": endpoints})).await;
        self.changes += 1;
    }
}

/// Requests in an engine.
fn running(page: &Scrape) -> f64 {
    let sum = |name| page.sum(name).unwrap_or_default();
    sum("vllm:num_requests_running") + sum("vllm:num_requests_waiting")
}

impl Pod {
    fn endpoint(&self, name: &str) -> Value {
        let Pod { ip, node, condition, .. } = self;
        let ready = *condition == Condition::Ready;
        let terminating = *condition == Condition::Terminating;
        json!({
            "addresses": [ip],
            "conditions": {"ready": ready, "serving": ready || terminating, "terminating": terminating},
            "nodeName": format!("node-{node}"),
            "zone": format!("zone-{node}"),
            "targetRef": {"kind": "Pod", "name": name, "namespace": NAMESPACE, "uid": format!("uid-{name}")},
        })
    }
}
