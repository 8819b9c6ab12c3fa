//! The third mode: our objective and search on the paper's network formulas.
//!
//! Between the paper's mode ([`paper`](crate::paper())) and ours it changes one thing at a time. The
//! placement maximises the rate that meets both objectives, as ours does (correction 1), and its
//! traffic takes the times of equations 6 to 11, 14 and 15: hops store and forward, the ring counts
//! twice, a switch takes a microsecond, links are never shared. Bytes are bytes and every layer
//! synchronises; as printed, no communication would remain (corrections 4 and 5).

use crate::problem::Problems;
use crate::search::{Plan, on, plan};
use crate::task::{Network, Task};

/// The best plan by the paper's network formulas, judged with our network, and the requests a second
/// that those formulas promise.
///
/// # Errors
///
/// If the task is invalid, no plan can serve it by the printed formulas, or the plan that serves it
/// by them serves nothing by ours.
pub fn network(task: &Task<'_>) -> Result<(Plan, f64), Problems> {
    let printed = Task { network: Network::Printed, ..task.clone() };
    let plans = plan(&printed)?;
    let (promised, best) =
        plans.iter().find_map(|plan| Some((plan.goodput(), on(task, plan)?))).ok_or_else(|| {
            let remedy = "they serve nothing within the objectives by our network; relax ttft or \
                          tpot, or use mode corrected";
            Problems::one("mode network", format!("{} plans", plans.len()), remedy)
        })?;
    Ok((best, promised))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::best;
    use crate::import::TopologySpec;
    use crate::instance::{Instance, Parallel, Phase, Rated};
    use crate::model::Subject;
    use crate::paper::paper;
    use crate::printed::printed_ring;
    use crate::task::{Lengths, Slo};
    use crate::topology::{GpuId, Topology};
    use crate::transfer::transfer;

    fn testbed() -> Topology {
        let yaml = include_str!("../topologies/heroserve-testbed.yaml");
        TopologySpec::read(yaml).unwrap().build().unwrap()
    }

    fn with<T>(network: Network, check: impl Fn(&Task<'_>) -> T) -> T {
        let (topology, subject) = (testbed(), Subject::named("opt-66b").unwrap());
        let lengths = Lengths { mean: 300.0, cv: 0.5 };
        let slo = Slo { ttft: 2.5, tpot: 0.15, attainment: 0.9 };
        let task = Task::new(&topology, &subject, (lengths, lengths), slo);
        check(&Task { network, ..task })
    }

    // The objective is the rate: by the same printed formulas the plan serves at least what the
    // paper's plan does, whose objective is the reciprocal of one request's time. By our network the
    // planner's own plan is at least as good.
    #[test]
    fn the_third_mode_maximises_the_rate() {
        let theirs = with(Network::Printed, |task| paper(task).unwrap().0.goodput());
        let (plan, promised) = with(Network::Corrected, |task| network(task).unwrap());
        assert!(promised > theirs * 1.5, "{promised} {theirs}");
        let ours = with(Network::Corrected, |task| crate::plan(task).unwrap()[0].goodput());
        assert!(ours >= plan.goodput() && plan.goodput() > 0.0, "{ours} {}", plan.goodput());
    }

    // An instance over two servers has the printed ring or switch, whose step is slower here, and
    // puts no load on links: neither its all-reduces nor its KV limit the rate.
    #[test]
    fn the_third_mode_has_the_printed_network() {
        let group = |first: u32| [0, 1, 4, 5].map(|gpu| GpuId(gpu + first)).to_vec();
        let instance = |phase, first| {
            let parallel = Parallel { tp: 4, pp: 1, ep: false };
            Instance { phase, parallel, stages: vec![group(first)] }
        };
        let rated =
            |network| with(network, |task| Rated::new(task, instance(Phase::Prefill, 0)).unwrap());
        let (ours, theirs) = (rated(Network::Corrected), rated(Network::Printed));
        assert!(ours.loads.iter().count() > 0 && theirs.loads.iter().count() == 0);
        assert!(theirs.communication > ours.communication);
        let ring = printed_ring(&testbed(), &group(0)).unwrap();
        let least = best(&theirs.groups[0], 1e9).unwrap();
        assert!(least.seconds(1e9) <= ring.seconds(1e9) && theirs.groups[0].len() == 2);
        let sent = |network| {
            let (from, to) = (instance(Phase::Prefill, 0), instance(Phase::Decode, 8));
            with(network, |task| transfer(task, &from, &to).unwrap())
        };
        let (ours, theirs) = (sent(Network::Corrected), sent(Network::Printed));
        assert!(theirs.seconds > ours.seconds && theirs.loads.iter().count() == 0);
    }
}
