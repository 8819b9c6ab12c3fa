//! Kubernetes: a service for each instance, for each of its servers a deployment bound to it by
//! host name, and the gateway.
//!
//! Kubernetes allocates GPUs by number and not by position, so if several instances share a server
//! its device plugin assigns the GPUs. Pods use the server's network, because KV needs its cards.

use serde_json::{Value, json};

use super::gateway::LISTEN;
use super::served::Served;
use super::{Unit, engine, gateway, images, nccl};

const HEAD: &str = "\
# kubectl apply -f kubernetes.yaml. Names of servers are kubernetes.io/hostname of the nodes. A model
# that needs a token: kubectl create secret generic hf-token --from-literal=token=...
# The gateway's image is the one that docs/install.md loads; write your registry's name.
";

/// Where pods keep what they download.
const WEIGHTS: &str = "/weights";

pub(super) fn manifests(served: &Served, units: &[Unit<'_>]) -> String {
    let mut all = Vec::new();
    for unit in units.iter().filter(|unit| unit.blocks) {
        all.push(service(unit));
        all.extend((0..unit.nodes.len()).map(|rank| deployment(served, unit, rank)));
    }
    // An instance that is started by hand is reached by its first server's name.
    let hosts =
        units.iter().map(|unit| (unit, if unit.blocks { unit.name.as_str() } else { unit.head() }));
    all.extend(front(&gateway::text(hosts)));
    let documents: Vec<String> = all.iter().map(super::yaml).collect();
    format!("{HEAD}---\n{}", documents.join("---\n"))
}

/// The name of the instance is that of its first server's pod, which the others need before it is
/// ready.
fn service(unit: &Unit<'_>) -> Value {
    let name = &unit.name;
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {
            "clusterIP": "None", "publishNotReadyAddresses": true,
            "selector": {"instance": name, "rank": "0"},
            "ports": [{"name": "http", "port": unit.ports.serve}],
        },
    })
}

fn deployment(served: &Served, unit: &Unit<'_>, rank: usize) -> Value {
    let labels = json!({
        "instance": unit.name, "rank": rank.to_string(), "phase": unit.instance().phase.name(),
    });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": format!("{}-{rank}", unit.name)},
        "spec": {
            "replicas": 1,
            // A second pod would find neither GPUs nor ports on the server.
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": {"instance": unit.name, "rank": rank.to_string()}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "hostNetwork": true, "dnsPolicy": "ClusterFirstWithHostNet",
                    "nodeSelector": {"kubernetes.io/hostname": unit.nodes[rank].server},
                    "containers": [container(served, unit, rank)],
                    "volumes": volumes(served),
                },
            },
        },
    })
}

fn volumes(served: &Served) -> Vec<Value> {
    let mut all = vec![
        json!({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}}),
        json!({"name": "weights", "emptyDir": {}}),
    ];
    if served.is_path() {
        all.push(json!({"name": "model", "hostPath": {"path": served.id, "type": "Directory"}}));
    }
    all
}

fn container(served: &Served, unit: &Unit<'_>, rank: usize) -> Value {
    let gpus = unit.nodes[rank].gpus.len().to_string();
    let mut container = json!({
        "name": "engine",
        "image": images::vllm(),
        "command": engine::vllm(served, unit, rank, &unit.name),
        "env": environment(unit),
        "resources": {"limits": {"nvidia.com/gpu": gpus}},
        "volumeMounts": [
            {"name": "shm", "mountPath": "/dev/shm"},
            {"name": "weights", "mountPath": WEIGHTS},
        ],
    });
    if served.is_path() {
        let model = json!({"name": "model", "mountPath": served.id, "readOnly": true});
        container["volumeMounts"].as_array_mut().expect("a list").push(model);
    }
    // The other servers' processes have no HTTP port.
    if rank == 0 {
        let port = unit.ports.serve;
        container["ports"] = json!([
            {"name": "http", "containerPort": port},
            {"name": "nixl", "containerPort": unit.ports.side},
        ]);
        // Half an hour to load the weights.
        container["startupProbe"] = probe("/health", port, 180);
        container["readinessProbe"] = probe("/health", port, 3);
        container["livenessProbe"] = probe("/health", port, 6);
    }
    container
}

fn environment(unit: &Unit<'_>) -> Vec<Value> {
    let token = json!({"secretKeyRef": {"name": "hf-token", "key": "token", "optional": true}});
    let mut all = vec![
        json!({
            "name": "VLLM_NIXL_SIDE_CHANNEL_HOST",
            "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}},
        }),
        json!({"name": "HF_HOME", "value": WEIGHTS}),
        json!({
            "name": "VLLM_HOST_IP",
            "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}},
        }),
        json!({"name": "VLLM_NIXL_SIDE_CHANNEL_PORT", "value": unit.ports.side.to_string()}),
        json!({"name": "HF_TOKEN", "valueFrom": token}),
    ];
    // The image has no tuner plugin that would read the table.
    let settings = nccl::settings(unit).into_iter().filter(|(name, _)| !name.contains("TUNER"));
    all.extend(settings.map(|(name, value)| json!({"name": name, "value": value})));
    all
}

/// A probe every 10 s that counts after so many failures.
fn probe(path: &str, port: impl Into<Value>, failures: u32) -> Value {
    json!({
        "httpGet": {"path": path, "port": port.into()},
        "periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": failures,
    })
}

/// The gateway: its file, its deployment and its service.
fn front(file: &str) -> [Value; 3] {
    let name = "meridian-gateway";
    let labels = json!({"app": name});
    [
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
            "data": {"gateway.yaml": file},
        }),
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {
                        // Above timeouts.drain, 30 s.
                        "terminationGracePeriodSeconds": 45,
                        "containers": [{
                            "name": "gateway",
                            "image": images::gateway(),
                            "ports": [{"name": "http", "containerPort": LISTEN}],
                            "readinessProbe": probe("/ready", LISTEN, 3),
                            "livenessProbe": probe("/health", LISTEN, 3),
                            "volumeMounts": [{"name": "config", "mountPath": "/etc/meridian"}],
                        }],
                        "volumes": [{"name": "config", "configMap": {"name": name}}],
                    },
                },
            },
        }),
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"selector": labels, "ports": [{"name": "http", "port": LISTEN}]},
        }),
    ]
}
