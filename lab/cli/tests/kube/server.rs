//! The cluster of the other tests: it keeps objects, knows accounts, and comes back after a kill.

use http::Method;
use serde_json::json;

use crate::cluster::Cluster;

const MAPS: &str = "/api/v1/namespaces/serving/configmaps";

// Objects outlive the server's death, and a service account may do only what a role lets it.
#[tokio::test]
async fn keeps_objects_and_knows_accounts() {
    let mut cluster = Cluster::start().await;
    cluster.namespace("serving").await;
    let meta = json!({"name": "one"});
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"a": "1"}});
    cluster.create(MAPS, &map).await;
    cluster.patch(&format!("{MAPS}/one"), &json!({"data": {"b": "2"}})).await;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta});
    cluster.create("/api/v1/namespaces/serving/serviceaccounts", &account).await;

    cluster.kill().await;
    let token = "none";
    assert!(cluster.ask(token, Method::GET, MAPS, None).await.is_err(), "it answers after its end");
    cluster.restart().await;
    let data = &cluster.get(&format!("{MAPS}/one")).await["data"];
    assert_eq!(*data, json!({"a": "1", "b": "2"}));

    let token = cluster.account_token("serving", "one").await;
    let status = async |token: &str| {
        cluster.ask(token, Method::GET, MAPS, None).await.expect("it answers").status
    };
    assert_eq!(status("wrong").await, 401);
    assert_eq!(status(&token).await, 403);
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/serving";
    let group = "rbac.authorization.k8s.io";
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]);
    let role = json!({"apiVersion": format!("{group}/v1"), "kind": "Role", "metadata": meta, "rules": rules});
    cluster.create(&format!("{rbac}/roles"), &role).await;
    let binding = json!({
        "apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": meta,
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "one"},
        "subjects": [{"kind": "ServiceAccount", "name": "one", "namespace": "serving"}],
    });
    cluster.create(&format!("{rbac}/rolebindings"), &binding).await;
    // The server learns of new rules by a watch of its own.
    let start = std::time::Instant::now();
    while status(&token).await != 200 {
        assert!(start.elapsed().as_secs() < 60, "the role has no effect");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }

    cluster.delete(&format!("{MAPS}/one")).await;
    let list = cluster.get(MAPS).await;
    assert!(list["items"].as_array().unwrap().iter().all(|map| map["metadata"]["name"] != "one"));
}
