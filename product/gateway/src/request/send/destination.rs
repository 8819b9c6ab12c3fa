//! The destination of an attempt: the replica or peer that a decision of the machine names by id.

use std::sync::Arc;

use meridian_base::Duration;
use meridian_base::residency::Residence;
use meridian_routing::{Outcome, RejectWhy, Target, Why};

use crate::inputs::residency::{Known, Residency};
use crate::machine::driver::Decision;
use crate::peers::all::Peers;
use crate::peers::link::Link;
use crate::replicas::member::Member;
use crate::replicas::region::Region;
use crate::request::plane::DataPlane;
use crate::request::send::Attempts;

/// The replica or the peer that an attempt is sent to.
pub(crate) enum Destination {
    Replica(Arc<Member>),
    Peer(Arc<Link>),
}

impl Destination {
    fn is_replica(&self) -> bool {
        matches!(self, Destination::Replica(_))
    }

    /// The replica; none for a peer.
    pub(crate) fn member(&self) -> Option<Arc<Member>> {
        match self {
            Destination::Replica(member) => Some(member.clone()),
            Destination::Peer(_) => None,
        }
    }
}

/// An attempt, as the machine decided it.
pub(crate) struct Attempt {
    pub(crate) destination: Destination,
    /// The replica that computes the prompt, if it is another one.
    pub(crate) prefill: Option<Arc<Member>>,
    pub(crate) why: Why,
    /// Tokens of the prompt expected in its cache.
    pub(crate) matched: u32,
    /// The region data used for the decision, if residency rules name the request.
    pub(crate) known: Option<Arc<Known>>,
}

/// The consequence of a decision.
pub(crate) enum Next {
    Attempt(Attempt),
    /// The destination is gone or no longer permitted: the machine decides again after this outcome.
    Stale(Outcome),
    /// The same of the replica that computes the prompt.
    StalePrefill(Outcome),
    Refused(RejectWhy, Duration),
}

/// The replicas and peers that the machine's ids stand for.
pub(super) struct Destinations<'a> {
    region: &'a Region,
    peers: Option<&'a Peers>,
    residency: &'a Residency,
}

impl Attempts {
    pub(super) fn destinations(&self) -> Destinations<'_> {
        let DataPlane { region, peers, inputs, .. } = &*self.plane;
        Destinations { region, peers: peers.as_deref(), residency: &inputs.residency }
    }
}

impl Destinations<'_> {
    /// Finds the destination for a decision about a request with these residency rules.
    pub(crate) fn find(&self, residence: &Residence, decision: Decision) -> Next {
        let mut prefill = None;
        let (destination, target, why, matched) = match decision {
            Decision::Dispatch { replica, prefill: from, why, matched_tokens } => {
                prefill = from.and_then(|from| self.region.fleet.get(from));
                if from.is_some() != prefill.is_some() {
                    return Next::StalePrefill(Outcome::Unreached);
                }
                let member = self.region.fleet.get(replica).map(Destination::Replica);
                (member, Target::Replica(replica), why, matched_tokens)
            }
            Decision::Forward { peer, why, matched_tokens } => {
                let link = self.peers.and_then(|peers| peers.link(peer)).cloned();
                (link.map(Destination::Peer), Target::Peer(peer), why, matched_tokens)
            }
            Decision::Reject { why, retry_after } => return Next::Refused(why, retry_after),
        };
        let Some(destination) = destination else { return Next::Stale(Outcome::ReplicaError) };
        if residence.is_free() {
            return Next::Attempt(Attempt { destination, prefill, why, matched, known: None });
        }
        assert!(prefill.is_none() || destination.is_replica(), "a peer's request is split there");
        let known = self.residency.known();
        if prefill.as_ref().is_some_and(|member| !known.permits(residence, &member.place)) {
            return Next::StalePrefill(Outcome::Full);
        }
        // A replica may have left since, and its id may be another's by now.
        let stands_there = match &destination {
            Destination::Replica(member) => known.permits(residence, &member.place),
            // Its newest digest may be older than the registry's view.
            Destination::Peer(link) => {
                known.permits_peer(residence, &link.identity, &link.places())
            }
        };
        match stands_there && self.region.driver.lock().routing.permits(residence, target) {
            true => {
                let known = Some(known);
                Next::Attempt(Attempt { destination, prefill, why, matched, known })
            }
            // Labels have changed since. The machine has the new ones by now, and decides by them.
            false => Next::Stale(Outcome::NoRoom),
        }
    }
}

#[cfg(test)]
mod tests {
    use meridian_base::ReplicaId;
    use meridian_base::residency::{Labels, Subject};
    use meridian_config as config;
    use meridian_protocol::admin::AddReplica;
    use meridian_routing::{Config, Routing, policy};
    use tokio::sync::mpsc;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::draining::Draining;
    use crate::inputs::residency::Rules;
    use crate::joining::Joining;
    use crate::machine::driver::Driver;
    use crate::replicas::fleet::Fleet;

    const FILE: &str = "version: 1\nresidency: {rules: [{name: kept, from: [eu], run_in: [eu]}]}";

    /// A decode replica in eu and a prefill replica in a region of choice, and what is found of a
    /// decision that names both, for a request that has to be served in eu.
    struct Pair {
        region: Region,
        residency: Residency,
        residence: Residence,
        ids: [ReplicaId; 2],
    }

    impl Pair {
        fn new(prefill_in: &str) -> Pair {
            let spec = policy::ALL.iter().find(|spec| spec.name == "round_robin").unwrap();
            let (probes, _) = mpsc::unbounded_channel();
            let fleet = Arc::new(Fleet::new("eu", Arc::default(), CancellationToken::new()));
            let routing = Routing::new(Config::new(spec), 1);
            let driver = Arc::new(Driver::new(routing, probes, (fleet.clock, fleet.clone()), None));
            let file = config::Gateway::read(FILE).expect("is valid");
            let rules = Rules::new(&file.residency).expect("are valid");
            let residency = Residency::new(driver.clone(), &file, &rules);
            let none = Labels::new();
            let subject = Subject { tenant: None, labels: &none, model: "m", from: "eu" };
            let ids = [("http://p:1", prefill_in), ("http://d:1", "eu")].map(|(url, region)| {
                let spec = AddReplica { region: Some(region.to_owned()), ..AddReplica::at(url) };
                fleet.join(spec, Duration::ZERO, 9).expect("joins").id
            });
            let residence = rules.residence(&subject, Vec::new());
            let (draining, over) = (Draining::default(), CancellationToken::new());
            let joining = Joining::new(false);
            let region = Region { driver, fleet, draining, joining, over, seed: 1 };
            Pair { region, residency, residence, ids }
        }

        fn find(&self) -> Next {
            let [prefill, replica] = self.ids;
            let (why, matched_tokens) = (Why::Turn, 0);
            let decision =
                Decision::Dispatch { replica, prefill: Some(prefill), why, matched_tokens };
            let (region, residency) = (&self.region, &self.residency);
            Destinations { region, peers: None, residency }.find(&self.residence, decision)
        }
    }

    // Labels and replicas may change after a decision. A prompt is not sent to a place that its rule
    // forbids, nor to a replica that left; the machine then decides about the prefill leg again.
    #[test]
    fn a_prefill_replica_that_changed() {
        let pair = Pair::new("us");
        assert!(matches!(pair.find(), Next::StalePrefill(Outcome::Full)));
        let pair = Pair::new("eu");
        assert!(!matches!(pair.find(), Next::StalePrefill(_)));
        let prefill = pair.region.fleet.get(pair.ids[0]).expect("is there");
        pair.region.fleet.leave(&prefill);
        assert!(matches!(pair.find(), Next::StalePrefill(Outcome::Unreached)));
    }
}
