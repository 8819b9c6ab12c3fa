//! Metrics of up and down intervals, which a scrape copies from the status page. The state and its
//! cause are labels, so that an alert can say why a replica is down.
//!
//! Counts go by a replica's URL and not by its name: they continue when it is removed and added
//! again.

use std::sync::atomic::{AtomicU64, Ordering};

use meridian_protocol::admin::{Standing, Status};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::labels::{Float, set};
use super::peers;

type Seconds = Counter<f64, AtomicU64>;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReplicaState {
    replica: String,
    url: String,
    state: String,
    cause: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Url {
    url: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct UrlTransition {
    url: String,
    state: String,
    cause: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Peer {
    peer: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct PeerState {
    peer: String,
    state: String,
    cause: String,
}

#[derive(Default)]
pub(super) struct Intervals {
    replica_state: Family<ReplicaState, Float>,
    replica_transitions: Family<UrlTransition, Counter>,
    replica_down: Family<Url, Seconds>,
    peer_state: Family<PeerState, Float>,
    peer_transitions: Family<PeerState, Counter>,
    peer_down: Family<Peer, Seconds>,
}

impl Intervals {
    pub(super) fn register(&self, r: &mut Registry) {
        let help = "1 for the state that a replica is in, with its cause";
        r.register("replica_state", help, self.replica_state.clone());
        let help = "Changes of a replica's state, by the new state and its cause";
        r.register("replica_transitions", help, self.replica_transitions.clone());
        r.register(
            "replica_down_seconds",
            "Time that a replica was down",
            self.replica_down.clone(),
        );
        let help = "1 for the state that a peer is in, with its cause";
        r.register("peer_state", help, self.peer_state.clone());
        let help = "Changes of a peer's state, by the new state and its cause";
        r.register("peer_transitions", help, self.peer_transitions.clone());
        r.register("peer_down_seconds", "Time that a peer was down", self.peer_down.clone());
    }

    pub(super) fn copy(&self, status: &Status) {
        // Removes states that ended, and replicas that left.
        self.replica_state.clear();
        self.replica_transitions.clear();
        self.replica_down.clear();
        self.peer_state.clear();
        for replica in &status.replicas {
            let Some(standing) = &replica.standing else { continue };
            let url = || replica.url.clone();
            let (state, cause) = (standing.now.state.clone(), standing.now.cause.clone());
            let now = ReplicaState { replica: replica.name.clone(), url: url(), state, cause };
            self.replica_state.get_or_create(&now).set(1.0);
            for (state, cause, n) in transitions(standing) {
                let label = UrlTransition { url: url(), state, cause };
                set(&self.replica_transitions.get_or_create(&label), n);
            }
            seconds(&self.replica_down.get_or_create(&Url { url: url() }), standing);
        }
        for row in &status.peers {
            let Some(standing) = &row.standing else { continue };
            let name = || peers::name(row);
            let (state, cause) = (standing.now.state.clone(), standing.now.cause.clone());
            self.peer_state.get_or_create(&PeerState { peer: name(), state, cause }).set(1.0);
            for (state, cause, n) in transitions(standing) {
                let label = PeerState { peer: name(), state, cause };
                set(&self.peer_transitions.get_or_create(&label), n);
            }
            seconds(&self.peer_down.get_or_create(&Peer { peer: name() }), standing);
        }
    }
}

fn transitions(standing: &Standing) -> impl Iterator<Item = (String, String, u64)> {
    let states = standing.totals.transitions.iter();
    states.flat_map(|(state, causes)| {
        causes.iter().map(|(cause, n)| (state.clone(), cause.clone(), *n))
    })
}

fn seconds(counter: &Seconds, standing: &Standing) {
    let seconds = standing.totals.down_ms as f64 / 1e3;
    counter.inner().store(seconds.to_bits(), Ordering::Relaxed);
}
