//! Compares the planner with an exhaustive search, on generated topologies of up to sixteen GPUs.
//!
//! The reference shares only the judge with the planner (the rates of instances and fleets), not
//! its search. It tries every set of GPUs up to truly equal ones (GPUs of one card and NUMA node,
//! servers that differ only in name), every split, every assignment of GPUs to stages, and every
//! set of instances that a bound does not rule out.

use std::sync::atomic::{AtomicU64, Ordering};

use meridian_plan::{LinkId, Task, paper, plan};

use crate::suite::cases;

/// Cases of the suite unless `MERIDIAN_CASES` says otherwise; lab/docs/planner.md has the results of 500.
const CASES: u64 = 200;
/// Those that are compared with the best of all plans, which takes the longest.
const COMPARED: u64 = 100;
/// Share of the best plan's goodput that is near it.
const NEAR: f64 = 0.98;

/// The reference searches for plans above this share of our own plan's goodput, so it has to find
/// one.
const BELOW: f64 = 0.999;

// Within 2 % of the best of all plans; if nothing can serve the task, there is no plan.
#[test]
fn plans_are_within_two_percent_of_the_optimum() {
    each(cases(COMPARED), is_near);
}

/// Tests the first cases. Each core takes the next one, since their times differ a thousandfold,
/// starting with the last: the longest of 500 (484) should not start last.
fn each(cases: u64, show: fn(u64)) {
    let (taken, cores) = (AtomicU64::new(0), std::thread::available_parallelism().unwrap().get());
    let next = || (cases - 1).checked_sub(taken.fetch_add(1, Ordering::Relaxed));
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| std::iter::from_fn(next).for_each(show));
        }
    });
}

fn is_near(seed: u64) {
    let case = crate::suite::case(seed);
    let task = case.task();
    let ours = plan(&task).map_or(0.0, |plans| plans[0].goodput());
    let best = crate::reference::best(&task, ours * BELOW, ours / NEAR);
    let best = best.unwrap_or_else(|| panic!("seed {seed} cannot be tried whole"));
    assert!(best >= ours * 0.999_999, "seed {seed}: the reference found {best}, and not {ours}");
    assert!(ours * 1.000_001 >= NEAR * best, "seed {seed}: {ours} of {best}\n{}", case.text());
}

// If a link is the bottleneck, the packing with the highest rates is not the best: here a second
// decode instance, not needed for its rate, takes KV off the first one's cards. Without it 53.4 are
// served.
#[test]
fn a_packing_that_a_link_limits_is_changed() {
    let case = crate::suite::case(337);
    let ours = plan(&case.task()).unwrap()[0].goodput();
    assert!(ours >= 58.96, "{ours}");
}

// Bounds are bounds: no instance serves more than the ceiling of those that take as many GPUs.
#[test]
fn no_instance_is_above_its_ceiling() {
    for seed in 0..cases(CASES) / 5 {
        let rated = crate::reference::above_ceiling(&crate::suite::case(seed).task());
        assert!(rated.is_empty(), "seed {seed}: {rated:?}");
    }
}

// No plan serves more than links carry to its decode instances.
#[test]
fn no_plan_is_above_what_links_carry() {
    let (mut near, cases) = (0, cases(CASES));
    for seed in 0..cases {
        let case = crate::suite::case(seed);
        let task = case.task();
        let Ok(plans) = plan(&task) else { continue };
        for cell in plans.iter().flat_map(|plan| &plan.cells) {
            let Some(most) = crate::reference::carried_at_most(&task, &cell.fleet) else {
                continue;
            };
            let served = cell.verdict.goodput;
            assert!(served <= most * 1.000_001, "seed {seed}: {served} above {most}");
            near += usize::from(served > most * 0.99);
        }
    }
    assert!(near > cases as usize / 25, "a bound that is near only {near} plans says little");
}

// The paper's plan, judged like ours, never serves more.
#[test]
fn never_worse_than_the_paper() {
    let (mut planned, cases) = (0, cases(CASES));
    for seed in 0..cases {
        let case = crate::suite::case(seed);
        let task = case.task();
        let Ok((theirs, _)) = paper(&task) else { continue };
        planned += 1;
        let ours = plan(&task).map_or(0.0, |plans| plans[0].goodput());
        assert!(ours >= theirs.goodput() * 0.999_999, "seed {seed}: {ours} {}", theirs.goodput());
    }
    assert!(planned > cases / 4, "the paper's search planned only {planned}");
}

// A link that is twice as fast, in both directions, never makes a plan worse, even if equal servers
// become unequal (in case 337 a plan served 7 % less before such topologies were levelled).
#[test]
fn a_faster_link_never_makes_a_plan_worse() {
    let shown = |seed| {
        let case = crate::suite::case(seed);
        let task = case.task();
        let before = plan(&task).map_or(0.0, |plans| plans[0].goodput());
        let links = task.topology.link_count();
        for link in [0, links / 3, links / 2, 2 * links / 3, links - 1] {
            let faster = task.topology.faster(LinkId(link), 2.0);
            let task = Task { topology: &faster, ..task.clone() };
            let after = plan(&task).map_or(0.0, |plans| plans[0].goodput());
            let name = task.topology.link_text(LinkId(link));
            assert!(after >= before * (1.0 - 1e-9), "seed {seed}, {name}: {before} to {after}");
        }
    };
    each(cases(CASES) / 8, shown);
    shown(337);
}

// One more GPU, in an existing server or in a new one, never makes a plan worse.
#[test]
fn one_more_gpu_never_makes_a_plan_worse() {
    each(cases(CASES) / 4, |seed| {
        let case = crate::suite::case(seed);
        let before = plan(&case.task()).map_or(0.0, |plans| plans[0].goodput());
        for other in case.with_one_more_gpu() {
            let after = plan(&other.task()).map_or(0.0, |plans| plans[0].goodput());
            let text = || other.text();
            assert!(after >= before * (1.0 - 1e-9), "seed {seed}: {before} to {after}\n{}", text());
        }
    });
}
