//! Replicas in a Kubernetes cluster: the endpoints of a Service, or the pods that a selector matches.
//!
//! [`follow()`] watches the API server and returns the whole list after each change (`follow.rs`,
//! `watching.rs`). `slices.rs` and `pods.rs` read the two kinds of objects, `labels.rs` the labels of pods, and
//! `endpoint.rs` makes one list of them. Only these objects are read, and nothing is written: a role
//! with `get`, `list` and `watch` of `endpointslices` and `pods` is enough.

mod client;
mod endpoint;
mod follow;
mod labels;
mod pods;
mod slices;
mod trouble;
mod watched;
mod watching;

use std::path::PathBuf;

pub use endpoint::{Endpoint, EndpointList, Readiness};
pub use follow::follow;
pub use labels::LabelKeys;

/// The endpoints to follow.
#[derive(Clone, Debug)]
pub struct Query {
    /// The file that names the cluster; if absent, the usual file of kubectl if there is one, or else the
    /// pod's own service account.
    pub kubeconfig: Option<PathBuf>,
    /// The namespace; the gateway's own if absent.
    pub namespace: Option<String>,
    pub of: Selection,
    /// The port of each endpoint; its only one if absent.
    pub port: Option<PodPort>,
    pub labels: LabelKeys,
}

/// Where endpoints come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// The EndpointSlices of the Service with this name.
    Service(String),
    /// The pods that a label selector matches.
    Pods(String),
}

/// A port of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodPort {
    Name(String),
    Number(u16),
}
