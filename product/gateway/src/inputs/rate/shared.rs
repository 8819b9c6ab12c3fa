//! What was taken from the limits of tenants and models at this gateway, for siblings, so that a limit
//! holds over all gateways of the region.
//!
//! Each gateway charges its own bucket and tells the others, which charge theirs. Between two messages
//! gateways can admit a request each of the same unit: the buckets are then in debt, and less is
//! admitted until that is earned. A gateway that reaches none of its siblings can't know what they
//! admit: it keeps to its own part of the limit.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use super::bucket::Bucket;
use super::{Rates, RatesByTenant};

/// Units of the two limits of a tenant or a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Units {
    pub(crate) requests: i64,
    pub(crate) tokens: i64,
}

impl Units {
    /// Adds units.
    pub(crate) fn add(&mut self, more: Units) {
        self.requests = self.requests.saturating_add(more.requests);
        self.tokens = self.tokens.saturating_add(more.tokens);
    }
}

/// The units that were taken here.
#[derive(Debug, Default)]
pub(crate) struct SharedRates {
    /// Since siblings were told last, by the hash of the tenant's or model's name.
    taken: Mutex<BTreeMap<u64, Units>>,
    changed: Notify,
    /// The gateways that share the limits, this one included; 0 without siblings.
    gateways: AtomicU32,
    /// Units of the bucket for each unit that is taken, if it is not 0.
    weight: AtomicU32,
}

impl SharedRates {
    /// Sets the number of siblings, and how many of them are connected.
    pub(crate) fn set_siblings(&self, all: u32, connected: u32) {
        let gateways = if all == 0 { 0 } else { all.saturating_add(1) };
        self.gateways.store(gateways, Ordering::Relaxed);
        self.weight.store(if connected == 0 { gateways } else { 1 }, Ordering::Relaxed);
    }

    /// Units of the bucket for each unit that is taken.
    pub(super) fn weight(&self) -> u32 {
        self.weight.load(Ordering::Relaxed).max(1)
    }

    /// Notes units that a tenant took, or got back.
    pub(super) fn note(&self, tenant: u64, requests: i64, tokens: i64) {
        if self.gateways.load(Ordering::Relaxed) == 0 || (requests, tokens) == (0, 0) {
            return;
        }
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.entry(tenant).or_default().add(Units { requests, tokens });
        self.changed.notify_one();
    }

    /// Waits until a tenant took units.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Removes and returns the units since the last call.
    pub(crate) fn take(&self) -> Vec<(u64, Units)> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *taken).into_iter().collect()
    }
}

impl Rates {
    /// Charges what a tenant took at a sibling.
    pub(crate) fn took_elsewhere(&self, units: Units) {
        let both = [(&self.requests, units.requests), (&self.tokens, units.tokens)];
        for (bucket, units) in both {
            let Some(bucket) = bucket else { continue };
            let many = u32::try_from(units.unsigned_abs()).unwrap_or(u32::MAX);
            match units >= 0 {
                true => bucket.settle(0, many),
                false => bucket.settle(many, 0),
            }
        }
    }

    /// The units that are taken now, and not earned back.
    fn level(&self) -> Units {
        let taken = |bucket: &Option<Bucket>| bucket.as_ref().map_or(0, Bucket::taken);
        Units { requests: taken(&self.requests).into(), tokens: taken(&self.tokens).into() }
    }

    /// Charges what is missing to a sibling's level.
    pub(crate) fn rise_to(&self, level: Units) {
        let own = self.level();
        self.took_elsewhere(Units {
            requests: (level.requests - own.requests).max(0),
            tokens: (level.tokens - own.tokens).max(0),
        });
    }
}

impl RatesByTenant {
    /// The level of each tenant and model, for a sibling that starts.
    pub(crate) fn levels(&self) -> Vec<(u64, Units)> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let models = self.models.lock().unwrap_or_else(PoisonError::into_inner);
        let tenants = kept.iter().map(|(tenant, (_, rates))| (*tenant, rates.level()));
        tenants.chain(models.iter().map(|(model, rates)| (*model, rates.level()))).collect()
    }

    /// The limits of a tenant or a model, by the hash of its name.
    pub(crate) fn by_hash(&self, name: u64) -> Option<Arc<Rates>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, rates)) = kept.get(&name) {
            return Some(rates.clone());
        }
        self.models.lock().unwrap_or_else(PoisonError::into_inner).get(&name).cloned()
    }
}

#[cfg(test)]
mod tests {
    use meridian_config::{self as config, TenantLimits};

    use super::super::Charge;
    use super::*;

    // Two gateways that tell each other admit a limit once; one that reaches none admits its part.
    #[tokio::test(start_paused = true)]
    async fn siblings_share_a_limit() {
        let both: [RatesByTenant; 2] = Default::default();
        let tenant = config::Tenant {
            name: "acme".to_owned(),
            limits: TenantLimits {
                requests_per_minute: Some(100),
                tokens_per_minute: Some(100_000),
            },
            ..config::Tenant::default()
        };
        let rates = both
            .each_ref()
            .map(|all| all.of(std::slice::from_ref(&tenant))[0].clone().expect("limits"));
        let tell = |from: usize| {
            for (tenant, units) in both[from].shared.take() {
                both[1 - from].by_hash(tenant).expect("has it too").took_elsewhere(units);
            }
        };
        both.iter().for_each(|all| all.shared.set_siblings(1, 1));
        let mut admitted = 0;
        for at in (0..300).map(|n| n % 2) {
            admitted += usize::from(rates[at].admit(10, Some(10), 1).is_ok());
            // A message for every seventh request.
            if admitted % 7 == 0 {
                tell(0);
                tell(1);
            }
        }
        assert!((100..=107).contains(&admitted), "{admitted}");
        let restarted = RatesByTenant::default();
        let rates = restarted.of(std::slice::from_ref(&tenant))[0].clone().expect("limits");
        for (tenant, level) in both[0].levels() {
            restarted.by_hash(tenant).expect("has it too").rise_to(level);
        }
        assert!(rates.admit(0, Some(0), 1).is_err(), "nothing is left");
        let alone = RatesByTenant::default();
        alone.shared.set_siblings(3, 0);
        let rates = alone.of(&[tenant])[0].clone().expect("limits");
        let mut charges = Vec::new();
        while let Ok(charge) = rates.admit(10, Some(10), 1) {
            charges.push(charge);
        }
        assert_eq!(charges.len(), 25, "a quarter");
        // The sibling is back before they end: they give back what they took.
        alone.shared.set_siblings(3, 1);
        charges.iter_mut().for_each(Charge::nothing);
        drop(charges);
        assert_eq!(rates.level().tokens, 0);
    }
}
