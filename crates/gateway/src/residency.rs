//! Where a request may go: the masks that the machine reads.
//!
//! This is the one place where they are made. A peer is permitted when it serves the model and the
//! rules permit its region; a stateful request only where its state is; a replica where the rules
//! permit its place. The rules themselves are `meridian_routing::residency`, which the simulator
//! applies too.
//!
//! The same rules hold at the gateway that a request is sent on to: it applies its own and those
//! that came with the request. What is about to be sent is looked at once more here, and what was
//! answered is checked, so that a breach would be counted and not only be impossible.

mod counts;

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use http::HeaderValue;
use meridian_base::{ModelId, PeerId, ReplicaId};
use meridian_routing::residency::{BEYOND, Labels, Place, Residence, Rule, Subject, Term};
use meridian_wire::config::{self, ConfigError};
use meridian_wire::peer::shown;

use crate::fleet::Member;
use crate::pins::Home;
use crate::shared::Shared;

pub(crate) use counts::{Counts, Kept};

/// A request's masks, and the replica that it is pinned to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Permitted {
    pub(crate) peers: u64,
    pub(crate) places: u64,
    pub(crate) pinned: Option<ReplicaId>,
}

/// Where a request for `model` may go, whose state lives at `home` if it has some.
pub(crate) fn permitted(
    shared: &Shared,
    model: ModelId,
    home: Option<Home>,
    residence: &Residence,
) -> Permitted {
    let places = shared.residency.places(residence);
    let peers = permitted_peers(shared, residence);
    let serving = shared.peers.as_ref().map_or(0, |peers| peers.models.serving(model));
    match home {
        Some(Home::At(replica)) => Permitted { peers: 0, places, pinned: Some(replica) },
        // Nobody here may serve it, and of the peers only the one that gave the answer.
        Some(Home::Away(PeerId(peer))) => {
            Permitted { peers: (1 << peer) & peers, places: 0, pinned: None }
        }
        Some(Home::Gone) | None => Permitted { peers: serving & peers, places, pinned: None },
    }
}

/// The peers in whose regions it may be served.
fn permitted_peers(shared: &Shared, residence: &Residence) -> u64 {
    let Some(peers) = &shared.peers else { return 0 };
    match residence.is_free() {
        true => u64::MAX,
        false => peers.permitted(|region| shared.residency.permits_region(residence, region)),
    }
}

static NONE: Labels = Labels::new();

/// The rules of the gateway's file.
#[derive(Debug)]
pub(crate) struct Rules {
    rules: Vec<Arc<Rule>>,
    names_models: bool,
}

impl Rules {
    pub(crate) fn new(residency: &config::Residency) -> Result<Rules, ConfigError> {
        let rules = residency.rules().map_err(|e| ConfigError::Invalid(vec![e]))?;
        let names_models = rules.iter().any(|rule| !rule.names.models.is_empty());
        Ok(Rules { rules, names_models })
    }

    /// Whether some rule asks for a request's model.
    pub(crate) fn names_models(&self) -> bool {
        self.names_models
    }

    /// Those that name a request, and those that another gateway applied to it.
    pub(crate) fn residence(&self, subject: &Subject<'_>, brought: Vec<Rule>) -> Residence {
        let mut residence = Residence::of(&self.rules, subject);
        residence.add(brought);
        residence
    }
}

/// Labels of regions.
#[derive(Debug, Default)]
struct Known {
    /// By the gateway's own file.
    own: BTreeMap<String, Labels>,
    /// By the registry.
    told: BTreeMap<String, Labels>,
}

impl Known {
    fn of(&self, region: &str) -> &Labels {
        self.own.get(region).or_else(|| self.told.get(region)).unwrap_or(&NONE)
    }
}

/// What the gateway knows of places, and what became of requests that rules name.
pub(crate) struct Residency {
    region: String,
    labels: RwLock<Known>,
    /// The places that have a number: a region, and the labels of the replicas themselves.
    places: RwLock<Vec<(String, Labels)>>,
    pub(crate) counts: Counts,
}

impl Residency {
    pub(crate) fn new(region: &str) -> Residency {
        Residency {
            counts: Counts::default(),
            region: region.to_owned(),
            labels: RwLock::default(),
            places: RwLock::new(vec![(region.to_owned(), Labels::new())]),
        }
    }

    /// What the gateway's file says from now on.
    pub(crate) fn given(&self, residency: &config::Residency, rules: &Rules) {
        self.counts.begin(&rules.rules);
        self.known_mut().own.clone_from(&residency.labels);
    }

    /// The number of a replica's place.
    pub(crate) fn place(&self, region: Option<&str>, labels: &Labels) -> (String, u8) {
        let region = region.unwrap_or(&self.region).to_owned();
        let mut places = self.places.write().unwrap_or_else(PoisonError::into_inner);
        let known = places.iter().position(|(r, l)| *r == region && l == labels);
        let at = known.unwrap_or_else(|| {
            if places.len() < usize::from(BEYOND) {
                places.push((region.clone(), labels.clone()));
                return places.len() - 1;
            }
            tracing::warn!(
                region,
                most = BEYOND,
                "too many places; replicas there serve only what no residency rule names"
            );
            usize::from(BEYOND)
        });
        (region, at as u8)
    }

    /// What the registry says of regions.
    pub(crate) fn tell(&self, labels: BTreeMap<String, Labels>) {
        self.known_mut().told = labels;
    }

    fn known(&self) -> RwLockReadGuard<'_, Known> {
        self.labels.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn known_mut(&self) -> RwLockWriteGuard<'_, Known> {
        self.labels.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The numbered places where a request may be served.
    fn places(&self, residence: &Residence) -> u64 {
        if residence.is_free() {
            return u64::MAX;
        }
        let known = self.known();
        let places = self.places.read().unwrap_or_else(PoisonError::into_inner);
        let numbered = places.iter().enumerate();
        residence.mask(
            numbered.map(|(at, (region, own))| {
                (at as u8, Place { region, labels: known.of(region), own })
            }),
        )
    }

    /// Whether a request may be served in a region.
    pub(crate) fn permits_region(&self, residence: &Residence, region: &str) -> bool {
        let known = self.known();
        residence.permits(&Place { region, labels: known.of(region), own: &NONE })
    }

    /// Whether a replica may serve a request, as everything stands now.
    pub(crate) fn permits(&self, residence: &Residence, member: &Member) -> bool {
        residence.is_free() || self.places(residence) & 1 << member.place != 0
    }

    /// Whether a peer's answer tells that it was given where it may be. A place that only a
    /// replica's own labels permit is the peer's to judge: it says which rules it applied.
    pub(crate) fn was_kept(
        &self,
        residence: &Residence,
        region: Option<&HeaderValue>,
        applied: Option<&HeaderValue>,
    ) -> bool {
        let text =
            |value: Option<&HeaderValue>| value.and_then(|v| v.to_str().ok().map(str::to_owned));
        let Some(region) = text(region) else { return false };
        if self.permits_region(residence, &region) {
            return true;
        }
        let applied = text(applied).unwrap_or_default();
        let all = |rule: &Arc<Rule>| applied.split(", ").any(|name| name == rule.name);
        let labelled = |rule: &Arc<Rule>| rule.run_in.iter().any(|t| matches!(t, Term::Label(..)));
        residence.rules().iter().any(labelled) && residence.rules().iter().all(all)
    }
}

/// The rules' names, for the answer's header.
pub(crate) fn names(residence: &Residence) -> Option<HeaderValue> {
    let names: Vec<&str> = residence.rules().iter().map(|rule| rule.name.as_str()).collect();
    // Names are labels: few characters, all of them a header's.
    (!names.is_empty()).then(|| HeaderValue::from_str(&names.join(", ")).ok())?
}

/// What a client is told when its rules leave nobody who could serve it.
pub(crate) fn refusal(residence: &Residence) -> String {
    let one = |rule: &Arc<Rule>| {
        let places: Vec<String> = rule.run_in.iter().map(shown).collect();
        format!("rule `{}` (in {})", rule.name, places.join(", "))
    };
    let rules: Vec<String> = residence.rules().iter().map(one).collect();
    let verb = if rules.len() == 1 { "permits" } else { "permit" };
    let rules = rules.join(" and ");
    format!(
        "nobody takes requests now where {rules} {verb} this one to be served; bring a replica or a gateway there up, or widen the rule in residency.rules"
    )
}

#[cfg(test)]
mod tests;
