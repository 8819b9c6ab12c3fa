//! The faults of a run: replicas of the fleet that are slow for a while, and the workload's outages.

use meridian_base::Time;
use meridian_protocol::units::Span;
use meridian_sim as sim;

use crate::experiment::plan::{Cell, Plan};
use crate::experiment::spec::{Fleet, Lost, Measure};

/// The faults of a run in order of time: those of the fleet and those of the workload.
pub(super) fn all(plan: &Plan, cell: Cell, measure: Measure) -> Vec<(Time, sim::Fault)> {
    let mut faults = degraded(&plan.fleets[cell.fleet]);
    let (warmup, window) = (measure.warmup.0, measure.window.0);
    let at = |share: f64| Time::ZERO + warmup + window.mul_f64(share);
    let regions = &plan.regions.regions;
    let all = regions.len();
    for outage in &plan.workloads[cell.workload].0.faults {
        let region = regions.iter().position(|place| place.name == outage.lost.region());
        let Some(region) = region else { continue };
        let (breaks, mends) = fault(&outage.lost, region, all);
        faults.extend(breaks.into_iter().map(|fault| (at(outage.from), fault)));
        faults.extend(mends.into_iter().map(|fault| (at(outage.until), fault)));
    }
    faults.sort_by_key(|(at, _)| *at);
    faults
}

/// The faults at the start of an outage, and those that repair it at its end.
fn fault(lost: &Lost, region: usize, regions: usize) -> (Vec<sim::Fault>, Vec<sim::Fault>) {
    use sim::Fault::{GatewaysDown, GatewaysUp, LinkDown, LinkUp, RegionDown, RegionUp};
    let others = || (0..regions).filter(move |other| *other != region);
    let each = |fault: fn(usize, usize) -> sim::Fault| {
        others().flat_map(|other| [fault(region, other), fault(other, region)]).collect()
    };
    match lost {
        Lost::Gateways(_) => (vec![GatewaysDown(region)], vec![GatewaysUp(region)]),
        Lost::Region(_) => (vec![RegionDown(region)], vec![RegionUp(region)]),
        Lost::Links(_) => (each(LinkDown), each(LinkUp)),
    }
}

/// The starts and ends of degraded replicas, in order of time; an end comes before a start at the
/// same time.
fn degraded(fleet: &Fleet) -> Vec<(Time, sim::Fault)> {
    let ends = fleet.degraded.iter().map(|d| (d.until, d.replica, 1.0));
    let starts = fleet.degraded.iter().map(|d| (d.at, d.replica, d.factor));
    let slow = |(at, replica, factor): (Span, usize, f64)| {
        (Time::ZERO + at.0, sim::Fault::ReplicaSlow(replica, factor))
    };
    let mut faults: Vec<(Time, sim::Fault)> = ends.chain(starts).map(slow).collect();
    faults.sort_by_key(|(at, _)| *at);
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    // A degraded replica's steps take longer from its start to its end, and two times of one replica
    // that touch leave it slow at the second factor.
    #[test]
    fn degraded_replicas_are_faults() {
        let fleet: Fleet = crate::experiment::spec::read(
            "test",
            "{name: f, groups: [{gpu: l4, model: llama-3.1-8b, count: [2]}], degraded: [\
             {replica: 1, factor: 2, at: 9s, until: 12s}, {replica: 1, factor: 3, at: 5s, until: \
             9s}]}",
        )
        .unwrap();
        let slow = |at, factor| (Time::from_millis(at), sim::Fault::ReplicaSlow(1, factor));
        let expected = [slow(5000, 3.0), slow(9000, 1.0), slow(9000, 2.0), slow(12_000, 1.0)];
        assert_eq!(degraded(&fleet), expected);
    }

    // An outage starts and ends with its repair within the window; links fail in both directions.
    #[test]
    fn outages_are_faults() {
        use sim::Fault::{GatewaysDown, GatewaysUp, LinkDown, LinkUp};
        let spec = crate::experiment::spec::read(
            "test",
            "{title: t, reproduces: r, regions: skywalker, fleets: [l4-4/4/4], systems: [meridian], \
             workloads: [{name: w, loads: [{generator: tree2, clients: [1, 1, 1]}], faults: [{lost: \
             {gateways: us}, from: 0.25, until: 0.5}]}], measure: {warmup: 10s, window: 40s}}",
        )
        .unwrap();
        let plan = Plan::new(&spec, false).unwrap();
        let scenario = super::super::scenario(&plan, plan.cells()[0], 1).unwrap();
        let at = Time::from_millis;
        assert_eq!(scenario.faults, [(at(20_000), GatewaysDown(0)), (at(30_000), GatewaysUp(0))]);
        let (down, up) = fault(&Lost::Links("eu".to_owned()), 1, 3);
        assert_eq!(down, [LinkDown(1, 0), LinkDown(0, 1), LinkDown(1, 2), LinkDown(2, 1)]);
        assert_eq!((up.len(), up[0]), (4, LinkUp(1, 0)));
    }
}
