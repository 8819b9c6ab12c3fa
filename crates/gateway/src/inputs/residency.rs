//! Residency at a gateway: the rules of its file, what it knows of regions, and the audit of answers.
//!
//! The machine applies the rules (`meridian_routing::residency`, which the simulator applies too): a
//! request brings those that name it, and the machine is told here what the gateway's file and the
//! registry say of regions ([`Known`]). The same rules hold at the gateway that a request is forwarded
//! to: it applies its own and those that came with the request. A decision is checked once more
//! before it is sent, and every answer is held against the rules afterwards, by what was known of
//! regions when it was sent, so that a breach would be counted.

mod counts;
mod known;
mod refusals;

use std::sync::{Arc, PoisonError, RwLock};

use http::HeaderValue;
use meridian_base::{ModelId, PeerId, ReplicaId};
use meridian_routing::Input;
use meridian_routing::residency::{Residence, Rule, Subject};
use meridian_wire::config::{self, ConfigError};
use meridian_wire::registry::Snapshot;

use crate::inputs::pins::Home;
use crate::machine::driver::Driver;
use crate::peers::all::Peers;

pub(crate) use counts::{Counts, Kept};
pub(crate) use known::Known;
pub(crate) use refusals::{held_too_long, not_permitted};

/// Who can serve a request, before its rules are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reach {
    /// Peers, a bit each.
    pub(crate) peers: u64,
    /// Replicas of this gateway.
    pub(crate) here: bool,
    /// The one replica that has its state.
    pub(crate) pinned: Option<ReplicaId>,
    /// A peer says that it serves the model.
    pub(crate) elsewhere: bool,
}

/// Who can serve a request for `model`, whose state lives at `home` if it has some.
pub(crate) fn reach(
    residency: &Residency,
    peers: Option<&Peers>,
    model: ModelId,
    home: Option<Home>,
    residence: &Residence,
) -> Reach {
    let elsewhere = peers.is_some_and(|peers| peers.models.knows(model));
    match home {
        Some(Home::At(replica)) => Reach { peers: 0, here: true, pinned: Some(replica), elsewhere },
        // No replica here can, and of the peers only the one that gave the answer.
        Some(Home::Away(PeerId(peer))) => {
            let may =
                peers.is_some_and(|peers| residency.may_be_at(peers, residence, PeerId(peer)));
            Reach { peers: u64::from(may) << peer, here: false, pinned: None, elsewhere }
        }
        Some(Home::Gone) | None => {
            let peers = peers.map_or(0, |peers| peers.serving(model));
            Reach { peers, here: true, pinned: None, elsewhere }
        }
    }
}

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

/// What the gateway knows of regions, and what became of requests that rules name.
pub(crate) struct Residency {
    known: RwLock<Arc<Known>>,
    pub(crate) counts: Counts,
}

impl Residency {
    /// What the gateway's file says, of which the machine is told.
    pub(crate) fn new(driver: &Driver, config: &config::Gateway, rules: &Rules) -> Residency {
        let residency = Residency { known: RwLock::default(), counts: Counts::default() };
        residency.counts.begin(&rules.rules);
        residency.update(driver, |known| *known = Known::of(config));
        residency
    }

    /// What the gateway's file says from now on.
    pub(crate) fn given(&self, driver: &Driver, residency: &config::Residency, rules: &Rules) {
        self.counts.begin(&rules.rules);
        self.update(driver, |known| known.given(residency));
    }

    /// What the registry says from now on.
    pub(crate) fn registered(&self, driver: &Driver, view: &Snapshot) {
        self.update(driver, |known| known.registered(view));
    }

    /// Changes what is known and tells the machine. Under the lock, so that two changes do not reach
    /// the machine in the wrong order.
    fn update(&self, driver: &Driver, change: impl FnOnce(&mut Known)) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let mut newer = Known::clone(&known);
        change(&mut newer);
        if newer != **known {
            driver.tell(Input::Atlas(Arc::new(newer.atlas())));
            *known = Arc::new(newer);
        }
    }

    /// Whether a peer has, or may have when it is connected again, replicas that rules permit.
    fn may_be_at(&self, peers: &Peers, residence: &Residence, peer: PeerId) -> bool {
        let Some(link) = peers.link(peer) else { return false };
        let known = self.known();
        residence.is_free()
            || known.permits_region(residence, link.region())
            || link.places().iter().any(|place| known.permits(residence, place))
    }

    /// What is known now.
    pub(crate) fn known(&self) -> Arc<Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The rules' names, for the answer's header.
pub(crate) fn names(residence: &Residence) -> Option<HeaderValue> {
    let names: Vec<&str> = residence.rules().iter().map(|rule| rule.name.as_str()).collect();
    // Names are labels: few characters, all of them a header's.
    (!names.is_empty()).then(|| HeaderValue::from_str(&names.join(", ")).ok())?
}

#[cfg(test)]
mod tests;
