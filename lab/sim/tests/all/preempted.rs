//! The cached tokens that an answer reports if its request was preempted.

use std::sync::Arc;
use std::time::Duration;

use meridian_sim::{Load, Source, Topology, run};
use meridian_workload::Sessions;

// No two prompts share a block, and replies outgrow the KV: the blocks that a request finds cached
// when it is admitted again are its own, computed a moment ago. No engine reports those, and a
// gateway that got them would distrust its index.
#[test]
fn own_blocks_are_no_cache_hits() {
    let mut scenario = crate::world::three_regions(1, Topology::RegionLocal, "round_robin", 1);
    scenario.system.admission = meridian_routing::Admission::Blind;
    for replica in &mut scenario.replicas {
        replica.engine = replica.engine.with_kv_blocks(512);
    }
    let once = Sessions { turns: 1, system_bytes: 0, question_bytes: 2_000, max_tokens: 400 };
    let source = Source::Closed {
        clients: 40,
        generator: Arc::new(once),
        ramp: Duration::ZERO,
        programs: None,
        day: None,
    };
    scenario.loads = vec![Load { region: 0, source, may_run_in: None }];
    let report = run(scenario).expect("a possible scenario");
    assert_eq!(report.violations, Vec::<String>::new());
    assert!(report.requests.len() > 20, "{} answers", report.requests.len());
    assert_eq!(report.requests.iter().map(|r| r.cached_tokens).max(), Some(0));
}
