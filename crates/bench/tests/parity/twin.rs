//! The simulated side.

use std::sync::Arc;
use std::time::Duration;

use meridian_sim::{
    Digests, Fate, Hardware, Measure, News, Record, Region, Scenario, Source, System, Topology,
    Twin, Wan, run_twin,
};

use crate::work::{self, Decision, Load, Paced, REPLICAS, SEED};

/// Longer than any of the loads takes.
const WINDOW: Duration = Duration::from_secs(30_000);

pub(crate) fn run(policy: &str, load: &Load) -> Vec<Decision> {
    let twin =
        Twin { tick: Duration::from_millis(1), gateway_seed: work::gateway_seed(), headers: true };
    let report = run_twin(scenario(policy, load), twin).unwrap();
    assert_eq!(report.violations, Vec::<String>::new());
    assert!(report.requests.iter().all(|r| r.fate == Fate::Done && r.attempts == 1));
    assert_eq!(report.requests.len() as u64, report.total_requests);
    let mut decisions: Vec<Decision> = report.requests.iter().map(decision).collect();
    decisions.sort();
    decisions
}

fn decision(record: &Record) -> Decision {
    Decision {
        sent_ms: u128::from(record.sent.as_nanos() / 1_000_000),
        session: record.session,
        replica: record.replica,
        matched: record.matched_tokens * 100 / record.prompt_tokens,
        prompt: record.prompt_tokens,
        cached: record.cached_tokens,
        ttft_ms: record.ttft.as_millis(),
        e2e_ms: record.e2e.as_millis(),
    }
}

fn scenario(policy: &str, load: &Load) -> Scenario {
    let routing = work::config(policy).routing().unwrap();
    let source = match &load.source {
        work::Source::Closed { clients, programs, generator } => Source::Closed {
            clients: *clients,
            generator: Arc::new(Paced(generator.clone())),
            ramp: Duration::ZERO,
            programs: Some(*programs),
            day: None,
        },
        work::Source::Open { programs, per_second, generator } => {
            Source::Open(Box::new(work::arrivals(*programs, *per_second, generator).into_iter()))
        }
    };
    let hardware = Hardware { region: 0, engine: work::engine(load), kv_tokens: None };
    Scenario {
        seed: SEED,
        regions: vec![Region { name: "here".to_owned(), continent: "here".to_owned() }],
        wan: Wan { rtt_ms: vec![vec![0.0]], jitter: 0.0, loss: 0.0 },
        replicas: vec![hardware; REPLICAS as usize],
        system: System {
            name: policy.to_owned(),
            policy: routing.policy,
            params: routing.params,
            admission: routing.admission,
            topology: Topology::RegionLocal,
            gateways: 1,
            held: routing.held,
            probe: routing.probe,
            digests: Digests { every: Duration::from_secs(1), on_change: None },
            news: News::Eager,
        },
        loads: vec![meridian_sim::Load { region: 0, source, may_run_in: None }],
        faults: Vec::new(),
        autoscaler: None,
        measure: Measure { warmup: Duration::ZERO, window: WINDOW },
        paranoid: false,
    }
}
