//! The state of each region, and the number of replicas that its load requires.
//!
//! [`Work`] has the formula. Replicas of one role do the same work, so each
//! role of a region has its own number; the queued requests wait for the roles that answer, and are
//! divided among their replicas. The region's number is the sum. A region that is drained or has no
//! replica to serve needs none.
//!
//! A replica that several gateways see counts once, with the larger values. Forwarded requests
//! count as work of the region that serves them. Deliberately not here: smoothing over minutes and
//! the decision to scale, which are up to autoscalers.

use std::collections::BTreeMap;

use meridian_protocol::registry::{Load, RegionStatus, Wanted, Work};

use super::reports::Reported;
use crate::registry::View;

/// The regions' status.
pub(super) fn regions(
    view: &View,
    reports: &Reported<'_>,
    target: f64,
) -> BTreeMap<String, RegionStatus> {
    let loads = loads(reports);
    let mut regions: BTreeMap<String, RegionStatus> = BTreeMap::new();
    let mut sums: BTreeMap<&str, BTreeMap<&str, Sum>> = BTreeMap::new();
    for (name, kept) in &view.regions {
        let wanted = kept.record.wanted.name().to_owned();
        regions.insert(name.clone(), RegionStatus { wanted, ..RegionStatus::default() });
    }
    for (name, kept) in &view.gateways {
        let status = entry(&mut regions, &kept.record.region);
        status.gateways.push(name.clone());
    }
    for (name, kept) in &view.replicas {
        let one = &kept.record;
        let role = one.spec.role;
        if one.wanted == Wanted::Up {
            let status = entry(&mut regions, &one.region);
            status.replicas += 1;
            status.roles.entry(role.name().to_owned()).or_default().replicas += 1;
        }
        let Some(load) = loads.get(name.as_str()).filter(|_| one.is_there()) else { continue };
        if load.is_up && one.wanted == Wanted::Up {
            let status = entry(&mut regions, &one.region);
            status.up += 1;
            status.roles.entry(role.name().to_owned()).or_default().up += 1;
        }
        let sum = sums.entry(&one.region).or_default().entry(role.name()).or_default();
        sum.answers = role.0.answers();
        sum.add(load);
    }
    for (gateway, report) in reports {
        let Some(kept) = view.gateways.get(*gateway) else { continue };
        entry(&mut regions, &kept.record.region).held += report.held;
        sums.entry(&kept.record.region).or_default();
    }
    for (name, status) in &mut regions {
        assert!(status.up <= status.replicas, "only replicas that should serve count as up");
        if let Some(sums) = sums.get(name.as_str()) {
            count(status, sums, target);
        }
    }
    regions
}

/// Sets the numbers of a region whose load is known.
fn count(status: &mut RegionStatus, sums: &BTreeMap<&str, Sum>, target: f64) {
    let serves = status.wanted == Wanted::Up.name() && status.replicas > 0;
    let answering: u32 = sums.values().filter(|sum| sum.answers).map(|sum| sum.seen).sum();
    let (mut all, mut needed) = (0.0, 0_u32);
    // Without a replica that answers, the queued requests are still work.
    if answering == 0 {
        let mut work = Work::default();
        work.wait(f64::from(status.held));
        (all, needed) = (work.replicas(), work.needed(target));
    }
    for (role, sum) in sums {
        let mut work = sum.work;
        if sum.answers {
            assert!(answering > 0, "a role that answers has a replica");
            work.wait(f64::from(status.held) * f64::from(sum.seen) / f64::from(answering));
        }
        let one = status.roles.entry((*role).to_owned()).or_default();
        (one.work, one.needed) = (Some(work.replicas()), Some(0));
        all += work.replicas();
        if serves && one.replicas > 0 {
            one.needed = Some(work.needed(target));
            needed = needed.saturating_add(work.needed(target));
        }
    }
    status.work = Some(all);
    status.needed = Some(if serves { needed.max(1) } else { 0 });
}

fn entry<'a>(regions: &'a mut BTreeMap<String, RegionStatus>, name: &str) -> &'a mut RegionStatus {
    let up = || RegionStatus { wanted: Wanted::Up.name().to_owned(), ..RegionStatus::default() };
    regions.entry(name.to_owned()).or_insert_with(up)
}

/// One replica, as seen by all gateways together.
#[derive(Default)]
struct ReplicaSeen {
    is_up: bool,
    utilisation: f64,
    running: u32,
    pending: u32,
}

fn loads<'a>(reports: &Reported<'a>) -> BTreeMap<&'a str, ReplicaSeen> {
    let mut loads: BTreeMap<&str, ReplicaSeen> = BTreeMap::new();
    for (name, load) in reports.values().flat_map(|report| &report.replicas) {
        let Load { seen, utilisation, running, pending } = load;
        let one = loads.entry(name).or_default();
        one.is_up |= seen.state == "up";
        // A comparison with NaN is false, so NaN counts as nothing.
        one.utilisation = one.utilisation.max(f64::from(*utilisation).clamp(0.0, 1.0));
        one.running = one.running.max(*running);
        one.pending = one.pending.max(*pending);
    }
    loads
}

/// The replicas of one role that gateways see.
#[derive(Default)]
struct Sum {
    /// Whether the role answers clients.
    answers: bool,
    seen: u32,
    work: Work,
}

impl Sum {
    fn add(&mut self, one: &ReplicaSeen) {
        self.seen += 1;
        self.work.add(one.utilisation, one.running, one.pending);
    }
}

#[cfg(test)]
mod tests {
    use meridian_protocol::registry::{self, Gateway, Region, Replica, Report};

    use super::*;
    use crate::registry::Kept;
    use crate::store::Revision;

    fn kept<R>(record: R) -> Kept<R> {
        Kept { record, at: Revision(1) }
    }

    fn load(utilisation: f32, running: u32, pending: u32) -> Load {
        let seen = registry::Seen { state: "up".into(), ..registry::Seen::default() };
        Load { seen, utilisation, running, pending }
    }

    /// Two replicas of eu and its gateway.
    fn view() -> View {
        let mut view = View::default();
        view.regions.insert("eu".into(), kept(Region::default()));
        let text = r#"{"region":"eu","spec":{"url":"http://10.0.0.1:8000"}}"#;
        let replica: Replica = serde_json::from_str(text).unwrap();
        for name in ["a", "b"] {
            view.replicas.insert(name.into(), kept(replica.clone()));
        }
        let gateway = Gateway { region: "eu".into(), ..Gateway::default() };
        view.gateways.insert("eu-1".into(), kept(gateway.clone()));
        view.gateways.insert("eu-2".into(), kept(gateway));
        view
    }

    fn report(held: u32, loads: &[(&str, Load)]) -> Report {
        let replicas = loads.iter().map(|(name, load)| ((*name).to_owned(), load.clone()));
        Report { held, replicas: replicas.collect() }
    }

    fn eu(view: &View, reports: &[Report]) -> RegionStatus {
        let reports = ["eu-1", "eu-2"].into_iter().zip(reports).collect();
        regions(view, &reports, 0.7)["eu"].clone()
    }

    // The formula with simple numbers: two replicas at 0.8 with 20 running each take 25 requests
    // when full; 10 pending and 15 queued are one more replica; 2.6 / 0.7 is 4. A replica that two
    // gateways see counts once.
    #[test]
    fn needed_by_the_formula() {
        let loads = [("a", load(0.8, 20, 5)), ("b", load(0.8, 20, 5))];
        let status = eu(&view(), &[report(15, &loads), report(0, &loads)]);
        assert!((status.work.unwrap() - 2.6).abs() < 1e-6, "{status:?}");
        assert_eq!((status.needed, status.up, status.held), (Some(4), 2, 15));
    }

    // An idle region needs one replica, a drained one none. Without any report there is no number.
    #[test]
    fn idle_drained_and_unknown() {
        let mut view = view();
        assert_eq!(eu(&view, &[]).needed, None);
        let reports = [report(0, &[("a", load(f32::NAN, 0, 0))])];
        assert_eq!(eu(&view, &reports).needed, Some(1));
        view.regions.get_mut("eu").unwrap().record.wanted = Wanted::Draining;
        assert_eq!(eu(&view, &reports).needed, Some(0));
    }

    // Roles have their own numbers: a full decode replica with a queue needs another one, an idle
    // prefill replica is enough, and the region needs their sum.
    #[test]
    fn needed_by_role() {
        let mut view = view();
        for (name, role) in [("a", "prefill"), ("b", "decode")] {
            let replica = &mut view.replicas.get_mut(name).unwrap().record;
            replica.spec.role = role.parse().unwrap();
        }
        let loads = [("a", load(0.1, 0, 0)), ("b", load(0.9, 9, 0))];
        let status = eu(&view, &[report(4, &loads)]);
        let needed = |role: &str| status.roles[role].needed;
        assert_eq!((needed("prefill"), needed("decode")), (Some(1), Some(2)));
        assert_eq!((status.needed, status.up), (Some(3), 2));
    }

    // Waiting requests require replicas even if engines report no utilisation.
    #[test]
    fn requests_that_wait_count() {
        let reports = [report(3, &[("a", load(0.0, 0, 0))])];
        assert_eq!(eu(&view(), &reports).needed, Some(5));
    }
}
