//! In place of kubelets and of the controller of EndpointSlices: pods of a Service, each a model engine at a
//! port of its own, with a slice of its own. Kubernetes refuses loopback addresses in slices, so engines listen
//! at the machine's.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use meridian_fleet::{Client, EngineSpec, Fleet, Process, Scrape, free_port};
use serde_json::json;

use crate::cluster::Cluster;
use crate::common::{LIMIT, must};

pub(crate) const NAMESPACE: &str = "serving";
pub(crate) const SERVICE: &str = "llama";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/serving/endpointslices";
/// Nodes. Pods spread over them, as the scheduler does by default.
const NODES: usize = 5;

/// Conditions of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    NotReady,
    Ready,
    Terminating,
}

struct Pod {
    at: SocketAddr,
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
    /// Makes the namespace.
    pub(crate) async fn start(cluster: &Cluster) -> Kubelet {
        cluster.namespace(NAMESPACE).await;
        Kubelet { pods: BTreeMap::new(), made: 0, changes: 0, client: Client::new() }
    }

    /// The pods in a condition whose engines run.
    pub(crate) fn alive(&self, condition: Condition) -> Vec<String> {
        let all = self.pods.iter().filter(|(_, pod)| pod.condition == condition);
        all.filter(|(_, pod)| pod.engine.is_some()).map(|(name, _)| name.clone()).collect()
    }

    /// Starts a pod; it is ready once its engine is. Two changes.
    pub(crate) async fn create(&mut self, cluster: &Cluster, fleet: &Fleet) -> String {
        self.made += 1;
        let name = format!("llama-{}", self.made);
        let at = SocketAddr::new(own_address(), must(free_port()));
        let on = |node: &usize| self.pods.values().filter(|pod| pod.node == *node).count();
        let (node, condition) = ((0..NODES).min_by_key(on).expect("nodes"), Condition::NotReady);
        let pod = Pod { at, node, condition, engine: None };
        cluster.create(SLICES, &pod.slice(&name)).await;
        self.changes += 1;
        self.pods.insert(name.clone(), pod);
        let spec = EngineSpec { listen: at.to_string(), time_scale: 16.0, ..EngineSpec::default() };
        let engine = must(fleet.engine(&name, &spec).await);
        self.pods.get_mut(&name).expect("it was made").engine = Some(engine);
        self.set(cluster, &name, Condition::Ready).await;
        name
    }

    /// Changes a pod's condition.
    pub(crate) async fn set(&mut self, cluster: &Cluster, name: &str, condition: Condition) {
        let pod = self.pods.get_mut(name).expect("it is there");
        pod.condition = condition;
        cluster.patch(&format!("{SLICES}/{name}"), &pod.slice(name)).await;
        self.changes += 1;
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
        cluster.delete(&format!("{SLICES}/{name}")).await;
        self.changes += 1;
    }

    /// Kills a pod's engine; its endpoint stays as it is.
    pub(crate) async fn kill(&mut self, name: &str) {
        let pod = self.pods.get_mut(name).expect("it is there");
        must(pod.engine.take().expect("it runs").kill().await);
    }
}

/// Requests in an engine.
fn running(page: &Scrape) -> f64 {
    let sum = |name| page.sum(name).unwrap_or_default();
    sum("vllm:num_requests_running") + sum("vllm:num_requests_waiting")
}

impl Pod {
    fn slice(&self, name: &str) -> serde_json::Value {
        let Pod { at, node, condition, .. } = self;
        let ready = *condition == Condition::Ready;
        let terminating = *condition == Condition::Terminating;
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": name, "labels": {"kubernetes.io/service-name": SERVICE}},
            "ports": [{"name": "http", "port": at.port(), "protocol": "TCP"}],
            "endpoints": [{
                "addresses": [at.ip().to_string()],
                "conditions":
                    {"ready": ready, "serving": ready || terminating, "terminating": terminating},
                "nodeName": format!("node-{node}"),
                "zone": format!("zone-{node}"),
                "targetRef":
                    {"kind": "Pod", "name": name, "namespace": NAMESPACE, "uid": format!("uid-{name}")},
            }],
        })
    }
}

/// The address by which this machine would reach others. Nothing is sent.
fn own_address() -> IpAddr {
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
    let routed = socket.connect("192.0.2.1:9").and_then(|()| socket.local_addr());
    let own = routed
        .expect("a route, since Kubernetes refuses loopback addresses; add a default route")
        .ip();
    assert!(
        !own.is_loopback(),
        "{own} is the only address; this test needs one that is no loopback address"
    );
    own
}
