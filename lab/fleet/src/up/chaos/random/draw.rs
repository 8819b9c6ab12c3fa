//! The faults of processes and links that come by chance.
//!
//! They always leave the fleet able to serve every request eventually: at
//! most one gateway, one link and half of a region's replicas are broken at a time. Processes are
//! suspended for about as long as others need to notice: a probe's timeout and three of them,
//! `peers.gone`, the lease.

use std::collections::BTreeMap;

use meridian_base::Rng;

use super::super::super::order::{Act, What};
use super::super::deck::{Drawn, Line, deal, line};

const REGIONS: [&str; 3] = ["us", "eu", "asia"];
const REPLICAS: usize = 4;
/// Most broken replicas of a region at a time.
const MOST_BROKEN: usize = 2;
/// Seconds between two faults.
const GAP: [f64; 2] = [3.0, 5.5];
/// Seconds after a gateway is back: it takes over its replicas and connects to its peers.
const SETTLE: f64 = 3.0;
/// How long replicas are suspended, seconds.
const STOPS: [f64; 7] = [0.3, 0.9, 1.2, 2.8, 3.4, 4.2, 8.0];
/// How long gateways and the control plane are suspended.
const GATEWAY_STOPS: [f64; 6] = [0.5, 1.8, 2.2, 3.0, 5.5, 9.0];

macro_rules! kinds {
    ($($kind:ident $times:literal $name:literal,)+) => {
        /// The kinds of faults.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(super) enum Kind { $($kind),+ }

        impl Kind {
            /// Every kind, with its number in a deck.
            const DECK: &[(Kind, usize)] = &[$((Kind::$kind, $times)),+];

            pub(super) fn name(self) -> &'static str {
                match self { $(Kind::$kind => $name),+ }
            }

            /// Whether a gateway or a link may be silent meanwhile.
            pub(super) fn silences(self) -> bool {
                matches!(
                    self,
                    Kind::GatewayStopped | Kind::GatewayEnded | Kind::LinkCut | Kind::WayCut
                )
            }
        }
    };
}

kinds! {
    ReplicaKilled 2 "replica killed",
    ReplicaStopped 3 "replica suspended",
    ReplicaRestarted 1 "replica restarted",
    ReplicaEnded 1 "replica sent SIGTERM while suspended",
    GatewayKilled 1 "gateway killed",
    GatewayStopped 2 "gateway suspended",
    GatewayRestarted 1 "gateway restarted",
    GatewayEnded 1 "gateway suspended while it drains",
    GatewayReloaded 1 "gateway reloaded (SIGHUP)",
    GatewayEdited 1 "gateway's configuration edited",
    GatewayHungUp 1 "gateway edited and reloaded while suspended",
    ControlKilled 1 "control plane killed",
    ControlStopped 1 "control plane suspended",
    ControlRestarted 1 "control plane restarted",
    LinkCut 1 "link cut both ways",
    WayCut 1 "link cut one way",
    LinkReset 1 "link reset",
    LinkSlow 1 "link slow",
    Rolling 1 "region restarted, one process after the other",
}

/// Broken parts and when they are repaired, seconds.
struct Busy {
    gateways: f64,
    links: f64,
    control: f64,
    replicas: BTreeMap<(usize, usize), f64>,
}

/// The faults of this many seconds, ordered by start.
pub(super) fn faults(seconds: f64, rng: &mut Rng) -> Vec<Drawn> {
    let mut busy = Busy { gateways: 0.0, links: 0.0, control: 0.0, replicas: BTreeMap::new() };
    deal(seconds, GAP, Kind::DECK, rng, |kind, at, rng| busy.play(kind, at, rng))
}

impl Busy {
    /// A fault of this kind now, if its target is whole.
    fn play(&mut self, kind: Kind, at: f64, rng: &mut Rng) -> Option<Drawn> {
        let orders = match kind {
            Kind::ReplicaKilled
            | Kind::ReplicaStopped
            | Kind::ReplicaRestarted
            | Kind::ReplicaEnded => self.replica(kind, at, rng),
            Kind::ControlKilled | Kind::ControlStopped | Kind::ControlRestarted => {
                self.control(kind, at, rng)
            }
            Kind::LinkCut | Kind::WayCut | Kind::LinkReset | Kind::LinkSlow => {
                self.link(kind, at, rng)
            }
            Kind::Rolling => self.rolling(at, rng),
            _ => self.gateway(kind, at, rng),
        }?;
        Some(Drawn::new(kind.name(), kind.silences(), orders))
    }

    fn replica(&mut self, kind: Kind, at: f64, rng: &mut Rng) -> Option<Vec<Line>> {
        let (region, nth) = (rng.below(REGIONS.len()), rng.below(REPLICAS));
        let (while_down, stop) = (1.0 + 5.0 * rng.unit(), STOPS[rng.below(STOPS.len())]);
        let broken = self.replicas.iter().filter(|((r, _), until)| *r == region && **until > at);
        if broken.count() >= MOST_BROKEN || self.is_broken(region, nth, at) {
            return None;
        }
        let line = |after, act| line(at + after, act, What::Replica, replica(region, nth));
        let (until, lines) = match kind {
            Kind::ReplicaKilled => {
                (while_down, vec![line(0.0, Act::Kill), line(while_down, Act::Revive)])
            }
            Kind::ReplicaStopped => (stop, vec![line(0.0, Act::Stop), line(stop, Act::Revive)]),
            Kind::ReplicaEnded => {
                let lines =
                    vec![line(0.0, Act::Stop), line(stop / 2.0, Act::End), line(stop, Act::Revive)];
                (stop, lines)
            }
            _ => (0.5, vec![line(0.0, Act::Restart)]),
        };
        self.replicas.insert((region, nth), at + until + 1.0);
        Some(lines)
    }

    fn is_broken(&self, region: usize, nth: usize, at: f64) -> bool {
        self.replicas.get(&(region, nth)).is_some_and(|until| *until > at)
    }

    fn gateway(&mut self, kind: Kind, at: f64, rng: &mut Rng) -> Option<Vec<Line>> {
        let region = REGIONS[rng.below(REGIONS.len())];
        let (down, stop) = (1.0 + 7.0 * rng.unit(), GATEWAY_STOPS[rng.below(GATEWAY_STOPS.len())]);
        if self.gateways > at {
            return None;
        }
        let line = |after, act| line(at + after, act, What::Gateway, region.to_owned());
        let lines = match kind {
            Kind::GatewayKilled => vec![line(0.0, Act::Kill), line(down, Act::Revive)],
            Kind::GatewayStopped => vec![line(0.0, Act::Stop), line(stop, Act::Revive)],
            Kind::GatewayEnded => {
                vec![line(0.0, Act::End), line(0.05, Act::Stop), line(stop, Act::Revive)]
            }
            Kind::GatewayReloaded => vec![line(0.0, Act::Reload)],
            Kind::GatewayEdited => vec![line(0.0, Act::Edit)],
            Kind::GatewayHungUp => vec![
                line(0.0, Act::Stop),
                line(0.2, Act::Edit),
                line(0.3, Act::Reload),
                line(1.0, Act::Revive),
            ],
            _ => vec![line(0.0, Act::Restart)],
        };
        self.gateways = lines.last().map_or(at, |line| line.0) + SETTLE;
        Some(lines)
    }

    fn control(&mut self, kind: Kind, at: f64, rng: &mut Rng) -> Option<Vec<Line>> {
        let (down, stop) = (1.0 + 5.0 * rng.unit(), GATEWAY_STOPS[rng.below(GATEWAY_STOPS.len())]);
        if self.control > at {
            return None;
        }
        let line = |after, act| line(at + after, act, What::Control, "control".to_owned());
        let lines = match kind {
            Kind::ControlKilled => vec![line(0.0, Act::Kill), line(down, Act::Revive)],
            Kind::ControlStopped => vec![line(0.0, Act::Stop), line(stop, Act::Revive)],
            _ => vec![line(0.0, Act::Restart)],
        };
        self.control = lines.last().map_or(at, |line| line.0) + 1.0;
        Some(lines)
    }

    fn link(&mut self, kind: Kind, at: f64, rng: &mut Rng) -> Option<Vec<Line>> {
        let from = rng.below(REGIONS.len());
        let to = (from + 1 + rng.below(REGIONS.len() - 1)) % REGIONS.len();
        let broken = 1.0 + 6.0 * rng.unit();
        if self.links > at {
            return None;
        }
        let sign = if kind == Kind::WayCut { '>' } else { '/' };
        let line = |after, act| {
            let name = format!("{}{sign}{}", REGIONS[from], REGIONS[to]);
            line(at + after, act, What::Link, name)
        };
        let act = match kind {
            Kind::LinkReset => Act::Kill,
            Kind::LinkSlow => Act::Slow,
            _ => Act::Cut,
        };
        self.links = at + broken + 1.0;
        Some(vec![line(0.0, act), line(broken, Act::Revive)])
    }

    /// Restarts a gateway, and then each replica of its region.
    fn rolling(&mut self, at: f64, rng: &mut Rng) -> Option<Vec<Line>> {
        let region = rng.below(REGIONS.len());
        let whole = (0..REPLICAS).all(|nth| !self.is_broken(region, nth, at));
        if self.gateways > at || !whole {
            return None;
        }
        let gateway = line(at, Act::Restart, What::Gateway, REGIONS[region].to_owned());
        let mut lines = vec![gateway];
        for nth in 0..REPLICAS {
            let when = at + 1.0 + 0.8 * nth as f64;
            lines.push(line(when, Act::Restart, What::Replica, replica(region, nth)));
            self.replicas.insert((region, nth), at + 6.0);
        }
        self.gateways = at + 2.0 + SETTLE;
        Some(lines)
    }
}

fn replica(region: usize, nth: usize) -> String {
    format!("{}-engine-{nth}", REGIONS[region])
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::super::super::order::Order;
    use super::*;

    fn drawn(seconds: f64, seed: u64) -> Vec<Drawn> {
        faults(seconds, &mut Rng::new(seed))
    }

    // Half a minute has at least five faults, an hour at least four hundred, of every kind. A seed
    // always yields the same ones, and another seed others.
    #[test]
    fn there_are_enough_of_every_kind() {
        for seed in 0..50 {
            assert!(drawn(30.0, seed).len() >= 5, "seed {seed}");
            let hour = drawn(3600.0, seed);
            assert!(hour.len() >= 400, "{} faults of seed {seed}", hour.len());
            for (kind, _) in Kind::DECK {
                assert!(
                    hour.iter().any(|one| one.kind == kind.name()),
                    "{} of seed {seed}",
                    kind.name()
                );
            }
            assert_eq!(drawn(300.0, seed), drawn(300.0, seed));
            assert_ne!(drawn(300.0, seed), drawn(300.0, seed + 1));
        }
    }

    // Everything broken is repaired, and a broken part is left alone: at most one gateway, one link
    // and half of a region's replicas are broken at any time.
    #[test]
    fn the_fleet_stays_able_to_serve() {
        for seed in 0..50 {
            let mut orders: Vec<(Duration, Order)> =
                drawn(600.0, seed).into_iter().flat_map(|one| one.orders).collect();
            orders.sort_by_key(|(at, _)| *at);
            let mut broken: Vec<Order> = Vec::new();
            for (_, order) in orders {
                broken.retain(|other| (other.what, &other.name) != (order.what, &order.name));
                if !matches!(order.act, Act::Revive | Act::Restart | Act::Reload | Act::Edit) {
                    broken.push(order);
                }
                let count = |of: &dyn Fn(&Order) -> bool| broken.iter().filter(|o| of(o)).count();
                assert!(count(&|o| o.what == What::Gateway) <= 1, "seed {seed}: {broken:?}");
                assert!(count(&|o| o.what == What::Link) <= 1, "seed {seed}: {broken:?}");
                for region in REGIONS {
                    let here = |o: &Order| o.what == What::Replica && o.name.starts_with(region);
                    assert!(count(&here) <= MOST_BROKEN, "seed {seed}: {broken:?}");
                }
            }
            assert!(broken.is_empty(), "seed {seed}: {broken:?}");
        }
    }
}
