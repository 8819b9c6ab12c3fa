//! The list of endpoints, from rows of several objects.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use meridian_base::Role;

/// An address that serves, or will, or did a moment ago.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub address: SocketAddr,
    /// The name of its pod, if it has one.
    pub pod: Option<String>,
    pub readiness: Readiness,
    /// Its zone, if the cluster reports one.
    pub zone: Option<String>,
    /// From the label of roles, if that is followed and the pod has it.
    pub role: Option<Role>,
    /// From the label of revisions, if that is followed and the pod has it.
    pub revision: Option<String>,
}

/// Whether an endpoint may get requests. The order is that of precedence: an endpoint may be in two
/// slices while the cluster moves it, and a pod that terminates is never ready again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Readiness {
    /// It gets no new requests, and will go.
    Terminating,
    Ready,
    /// It gets no new requests for now.
    NotReady,
}

/// All endpoints at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndpointList {
    /// Ordered by address, each address once.
    pub endpoints: Vec<Endpoint>,
    /// Parts of the objects that can't be used, with the remedy.
    pub problems: BTreeSet<String>,
    /// Why one of two watches fails; the list then has its last objects.
    pub trouble: Option<String>,
}

/// One address of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EndpointRow {
    pub(crate) endpoint: Endpoint,
    /// Identifies the pod; several addresses of one pod are one endpoint.
    pub(crate) uid: Option<String>,
}

impl EndpointList {
    /// Unites rows: an address counts once, and so does a pod with addresses of both families, of
    /// which the first (IPv4) is used.
    pub(crate) fn of(
        rows: impl IntoIterator<Item = EndpointRow>,
        problems: BTreeSet<String>,
    ) -> EndpointList {
        let mut by_address: BTreeMap<SocketAddr, EndpointRow> = BTreeMap::new();
        for row in rows {
            let known = by_address.get(&row.endpoint.address);
            if known.is_none_or(|known| row.endpoint.readiness < known.endpoint.readiness) {
                by_address.insert(row.endpoint.address, row);
            }
        }
        let mut pods = BTreeSet::new();
        let first = |row: &EndpointRow| row.uid.clone().is_none_or(|uid| pods.insert(uid));
        // IPv4 sorts before IPv6.
        let rows = by_address.into_values().filter(first);
        EndpointList { endpoints: rows.map(|row| row.endpoint).collect(), problems, trouble: None }
    }

    /// The number of endpoints in a state.
    #[must_use]
    pub fn count(&self, readiness: Readiness) -> usize {
        self.endpoints.iter().filter(|endpoint| endpoint.readiness == readiness).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(address: &str, uid: &str, readiness: Readiness) -> EndpointRow {
        let endpoint = Endpoint {
            address: address.parse().expect("an address"),
            pod: None,
            readiness,
            zone: None,
            role: None,
            revision: None,
        };
        EndpointRow { endpoint, uid: Some(uid.to_owned()).filter(|uid| !uid.is_empty()) }
    }

    // An endpoint that is in two slices terminates if one of them says so. A pod of two address
    // families is one endpoint; two endpoints without pods are two.
    #[test]
    fn an_endpoint_counts_once() {
        use Readiness::{NotReady, Ready, Terminating};
        let rows = [
            row("10.0.0.1:80", "a", NotReady),
            row("10.0.0.1:80", "a", Ready),
            row("10.0.0.2:80", "b", Ready),
            row("10.0.0.2:80", "b", Terminating),
            row("[fd00::1]:80", "a", Ready),
            row("[fd00::3]:80", "c", Ready),
            row("10.0.0.8:80", "", Ready),
            row("10.0.0.9:80", "", Ready),
        ];
        let found = EndpointList::of(rows, BTreeSet::new());
        let short = |e: &Endpoint| (e.address.to_string(), e.readiness);
        let short: Vec<_> = found.endpoints.iter().map(short).collect();
        let expected = [
            ("10.0.0.1:80", Ready),
            ("10.0.0.2:80", Terminating),
            ("10.0.0.8:80", Ready),
            ("10.0.0.9:80", Ready),
            ("[fd00::3]:80", Ready),
        ];
        assert_eq!(short, expected.map(|(at, readiness)| (at.to_owned(), readiness)));
        assert_eq!(
            [found.count(Ready), found.count(Terminating), found.count(NotReady)],
            [4, 1, 0]
        );
    }
}
