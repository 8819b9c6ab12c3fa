//! Our Helm chart, rendered by helm.

mod documents;
mod files;
mod refusals;
mod reload;
mod restarts;
mod rights;
mod upgrade;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use meridian_fleet::venv::{self, Pins};
use serde_json::Value;

use crate::cluster::{Cluster, programs};

/// The chart's own values files, and the number of documents that each makes.
const VALUES: [(&str, usize); 5] = [
    ("one-region", 10),
    ("several-regions", 12),
    ("prefill-decode", 11),
    ("control-file", 11),
    ("control-etcd", 19),
];
/// The namespace of the release.
const NAMESPACE: &str = "llm";
const RELEASE: &str = "meridian";
/// Has PyYAML and the validator.
const PINS: Pins =
    Pins { name: "kubernetes", key: "KUBERNETES_PIP", module: "kubernetes_validate" };

struct Chart {
    helm: PathBuf,
    python: PathBuf,
    chart: PathBuf,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn values(name: &str) -> String {
    let path = root().join(format!("packaging/helm/meridian/ci/{name}-values.yaml"));
    path.display().to_string()
}

impl Chart {
    /// The chart of this checkout.
    async fn ours() -> Chart {
        Chart::at(root().join("packaging/helm/meridian")).await
    }

    /// The chart's version before this one, as helm packed it.
    async fn previous() -> Chart {
        Chart::at(root().join("lab/cli/tests/kube/fixtures/meridian-0.1.0.tgz")).await
    }

    async fn at(chart: PathBuf) -> Chart {
        let python = venv::install(&venv::home(&root(), "kubernetes"), PINS).await;
        let python = python.unwrap_or_else(|error| panic!("{error}"));
        Chart { helm: programs::helm().await, python, chart }
    }

    /// Runs a command of helm, whose last word is the chart.
    fn helm(&self, args: &[&str]) -> Result<String, String> {
        let mut command = Command::new(&self.helm);
        let done = command.args(args).arg(&self.chart).output().expect("helm starts");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match done.status.success() {
            true => Ok(text(&done.stdout)),
            false => Err(text(&done.stderr)),
        }
    }

    /// The documents as text, or why helm refuses.
    fn render(&self, args: &[&str]) -> Result<String, String> {
        // A helm that is built from source knows no version of Kubernetes.
        let own = ["template", RELEASE, "--namespace", NAMESPACE, "--kube-version", "1.36"];
        self.helm(&[&own, args].concat())
    }

    /// The documents of a values file.
    fn of_values(&self, name: &str) -> Vec<Value> {
        let text = self.render(&["--values", &values(name)]);
        self.documents(&text.unwrap_or_else(|error| panic!("{name}: {error}")))
    }

    fn documents(&self, yaml: &str) -> Vec<Value> {
        let code = "import json, sys, yaml\n\
                    documents = yaml.safe_load_all(sys.stdin)\n\
                    json.dump([one for one in documents if one], sys.stdout)";
        let mut command = Command::new(&self.python);
        let command = command.args(["-c", code]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut python = command.spawn().expect("Python starts");
        python.stdin.take().expect("is a pipe").write_all(yaml.as_bytes()).expect("is read");
        let done = python.wait_with_output().expect("it ends");
        serde_json::from_slice(&done.stdout).expect("the documents are YAML")
    }
}

/// The groups of the Prometheus Operator and of LeaderWorkerSet, which the validator does not know.
const OTHERS: [&str; 2] = ["monitoring.coreos.com/", "leaderworkerset.x-k8s.io/"];

/// Whether a document is of Kubernetes itself.
fn is_core(document: &Value) -> bool {
    let of = document["apiVersion"].as_str().unwrap_or_default();
    !OTHERS.iter().any(|group| of.starts_with(group))
}

/// The documents that the validator can check; the others are named aloud.
fn checkable(name: &str, documents: &[Value]) -> Vec<Value> {
    let (core, others): (Vec<&Value>, Vec<&Value>) =
        documents.iter().partition(|document| is_core(document));
    for one in others {
        println!("{name}: only the API server checks {}", one["kind"]);
    }
    core.into_iter().cloned().collect()
}

/// A cluster with the namespaces of the release and of the engines, and the definitions of further kinds.
async fn cluster() -> Cluster {
    let cluster = Cluster::start().await;
    for name in [NAMESPACE, "serving"] {
        cluster.namespace(name).await;
    }
    for file in programs::definitions().await {
        kubectl(&cluster, &["apply", "--server-side", "-f"], &file).await;
    }
    until_defined(&cluster).await;
    cluster
}

/// Waits until the server serves all kinds that were defined.
async fn until_defined(cluster: &Cluster) {
    let is_served = |one: &Value| {
        let mut conditions = one["status"]["conditions"].as_array().into_iter().flatten();
        conditions.any(|it| it["type"] == "Established" && it["status"] == "True")
    };
    let start = Instant::now();
    loop {
        let all = cluster.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions").await;
        if all["items"].as_array().expect("it is a list").iter().all(is_served) {
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "a kind is not served: {all}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Runs kubectl with a file; its stdout and stderr.
async fn kubectl(cluster: &Cluster, args: &[&str], file: &Path) -> (String, String) {
    let mut kubectl = Command::new(programs::kubectl().await);
    kubectl.arg("--kubeconfig").arg(cluster.admin_kubeconfig()).args(args).arg(file);
    let done = kubectl.output().expect("kubectl starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(done.status.success(), "{kubectl:?}: {}", text(&done.stderr));
    (text(&done.stdout), text(&done.stderr))
}

/// The document of a kind and a name.
fn document<'a>(documents: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let is = |one: &&Value| one["kind"] == kind && one["metadata"]["name"] == name;
    documents.iter().find(is).unwrap_or_else(|| panic!("there is no {kind} {name}"))
}

/// Writes documents as YAML that every reader understands, in which JSON is allowed.
fn write(path: &Path, documents: &[Value]) {
    let text: Vec<String> = documents.iter().map(Value::to_string).collect();
    std::fs::write(path, text.join("\n---\n")).expect("writes");
}
