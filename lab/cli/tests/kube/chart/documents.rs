//! The chart's documents: helm's own rules, Kubernetes' schemas, and a real API server's admission.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::{
    Chart, NAMESPACE, RELEASE, VALUES, checkable, cluster, document, kubectl, root, values, write,
};
use crate::cluster::{Cluster, programs};

/// The newest schemas of the validator, and those of the oldest release that clouds still run.
const VERSIONS: [&str; 2] = ["1.37", "1.32"];

// helm finds no mistake, with the defaults or with a values file.
#[tokio::test]
async fn helm_lint() {
    let chart = Chart::ours().await;
    let lint = |args: &[&str]| {
        chart.helm(&[&["lint", "--strict", "--kube-version", "1.36"], args].concat())
    };
    assert!(lint(&[]).is_ok(), "{:?}", lint(&[]));
    for (name, _) in VALUES {
        assert!(lint(&["--values", &values(name)]).is_ok(), "{name}: {:?}", lint(&[]));
    }
    assert!(lint(&["--set", "config=1"]).is_err());
}

// A field that Kubernetes does not know, in its newest or its oldest version, is an error.
#[tokio::test]
async fn schemas() {
    let chart = Chart::ours().await;
    let folder = std::env::temp_dir().join(format!("meridian-chart-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("makes the folder");
    for (name, count) in VALUES {
        let all = chart.of_values(name);
        assert_eq!(all.len(), count, "{name}");
        let mut documents = checkable(name, &all);
        let file = folder.join(format!("{name}.yaml"));
        write(&file, &documents);
        for version in VERSIONS {
            let (good, said) = validated(&chart.python, version, &file);
            assert!(good, "{name}: {said}");
            assert_eq!(said.matches("passed for resource").count(), documents.len(), "{said}");
        }
        documents[0]["spec_"] = json!(1);
        write(&file, &documents);
        assert!(!validated(&chart.python, VERSIONS[0], &file).0, "{name}: a wrong field is valid");
    }
    std::fs::remove_dir_all(&folder).expect("removes the folder");
}

fn validated(python: &Path, version: &str, file: &Path) -> (bool, String) {
    let mut command = Command::new(python);
    command.args(["-m", "kubernetes_validate", "--strict", "-k", version]).arg(file);
    let done = command.output().expect("the validator starts");
    let said = [done.stdout, done.stderr].concat();
    (done.status.success(), String::from_utf8_lossy(&said).into_owned())
}

// The API server would create each document, in a namespace that warns of all that the profile `restricted`
// forbids in pods.
#[tokio::test]
async fn a_server_accepts_them() {
    let (chart, cluster) = (Chart::ours().await, cluster().await);
    let labels = json!({"pod-security.kubernetes.io/warn": "restricted"});
    let path = format!("/api/v1/namespaces/{NAMESPACE}");
    cluster.patch(&path, &json!({"metadata": {"labels": labels}})).await;
    for (name, _) in VALUES {
        let documents = chart.of_values(name);
        let (said, warned) = apply(&cluster, &documents).await;
        assert_eq!(said.matches("created (server dry run)").count(), documents.len(), "{said}");
        assert!(warned.is_empty(), "{name}: {warned}");
    }

    for (name, documents) in examples(&chart) {
        let (said, warned) = apply(&cluster, &documents).await;
        assert_eq!(said.matches("created (server dry run)").count(), documents.len(), "{said}");
        assert!(warned.is_empty(), "{name}: {warned}");
    }

    // Both would be found.
    let mut documents = chart.of_values("one-region");
    let pod = documents.iter_mut().find(|one| one["kind"] == "Deployment").expect("is there");
    pod["spec"]["template"]["spec"]["securityContext"] = Value::Null;
    let (said, warned) = apply(&cluster, &documents).await;
    assert!(said.contains("deployment") && warned.contains("PodSecurity"), "{said} {warned}");
}

/// The engines of examples/kubernetes.
fn examples(chart: &Chart) -> Vec<(String, Vec<Value>)> {
    let read = |name: &str| {
        let text = std::fs::read_to_string(root().join("examples/kubernetes").join(name)).unwrap();
        assert!(text.contains(programs::pinned("VLLM_IMAGE")), "{name}: another image than tested");
        (name.to_owned(), chart.documents(&text))
    };
    ["vllm.yaml", "prefill-decode.yaml", "leader-worker-set.yaml"].map(read).into()
}

// The examples' values find the examples' pods: by a Service that selects them, or by their labels.
#[tokio::test]
async fn examples_fit_together() {
    let chart = Chart::ours().await;
    for (name, documents) in examples(&chart) {
        let values = name.replace(".yaml", "-values.yaml");
        let values = root().join("examples/kubernetes").join(values);
        let discovery = discovery(&chart, &values);
        let labels = pods(&documents);
        assert!(!labels.is_empty(), "{name} has no pods");
        let service = documents.iter().find(|one| one["kind"] == "Service");
        let selector = match service {
            Some(service) => {
                assert_eq!(discovery["service"], service["metadata"]["name"], "{name}");
                assert_eq!(discovery["port"], service["spec"]["ports"][0]["name"], "{name}");
                service["spec"]["selector"].clone()
            }
            None => {
                let text = discovery["selector"].as_str().expect("it is text");
                let (key, value) = text.split_once('=').expect("it is a label");
                json!({key: value})
            }
        };
        for pod in labels {
            for (key, value) in selector.as_object().expect("it has labels") {
                assert_eq!(pod[key], *value, "{name}: the selector misses a pod");
            }
            for label in ["role_label", "revision_label"] {
                let Some(key) = discovery[label].as_str() else { continue };
                assert!(pod[key].is_string(), "{name}: a pod has no label {key}");
            }
        }
    }
    let stack = root().join("examples/kubernetes/production-stack-values.yaml");
    assert_eq!(discovery(&chart, &stack)["port"], 8000);
}

/// The source of a values file, as the gateway's file has it.
fn discovery(chart: &Chart, values: &Path) -> Value {
    let rendered = chart.render(&["--values", &values.display().to_string()]);
    let documents = chart.documents(&rendered.unwrap_or_else(|error| panic!("{error}")));
    let file = &document(&documents, "ConfigMap", RELEASE)["data"]["gateway.yaml"];
    let file = chart.documents(file.as_str().expect("it is text"));
    file[0]["discovery"][0]["kubernetes"].clone()
}

/// The labels of the pods that documents describe.
fn pods(documents: &[Value]) -> Vec<Value> {
    let group = |one: &Value| {
        let group = &one["spec"]["leaderWorkerTemplate"];
        [group["leaderTemplate"].clone(), group["workerTemplate"].clone()]
    };
    let all = documents.iter().flat_map(|one| {
        let [leader, worker] = group(one);
        [one["spec"]["template"].clone(), leader, worker]
    });
    all.filter(Value::is_object).map(|pod| pod["metadata"]["labels"].clone()).collect()
}

/// What kubectl prints of documents that the server would create.
async fn apply(cluster: &Cluster, documents: &[Value]) -> (String, String) {
    let file = cluster.dir().join("documents.yaml");
    write(&file, documents);
    kubectl(cluster, &["apply", "--dry-run=server", "-f"], &file).await
}
