//! Limits of models: requests in the gateway at once, and tokens per minute.
//!
//! They protect the replicas of a model, so they count the requests of all tenants and of peers. The
//! rates are those of tenants ([`super::rate`]), for a model, and the gateways of a region share them.
//! Requests at once are counted by each gateway for itself.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::StatusCode;
use meridian_config::{self as config, TenantLimits};

use crate::http::limits::{Bound, Permit};
use crate::inputs::rate::{Charge, Rates, RatesByTenant};
use crate::refusal::Refusal;

/// The code of a refusal by a limit of the model.
const EXCEEDED: &str = "model_limit_exceeded";

/// The limits of one model.
#[derive(Debug)]
struct Limits {
    requests: Option<Bound>,
    rates: Option<Arc<Rates>>,
}

/// A request's part of its model's limits.
#[derive(Debug, Default)]
pub(crate) struct Held {
    pub(crate) permit: Option<Permit>,
    pub(crate) charge: Option<Charge>,
}

/// The models that have limits.
#[derive(Debug, Default)]
pub(crate) struct Models(HashMap<String, Limits>);

impl Models {
    pub(crate) fn are_free(&self) -> bool {
        self.0.is_empty()
    }

    /// Admits a request of a model with `prompt` tokens and `replies` replies of at most `reply`
    /// tokens each.
    pub(crate) fn admit(
        &self,
        model: &str,
        prompt: u32,
        reply: Option<u32>,
        replies: u32,
    ) -> Result<Held, Refusal> {
        let Some(limits) = self.0.get(model) else { return Ok(Held::default()) };
        let permit = match &limits.requests {
            Some(bound) => Some(bound.take(1).ok_or_else(|| full(bound.most()))?),
            None => None,
        };
        let charge = limits.rates.as_ref().map(|rates| rates.admit(prompt, reply, replies));
        Ok(Held { permit, charge: charge.transpose().map_err(of_model)? })
    }
}

fn full(most: usize) -> Refusal {
    let message = format!(
        "{most} requests of this model are in the gateway already (models.limits.requests); retry later, or raise the limit"
    );
    Refusal::new(StatusCode::TOO_MANY_REQUESTS, EXCEEDED, message)
        .retry_after(Duration::from_secs(1))
}

/// The refusal of a rate, which is no tenant's: without the headers and the count of a tenant's.
fn of_model(refusal: Refusal) -> Refusal {
    let code = if refusal.retry_after.is_some() { EXCEEDED } else { refusal.code };
    let message = format!("limit of this model: {}", refusal.message).into();
    Refusal { code, message, limited: None, ..refusal }
}

/// The use of the limits, which outlives reloads.
#[derive(Debug, Default)]
pub(crate) struct UseOfModels(Mutex<HashMap<String, Kept>>);

#[derive(Debug)]
struct Kept {
    limits: config::ModelLimits,
    requests: Bound,
    rates: Option<Arc<Rates>>,
}

impl UseOfModels {
    /// The limits of these models. Requests in the gateway count against a changed limit, too; an
    /// unchanged rate keeps its state. The state of other models is dropped.
    pub(crate) fn of(&self, models: &config::Models, shared: &RatesByTenant) -> Models {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before = std::mem::take(&mut *kept);
        let limited: BTreeMap<_, _> =
            models.iter().filter(|(_, model)| !model.limits.is_empty()).collect();
        let mut found = HashMap::new();
        for (name, model) in limited {
            let limits = model.limits;
            let old = before.remove(name);
            let same = |old: &Kept| old.limits.tokens_per_minute == limits.tokens_per_minute;
            let rates = match old.as_ref().filter(|old| same(old)) {
                Some(old) => old.rates.clone(),
                None => shared.of_model(name, &tenant_limits(limits)),
            };
            let most = limits.requests.unwrap_or(usize::MAX);
            let requests = old.map_or_else(|| Bound::new(most), |old| old.requests.limited(most));
            let bound = limits.requests.map(|_| requests.clone());
            found.insert(name.clone(), Limits { requests: bound, rates: rates.clone() });
            kept.insert(name.clone(), Kept { limits, requests, rates });
        }
        shared.set_models(kept.values().filter_map(|kept| kept.rates.clone()));
        Models(found)
    }
}

fn tenant_limits(limits: config::ModelLimits) -> TenantLimits {
    TenantLimits { requests_per_minute: None, tokens_per_minute: limits.tokens_per_minute }
}

#[cfg(test)]
mod tests {
    use meridian_config::Gateway;

    use super::*;

    fn models(limits: &str) -> config::Models {
        let file = format!("version: 1\nmodels: {{m: {{limits: {{{limits}}}}}}}\n");
        Gateway::read(&file).expect("is valid").models
    }

    // A request holds its place until it ends, and other models have none of it.
    #[test]
    fn places() {
        let limits = UseOfModels::default().of(&models("requests: 1"), &RatesByTenant::default());
        let held = limits.admit("m", 9, None, 1).expect("is the first");
        let refused = limits.admit("m", 9, None, 1).expect_err("is the second");
        assert_eq!((refused.code, refused.status.as_u16()), (EXCEEDED, 429));
        assert!(refused.retry_after.is_some() && refused.message.contains("1 requests"));
        assert!(limits.admit("n", 9, None, 1).is_ok_and(|held| held.permit.is_none()));
        drop(held);
        assert!(limits.admit("m", 9, None, 1).is_ok());
    }

    // Tokens are charged as for a tenant, and the refusal is the model's.
    #[tokio::test(start_paused = true)]
    async fn tokens() {
        let limits =
            UseOfModels::default().of(&models("tokens_per_minute: 100"), &RatesByTenant::default());
        let _held = limits.admit("m", 60, Some(0), 1).expect("fits");
        let refused = limits.admit("m", 60, Some(0), 1).expect_err("40 are left");
        assert_eq!((refused.code, refused.limited.is_none()), (EXCEEDED, true));
        let never = limits.admit("m", 101, Some(0), 1).expect_err("never fits");
        assert_eq!((never.code, never.status.as_u16()), ("request_exceeds_limit", 400));
    }

    // After a reload, running requests count against the new limit, and an unchanged rate keeps its
    // state.
    #[tokio::test(start_paused = true)]
    async fn reloads() {
        let (kept, shared) = (UseOfModels::default(), RatesByTenant::default());
        let of = |limits: &str| kept.of(&models(limits), &shared);
        let first = of("requests: 3, tokens_per_minute: 100");
        let held: Vec<_> =
            (0..2).map(|_| first.admit("m", 40, Some(0), 1).expect("fits")).collect();
        let next = of("requests: 2, tokens_per_minute: 100");
        assert!(next.admit("m", 0, Some(0), 1).is_err_and(|r| r.message.contains("2 requests")));
        assert!(first.admit("m", 0, Some(0), 1).is_ok(), "the old limit is as it was");
        drop(held);
        assert!(next.admit("m", 30, Some(0), 1).is_err(), "20 are left");
        let raised = of("tokens_per_minute: 200");
        assert!(raised.admit("m", 200, Some(0), 1).is_ok());
    }
}
