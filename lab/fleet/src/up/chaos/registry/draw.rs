//! The faults of etcd, control planes and gateways that come by chance.
//!
//! At most one member of etcd, two control planes and one region or gateway are broken at a time, so that the
//! registry can be changed at some control plane, and each client has a gateway. The exception is a
//! lost registry: all members are dead for some seconds, while all control planes run.

use meridian_base::Rng;

use super::super::super::order::{ALL, Act, What};
use super::super::deck::{Drawn, Line, deal, line};

const REGIONS: [&str; 3] = ["us", "eu", "asia"];
/// Members of etcd, and control planes.
const SEVERAL: usize = 3;
/// Most control planes that are broken at a time.
const MOST_PLANES: usize = 2;
/// Seconds between two faults.
const GAP: [f64; 2] = [2.0, 4.0];
/// Seconds after a part is back: it catches up, and a gateway takes over its replicas.
const SETTLE: f64 = 2.0;
/// How long something is dead, seconds.
const DEAD: [f64; 2] = [1.0, 6.0];
/// How much longer the registry is lost, so that changes are refused meanwhile.
const LOST: f64 = 4.0;
/// How long something is suspended: shorter than a lease, about as long, and longer.
const STOPS: [f64; 6] = [0.5, 1.8, 2.2, 3.0, 5.5, 8.0];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    EtcdKilled,
    EtcdStopped,
    EtcdSlowed,
    RegistryLost,
    ControlKilled,
    ControlStopped,
    GatewayKilled,
    GatewayStopped,
    RegionLost,
}

/// Every kind, with its number in a deck.
const DECK: &[(Kind, usize)] = &[
    (Kind::EtcdKilled, 2),
    (Kind::EtcdStopped, 2),
    (Kind::EtcdSlowed, 1),
    (Kind::RegistryLost, 1),
    (Kind::ControlKilled, 2),
    (Kind::ControlStopped, 2),
    (Kind::GatewayKilled, 1),
    (Kind::GatewayStopped, 1),
    (Kind::RegionLost, 1),
];

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::EtcdKilled => "etcd member killed",
            Kind::EtcdStopped => "etcd member suspended",
            Kind::EtcdSlowed => "etcd member slow",
            Kind::RegistryLost => "all etcd members killed",
            Kind::ControlKilled => "control plane killed",
            Kind::ControlStopped => "control plane suspended",
            Kind::GatewayKilled => "gateway killed",
            Kind::GatewayStopped => "gateway suspended",
            Kind::RegionLost => "region killed",
        }
    }

    fn act(self) -> Act {
        match self {
            Kind::EtcdStopped | Kind::ControlStopped | Kind::GatewayStopped => Act::Stop,
            Kind::EtcdSlowed => Act::Slow,
            _ => Act::Kill,
        }
    }
}

/// When broken parts are whole again, seconds.
#[derive(Default)]
struct Busy {
    etcd: f64,
    planes: [f64; SEVERAL],
    gateways: f64,
}

/// The faults of this many seconds, ordered by start.
pub(super) fn faults(seconds: f64, rng: &mut Rng) -> Vec<Drawn> {
    let mut busy = Busy::default();
    deal(seconds, GAP, DECK, rng, |kind, at, rng| {
        let lines = busy.play(kind, at, rng)?;
        Some(Drawn::new(kind.name(), kind == Kind::GatewayStopped, lines))
    })
}

impl Busy {
    /// A fault of this kind now, if its target is whole.
    fn play(&mut self, kind: Kind, at: f64, rng: &mut Rng) -> Option<Vec<Line>> {
        let (nth, dead) = (rng.below(SEVERAL), DEAD[0] + (DEAD[1] - DEAD[0]) * rng.unit());
        let stop = STOPS[rng.below(STOPS.len())];
        let lasts = match kind {
            Kind::RegistryLost => dead + LOST,
            _ if kind.act() == Act::Stop => stop,
            _ => dead,
        };
        let until = at + lasts + SETTLE;
        let (what, name) = match kind {
            Kind::EtcdKilled | Kind::EtcdStopped | Kind::EtcdSlowed => {
                take(&mut self.etcd, at, until)?;
                (What::Etcd, format!("etcd-{}", nth + 1))
            }
            Kind::RegistryLost => {
                if self.planes.iter().any(|busy| *busy > at) {
                    return None;
                }
                take(&mut self.etcd, at, until)?;
                self.planes = [until; SEVERAL];
                (What::Etcd, ALL.to_owned())
            }
            Kind::ControlKilled | Kind::ControlStopped => {
                if self.planes.iter().filter(|busy| **busy > at).count() >= MOST_PLANES {
                    return None;
                }
                take(&mut self.planes[nth], at, until)?;
                (What::Control, format!("control-{}", nth + 1))
            }
            Kind::GatewayKilled | Kind::GatewayStopped => {
                take(&mut self.gateways, at, until)?;
                (What::Gateway, REGIONS[nth].to_owned())
            }
            Kind::RegionLost => {
                take(&mut self.gateways, at, until)?;
                (What::Region, REGIONS[nth].to_owned())
            }
        };
        let order = |after, act| line(at + after, act, what, name.clone());
        Some(vec![order(0.0, kind.act()), order(lasts, Act::Revive)])
    }
}

/// Takes a part until a time, if it is whole.
fn take(busy: &mut f64, at: f64, until: f64) -> Option<()> {
    let is_whole = *busy <= at;
    is_whole.then(|| *busy = until)
}

#[cfg(test)]
mod tests {
    use super::super::super::super::order::Order;
    use super::*;

    fn drawn(seconds: f64, seed: u64) -> Vec<Drawn> {
        faults(seconds, &mut Rng::new(seed))
    }

    // A minute has at least ten faults, ten minutes have every kind. A seed always yields the same
    // ones, and another seed others.
    #[test]
    fn there_are_enough_of_every_kind() {
        for seed in 0..50 {
            assert!(drawn(60.0, seed).len() >= 10, "{} of seed {seed}", drawn(60.0, seed).len());
            let long = drawn(600.0, seed);
            for (kind, _) in DECK {
                assert!(long.iter().any(|one| one.kind == kind.name()), "{kind:?} of seed {seed}");
            }
            assert_eq!(long, drawn(600.0, seed));
            assert_ne!(long, drawn(600.0, seed + 1));
        }
    }

    // At most one member of etcd, two control planes and one gateway are broken at any time; while
    // all members are dead, no control plane is. Everything is repaired.
    #[test]
    fn the_registry_can_be_changed() {
        for seed in 0..50 {
            let mut orders: Vec<_> =
                drawn(600.0, seed).into_iter().flat_map(|one| one.orders).collect();
            orders.sort_by_key(|(at, _)| *at);
            let mut broken: Vec<Order> = Vec::new();
            for (_, order) in orders {
                broken.retain(|other| (other.what, &other.name) != (order.what, &order.name));
                if order.act != Act::Revive {
                    broken.push(order);
                }
                let count = |what| broken.iter().filter(|order| order.what == what).count();
                let is_lost = broken.iter().any(|order| order.name == ALL);
                let most = if is_lost { 0 } else { MOST_PLANES };
                assert!(count(What::Etcd) <= 1, "seed {seed}: {broken:?}");
                let regions = count(What::Gateway) + count(What::Region);
                assert!(regions <= 1, "seed {seed}: {broken:?}");
                assert!(count(What::Control) <= most, "seed {seed}: {broken:?}");
            }
            assert!(broken.is_empty(), "seed {seed}: {broken:?}");
        }
    }
}
