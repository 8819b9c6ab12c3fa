//! Watches of a Service's EndpointSlices and of pods.
//!
//! `watching.rs` keeps each of them.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};

use crate::endpoint::{EndpointList, EndpointRow};
use crate::labels::ByLabels;
use crate::watched::Watched;
use crate::watching::{Watchable, Watching};
use crate::{Query, Selection, client, labels, pods, slices, trouble};

/// Label of the Service of an EndpointSlice.
const SERVICE: &str = "kubernetes.io/service-name";

/// Follows the endpoints: `heard` gets all of them after each change, or why they can't be read; the
/// last list then stays valid. Returns if there is no connection to begin with, and if the server does
/// not accept the credentials, of which a new connection reads the newest.
pub async fn follow(query: &Query, mut heard: impl FnMut(Result<EndpointList, String>)) {
    match client::client(query).await {
        Ok(client) => match &query.of {
            Selection::Service(name) => of_service(query, name, client, heard).await,
            Selection::Pods(selector) => of_pods(query, selector, client, heard).await,
        },
        Err(why) => heard(Err(why)),
    }
}

async fn of_service(
    query: &Query,
    name: &str,
    client: Client,
    mut heard: impl FnMut(Result<EndpointList, String>),
) {
    let namespace = namespace(query, &client);
    let selector = format!("{SERVICE}={name}");
    let mut slices: Watching<EndpointSlice> =
        Watching::new(Api::namespaced(client.clone(), namespace), Some(&selector));
    // Slices don't have the labels of pods. Only their metadata is watched.
    let mut pods: Option<Watching<PartialObjectMeta<Pod>>> = query
        .labels
        .are_read()
        .then(|| Watching::new(Api::namespaced(client.clone(), namespace), None));
    // Why each of the two watches fails.
    let mut troubles = [None, None];
    let mut table = OfService { query, name, slices: Watched::default(), pods: Watched::default() };
    loop {
        let (result, at) = tokio::select! {
            event = slices.next() => {
                (event.map(|event| table.slices.hear(event, |slice| slice)), 0)
            }
            event = next(&mut pods) => {
                let reduce = |pod: PartialObjectMeta<Pod>| pod.metadata.labels.unwrap_or_default();
                (event.map(|event| table.pods.hear(event, reduce)), 1)
            }
        };
        match result {
            Ok(changed) => {
                troubles[at] = None;
                if changed && table.is_complete() {
                    let trouble = troubles.iter().flatten().next().cloned();
                    heard(Ok(EndpointList { trouble, ..table.found() }));
                }
            }
            Err(error) => {
                if let Some(why) = trouble::reason(&error, RESOURCES[at], namespace) {
                    troubles[at] = Some(why.clone());
                    heard(Err(why));
                }
                if trouble::is_unknown(&error) {
                    return;
                }
            }
        }
    }
}

/// The objects of the two watches, by their names in the API.
const RESOURCES: [&str; 2] = ["endpointslices", "pods"];

/// The objects behind a Service.
struct OfService<'a> {
    query: &'a Query,
    name: &'a str,
    slices: Watched<EndpointSlice>,
    pods: Watched<labels::Pod>,
}

impl OfService<'_> {
    fn is_complete(&self) -> bool {
        self.slices.is_complete && (self.pods.is_complete || !self.query.labels.are_read())
    }

    fn found(&self) -> EndpointList {
        let mut problems = BTreeSet::new();
        if self.slices.all().next().is_none() {
            let name = self.name;
            problems.insert(format!(
                "the Service {name} has no EndpointSlices; correct `service` or `namespace` unless it will be created later"
            ));
        }
        let mut rows = Vec::new();
        for slice in self.slices.all() {
            rows.extend(slices::rows(slice, self.query.port.as_ref(), &mut problems));
        }
        let rows = rows
            .into_iter()
            .filter_map(|row| self.labelled(row, &mut problems))
            .collect::<Vec<_>>();
        EndpointList::of(rows, problems)
    }

    /// A row with the labels of its pod. Without them, a pod that is not known yet could be a
    /// worker of a group; its own event follows.
    fn labelled(
        &self,
        mut row: EndpointRow,
        problems: &mut BTreeSet<String>,
    ) -> Option<EndpointRow> {
        if let Some(pod) = row.endpoint.pod.as_ref().filter(|_| self.query.labels.are_read()) {
            let by_labels = match self.pods.get(pod) {
                Some(labels) => self.query.labels.read(labels, problems)?,
                None => return None,
            };
            row.describe(by_labels);
        }
        Some(row)
    }
}

async fn of_pods(
    query: &Query,
    selector: &str,
    client: Client,
    mut heard: impl FnMut(Result<EndpointList, String>),
) {
    let namespace = namespace(query, &client);
    let mut watching: Watching<Pod> =
        Watching::new(Api::namespaced(client.clone(), namespace), Some(selector));
    let mut pods = Watched::default();
    loop {
        match watching.next().await.map(|event| pods.hear(event, |pod| read(query, &pod))) {
            Ok(true) if pods.is_complete => {
                let problems = pods.all().flat_map(|(_, problems)| problems).cloned().collect();
                let rows = pods.all().filter_map(|(row, _)| row.clone());
                heard(Ok(EndpointList::of(rows, problems)));
            }
            Ok(_) => {}
            Err(error) => {
                if let Some(why) = trouble::reason(&error, RESOURCES[1], namespace) {
                    heard(Err(why));
                }
                if trouble::is_unknown(&error) {
                    return;
                }
            }
        }
    }
}

/// A pod as a row, with its problems.
fn read(query: &Query, pod: &Pod) -> (Option<EndpointRow>, BTreeSet<String>) {
    let mut problems = BTreeSet::new();
    let no_labels = labels::Pod::new();
    let labels = pod.metadata.labels.as_ref().unwrap_or(&no_labels);
    let row = query.labels.read(labels, &mut problems).and_then(|by_labels| {
        let mut row = pods::row(pod, query.port.as_ref(), &mut problems)?;
        row.describe(by_labels);
        Some(row)
    });
    (row, problems)
}

impl EndpointRow {
    fn describe(&mut self, by_labels: ByLabels) {
        self.endpoint.role = by_labels.role;
        self.endpoint.revision = by_labels.revision;
    }
}

fn namespace<'a>(query: &'a Query, client: &'a Client) -> &'a str {
    query.namespace.as_deref().unwrap_or(client.default_namespace())
}

/// The next event of a watch, if there is one.
async fn next<K: Watchable>(watching: &mut Option<Watching<K>>) -> watcher::Result<Event<K>> {
    match watching {
        Some(watching) => watching.next().await,
        None => std::future::pending().await,
    }
}
