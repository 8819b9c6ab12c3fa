//! A gateway's knowledge of regions: their labels, and the places where replicas of the fleet may
//! be.
//!
//! It comes from the configuration and the registry, and does not depend on current connections: a
//! request whose rule permits a listed place waits for it, even if it is unreachable at the moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use http::HeaderValue;
use meridian_base::residency::{Atlas, Labels, Place, Residence, Rule};
use meridian_config::{self as config, Gateway as Config};
use meridian_protocol::peer::Identity;
use meridian_protocol::registry::Snapshot;

use super::vouchers::Vouchers;

/// The knowledge at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known {
    /// The effective labels, by region.
    labels: BTreeMap<String, Labels>,
    /// Labels of the gateway's own file, and of the registry.
    own: BTreeMap<String, Labels>,
    registry: BTreeMap<String, Labels>,
    /// The gateway's own region, and the regions of peers it forwards to.
    listed: BTreeSet<Place>,
    /// Places where the registry has replicas, gateways or regions.
    registered: BTreeSet<Place>,
    /// What may be believed of peers' places.
    pub(super) vouchers: Vouchers,
}

impl Known {
    /// The places in a configuration.
    pub(super) fn of(config: &Config) -> Known {
        let mut known = Known::default();
        known.given(config);
        known
    }

    /// Applies the gateway's file.
    pub(super) fn given(&mut self, config: &Config) {
        let peers = config.peers.iter().flat_map(|peers| {
            let may = |peer: &&config::Peer| match config.topology.name.as_str() {
                "region_local" => false,
                "continent" => peers.is_near(peer),
                _ => true,
            };
            peers.gateways.iter().filter(may).map(|peer| peer.region.as_str()).collect::<Vec<_>>()
        });
        let regions = peers.chain([config.region.as_str()]);
        self.listed = regions.map(Place::region).collect();
        self.own.clone_from(&config.residency.labels);
        self.vouchers.given(config);
        self.merge();
    }

    /// Applies the registry's view.
    pub(super) fn registered(&mut self, view: &Snapshot) {
        let regions = view.regions.iter();
        self.registry = regions.map(|(name, r)| (name.clone(), r.labels.clone())).collect();
        let gateways = view.gateways.values().map(|gateway| gateway.region.as_str());
        let regions = view.regions.keys().map(String::as_str).chain(gateways).map(Place::region);
        let replicas = view.replicas.values().filter(|replica| replica.is_there());
        let replicas = replicas.map(|replica| Place {
            labels: replica.labels.clone(),
            ..Place::region(&replica.region)
        });
        self.registered = regions.chain(replicas).collect();
        self.vouchers.registered(view);
        self.merge();
    }

    /// If a region has labels in the file, only those count.
    fn merge(&mut self) {
        self.labels = self.registry.clone();
        self.labels.extend(self.own.clone());
    }

    /// The form for the routing machine.
    pub(super) fn atlas(&self) -> Atlas {
        let places = self.listed.union(&self.registered).cloned().collect();
        Atlas { labels: self.labels.clone(), places }
    }

    /// Whether a request may be served at a place.
    pub(crate) fn permits(&self, residence: &Residence, place: &Place) -> bool {
        residence.permits(place, &self.labels)
    }

    /// Whether a request may be served in a region.
    pub(crate) fn permits_region(&self, residence: &Residence, region: &str) -> bool {
        self.permits(residence, &Place::region(region))
    }

    /// What counts of a place that a peer reports for its replicas; none if this gateway's file
    /// and the registry do not permit it.
    pub(crate) fn believed(&self, peer: &Identity, place: &Place) -> Option<Place> {
        self.vouchers.believed(&self.labels, peer, place)
    }

    /// Whether requests may be sent to a peer whose replicas are at these places.
    pub(crate) fn permits_peer(
        &self,
        residence: &Residence,
        peer: &Identity,
        places: &[Arc<Place>],
    ) -> bool {
        let mut believed = places.iter().filter_map(|place| self.believed(peer, place));
        believed.any(|place| self.permits(residence, &place))
    }

    /// Whether a peer's answer was generated at a permitted place, as far as the peer's word counts:
    /// in its own region, or in one that it may serve. If only a replica's own labels permit the
    /// place, such a replica has to be known, and the answer lists the rules that the peer applied.
    pub(crate) fn was_kept(
        &self,
        residence: &Residence,
        peer: &Identity,
        region: Option<&HeaderValue>,
        applied: Option<&HeaderValue>,
    ) -> bool {
        let text = |value: Option<&HeaderValue>| {
            value.and_then(|value| value.to_str().ok().map(str::to_owned))
        };
        let Some(region) = text(region) else { return false };
        if !self.vouchers.may_be_in(peer, &region) {
            return false;
        }
        if self.permits_region(residence, &region) {
            return true;
        }
        let applied = text(applied).unwrap_or_default();
        let all = |rule: &Arc<Rule>| applied.split(", ").any(|name| name == rule.name);
        let registered = self.registered.iter().filter(|place| place.region == region).cloned();
        let mut known = registered.chain([self.vouchers.labelled(peer, &region)]);
        known.any(|place| self.permits(residence, &place)) && residence.rules().iter().all(all)
    }
}
