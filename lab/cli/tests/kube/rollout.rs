//! A gateway with the rights of the chart's role follows a Service through 200 changes under load.

use std::time::{Duration, Instant};

use meridian_base::Rng;
use meridian_fleet::{Client, Fleet, Gateway, GatewaySpec};
use meridian_protocol::admin::Status;
use serde_json::json;

use crate::cluster::Cluster;
use crate::common::{LIMIT, fleet, must, status, status_when};
use crate::kubelet::{Condition, Kubelet, NAMESPACE, SERVICE};
use crate::load::Load;

const CHANGES: usize = 200;
/// Ready pods between two steps.
const PODS: std::ops::RangeInclusive<usize> = 2..=5;
/// How long a dead pod is still reported as ready.
const UNNOTICED: Duration = Duration::from_millis(300);

struct Test {
    cluster: Cluster,
    kubelet: Kubelet,
    fleet: Fleet,
    gateway: Gateway,
    client: Client,
    load: Load,
    /// Times from the API server's answer to a change until the gateway acts by it.
    latencies: Vec<Duration>,
}

/// A service account that may watch endpoints, and nothing else: the file of a gateway for it.
async fn account(cluster: &Cluster) -> String {
    let (meta, group) = (json!({"name": "meridian"}), "rbac.authorization.k8s.io");
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta});
    cluster.create(&format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts"), &account).await;
    let rules = json!([{
        "apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"],
        "verbs": ["get", "list", "watch"],
    }]);
    let path = format!("/apis/{group}/v1/namespaces/{NAMESPACE}");
    let version = format!("{group}/v1");
    let role = json!({"apiVersion": version, "kind": "Role", "metadata": meta, "rules": rules});
    cluster.create(&format!("{path}/roles"), &role).await;
    let binding = json!({
        "apiVersion": version, "kind": "RoleBinding", "metadata": meta,
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "meridian"},
        "subjects": [{"kind": "ServiceAccount", "name": "meridian", "namespace": NAMESPACE}],
    });
    cluster.create(&format!("{path}/rolebindings"), &binding).await;
    let token = cluster.account_token(NAMESPACE, "meridian").await;
    cluster.kubeconfig("meridian", &token, NAMESPACE).display().to_string()
}

impl Test {
    async fn start() -> Test {
        let cluster = Cluster::start().await;
        let mut kubelet = Kubelet::start(&cluster).await;
        let kubeconfig = account(&cluster).await;
        let fleet = fleet();
        for _ in 0..*PODS.start() {
            kubelet.create(&cluster, &fleet).await;
        }
        let discovery = format!(
            "discovery: [{{kubernetes: {{service: {SERVICE}, kubeconfig: {kubeconfig:?}}}}}]\n"
        );
        let spec = GatewaySpec { resume: true, further: discovery, ..GatewaySpec::default() };
        let gateway = must(fleet.gateway("gateway", &spec).await);
        let client = Client::new();
        let all = |s: &Status| crate::common::up(*PODS.start())(s);
        status_when(&client, &gateway, "the first pods are up", all).await;
        let load = Load::start(12, &gateway.url);
        Test { cluster, kubelet, fleet, gateway, client, load, latencies: Vec::new() }
    }

    /// Waits until the gateway acts by the newest change of a pod.
    async fn seen(&mut self, name: &str, condition: Condition) {
        let start = Instant::now();
        loop {
            let status = status(&self.client, &self.gateway).await;
            let replica = status.replicas.iter().find(|replica| replica.name == name);
            let acts = match condition {
                Condition::Ready => replica.is_some_and(|r| r.state != "draining"),
                _ => replica.is_none_or(|r| r.state == "draining"),
            };
            if acts {
                break;
            }
            assert!(start.elapsed() < LIMIT, "{name} is {condition:?}: {status:#?}");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        self.latencies.push(start.elapsed());
        match condition {
            Condition::Ready => self.load.allows(name),
            _ => self.load.forbids(name),
        }
    }

    async fn set(&mut self, name: &str, condition: Condition) {
        self.kubelet.set(&self.cluster, name, condition).await;
        self.seen(name, condition).await;
    }

    async fn add(&mut self) {
        let name = self.kubelet.create(&self.cluster, &self.fleet).await;
        self.seen(&name, Condition::Ready).await;
        let is_up = |s: &Status| s.replicas.iter().any(|r| r.name == name && r.state == "up");
        status_when(&self.client, &self.gateway, "the new pod serves", is_up).await;
    }

    /// Scale-in, as a Deployment's: the pod terminates, ends its requests and goes.
    async fn take_away(&mut self, name: &str) {
        self.set(name, Condition::Terminating).await;
        self.kubelet.remove(&self.cluster, name).await;
    }

    /// A pod dies, and is reported as ready for a while, then as not ready; then it goes.
    async fn lose(&mut self, name: &str) {
        self.kubelet.kill(name).await;
        tokio::time::sleep(UNNOTICED).await;
        self.set(name, Condition::NotReady).await;
        self.kubelet.remove(&self.cluster, name).await;
    }

    async fn step(&mut self, rng: &mut Rng) {
        let ready = self.kubelet.alive(Condition::Ready);
        let name = ready[rng.below(ready.len())].clone();
        match rng.below(6) {
            _ if ready.len() < *PODS.start() => self.add().await,
            0 | 1 if ready.len() < *PODS.end() => self.add().await,
            0..=2 if ready.len() > *PODS.start() => self.take_away(&name).await,
            // One pod is replaced by another, as a rollout does with each.
            0..=3 => {
                self.add().await;
                self.take_away(&name).await;
            }
            // A readiness probe fails for a moment.
            4 if ready.len() > 1 => {
                self.set(&name, Condition::NotReady).await;
                self.set(&name, Condition::Ready).await;
            }
            _ => {
                // A node is lost with its pod. A request that breaks two engines in a row is not sent to
                // a third, so two pods that die in one instant may fail a request of both.
                self.lose(&name).await;
            }
        }
    }
}

// Rollouts, scale-in, lost nodes, pods that are ready and dead, and an API server that dies: each request is
// answered whole, and none that begins after the gateway saw that a pod goes is sent there.
#[tokio::test]
async fn two_hundred_changes_under_load() {
    let mut test = Test::start().await;
    let (mut rng, mut restarted) = (Rng::new(1), false);
    while test.kubelet.changes < CHANGES {
        test.step(&mut rng).await;
        if test.kubelet.changes > CHANGES / 2 && !restarted {
            restarted = true;
            test.cluster.kill().await;
            let lost = |s: &Status| s.discovery[0].trouble.is_some();
            status_when(&test.client, &test.gateway, "the API server is missed", lost).await;
            test.cluster.restart().await;
            let back = |s: &Status| s.discovery[0].trouble.is_none();
            status_when(&test.client, &test.gateway, "the API server is back", back).await;
        }
    }
    let ends = test.load.end().await;
    let mut latencies = test.latencies;
    latencies.sort_unstable();
    let at = |share: f64| latencies[((latencies.len() - 1) as f64 * share) as usize];
    println!(
        "{} changes, {ends:?}; a change acts after P50 {:?}, P99 {:?}, at most {:?}",
        test.kubelet.changes,
        at(0.5),
        at(0.99),
        at(1.0)
    );
    assert!(ends.whole > 500, "{ends:?}");
    assert_eq!((ends.broken, ends.late), (0, 0), "{ends:?}");
    let idle = |s: &Status| s.requests.in_flight == 0;
    status_when(&test.client, &test.gateway, "nothing is in flight", idle).await;
}
