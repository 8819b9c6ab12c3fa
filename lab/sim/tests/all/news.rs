//! Looking up probes and digests gives the same news as sending them.

use std::sync::Arc;
use std::time::Duration;

use meridian_sim::{Load, Measure, News, Source, Topology, run};
use meridian_workload::{Generator, find_generator};

/// Under overload a seed's mean TTFT is uncertain: over this many the standard error of the
/// difference is 3 %.
const SEEDS: u64 = 32;

/// Requests answered and their mean TTFT in s, for three overloaded regions.
fn served(seed: u64, policy: &str, news: News) -> [f64; 2] {
    let mut scenario = crate::world::three_regions(seed, Topology::TwoLayer, policy, 2);
    scenario.system.news = news;
    scenario.paranoid = false;
    scenario.measure =
        Measure { warmup: Duration::from_secs(60), window: Duration::from_secs(300) };
    let generator: Arc<dyn Generator> =
        find_generator("wildchat").expect("known").published().into();
    let load = |region| {
        let clients = [75, 50, 50][region];
        let (generator, ramp) = (generator.clone(), Duration::from_secs(10));
        let source = Source::Closed { clients, generator, ramp, programs: None, day: None };
        Load { region, source, may_run_in: None }
    };
    scenario.loads = (0..3).map(load).collect();
    let report = run(scenario).expect("a possible scenario");
    assert_eq!(report.violations, Vec::<String>::new());
    let ttft: f64 = report.requests.iter().map(|r| r.ttft.as_secs_f64()).sum();
    [report.done_in_window as f64, ttft / report.requests.len() as f64]
}

// While requests are held, each message that may release one is looked up when it would arrive: no
// request waits longer than with messages that are sent.
#[test]
fn looked_up_or_sent_is_the_same_to_who_waits() {
    for policy in ["skywalker", "meridian"] {
        let mean = |news| {
            let all = (1..=SEEDS).map(|seed| served(seed, policy, news));
            all.fold([0.0; 2], |sum, one| [0, 1].map(|at| sum[at] + one[at] / SEEDS as f64))
        };
        let (sent, looked_up) = (mean(News::Eager), mean(News::Lazy));
        println!("{policy}: {sent:?} {looked_up:?}");
        let [served, ttft] = [0, 1].map(|at| looked_up[at] / sent[at]);
        assert!((0.98..1.02).contains(&served), "{policy}: {sent:?} sent, {looked_up:?} looked up");
        assert!((0.9..1.1).contains(&ttft), "{policy}: {sent:?} sent, {looked_up:?} looked up");
    }
}
