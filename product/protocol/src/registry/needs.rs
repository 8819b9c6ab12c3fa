//! The number of replicas that a load requires.
//!
//! A replica counts as much as its utilisation: the larger of the share of KV in use and the share
//! of time in prefill. Waiting requests (pending in an engine, queued in a gateway) have no
//! utilisation yet; each counts as much as the average running one. The sum is the work `W` in fully
//! used replicas, and `W / target` replicas, rounded up, would do it at the target's utilisation:
//!
//! ```text
//! W      = sum of utilisation + (pending + held) / per
//! per    = running / sum of utilisation, at least 1: requests that fill one replica
//! needed = max(1, ceil(W / target))
//! ```
//!
//! A decode leg that waits for its KV is among an engine's waiting requests and holds KV already, so
//! it counts twice: a slow network raises the number of decode replicas a little.
//!
//! Prefill and decode replicas are different work and are summed apart. Deliberately not here:
//! smoothing over minutes and the decision to scale, which are up to autoscalers.

use std::cmp::Ordering;

use meridian_base::Role;

/// The load of replicas that do the same work.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    utilisation: f64,
    running: f64,
    waiting: f64,
}

impl Work {
    /// Adds a replica: its utilisation, its running and its pending requests. A utilisation beyond 0
    /// to 1 is clamped, and NaN counts as 0.
    pub fn add(&mut self, utilisation: f64, running: u32, pending: u32) {
        self.utilisation += if utilisation.is_nan() { 0.0 } else { utilisation.clamp(0.0, 1.0) };
        self.running += f64::from(running);
        self.waiting += f64::from(pending);
    }

    /// Adds requests that wait in a gateway's queue for one of the replicas.
    ///
    /// # Panics
    /// If their number is negative or NaN.
    pub fn wait(&mut self, requests: f64) {
        assert!(requests >= 0.0, "the number of waiting requests is not negative");
        self.waiting += requests;
    }

    /// The work, in fully used replicas.
    #[must_use]
    pub fn replicas(&self) -> f64 {
        let per = if self.utilisation > 0.0 { self.running / self.utilisation } else { 1.0 };
        self.utilisation + self.waiting / per.max(1.0)
    }

    /// The replicas that do it at this utilisation, 1 at least.
    ///
    /// # Panics
    /// If the utilisation is not positive.
    #[must_use]
    pub fn needed(&self, target: f64) -> u32 {
        assert!(target > 0.0, "a target is a utilisation above 0");
        (self.replicas() / target).ceil().clamp(1.0, f64::from(u32::MAX)) as u32
    }
}

/// What to change about the replicas with a role of which `up` are up, as in `2 more decode`.
/// Replicas for whole requests get no advice.
#[must_use]
pub fn advice_for(role: &str, up: u32, needed: u32) -> Option<String> {
    if role == Role::Both.word() {
        return None;
    }
    match needed.cmp(&up) {
        Ordering::Greater => Some(format!("{} more {role}", needed - up)),
        Ordering::Less => Some(format!("{} less {role}", up - needed)),
        Ordering::Equal => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Two replicas at 0.8 with 20 running each take 25 requests when full; 25 waiting requests are
    // one more replica, and 2.6 at a target of 0.7 is 4.
    #[test]
    fn needed_by_the_formula() {
        let mut work = Work::default();
        work.add(0.8, 20, 5);
        work.add(0.8, 20, 5);
        work.wait(15.0);
        assert!((work.replicas() - 2.6).abs() < 1e-9, "{work:?}");
        assert_eq!(work.needed(0.7), 4);
    }

    // An idle pool needs one replica, and figures that are no numbers count as none.
    #[test]
    fn idle_and_odd_figures() {
        let mut work = Work::default();
        work.add(f64::NAN, 0, 0);
        assert_eq!((work.replicas(), work.needed(0.5)), (0.0, 1));
        work.wait(3.0);
        assert_eq!(work.needed(0.7), 5);
    }
}
