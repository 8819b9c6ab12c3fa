//! Breakers of single models, for replicas that serve several.
//!
//! One model may fail where the others serve: a broken adapter, a model that is still loaded. An error that an engine
//! reports about a request counts against its model there. Everything that says something about the server, such as a lost
//! connection, counts against the replica.

use alloc::vec::Vec;
use meridian_base::{ModelId, Time};

use super::Replica;
use crate::breaker::{Breaker, BreakerConfig};

/// The breakers of models that have failed.
#[derive(Debug, Default)]
pub(crate) struct ModelBreakers(Vec<(ModelId, Breaker)>);

impl ModelBreakers {
    /// That of a model, if it has failed.
    pub(crate) fn get_mut(&mut self, model: ModelId) -> Option<&mut Breaker> {
        self.0.iter_mut().find(|(of, _)| *of == model).map(|(_, breaker)| breaker)
    }

    /// That of a model, which is closed if the model has not failed.
    pub(crate) fn of(&mut self, model: ModelId, config: BreakerConfig) -> &mut Breaker {
        let at = self.0.iter().position(|(of, _)| *of == model).unwrap_or_else(|| {
            self.0.push((model, Breaker::new(config)));
            self.0.len() - 1
        });
        &mut self.0[at].1
    }

    /// Whether the breaker of a model is closed.
    pub(crate) fn is_closed(&self, model: ModelId) -> bool {
        self.0.iter().all(|(of, breaker)| *of != model || breaker.is_closed())
    }

    /// Whether a request for a model may pass now.
    pub(crate) fn passes(&self, model: ModelId, now: Time) -> bool {
        self.0.iter().all(|(of, breaker)| *of != model || breaker.passes(now))
    }

    /// Keeps the models that the replica still serves, so there are no more breakers than models.
    pub(crate) fn keep(&mut self, served: &[ModelId]) {
        self.0.retain(|(model, _)| served.contains(model));
    }

    pub(crate) fn configured(&mut self, config: BreakerConfig) {
        self.0.iter_mut().for_each(|(_, breaker)| breaker.configured(config));
    }
}

/// How requests for a model ended.
impl Replica {
    /// Records the success of a request for a model that was dispatched at `sent`.
    pub(crate) fn succeeded(&mut self, now: Time, model: ModelId, sent: Time) {
        self.breaker.success(now, sent);
        if let Some(breaker) = self.of_models.get_mut(model) {
            breaker.success(now, sent);
        }
        self.totals.done += 1;
        self.idle_refusals = 0;
    }

    /// Records the failure of a request for a model that was dispatched at `sent`, which says something about the server.
    pub(crate) fn server_failed(&mut self, now: Time, model: ModelId, sent: Time, others: bool) {
        self.breaker.failure(now, sent, others);
        if let Some(breaker) = self.of_models.get_mut(model) {
            breaker.neutral();
        }
    }

    /// Records the end of a request for a model that shows no health.
    pub(crate) fn ended_neutral(&mut self, model: ModelId) {
        self.breaker.neutral();
        if let Some(breaker) = self.of_models.get_mut(model) {
            breaker.neutral();
        }
    }

    /// Records an error about a request for a model that was dispatched at `sent`, which may be the request's own.
    pub(crate) fn unsure(&mut self, now: Time, model: ModelId, sent: Time) {
        if self.spec.models.len() < 2 {
            return self.breaker.unsure(now, sent);
        }
        self.breaker.neutral();
        if let Some(breaker) = self.of_models.get_mut(model) {
            breaker.unsure(now, sent);
        }
    }

    /// Records that such an error was the replica's own. If it serves several models, it counts against this one.
    pub(crate) fn blamed(&mut self, now: Time, model: ModelId, others: bool) {
        match self.spec.models.len() < 2 {
            true => self.breaker.blamed(now, others),
            false => self.of_models.of(model, self.breaker.config()).blamed(now, others),
        }
        self.totals.failed += 1;
    }
}
