//! Limits on requests, bytes of bodies and connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use meridian_config as config;

/// Limits for all requests together, as one configuration sets them.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    pub(crate) requests: Bound,
    /// Bytes of bodies.
    pub(crate) bodies: Bound,
    /// Clients' connections.
    pub(crate) connections: Bound,
}

impl Limits {
    pub(crate) fn new(limits: &config::Limits) -> Limits {
        Limits {
            requests: Bound::new(limits.requests),
            bodies: Bound::new(limits.bodies.bytes()),
            connections: Bound::new(limits.connections),
        }
    }

    /// The same counts with the limits of another configuration. What exceeds a lower one stays.
    pub(crate) fn limited(&self, limits: &config::Limits) -> Limits {
        Limits {
            requests: self.requests.limited(limits.requests),
            bodies: self.bodies.limited(limits.bodies.bytes()),
            connections: self.connections.limited(limits.connections),
        }
    }
}

/// A bounded count whose permits return themselves when dropped.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    used: Arc<AtomicUsize>,
    most: usize,
}

/// Part of a [`Bound`], returned when dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    used: Arc<AtomicUsize>,
    amount: usize,
    /// Permits that are returned together with it.
    with: Option<Box<Permit>>,
}

impl Permit {
    /// Combines two permits, to be returned together.
    pub(crate) fn and(mut self, other: Permit) -> Permit {
        assert!(self.with.is_none(), "a permit that is replaced comes back too early");
        self.with = Some(Box::new(other));
        self
    }
}

impl Bound {
    pub(crate) fn new(most: usize) -> Bound {
        Bound { used: Arc::default(), most }
    }

    /// Takes `amount`, unless that would exceed the limit.
    pub(crate) fn take(&self, amount: usize) -> Option<Permit> {
        let before = self.used.fetch_add(amount, Ordering::Relaxed);
        let permit = Permit { used: self.used.clone(), amount, with: None };
        // A permit that does not fit returns itself here.
        (before + amount <= self.most).then_some(permit)
    }

    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// The same count with another limit. Permits beyond a lower one stay.
    pub(crate) fn limited(&self, most: usize) -> Bound {
        Bound { used: self.used.clone(), most }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let before = self.used.fetch_sub(self.amount, Ordering::Relaxed);
        assert!(before >= self.amount, "a permit for {} comes back to {before}", self.amount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The limit holds, a refused permit costs nothing, and a dropped one is returned.
    #[test]
    fn permits_come_back() {
        let bound = Bound::new(10);
        let six = bound.take(6).expect("fits");
        assert!(bound.take(5).is_none());
        assert_eq!(bound.used(), 6);
        drop(six);
        assert_eq!(bound.used(), 0);
        let ten = bound.take(10).expect("fits");
        let bound = bound.limited(7);
        assert!(bound.take(1).is_none());
        drop(ten);
        assert!(bound.take(8).is_none() && bound.take(7).is_some());
    }
}
