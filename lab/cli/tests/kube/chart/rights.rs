//! What the service account of the gateways may do, as a real API server decides.

use std::collections::BTreeSet;

use http::Method;
use serde_json::{Value, json};

use super::{Chart, NAMESPACE, RELEASE, cluster};
use crate::cluster::Cluster;

// Reading the kinds that `config.discovery` needs, in the namespaces that it names, and nothing else.
#[tokio::test]
async fn only_what_discovery_needs() {
    let chart = Chart::ours().await;
    for (values, resource) in
        [("one-region", "discovery.k8s.io/endpointslices"), ("prefill-decode", "/pods")]
    {
        let cluster = cluster().await;
        for document in chart.of_values(values) {
            if let Some(path) = path(&document) {
                cluster.create(&path, &document).await;
            }
        }
        let token = cluster.account_token(NAMESPACE, RELEASE).await;
        let wanted = ["get", "list", "watch"].map(|verb| format!("{verb} {resource}"));
        assert_eq!(rules(&cluster, &token, "serving").await, BTreeSet::from(wanted), "{values}");
        assert_eq!(rules(&cluster, &token, NAMESPACE).await, BTreeSet::new(), "{values}");
        requests(&cluster, &token, resource).await;
    }
}

/// The path of the kinds that matter here.
fn path(document: &Value) -> Option<String> {
    let namespace = document["metadata"]["namespace"].as_str()?;
    match document["kind"].as_str()? {
        "ServiceAccount" => Some(format!("/api/v1/namespaces/{namespace}/serviceaccounts")),
        kind @ ("Role" | "RoleBinding") => {
            let kinds = format!("{}s", kind.to_lowercase());
            Some(format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/{kinds}"))
        }
        _ => None,
    }
}

/// `VERB GROUP/RESOURCE` for all that a token's bearer may do in a namespace, apart from questions about itself.
async fn rules(cluster: &Cluster, token: &str, namespace: &str) -> BTreeSet<String> {
    let group = "authorization.k8s.io/v1";
    let body = json!({
        "apiVersion": group, "kind": "SelfSubjectRulesReview", "spec": {"namespace": namespace},
    });
    let path = format!("/apis/{group}/selfsubjectrulesreviews");
    let answer = cluster.ask(token, Method::POST, &path, Some(&body)).await.expect("it answers");
    assert_eq!(answer.status, 201, "{answer:?}");
    let texts = |value: &Value| -> Vec<String> {
        value
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|one| one.as_str().map(str::to_owned))
            .collect()
    };
    let mut found = BTreeSet::new();
    for rule in answer.value()["status"]["resourceRules"].as_array().expect("there are rules") {
        for group in texts(&rule["apiGroups"]) {
            for resource in texts(&rule["resources"]) {
                let verbs = texts(&rule["verbs"]);
                found.extend(verbs.iter().map(|verb| format!("{verb} {group}/{resource}")));
            }
        }
    }
    found.retain(|rule| !rule.contains("k8s.io/selfsubject"));
    found
}

/// Real requests have the same answers.
async fn requests(cluster: &Cluster, token: &str, resource: &str) {
    let status = async |method: Method, path: &str| {
        let body = json!({"metadata": {"name": "x"}});
        let body = (method != Method::GET).then_some(&body);
        cluster.ask(token, method, path, body).await.expect("it answers").status
    };
    let slices = "/apis/discovery.k8s.io/v1/namespaces/serving/endpointslices";
    let pods = "/api/v1/namespaces/serving/pods";
    let reads_pods = resource == "/pods";
    let (may, may_not) = if reads_pods { (pods, slices) } else { (slices, pods) };
    assert_eq!(status(Method::GET, may).await, 200);
    for path in [
        may_not,
        "/api/v1/namespaces/serving/secrets",
        "/api/v1/namespaces/llm/secrets",
        "/api/v1/namespaces/llm/configmaps",
        "/apis/discovery.k8s.io/v1/endpointslices",
        "/api/v1/pods",
        "/api/v1/nodes",
    ] {
        assert_eq!(status(Method::GET, path).await, 403, "GET {path}");
    }
    for method in [Method::POST, Method::DELETE] {
        assert_eq!(status(method.clone(), may).await, 403, "{method} {may}");
    }
}
