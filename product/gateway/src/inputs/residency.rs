//! Residency at a gateway: the rules of its file, its knowledge of regions, and the audit of
//! answers.
//!
//! The routing machine applies the rules (`meridian_base::residency`, shared with the
//! simulator). A request carries the rules that name it, and this module gives the machine the
//! region data of the gateway's file and the registry ([`Known`]). The rules also hold at the
//! gateway that receives a forwarded request: it applies its own and those that came with the
//! request. A decision is checked once more before the request is sent. Afterwards every answer is
//! checked against the rules, with the region data of the time of sending, so that a breach is
//! counted.

mod counts;
mod known;
mod refusals;
mod vouchers;

use std::sync::{Arc, PoisonError, RwLock};

use http::HeaderValue;
use meridian_base::residency::{Residence, Rule, Subject};
use meridian_config::{self as config, ConfigError};
use meridian_protocol::registry::Snapshot;
use meridian_routing::Input;

use crate::machine::driver::Driver;

pub(crate) use counts::{Counts, RuleOutcome};
pub(crate) use known::Known;
pub(crate) use refusals::{breached, held_too_long, not_permitted};

/// The rules of the gateway's file.
#[derive(Debug)]
pub(crate) struct Rules {
    rules: Vec<Arc<Rule>>,
    names_models: bool,
}

impl Rules {
    pub(crate) fn new(residency: &config::Residency) -> Result<Rules, ConfigError> {
        let rules = residency.rules().map_err(|e| ConfigError::from(vec![e]))?;
        let names_models = rules.iter().any(|rule| !rule.names.models.is_empty());
        Ok(Rules { rules, names_models })
    }

    /// Whether any rule depends on the request's model.
    pub(crate) fn names_models(&self) -> bool {
        self.names_models
    }

    /// The rules that name a request, plus those that another gateway sent with it.
    pub(crate) fn residence(&self, subject: &Subject<'_>, brought: Vec<Rule>) -> Residence {
        let mut residence = Residence::of(&self.rules, subject);
        residence.add(brought);
        residence
    }
}

/// The gateway's knowledge of regions, and the outcomes of requests that rules name.
pub(crate) struct Residency {
    known: RwLock<Arc<Known>>,
    /// Learns what changes.
    driver: Arc<Driver>,
    pub(crate) counts: Counts,
}

impl Residency {
    /// Starts with the gateway's file, and informs the machine.
    pub(crate) fn new(driver: Arc<Driver>, config: &config::Gateway, rules: &Rules) -> Residency {
        let residency = Residency { known: RwLock::default(), driver, counts: Counts::default() };
        residency.counts.begin(&rules.rules);
        residency.update(|known| *known = Known::of(config));
        residency
    }

    /// Applies a reloaded file.
    pub(crate) fn given(&self, config: &config::Gateway, rules: &Rules) {
        self.counts.begin(&rules.rules);
        self.update(|known| known.given(config));
    }

    /// Applies a new view of the registry.
    pub(crate) fn registered(&self, view: &Snapshot) {
        self.update(|known| known.registered(view));
    }

    /// Changes the knowledge and informs the machine, under one lock so that two changes reach the
    /// machine in order.
    fn update(&self, change: impl FnOnce(&mut Known)) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let mut newer = Known::clone(&known);
        change(&mut newer);
        if newer != **known {
            self.driver.tell(Input::Atlas(Arc::new(newer.atlas())));
            *known = Arc::new(newer);
        }
    }

    /// The current knowledge.
    pub(crate) fn known(&self) -> Arc<Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The names of the rules, for the answer's header.
pub(crate) fn names(residence: &Residence) -> Option<HeaderValue> {
    let names: Vec<&str> = residence.rules().iter().map(|rule| rule.name.as_str()).collect();
    // Names are labels, whose characters are all valid in a header.
    (!names.is_empty()).then(|| HeaderValue::from_str(&names.join(", ")).ok())?
}

#[cfg(test)]
mod tests;
