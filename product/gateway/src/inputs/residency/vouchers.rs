//! Which places a peer's replicas may have: its word alone lifts no rule.
//!
//! A peer reports where its replicas are, and a rule sends requests there. Its certificate proves
//! its own region and nothing else. Another region counts only if the registry says that this peer
//! adopts it now, or if this gateway's file lists it under the peer's `places`. A label of a replica
//! counts if the registry has such a replica, or if the region has the label or the file lists it. A
//! label that does not count still hides the region's label of that name, so a report can restrict
//! and not permit.

use std::collections::{BTreeMap, BTreeSet};

use meridian_base::assign::{Serving, assign};
use meridian_base::residency::{Labels, Place, Term};
use meridian_config::Gateway as Config;
use meridian_protocol::peer::Identity;
use meridian_protocol::registry::Snapshot;

/// The value of a label that does not count: no rule can name it.
const NOT_BELIEVED: &str = "";

/// What the file and the registry permit to peers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Vouchers {
    /// `places` of each peer in the file, by region and name.
    listed: BTreeMap<(String, String), Vec<Term>>,
    /// The gateway that adopts a region, by the registry's records.
    adopters: BTreeMap<String, String>,
    /// The places of the registry's replicas.
    replicas: BTreeSet<Place>,
}

impl Vouchers {
    pub(super) fn given(&mut self, config: &Config) {
        let peers = config.peers.iter().flat_map(|peers| &peers.gateways);
        let listed = peers.filter(|peer| !peer.places.is_empty());
        let listed = listed.map(|peer| ((peer.region.clone(), peer.name.clone()), peer.vouched()));
        self.listed = listed.collect();
    }

    pub(super) fn registered(&mut self, view: &Snapshot) {
        let there = view.replicas.values().filter(|replica| replica.is_there());
        let place = there.map(|replica| Place {
            labels: replica.labels.clone(),
            ..Place::region(&replica.region)
        });
        self.replicas = place.collect();
        let serving = assign(&view.membership());
        let adopted = serving.into_iter().filter_map(|(replica, serving)| match serving {
            Serving::Adopted { by, .. } => Some((view.replicas.get(&replica)?.region.clone(), by)),
            Serving::Own(_) | Serving::NoGateway => None,
        });
        self.adopters = adopted.collect();
    }

    /// Whether a peer's replicas may be in a region.
    pub(super) fn may_be_in(&self, peer: &Identity, region: &str) -> bool {
        let listed = || self.terms(peer).any(|t| matches!(t, Term::Region(name) if name == region));
        let adopts = || self.adopters.get(region).is_some_and(|by| by == peer.gateway());
        region == peer.region() || adopts() || listed()
    }

    /// A place in a region with all labels that the file permits to a peer's replicas.
    pub(super) fn labelled(&self, peer: &Identity, region: &str) -> Place {
        let labels = self.terms(peer).filter_map(|term| match term {
            Term::Label(name, value) => Some((name.clone(), value.clone())),
            Term::Region(_) => None,
        });
        Place { labels: labels.collect(), ..Place::region(region) }
    }

    /// What counts of a place that a peer reports, given the regions' labels.
    pub(super) fn believed(
        &self,
        regions: &BTreeMap<String, Labels>,
        peer: &Identity,
        place: &Place,
    ) -> Option<Place> {
        if !self.may_be_in(peer, &place.region) {
            return None;
        }
        if self.replicas.contains(place) {
            return Some(place.clone());
        }
        let of_region = regions.get(&place.region);
        let counts = |name: &String, value: &String| {
            let listed = |t: &Term| matches!(t, Term::Label(n, v) if n == name && v == value);
            of_region.and_then(|labels| labels.get(name)) == Some(value)
                || self.terms(peer).any(listed)
        };
        let labels = place.labels.iter().map(|(name, value)| match counts(name, value) {
            true => (name.clone(), value.clone()),
            false => (name.clone(), NOT_BELIEVED.to_owned()),
        });
        Some(Place { region: place.region.clone(), labels: labels.collect() })
    }

    fn terms(&self, peer: &Identity) -> impl Iterator<Item = &Term> {
        // Most fleets list nothing, and then no key is made.
        let listed = (!self.listed.is_empty())
            .then(|| self.listed.get(&(peer.region().to_owned(), peer.gateway().to_owned())));
        listed.flatten().into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "version: 1
region: asia
peers:
  ca: ca.pem
  certificate: c.pem
  key: k.pem
  gateways:
    - {name: us-1, region: us, address: 'us:1', places: [ca, jurisdiction=ca]}
    - {name: us-2, region: us, address: 'us:2'}
";

    fn peer(region: &str, name: &str) -> Identity {
        Identity::new("prod", region, name).expect("are labels")
    }

    fn place(region: &str, labels: &[(&str, &str)]) -> Place {
        let labels = labels.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        Place { labels, ..Place::region(region) }
    }

    /// us and asia have a gateway, eu has none and a replica with a label.
    fn view(adopters: Option<&[&str]>) -> Snapshot {
        let gateway =
            |region: &str| serde_json::json!({"region": region, "address": "x", "version": "1"});
        let mut eu = serde_json::json!({});
        if let Some(adopters) = adopters {
            eu["adopters"] = serde_json::json!(adopters);
        }
        let view = serde_json::json!({
            "store": "s", "revision": 1,
            "regions": {"us": {"rtt_ms": {"eu": 90.0}}, "asia": {"rtt_ms": {"eu": 200.0}}, "eu": eu},
            "replicas": {"a": {
                "region": "eu", "spec": {"url": "http://10.0.0.1:80"}, "labels": {"rack": "1"},
            }},
            "gateways": {"us-1": gateway("us"), "us-2": gateway("us")},
        });
        serde_json::from_value(view).expect("is a view")
    }

    // Defect believed-places: a peer's word alone puts its replicas into no other region, and gives
    // them no label that a rule permits.
    #[test]
    fn a_word_alone_permits_nothing() {
        let mut vouchers = Vouchers::default();
        vouchers.given(&Config::read(FILE).expect("is valid"));
        let regions =
            BTreeMap::from([("us".to_owned(), place("", &[("jurisdiction", "us")]).labels)]);
        let believed = |peer: &Identity, place: &Place| vouchers.believed(&regions, peer, place);
        let (one, two) = (peer("us", "us-1"), peer("us", "us-2"));
        for honest in [place("us", &[]), place("us", &[("jurisdiction", "us")])] {
            assert_eq!(believed(&two, &honest), Some(honest));
        }
        assert_eq!(believed(&two, &place("eu", &[])), None);
        assert_eq!(believed(&two, &place("ca", &[])), None);
        let claimed = place("us", &[("jurisdiction", "ca"), ("rack", "1")]);
        let hidden = place("us", &[("jurisdiction", ""), ("rack", "")]);
        assert_eq!(believed(&two, &claimed), Some(hidden));
        // The file lists these for the other gateway.
        assert_eq!(believed(&one, &place("ca", &[])), Some(place("ca", &[])));
        let partly = place("us", &[("jurisdiction", "ca"), ("rack", "")]);
        assert_eq!(believed(&one, &claimed), Some(partly));
    }

    // Defect believed-places: by the registry's records, a region without a gateway is served by
    // the one gateway that adopts it, and by no gateway that its record does not permit.
    #[test]
    fn the_registry_says_who_adopts() {
        let (one, two) = (peer("us", "us-1"), peer("us", "us-2"));
        let eu = place("eu", &[("rack", "1")]);
        let mut vouchers = Vouchers::default();
        let none = BTreeMap::new();
        vouchers.registered(&view(None));
        assert_eq!(vouchers.believed(&none, &one, &eu), Some(eu.clone()));
        assert_eq!(vouchers.believed(&none, &two, &eu), None);
        vouchers.registered(&view(Some(&["asia"])));
        assert_eq!(vouchers.believed(&none, &one, &eu), None);
        let mut returned = view(None);
        let gateway = returned.gateways["us-1"].clone();
        let eu_1 = meridian_protocol::registry::Gateway { region: "eu".to_owned(), ..gateway };
        returned.gateways.insert("eu-1".to_owned(), eu_1);
        vouchers.registered(&returned);
        assert_eq!(vouchers.believed(&none, &one, &eu), None);
        assert_eq!(vouchers.believed(&none, &peer("eu", "eu-1"), &eu), Some(eu));
    }
}
