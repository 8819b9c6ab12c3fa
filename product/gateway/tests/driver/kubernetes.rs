//! Service discovery in a Kubernetes cluster: replicas that join and leave with its endpoints.

use std::time::Duration;

use meridian_config::{Kubernetes, KubernetesPort, Source};
use meridian_protocol::admin::{EndpointCounts, Status};
use serde_json::{Value, json};

use crate::common::{
    ApiServer, Region, Replica, Script, call, chat, config, get, open, stream_chat,
};

const EVENT: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"w\"}}]}\n\n";

fn of_service(server: &ApiServer, name: &str) -> Source {
    let kubernetes = Kubernetes {
        service: Some(name.to_owned()),
        kubeconfig: Some(server.kubeconfig()),
        ..Kubernetes::default()
    };
    Source { kubernetes: Some(kubernetes), ..Source::default() }
}

/// The name of the source `of_service` of the Service llama.
fn name(server: &ApiServer) -> String {
    format!("kubernetes llama of {}", server.kubeconfig().display())
}

async fn region(source: Source) -> Region {
    let mut config = config(&[]);
    config.discovery = vec![source];
    Region::start(config).await
}

fn ready() -> Value {
    json!({"ready": true, "serving": true, "terminating": false})
}

fn not_ready() -> Value {
    json!({"ready": false, "serving": false, "terminating": false})
}

fn terminating() -> Value {
    json!({"ready": false, "serving": true, "terminating": true})
}

/// Names and states of the replicas that are here.
fn states(status: &Status) -> Vec<(&str, &str)> {
    let mut states: Vec<(&str, &str)> =
        status.replicas.iter().map(|r| (&*r.name, &*r.state)).collect();
    states.sort_unstable();
    states
}

async fn until(region: &Region, wanted: &[(&str, &str)]) -> Status {
    let known = |s: &Status| states(s) == wanted && s.replicas.iter().all(|r| !r.models.is_empty());
    region.until(&format!("{wanted:?}"), known).await
}

/// The fields of an endpoint that belong to a pod.
fn of_pod(name: &str) -> Value {
    json!({"targetRef": {"kind": "Pod", "name": name, "uid": format!("uid of {name}")}, "zone": "z1"})
}

// Ready endpoints join and serve. One that terminates finishes its stream, gets no new request and
// goes; a pod that is not ready stays without new requests, and goes on as the same replica.
#[tokio::test(start_paused = true)]
async fn endpoints_join_pause_and_leave() {
    let (a, b) = (Replica::start().await, Replica::start().await);
    let server = ApiServer::start("endpoints").await;
    server.endpoint("s1", &a, ready(), of_pod("pod-a"));
    server.endpoint("s2", &b, not_ready(), of_pod("pod-b"));
    let region = region(of_service(&server, "llama")).await;
    let status = until(&region, &[("pod-a", "up")]).await;
    let counts = EndpointCounts { ready: 1, not_ready: 1, terminating: 0 };
    let source = &status.discovery[0];
    assert_eq!((&source.name, source.replicas), (&name(&server), 1));
    assert_eq!((source.endpoints, source.problems.len()), (Some(counts), 0));
    let asked = server.asked();
    let slices = "/apis/discovery.k8s.io/v1/namespaces/serving/endpointslices?";
    assert!(asked[0].starts_with(slices), "{asked:?}");
    assert!(asked[0].contains("kubernetes.io%2Fservice-name%3Dllama"), "{asked:?}");
    let watch = asked.iter().find(|path| path.contains("watch=true")).expect("a watch");
    assert!(watch.contains("allowWatchBookmarks=true"), "{watch}");

    server.endpoint("s2", &b, ready(), of_pod("pod-b"));
    until(&region, &[("pod-a", "up"), ("pod-b", "up")]).await;
    let page = get(region.admin, "/metrics").await;
    let line =
        format!("meridian_discovery_endpoints{{source=\"{}\",state=\"ready\"}} 2", name(&server));
    assert!(page.text().contains(&line), "{}", page.text());

    server.endpoint("s1", &a, not_ready(), of_pod("pod-a"));
    until(&region, &[("pod-a", "draining"), ("pod-b", "up")]).await;
    let before = (a.count(), b.count());
    for _ in 0..3 {
        assert_eq!(call(region.listen, chat("hi")).await.status, 200);
    }
    assert_eq!((a.count(), b.count()), (before.0, before.1 + 3));
    server.endpoint("s1", &a, ready(), of_pod("pod-a"));
    until(&region, &[("pod-a", "up"), ("pod-b", "up")]).await;

    b.then(
        Script::sse()
            .event(EVENT)
            .wait(Duration::from_secs(60))
            .event("data: [DONE]\n\n")
            .send("0\r\n\r\n"),
    );
    server.endpoint("s1", &a, not_ready(), of_pod("pod-a"));
    until(&region, &[("pod-a", "draining"), ("pod-b", "up")]).await;
    let mut long = open(region.listen, stream_chat("long")).await;
    long.read_to("w").await;
    server.endpoint("s1", &a, ready(), of_pod("pod-a"));
    server.endpoint("s2", &b, terminating(), of_pod("pod-b"));
    until(&region, &[("pod-a", "up"), ("pod-b", "draining")]).await;
    let before = b.count();
    for _ in 0..3 {
        assert_eq!(call(region.listen, chat("hi")).await.status, 200);
    }
    assert_eq!(b.count(), before, "a terminating pod gets no new requests");
    server.delete("endpointslices", "s2");
    let rest = long.rest().await;
    assert!(!rest.cut && rest.text().ends_with("[DONE]\n\n"), "{:?}", rest.text());
    until(&region, &[("pod-a", "up")]).await;

    // Scaled to zero: an empty list is a list.
    server.delete("endpointslices", "s1");
    let status = until(&region, &[]).await;
    assert_eq!(status.discovery[0].trouble, None);
    assert!(status.discovery[0].problems[0].contains("llama has no EndpointSlices"));
}

// A lost API server changes nothing, and is reported; a refusal names the missing right; a version
// that is too old begins a new list, which is no failure.
#[tokio::test(start_paused = true)]
async fn the_last_list_stands() {
    let (a, b) = (Replica::start().await, Replica::start().await);
    let server = ApiServer::start("stands").await;
    server.slice("s1", &a, ready());
    let region = region(of_service(&server, "llama")).await;
    until(&region, &[("r0", "up")]).await;

    server.refuses(Some(403));
    let failing = |s: &Status| s.discovery[0].trouble.is_some();
    let status = region.until("it fails", failing).await;
    let trouble = status.discovery[0].trouble.clone().unwrap_or_default();
    assert!(trouble.contains("get, list and watch of endpointslices"), "{trouble}");
    assert!(trouble.contains("in the namespace serving"), "{trouble}");
    assert_eq!((status.discovery[0].replicas, status.discovery[0].failures > 0), (1, true));
    assert_eq!(call(region.listen, chat("hi")).await.status, 200);
    let page = get(region.admin, "/metrics").await;
    let line = format!("meridian_discovery_good{{source=\"{}\"}} 0", name(&server));
    assert!(page.text().contains(&line), "{}", page.text());

    // Nothing has changed meanwhile.
    server.refuses(None);
    region.until("it works again", |s| s.discovery[0].trouble.is_none()).await;
    server.slice("s2", &b, ready());
    let status = until(&region, &[("r0", "up"), ("r1", "up")]).await;
    assert_eq!(status.discovery[0].trouble, None);
    let failures = status.discovery[0].failures;

    server.compacts();
    server.delete("endpointslices", "s1");
    let status = until(&region, &[("r1", "up")]).await;
    assert_eq!((&status.discovery[0].trouble, status.discovery[0].failures), (&None, failures));
}

// The labels of pods give role and revision, and only rank 0 of a group serves. Prefill and decode
// replicas pair within a revision.
#[tokio::test(start_paused = true)]
async fn labels_of_pods() {
    let pods = [("p", "prefill", "1", "0"), ("d", "decode", "2", "0"), ("w", "decode", "1", "3")];
    let server = ApiServer::start("labels").await;
    let mut replicas = Vec::new();
    for (name, role, revision, rank) in pods {
        let replica = Replica::start().await;
        replica.page("/version", Script::json(200, r#"{"version":"0.32.0"}"#));
        let at =
            replica.url().trim_start_matches("http://").parse::<std::net::SocketAddr>().unwrap();
        let pod = json!({
            "metadata": {"uid": name, "labels": {"role": role, "hash": revision, "rank": rank}},
            "spec": {"containers": [{"name": "c", "ports": [{"containerPort": at.port()}]}]},
            "status": {"podIP": at.ip().to_string(), "conditions": [{"type": "Ready", "status": "True"}]}});
        server.put("pods", name, pod);
        server.endpoint(name, &replica, ready(), of_pod(name));
        replicas.push(replica);
    }
    let labels = Kubernetes {
        role_label: Some("role".to_owned()),
        rank_label: Some("rank".to_owned()),
        revision_label: Some("hash".to_owned()),
        kubeconfig: Some(server.kubeconfig()),
        ..Kubernetes::default()
    };
    let engine = || serde_json::from_value(json!("vllm")).expect("an engine");
    let transfer = || serde_json::from_value(json!("nixl")).expect("a transfer");
    for of in ["service", "selector"] {
        let mut kubernetes = labels.clone();
        match of {
            "service" => kubernetes.service = Some("llama".to_owned()),
            _ => kubernetes.selector = Some("app=llama".to_owned()),
        }
        let source = Source {
            kubernetes: Some(kubernetes),
            engine: Some(engine()),
            transfer: Some(transfer()),
            role: serde_json::from_value(json!("decode")).expect("a role"),
            ..Source::default()
        };
        let region = region(source).await;
        let status = until(&region, &[("d", "up"), ("p", "up")]).await;
        let roles: Vec<_> = status
            .replicas
            .iter()
            .map(|r| (&*r.name, &*r.role, r.revision.as_deref().unwrap_or_default()))
            .collect();
        assert!(
            roles.contains(&("p", "prefill", "1")) && roles.contains(&("d", "decode", "2")),
            "{of}: {roles:?}"
        );
        let unpaired = |s: &Status| s.advice.iter().any(|line| line.contains("revision 2"));
        region.until("pools of two revisions form no pair", unpaired).await;
    }
}

// While the labels of pods can't be read, changes of the slices count, and the failure stays reported.
#[tokio::test(start_paused = true)]
async fn one_of_two_watches_fails() {
    let replica = Replica::start().await;
    let server = ApiServer::start("half").await;
    server.put("pods", "a", json!({"metadata": {"labels": {"rank": "0"}}}));
    server.endpoint("s1", &replica, ready(), of_pod("a"));
    let mut source = of_service(&server, "llama");
    source.kubernetes.as_mut().unwrap().rank_label = Some("rank".to_owned());
    let region = region(source).await;
    until(&region, &[("a", "up")]).await;
    server.refuses_pods(Some(403));
    let fails = |s: &Status| s.discovery[0].trouble.as_ref().is_some_and(|t| t.contains("pods"));
    region.until("pods can't be read", fails).await;
    server.endpoint("s1", &replica, not_ready(), of_pod("a"));
    let status = until(&region, &[("a", "draining")]).await;
    assert!(fails(&status), "{:?}", status.discovery);
    server.refuses_pods(None);
    let works = |s: &Status| s.discovery[0].trouble.is_none();
    region.until("both watches work again", works).await;
}

// A replica for which there was no room joins when there is, and one that an operator removed joins
// again, although nothing changes in the cluster.
#[tokio::test(start_paused = true)]
async fn the_list_is_applied_again() {
    let (a, b) = (Replica::start().await, Replica::start().await);
    let server = ApiServer::start("again").await;
    server.endpoint("s1", &a, ready(), of_pod("a"));
    server.endpoint("s2", &b, ready(), of_pod("b"));
    let mut config = config(&[&a]);
    config.limits.replicas = 1;
    config.discovery = vec![of_service(&server, "llama")];
    let region = Region::start(config).await;
    region.until("there is no room for b", |s| s.discovery[0].left_out == 1).await;
    region.admin("DELETE", "/admin/replicas/r0", "").await;
    region.until("one of the cluster's joins", |s| s.discovery[0].replicas == 1).await;
}

// Pods of two namespaces may have one name: both serve, and the second has a number.
#[tokio::test(start_paused = true)]
async fn pods_of_one_name() {
    let (a, b) = (Replica::start().await, Replica::start().await);
    let (one, other) = (ApiServer::start("one").await, ApiServer::start("other").await);
    one.endpoint("s", &a, ready(), of_pod("vllm-0"));
    other.endpoint("s", &b, ready(), of_pod("vllm-0"));
    let mut config = config(&[]);
    config.discovery = vec![of_service(&one, "llama"), of_service(&other, "llama")];
    config.discovery[1].kubernetes.as_mut().unwrap().port =
        Some(KubernetesPort::Name("http".to_owned()));
    let region = Region::start(config).await;
    let two = |s: &Status| {
        s.replicas.len() == 2 && s.replicas.iter().all(|r| r.state == "up" && !r.models.is_empty())
    };
    let status = region.until("both serve", two).await;
    let names: Vec<&str> = status.replicas.iter().map(|r| &*r.name).collect();
    assert!(
        names.contains(&"vllm-0") && names.iter().any(|name| name.starts_with('r')),
        "{names:?}"
    );
    // Another event leaves both as they are.
    other.endpoint("s", &b, ready(), of_pod("vllm-0"));
    other.endpoint("s3", &a, ready(), of_pod("vllm-9"));
    let again = region.until("both serve", two).await;
    let again: Vec<&str> = again.replicas.iter().map(|r| &*r.name).collect();
    assert_eq!(names, again);
}
