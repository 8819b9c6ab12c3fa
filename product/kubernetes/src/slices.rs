//! EndpointSlices: the endpoints of a Service.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use k8s_openapi::api::discovery::v1::{self as discovery, EndpointPort, EndpointSlice};

use crate::PodPort;
use crate::endpoint::{Endpoint, EndpointRow, Readiness};

/// The rows of one slice. Problems are collected, since a slice may be usable in part.
pub(crate) fn rows(
    slice: &EndpointSlice,
    port: Option<&PodPort>,
    problems: &mut BTreeSet<String>,
) -> Vec<EndpointRow> {
    // A slice without endpoints, as of a Service scaled to zero, may have no ports either.
    if slice.endpoints.is_empty() {
        return Vec::new();
    }
    let port = match choose(slice.ports.as_deref().unwrap_or_default(), port) {
        Ok(port) => port,
        Err(problem) => {
            problems.insert(problem);
            return Vec::new();
        }
    };
    let mut rows = Vec::new();
    for endpoint in &slice.endpoints {
        // All addresses of an endpoint lead to the same pod; consumers use the first.
        let Some(address) = endpoint.addresses.first() else { continue };
        match address.parse::<IpAddr>() {
            Ok(ip) => rows.push(row(endpoint, SocketAddr::new(ip, port))),
            Err(_) => {
                let kind = &slice.address_type;
                problems.insert(format!(
                    "EndpointSlice of type {kind}: `{address}` is not an IP address; use `dns` in discovery for names"
                ));
            }
        }
    }
    rows
}

fn row(endpoint: &discovery::Endpoint, address: SocketAddr) -> EndpointRow {
    let conditions = endpoint.conditions.clone().unwrap_or_default();
    let readiness = match (conditions.terminating, conditions.ready) {
        (Some(true), _) => Readiness::Terminating,
        // An absent value means ready.
        (_, None | Some(true)) => Readiness::Ready,
        (_, Some(false)) => Readiness::NotReady,
    };
    let pod = endpoint.target_ref.clone().filter(|target| target.kind.as_deref() == Some("Pod"));
    let (uid, pod) = pod.map_or((None, None), |pod| (pod.uid.or(pod.name.clone()), pod.name));
    let zone = endpoint.zone.clone();
    EndpointRow {
        endpoint: Endpoint { address, pod, readiness, zone, role: None, revision: None },
        uid,
    }
}

/// The port of a slice's endpoints.
fn choose(ports: &[EndpointPort], wanted: Option<&PodPort>) -> Result<u16, String> {
    let number = |port: &EndpointPort| port.port.and_then(|n| u16::try_from(n).ok());
    let shown = |port: &EndpointPort| {
        let name = port.name.clone().filter(|name| !name.is_empty());
        name.or(port.port.map(|n| n.to_string())).unwrap_or_default()
    };
    let all = || ports.iter().map(shown).collect::<Vec<_>>().join(", ");
    match wanted {
        Some(PodPort::Number(number)) => Ok(*number),
        Some(PodPort::Name(name)) => {
            let named = |port: &&EndpointPort| port.name.as_deref() == Some(name);
            ports.iter().find(named).and_then(number).ok_or_else(|| {
                format!("port: `{name}` is not a port of the Service, which has {}", all())
            })
        }
        None => match ports {
            [only] => number(only).ok_or_else(|| {
                "the Service has a port without a number; name its number in `port`".to_owned()
            }),
            [] => Err("the Service has no port; name the number of its pods' in `port`".to_owned()),
            _ => Err(format!("the Service has the ports {}; name one of them in `port`", all())),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(text: &str) -> EndpointSlice {
        serde_json::from_str(text).expect("a slice")
    }

    fn read(slice: &EndpointSlice, port: Option<PodPort>) -> (Vec<EndpointRow>, Vec<String>) {
        let mut problems = BTreeSet::new();
        let rows = rows(slice, port.as_ref(), &mut problems);
        (rows, problems.into_iter().collect())
    }

    const TWO_PORTS: &str = r#"{"addressType": "IPv4", "metadata": {},
        "ports": [{"name": "http", "port": 8000}, {"name": "metrics", "port": 9000}],
        "endpoints": [
            {"addresses": ["10.0.0.1", "10.9.9.9"], "zone": "a", "targetRef": {"kind": "Pod", "name": "p", "uid": "u"}},
            {"addresses": ["10.0.0.2"], "conditions": {"ready": false, "serving": true, "terminating": true}},
            {"addresses": ["10.0.0.3"], "conditions": {"ready": false, "serving": false, "terminating": false}},
            {"addresses": ["10.0.0.4"], "conditions": {"ready": true}}]}"#;

    // The conditions of endpoints, as the API's reference defines them.
    #[test]
    fn conditions() {
        let (rows, problems) = read(&slice(TWO_PORTS), Some(PodPort::Name("http".to_owned())));
        assert!(problems.is_empty(), "{problems:?}");
        let short = |row: &EndpointRow| (row.endpoint.address.to_string(), row.endpoint.readiness);
        use Readiness::{NotReady, Ready, Terminating};
        let expected = [
            ("10.0.0.1:8000", Ready),
            ("10.0.0.2:8000", Terminating),
            ("10.0.0.3:8000", NotReady),
            ("10.0.0.4:8000", Ready),
        ];
        let short: Vec<_> = rows.iter().map(short).collect();
        assert_eq!(short, expected.map(|(at, readiness)| (at.to_owned(), readiness)));
        let first = &rows[0];
        let named = (first.uid.as_deref(), first.endpoint.pod.as_deref());
        assert_eq!(named, (Some("u"), Some("p")));
        assert_eq!(first.endpoint.zone.as_deref(), Some("a"));
    }

    // A port is chosen by name, by number, or because it is the only one.
    #[test]
    fn ports() {
        let two = slice(TWO_PORTS);
        let at = |slice: &EndpointSlice, port| {
            let (rows, problems) = read(slice, port);
            let port = rows.first().map(|row| row.endpoint.address.port());
            (port, problems.first().cloned().unwrap_or_default())
        };
        assert_eq!(at(&two, Some(PodPort::Number(7))).0, Some(7));
        let (none, why) = at(&two, None);
        assert_eq!(
            (none, &*why),
            (None, "the Service has the ports http, metrics; name one of them in `port`")
        );
        let (none, why) = at(&two, Some(PodPort::Name("web".to_owned())));
        assert_eq!(
            (none, &*why),
            (None, "port: `web` is not a port of the Service, which has http, metrics")
        );

        let mut one = two.clone();
        one.ports = one.ports.map(|ports| ports[..1].to_vec());
        assert_eq!(at(&one, None).0, Some(8000));
        one.ports = None;
        assert!(at(&one, None).1.contains("has no port"));
        one.endpoints.clear();
        assert_eq!(at(&one, None), (None, String::new()));
    }

    // Names are no addresses.
    #[test]
    fn names_are_a_problem() {
        let named = slice(
            r#"{"addressType": "FQDN", "metadata": {}, "ports": [{"port": 80}], "endpoints": [{"addresses": ["vllm.example.org"]}]}"#,
        );
        let (rows, problems) = read(&named, None);
        assert!(rows.is_empty() && problems[0].contains("use `dns`"), "{problems:?}");
    }
}
