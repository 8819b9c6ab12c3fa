//! The simulated side.

use std::sync::Arc;
use std::time::Duration;

use meridian_sim::{
    Crossing, Digests, Fate, Hardware, Measure, News, Record, Region, Report, Scenario, Source,
    System, Topology, Transfer, Twin, Wan, run_twin,
};

use crate::work::{self, Decision, Load, Paced, SEED};

/// Longer than any of the loads takes.
const WINDOW: Duration = Duration::from_secs(30_000);

pub(crate) fn run(policy: &str, load: &Load) -> Vec<Decision> {
    let report = report(policy, load);
    assert_eq!(report.violations, Vec::<String>::new());
    assert!(report.requests.iter().all(|r| r.fate == Fate::Done && r.attempts == 1));
    assert_eq!(report.requests.len() as u64, report.total_requests);
    let mut decisions: Vec<Decision> = report.requests.iter().map(decision).collect();
    decisions.sort();
    decisions
}

/// Number of transfers that took longer than they would alone.
pub(crate) fn slowed(policy: &str, load: &Load) -> usize {
    let alone = |way: &Crossing| way.bytes as f64 * 8.0 / (work::CARD_GBPS * 1e9);
    let slowed = |way: &Crossing| way.time.as_secs_f64() > alone(way) + 0.01;
    report(policy, load).requests.iter().filter_map(|r| r.crossing).filter(slowed).count()
}

fn report(policy: &str, load: &Load) -> Report {
    let twin =
        Twin { tick: Duration::from_millis(1), gateway_seed: work::gateway_seed(), headers: true };
    run_twin(scenario(policy, load), twin).unwrap()
}

fn decision(record: &Record) -> Decision {
    Decision {
        sent_ms: u128::from(record.sent.as_nanos() / 1_000_000),
        session: record.session,
        replica: record.replica,
        prefill: record.crossing.map(|crossing| crossing.from),
        forwarded: record.forwarded,
        matched: record.matched_tokens * 100 / record.prompt_tokens,
        prompt: record.prompt_tokens,
        cached: record.cached_tokens,
        ttft_ms: record.ttft.as_millis(),
        e2e_ms: record.e2e.as_millis(),
    }
}

fn scenario(policy: &str, load: &Load) -> Scenario {
    let routing = work::config(policy).routing().unwrap();
    let regions = load.sources.len();
    let source = |(region, source): (usize, &work::Source)| match source {
        work::Source::Closed { clients, programs, generator } => Source::Closed {
            clients: *clients,
            generator: Arc::new(Paced(generator.clone())),
            ramp: Duration::ZERO,
            programs: Some(*programs),
            day: None,
        },
        work::Source::Open { programs, per_second, generator } => {
            let region = region as u32;
            let arrivals = work::arrivals(*programs, *per_second, generator, region);
            Source::Open(Box::new(arrivals.into_iter()))
        }
    };
    let engine = work::engine(load);
    let transfer = Transfer { gbps: work::CARD_GBPS, lease: work::LEASE, rack: None };
    let hardware = |region| {
        let one = move |role| Hardware { role, transfer, ..Hardware::new(region, engine) };
        load.roles.iter().copied().map(one)
    };
    let region = |name: &&str| Region { name: (*name).to_owned(), continent: "here".to_owned() };
    let rtt_ms = |here: usize| {
        let to = |there| if here == there { 0.0 } else { work::RTT.as_secs_f64() * 1e3 };
        (0..regions).map(to).collect()
    };
    Scenario {
        seed: SEED,
        regions: work::REGIONS[..regions].iter().map(region).collect(),
        wan: Wan { rtt_ms: (0..regions).map(rtt_ms).collect(), jitter: 0.0, loss: 0.0 },
        replicas: (0..regions).flat_map(hardware).collect(),
        system: System {
            shadow: None,
            name: policy.to_owned(),
            policy: routing.policy,
            params: routing.params,
            admission: routing.admission,
            topology: if regions > 1 { Topology::TwoLayer } else { Topology::RegionLocal },
            gateways: 1,
            siblings: None,
            held: routing.held,
            scale_from_zero: None,
            probe: routing.probe,
            digests: Digests { every: work::BEAT, on_change: Some(work::PUSH) },
            news: News::Eager,
        },
        loads: load
            .sources
            .iter()
            .enumerate()
            .map(|(region, of)| meridian_sim::Load {
                region,
                source: source((region, of)),
                may_run_in: None,
            })
            .collect(),
        faults: Vec::new(),
        autoscaler: None,
        racks: Vec::new(),
        measure: Measure { warmup: Duration::ZERO, window: WINDOW },
        paranoid: false,
    }
}
