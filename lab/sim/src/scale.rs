//! The autoscaler: adds a replica when the present ones are busy, after a provisioning delay.
//!
//! It uses the outstanding requests per replica, region by region. A new replica arrives after the
//! provisioning delay; a removed one is drained first. A perfect autoscaler without delay is a
//! bound that the experiments compute separately.

use meridian_base::{Duration, Time};

use crate::scenario::Autoscaler;

/// The autoscaler's state.
#[derive(Debug)]
pub(crate) struct Scaling {
    rule: Autoscaler,
    /// The most replicas that the world may have: gateways have tables for as many. A lost region
    /// is replaced, and then comes back.
    most: usize,
    /// By region.
    regions: Vec<OfRegion>,
}

#[derive(Clone, Copy, Debug, Default)]
struct OfRegion {
    /// Replicas on their way.
    coming: u32,
    /// Since when fewer have been needed.
    fewer_since: Option<Time>,
}

/// What the autoscaler sees of a region.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RegionUse {
    /// Replicas that are up and stay.
    pub(crate) present: u32,
    /// Requests in these, and in the queues of the region's gateways.
    pub(crate) requests: u32,
    /// Replicas of the whole world that have not left.
    pub(crate) all: usize,
}

/// What is to be done in a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resize {
    /// As many replicas are ordered.
    Order(u32),
    /// One is drained.
    GiveUp,
    /// It stays as it is.
    Nothing,
}

impl Scaling {
    /// For a world of this many regions and replicas.
    pub(crate) fn new(rule: Autoscaler, regions: usize, replicas: usize) -> Scaling {
        let most = replicas + rule.max as usize * regions;
        Scaling { rule, most, regions: vec![OfRegion::default(); regions] }
    }

    /// How often it runs.
    pub(crate) fn every(&self) -> Duration {
        self.rule.every
    }

    /// How long a replica is on its way.
    pub(crate) fn provisioning(&self) -> Duration {
        self.rule.provisioning
    }

    /// The most replicas at one time.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// Decides about a region. Ordered replicas count as coming until they arrive.
    pub(crate) fn decide(&mut self, now: Time, region: usize, seen: RegionUse) -> Resize {
        assert!(seen.all <= self.most, "{} replicas, more than {}", seen.all, self.most);
        let rule = &self.rule;
        let wanted = libm::ceil(f64::from(seen.requests) / rule.target_outstanding) as u32;
        let wanted = wanted.clamp(rule.min, rule.max);
        let there = &mut self.regions[region];
        let have = seen.present + there.coming;
        if wanted > have {
            there.fewer_since = None;
            let ordered = (wanted - have).min((self.most - seen.all) as u32);
            there.coming += ordered;
            return Resize::Order(ordered);
        }
        if wanted >= seen.present {
            there.fewer_since = None;
            return Resize::Nothing;
        }
        let since = *there.fewer_since.get_or_insert(now);
        assert!(since <= now, "fewer replicas are needed from {since:?} on, after {now:?}");
        if now.since(since) < rule.cooldown {
            return Resize::Nothing;
        }
        there.fewer_since = Some(now);
        Resize::GiveUp
    }

    /// An ordered replica of a region arrives.
    pub(crate) fn arrived(&mut self, region: usize) {
        let there = &mut self.regions[region];
        assert!(there.coming > 0, "a replica arrives in region {region}, which ordered none");
        there.coming -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn scaling() -> Scaling {
        let rule = Autoscaler {
            target_outstanding: 10.0,
            min: 1,
            max: 3,
            provisioning: SECOND,
            every: SECOND,
            cooldown: SECOND * 5,
        };
        Scaling::new(rule, 1, 1)
    }

    fn seen(present: u32, requests: u32) -> RegionUse {
        RegionUse { present, requests, all: present as usize }
    }

    // A busy region orders what it lacks, once, and at most its maximum.
    #[test]
    fn a_busy_region_orders() {
        let mut scaling = scaling();
        assert_eq!(scaling.decide(Time::ZERO, 0, seen(1, 10)), Resize::Nothing);
        assert_eq!(scaling.decide(Time::ZERO, 0, seen(1, 11)), Resize::Order(1));
        assert_eq!(scaling.decide(Time::ZERO, 0, seen(1, 20)), Resize::Nothing);
        assert_eq!(scaling.decide(Time::ZERO, 0, seen(1, 900)), Resize::Order(1));
        scaling.arrived(0);
        scaling.arrived(0);
        assert_eq!(scaling.decide(Time::ZERO, 0, seen(3, 900)), Resize::Nothing);
    }

    // No more replicas than the gateways have rows for, whatever the region lacks.
    #[test]
    fn a_full_world_orders_none() {
        let full = RegionUse { present: 0, requests: 900, all: 4 };
        assert_eq!(scaling().decide(Time::ZERO, 0, full), Resize::Order(0));
    }

    // An idle region gives up one replica after each cooldown; work in between starts it again.
    #[test]
    fn an_idle_region_waits() {
        let mut scaling = scaling();
        let mut at =
            |second, requests| scaling.decide(Time::ZERO + SECOND * second, 0, seen(3, requests));
        assert_eq!(at(0, 0), Resize::Nothing);
        assert_eq!(at(4, 0), Resize::Nothing);
        assert_eq!(at(5, 0), Resize::GiveUp);
        assert_eq!(at(9, 0), Resize::Nothing);
        assert_eq!(at(9, 30), Resize::Nothing);
        assert_eq!(at(10, 0), Resize::Nothing);
        assert_eq!(at(15, 0), Resize::GiveUp);
    }

    // Only ordered replicas arrive.
    #[test]
    #[should_panic(expected = "which ordered none")]
    fn arrivals_were_ordered() {
        scaling().arrived(0);
    }
}
