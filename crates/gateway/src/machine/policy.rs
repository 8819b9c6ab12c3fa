//! The policy in force: that of the gateway's file, or one set in the registry.

use std::sync::Arc;

use meridian_routing::{Config as Routing, Input};
use meridian_wire::config::{ConfigError, Gateway as Config, Policy};

use crate::inputs::fingerprint::ReadingNow;
use crate::lock::Mutex;
use crate::machine::driver::Driver;
use crate::replicas::handover::Handover;

pub(crate) struct PolicyNow {
    /// The gateway's file.
    config: Config,
    driver: Arc<Driver>,
    reading: Arc<ReadingNow>,
    /// Present if there are peers.
    handover: Option<Arc<Handover>>,
    /// The policy in force, if it is not the file's.
    other: Mutex<Option<Policy>>,
}

impl PolicyNow {
    pub(crate) fn new(
        config: &Config,
        driver: Arc<Driver>,
        reading: Arc<ReadingNow>,
        handover: Option<Arc<Handover>>,
    ) -> PolicyNow {
        PolicyNow { config: config.clone(), driver, reading, handover, other: Mutex::default() }
    }

    /// The policy in force.
    pub(crate) fn now(&self) -> Policy {
        self.other.lock().as_ref().unwrap_or(&self.config.policy).clone()
    }

    /// Switches to the `wanted` policy, or to the file's if `None`.
    ///
    /// # Errors
    /// If this gateway does not know the policy, or one of its parameters.
    pub(crate) fn change(&self, wanted: Option<&Policy>) -> Result<(), ConfigError> {
        let own = &self.config.policy;
        let wanted = wanted.unwrap_or(own);
        let before = self.now();
        if *wanted == before {
            return Ok(());
        }
        let config = Config { policy: wanted.clone(), ..self.config.clone() };
        let Routing { policy, params, admission, .. } = config.routing()?;
        if let Some(handover) = &self.handover {
            handover.read_in((policy.index)(&params).map(|spec| spec.block_bytes));
        }
        self.reading.change(policy, &params);
        self.driver.tell(Input::Configured { policy, params, admission });
        let (name, before) = (&wanted.name, &before.name);
        tracing::info!(policy = name, before, "the policy or its weights changed");
        *self.other.lock() = (wanted != own).then(|| wanted.clone());
        Ok(())
    }
}
