//! Pods: the replicas that a selector matches.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use k8s_openapi::api::core::v1::{self as core, ContainerPort};

use crate::PodPort;
use crate::endpoint::{Endpoint, EndpointRow, Readiness};

/// Label of a pod's zone, which clusters copy from its node (since Kubernetes 1.35).
const ZONE: &str = "topology.kubernetes.io/zone";

/// The row of a pod; `None` before it has an address and after it has ended.
pub(crate) fn row(
    pod: &core::Pod,
    port: Option<&PodPort>,
    problems: &mut BTreeSet<String>,
) -> Option<EndpointRow> {
    let status = pod.status.as_ref()?;
    if matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")) {
        return None;
    }
    let ip: IpAddr = status.pod_ip.as_deref()?.parse().ok()?;
    let port = match choose(pod, port) {
        Ok(port) => port,
        Err(problem) => {
            problems.insert(problem);
            return None;
        }
    };
    let endpoint = Endpoint {
        address: SocketAddr::new(ip, port),
        pod: pod.metadata.name.clone(),
        readiness: readiness(pod, status),
        zone: pod.metadata.labels.as_ref().and_then(|labels| labels.get(ZONE)).cloned(),
        role: None,
        revision: None,
    };
    Some(EndpointRow { endpoint, uid: pod.metadata.uid.clone() })
}

fn readiness(pod: &core::Pod, status: &core::PodStatus) -> Readiness {
    let ready =
        |condition: &core::PodCondition| condition.type_ == "Ready" && condition.status == "True";
    match &pod.metadata.deletion_timestamp {
        Some(_) => Readiness::Terminating,
        None if status.conditions.iter().flatten().any(ready) => Readiness::Ready,
        None => Readiness::NotReady,
    }
}

/// The port of a pod.
fn choose(pod: &core::Pod, wanted: Option<&PodPort>) -> Result<u16, String> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let ports: Vec<&ContainerPort> =
        containers.flat_map(|container| container.ports.iter().flatten()).collect();
    let number = |port: &ContainerPort| u16::try_from(port.container_port).ok();
    match wanted {
        Some(PodPort::Number(number)) => Ok(*number),
        Some(PodPort::Name(name)) => {
            let named = |port: &&&ContainerPort| port.name.as_deref() == Some(name);
            let found = ports.iter().find(named).and_then(|port| number(port));
            found.ok_or_else(|| format!("port: `{name}` is not a port of every pod that the selector matches; name the number"))
        }
        None => match &ports[..] {
            [only] => number(only).ok_or_else(|| "the pods' port is not a number".to_owned()),
            ports => Err(format!(
                "pods that the selector matches have {} ports; name the one of the engine in `port`",
                ports.len()
            )),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(text: &str) -> core::Pod {
        serde_json::from_str(text).expect("a pod")
    }

    // A pod is a replica from when it has an address until it has ended.
    #[test]
    fn the_life_of_a_pod() {
        let ports =
            r#""spec": {"containers": [{"name": "vllm", "ports": [{"containerPort": 8000}]}]}"#;
        let at = |metadata: &str, status: &str| {
            let pod = pod(&format!(r#"{{"metadata": {metadata}, {ports}, "status": {status}}}"#));
            let row = row(&pod, None, &mut BTreeSet::new())?;
            Some((row.endpoint.address.to_string(), row.endpoint.readiness))
        };
        let one = |readiness| Some(("10.0.0.1:8000".to_owned(), readiness));
        let ready = r#"{"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}"#;
        assert_eq!(at("{}", r#"{"phase": "Pending"}"#), None);
        assert_eq!(
            at("{}", r#"{"phase": "Running", "podIP": "10.0.0.1"}"#),
            one(Readiness::NotReady)
        );
        assert_eq!(at("{}", ready), one(Readiness::Ready));
        let deleted = r#"{"deletionTimestamp": "2026-01-01T00:00:00Z"}"#;
        assert_eq!(at(deleted, ready), one(Readiness::Terminating));
        assert_eq!(at("{}", r#"{"phase": "Failed", "podIP": "10.0.0.1"}"#), None);
    }

    // A port is chosen by name or number, or because the pod has only one.
    #[test]
    fn ports() {
        let two = r#"{"metadata": {}, "status": {"podIP": "fd00::1"}, "spec": {"containers": [
            {"name": "a", "ports": [{"containerPort": 8000, "name": "http"}]},
            {"name": "b", "ports": [{"containerPort": 9000}]}]}}"#;
        let at = |port: Option<PodPort>| {
            let mut problems = BTreeSet::new();
            let row = row(&pod(two), port.as_ref(), &mut problems);
            (row.map(|row| row.endpoint.address.to_string()), problems.into_iter().next())
        };
        assert_eq!(at(Some(PodPort::Name("http".to_owned()))).0.as_deref(), Some("[fd00::1]:8000"));
        assert_eq!(at(Some(PodPort::Number(1))).0.as_deref(), Some("[fd00::1]:1"));
        assert!(at(None).1.is_some_and(|why| why.contains("have 2 ports")));
        assert!(
            at(Some(PodPort::Name("web".to_owned()))).1.is_some_and(|why| why.contains("`web`"))
        );
    }
}
