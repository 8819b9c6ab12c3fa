//! Endpoints of a Service or pods of a selector, in a Kubernetes cluster. The API server reports each
//! change, so nothing is polled.
//!
//! An endpoint that is not ready gets no new requests, and stays with its known prefixes. One that
//! terminates, or is gone, drains and leaves. A pod's readiness does not replace the gateway's own
//! probes.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use meridian_config as config;
use meridian_config::KubernetesPort;
use meridian_kubernetes::{
    Endpoint, EndpointList, LabelKeys, PodPort, Query, Readiness, Selection, follow,
};
use meridian_protocol::admin::{AddReplica, EndpointCounts, RoleName};

use super::source::{Listed, Source};

/// Pause after which the cluster is looked for again.
const RETRY: Duration = Duration::from_secs(5);
/// Longest wait for the first list in a check.
const FIRST_LIST: Duration = Duration::from_secs(10);
/// Label of a replica's zone.
const ZONE: &str = "zone";
/// Longest name of a replica.
const MOST_NAME: usize = 63;

pub(super) async fn keep(source: Arc<Source>, config: &config::Kubernetes) {
    let query = query(config);
    loop {
        let mut following = pin!(follow(&query, |result| hear(&source, result)));
        let mut ticks = tokio::time::interval(RETRY);
        loop {
            tokio::select! {
                () = &mut following => {
                    source.rest(RETRY).await;
                    break;
                }
                // On SIGHUP, the connection is made again and everything is listed.
                () = source.asked() => break,
                _ = ticks.tick() => source.apply_again(),
            }
        }
    }
}

/// Applies a list, or notes why there is none.
fn hear(source: &Source, result: Result<EndpointList, String>) {
    match result {
        Ok(found) => {
            let listed = found.endpoints.iter().filter_map(|one| listed(&source.config, one));
            let (counts, is_whole) = (counts(&found), found.trouble.is_none());
            source.found_endpoints(listed.collect(), counts, found.problems, is_whole);
        }
        Err(why) => {
            if source.failed(&why) {
                source.log_trouble(&why);
            }
        }
    }
}

/// One sentence about the endpoints of a source, for a check.
pub(crate) async fn meet(config: &config::Kubernetes) -> Result<String, String> {
    let query = query(config);
    let (first, mut list) = tokio::sync::oneshot::channel();
    let mut first = Some(first);
    let following = follow(&query, |result| {
        if let Some(first) = first.take() {
            // The receiver waits below.
            let _ = first.send(result);
        }
    });
    let silent = || format!("the API server has not answered for {} s", FIRST_LIST.as_secs());
    let heard = tokio::select! {
        // It has reported why it ended.
        () = following => None,
        () = tokio::time::sleep(FIRST_LIST) => None,
        heard = &mut list => heard.ok(),
    };
    let found = heard.or_else(|| list.try_recv().ok()).unwrap_or_else(|| Err(silent()))?;
    let EndpointCounts { ready, not_ready, terminating } = counts(&found);
    match found.problems.into_iter().next() {
        Some(problem) => Err(problem),
        None => {
            Ok(format!("{ready} endpoints are ready, {not_ready} are not, {terminating} terminate"))
        }
    }
}

fn query(config: &config::Kubernetes) -> Query {
    let of = match (&config.service, &config.selector) {
        (Some(service), _) => Selection::Service(service.clone()),
        (None, selector) => Selection::Pods(selector.clone().unwrap_or_default()),
    };
    Query {
        kubeconfig: config.kubeconfig.clone(),
        namespace: config.namespace.clone(),
        of,
        port: config.port.clone().map(|port| match port {
            KubernetesPort::Number(number) => PodPort::Number(number),
            KubernetesPort::Name(name) => PodPort::Name(name),
        }),
        labels: LabelKeys {
            role: config.role_label.clone(),
            rank: config.rank_label.clone(),
            revision: config.revision_label.clone(),
        },
    }
}

fn counts(found: &EndpointList) -> EndpointCounts {
    EndpointCounts {
        ready: found.count(Readiness::Ready),
        not_ready: found.count(Readiness::NotReady),
        terminating: found.count(Readiness::Terminating),
    }
}

/// The replica at an endpoint; none if the endpoint is about to go.
fn listed(config: &config::Source, endpoint: &Endpoint) -> Option<Listed> {
    let serves = match endpoint.readiness {
        Readiness::Ready => true,
        Readiness::NotReady => false,
        Readiness::Terminating => return None,
    };
    let of_source = config.replica(endpoint.address, 1);
    let mut labels = of_source.labels.clone();
    if let Some(zone) = &endpoint.zone {
        labels.entry(ZONE.to_owned()).or_insert_with(|| zone.clone());
    }
    let replica = AddReplica {
        name: endpoint.pod.clone().filter(|name| name.len() <= MOST_NAME),
        role: endpoint.role.map_or(of_source.role, RoleName),
        revision: endpoint.revision.clone(),
        // A protocol is for replicas that share requests only.
        transfer: of_source.transfer.filter(|_| endpoint.role != Some(meridian_base::Role::Both)),
        labels,
        ..of_source
    };
    Some(Listed { replica, serves })
}
