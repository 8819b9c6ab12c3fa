//! Upgrades with helm, on a real API server: from the chart's previous version, and of values.

use serde_json::Value;

use super::{Chart, NAMESPACE, RELEASE, VALUES, cluster, values};
use crate::cluster::Cluster;

async fn helm(chart: &Chart, cluster: &Cluster, command: &str, args: &[&str]) -> Value {
    let kubeconfig = cluster.admin_kubeconfig();
    let kubeconfig = kubeconfig.to_str().expect("the path is text");
    let own = [command, RELEASE, "--namespace", NAMESPACE, "--kubeconfig", kubeconfig];
    let done = chart.helm(&[&own, args].concat());
    done.unwrap_or_else(|error| panic!("{command} {args:?}: {error}"));
    let secret =
        format!("/api/v1/namespaces/{NAMESPACE}/secrets?labelSelector=app.kubernetes.io/name");
    cluster.get(&secret).await["items"].clone()
}

/// The number of times that the gateways' pods were described again.
async fn generation(cluster: &Cluster) -> i64 {
    let path = format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{RELEASE}");
    cluster.get(&path).await["metadata"]["generation"].as_i64().expect("it is a number")
}

// No field that Kubernetes keeps for ever changed, and running gateways keep their secrets.
#[tokio::test]
async fn from_the_previous_version() {
    let (ours, previous) = (Chart::ours().await, Chart::previous().await);
    let version = |chart: &Chart| chart.helm(&["show", "chart"]).expect("helm shows it");
    assert_ne!(version(&ours), version(&previous), "the chart in fixtures/ is not a previous one");
    for (name, _) in VALUES {
        let cluster = cluster().await;
        let values = values(name);
        let args = ["--values", &values];
        let before = helm(&previous, &cluster, "install", &args).await;
        let after = helm(&ours, &cluster, "upgrade", &args).await;
        let data = |secrets: &Value| -> Vec<Value> {
            secrets.as_array().expect("a list").iter().map(|one| one["data"].clone()).collect()
        };
        assert_eq!(data(&before), data(&after), "{name}");
        // Several regions name a Secret of the operator.
        assert_eq!(data(&before).len(), usize::from(name != "several-regions"), "{name}");
    }
}

// Keys that reload leave the Deployment as it is, and others replace its pods.
#[tokio::test]
async fn of_values() {
    let (chart, cluster) = (Chart::ours().await, cluster().await);
    let values = values("one-region");
    let with = async |command: &str, set: &str| {
        helm(&chart, &cluster, command, &["--values", &values, "--set", set]).await;
        generation(&cluster).await
    };
    let first = with("install", "config.explain_keep=1000").await;
    assert_eq!(with("upgrade", "config.explain_keep=2000").await, first);
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps/{RELEASE}");
    let file = cluster.get(&path).await["data"]["gateway.yaml"].clone();
    assert!(file.as_str().is_some_and(|text| text.contains("explain_keep: 2000")), "{file}");
    assert_eq!(with("upgrade", "config.threads=3").await, first + 1);
    assert_eq!(with("upgrade", "config.timeouts.drain=1m").await, first + 2);
}
