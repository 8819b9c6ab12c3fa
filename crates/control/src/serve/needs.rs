//! The state of each region, and the number of replicas that its load requires.
//!
//! A replica counts as much as its utilisation, as gateways see it: the larger of the share of KV
//! in use and the share of time in prefill. Waiting requests (pending in an engine, queued in a
//! gateway) have no utilisation yet; each counts as much as the average running one. The sum is the
//! region's work `W` in fully used replicas, and `W / target` replicas, rounded up, would do it at
//! the target's utilisation:
//!
//! ```text
//! W      = sum of utilisation + (pending + held) / per
//! per    = running / sum of utilisation, at least 1: requests that fill one replica
//! needed = max(1, ceil(W / target)); 0 while the region is drained or has no replica to serve
//! ```
//!
//! A replica that several gateways see counts once, with the larger values. Forwarded requests
//! count as work of the region that serves them. Deliberately not here: smoothing over minutes and
//! the decision to scale, which are up to autoscalers.

use std::collections::BTreeMap;

use meridian_wire::registry::{Load, RegionStatus, Wanted};

use super::reports::Reports;
use crate::registry::View;

/// The regions' status.
pub(super) fn regions(
    view: &View,
    reports: &Reports,
    target: f64,
) -> BTreeMap<String, RegionStatus> {
    let loads = loads(reports);
    let mut regions: BTreeMap<String, RegionStatus> = BTreeMap::new();
    let mut sums: BTreeMap<&str, Sum> = BTreeMap::new();
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
        if one.wanted == Wanted::Up {
            entry(&mut regions, &one.region).replicas += 1;
        }
        let Some(load) = loads.get(name.as_str()).filter(|_| one.is_there()) else { continue };
        entry(&mut regions, &one.region).up += u32::from(load.is_up && one.wanted == Wanted::Up);
        sums.entry(&one.region).or_default().add(load);
    }
    for (gateway, report) in reports.all() {
        let Some(kept) = view.gateways.get(gateway) else { continue };
        entry(&mut regions, &kept.record.region).held += report.held;
        sums.entry(&kept.record.region).or_default();
    }
    for (name, status) in &mut regions {
        let Some(sum) = sums.get(name.as_str()) else { continue };
        let work = sum.work(status.held);
        status.work = Some(work);
        let serves = status.wanted == Wanted::Up.name() && status.replicas > 0;
        let needed = (work / target).ceil().clamp(1.0, f64::from(u32::MAX));
        status.needed = Some(if serves { needed as u32 } else { 0 });
    }
    regions
}

fn entry<'a>(regions: &'a mut BTreeMap<String, RegionStatus>, name: &str) -> &'a mut RegionStatus {
    let up = || RegionStatus { wanted: Wanted::Up.name().to_owned(), ..RegionStatus::default() };
    regions.entry(name.to_owned()).or_insert_with(up)
}

/// One replica, as seen by all gateways together.
#[derive(Default)]
struct Seen {
    is_up: bool,
    utilisation: f64,
    running: u32,
    pending: u32,
}

fn loads(reports: &Reports) -> BTreeMap<&str, Seen> {
    let mut loads: BTreeMap<&str, Seen> = BTreeMap::new();
    for (name, load) in reports.all().flat_map(|(_, report)| &report.replicas) {
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

#[derive(Default)]
struct Sum {
    utilisation: f64,
    running: f64,
    pending: f64,
}

impl Sum {
    fn add(&mut self, one: &Seen) {
        self.utilisation += one.utilisation;
        self.running += f64::from(one.running);
        self.pending += f64::from(one.pending);
    }

    fn work(&self, held: u32) -> f64 {
        let per = if self.utilisation > 0.0 { self.running / self.utilisation } else { 1.0 };
        self.utilisation + (self.pending + f64::from(held)) / per.max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use meridian_wire::registry::{self, Gateway, Region, Renew, Replica};

    use super::*;
    use crate::registry::Kept;
    use crate::store::{LeaseId, Revision};

    fn kept<R>(record: R) -> Kept<R> {
        Kept { record, at: Revision(1) }
    }

    fn load(utilisation: f32, running: u32, pending: u32) -> Load {
        let seen = registry::Seen { state: "up".into(), adopted: false };
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

    fn report(held: u32, loads: &[(&str, Load)]) -> Renew {
        let replicas = loads.iter().map(|(name, load)| ((*name).to_owned(), load.clone()));
        Renew { held, replicas: replicas.collect(), ..Renew::default() }
    }

    fn eu(view: &View, reports: &Reports) -> RegionStatus {
        regions(view, reports, 0.7)["eu"].clone()
    }

    // The formula with simple numbers: two replicas at 0.8 with 20 running each take 25 requests
    // when full; 10 pending and 15 queued are one more replica; 2.6 / 0.7 is 4. A replica that two
    // gateways see counts once.
    #[test]
    fn needed_by_the_formula() {
        let (view, mut reports) = (view(), Reports::default());
        let loads = [("a", load(0.8, 20, 5)), ("b", load(0.8, 20, 5))];
        reports.take("eu-1", LeaseId(1), report(15, &loads));
        reports.take("eu-2", LeaseId(2), report(0, &loads));
        let status = eu(&view, &reports);
        assert!((status.work.unwrap() - 2.6).abs() < 1e-6, "{status:?}");
        assert_eq!((status.needed, status.up, status.held), (Some(4), 2, 15));
    }

    // An idle region needs one replica, a drained one none. Without any report there is no number.
    #[test]
    fn idle_drained_and_unknown() {
        let (mut view, mut reports) = (view(), Reports::default());
        assert_eq!(eu(&view, &reports).needed, None);
        reports.take("eu-1", LeaseId(1), report(0, &[("a", load(f32::NAN, 0, 0))]));
        assert_eq!(eu(&view, &reports).needed, Some(1));
        view.regions.get_mut("eu").unwrap().record.wanted = Wanted::Draining;
        assert_eq!(eu(&view, &reports).needed, Some(0));
    }

    // Waiting requests require replicas even if engines report no utilisation.
    #[test]
    fn requests_that_wait_count() {
        let (view, mut reports) = (view(), Reports::default());
        reports.take("eu-1", LeaseId(1), report(3, &[("a", load(0.0, 0, 0))]));
        assert_eq!(eu(&view, &reports).needed, Some(5));
    }
}
