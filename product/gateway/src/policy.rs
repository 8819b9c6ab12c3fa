//! The policy in force: that of the gateway's file, or one set in the registry.

use std::sync::Arc;

use meridian_config::{ConfigError, Gateway as Config};
use meridian_protocol::policy::Policy;
use meridian_routing::{Config as Routing, Input};

use crate::inputs::fingerprint::ReadingNow;
use crate::lock::Mutex;
use crate::replicas::handover::Handover;
use crate::replicas::region::Region;

pub(crate) struct PolicyNow {
    region: Arc<Region>,
    reading: Arc<ReadingNow>,
    /// Present if there are peers.
    handover: Option<Arc<Handover>>,
    state: Mutex<PolicyInForce>,
}

struct PolicyInForce {
    /// The gateway's file.
    config: Config,
    /// The policy in force, if it is not the file's.
    other: Option<Policy>,
}

impl PolicyInForce {
    fn policy(&self) -> &Policy {
        self.other.as_ref().unwrap_or(&self.config.policy)
    }

    /// A state that may be kept: a policy that is the file's follows the file.
    fn settled(self) -> PolicyInForce {
        let other = self.other.as_ref();
        assert!(other != Some(&self.config.policy), "the file's policy would not follow the file");
        self
    }

    /// The machine's settings with the policy in force, and without a shadow.
    fn routing(&self) -> Result<Routing, ConfigError> {
        Config { policy: self.policy().clone(), shadow: None, ..self.config.clone() }.routing()
    }
}

impl PolicyNow {
    pub(crate) fn new(
        config: &Config,
        region: Arc<Region>,
        reading: Arc<ReadingNow>,
        handover: Option<Arc<Handover>>,
    ) -> PolicyNow {
        let state = Mutex::new(PolicyInForce { config: config.clone(), other: None });
        PolicyNow { region, reading, handover, state }
    }

    /// The policy in force.
    pub(crate) fn now(&self) -> Policy {
        self.state.lock().policy().clone()
    }

    /// Switches to the `wanted` policy, or to the file's if `None`.
    ///
    /// # Errors
    /// If this gateway does not know the policy, or one of its parameters.
    pub(crate) fn change(&self, wanted: Option<&Policy>) -> Result<(), ConfigError> {
        let mut state = self.state.lock();
        let other = wanted.filter(|wanted| **wanted != state.config.policy).cloned();
        if other == state.other {
            return Ok(());
        }
        let next = PolicyInForce { config: state.config.clone(), other };
        self.switch(state.policy(), &next)?;
        *state = next.settled();
        Ok(())
    }

    /// Adopts another file. A policy that is set in the registry stays in force.
    ///
    /// # Errors
    /// As [`change`](Self::change); none for a file that was checked, without a registry.
    pub(crate) fn configured(&self, config: &Config) -> Result<(), ConfigError> {
        let mut state = self.state.lock();
        let other = state.other.clone().filter(|other| *other != config.policy);
        let next = PolicyInForce { config: config.clone(), other };
        let before = &state.config;
        let is_same = (before.admission, before.resume.is_some())
            == (config.admission, config.resume.is_some());
        if !is_same || next.policy() != state.policy() {
            self.switch(state.policy(), &next)?;
        } else if before.shadow != config.shadow {
            self.shadow_by(&next)?;
        }
        *state = next.settled();
        Ok(())
    }

    /// Sets the shadow policy of the file. It pauses beside a policy of the registry that reads
    /// prompts in another way.
    fn shadow_by(&self, next: &PolicyInForce) -> Result<(), ConfigError> {
        let Routing { policy, params, .. } = next.routing()?;
        let shadow = next.config.shadow_beside(policy, &params).unwrap_or_else(|problems| {
            tracing::warn!(problem = problems.join("; "), "the shadow policy pauses");
            None
        });
        let counts = next.config.resume.is_some();
        self.reading.change(policy, &params, shadow.as_ref(), counts);
        self.region.driver.tell(Input::ShadowedBy(shadow));
        Ok(())
    }

    fn switch(&self, before: &Policy, next: &PolicyInForce) -> Result<(), ConfigError> {
        let wanted = next.policy();
        let Routing { policy, params, admission, .. } = next.routing()?;
        if let Some(handover) = &self.handover {
            handover.read_in((policy.index)(&params).map(|spec| spec.block_bytes));
        }
        self.region.driver.tell(Input::Configured { policy, params, admission });
        self.shadow_by(next)?;
        if wanted != before {
            let (name, before) = (&wanted.name, &before.name);
            tracing::info!(policy = name, before, "the policy or its weights changed");
        }
        Ok(())
    }
}
