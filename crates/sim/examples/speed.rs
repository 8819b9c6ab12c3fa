//! How many simulated requests a second one core turns, on work like SkyWalker's Figure 8.
//!
//! ```text
//! cargo run --release -p meridian-sim --example speed -- [SECONDS] [POLICY]
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant};

use meridian_engine::{Config, Profile};
use meridian_routing::policy::{self, Params};
use meridian_routing::{HeldConfig, ProbeConfig};
use meridian_sim::{
    Digests, Hardware, Load, Measure, News, Region, Scenario, Source, System, Topology, Wan, run,
};
use meridian_workload::Chat;

fn main() {
    let mut args = std::env::args().skip(1);
    let seconds = args.next().and_then(|a| a.parse().ok()).unwrap_or(600);
    let policy = args.next().unwrap_or_else(|| "skywalker".to_owned());
    let started = Instant::now();
    let report = run(scenario(seconds, &policy)).expect("possible");
    let took = started.elapsed().as_secs_f64();
    let requests = report.total_requests as f64;
    let mut ttft: Vec<f64> = report.requests.iter().map(|r| r.ttft.as_secs_f64()).collect();
    ttft.sort_by(f64::total_cmp);
    let cached: u64 = report.requests.iter().map(|r| u64::from(r.cached_tokens)).sum();
    let prompt: u64 = report.requests.iter().map(|r| u64::from(r.prompt_tokens)).sum();
    println!(
        "{requests} requests, {} events in {took:.2} s: {:.0} requests/s, {:.1} events a request",
        report.events,
        requests / took,
        report.events as f64 / requests,
    );
    println!(
        "throughput {:.2} rps, ttft p50 {:.3} s p90 {:.3} s, hit {:.1} %, held peak {}",
        report.done_in_window as f64 / report.window.as_secs_f64(),
        ttft[ttft.len() / 2],
        ttft[ttft.len() * 9 / 10],
        100.0 * cached as f64 / prompt as f64,
        report.held_peak
    );
}

fn scenario(seconds: u64, policy: &str) -> Scenario {
    let policy = policy::find(policy).expect("a policy");
    let profile = Profile::named("llama-3.1-8b", "l4", 1).expect("fits");
    let hardware = |region| Hardware { region, engine: Config::new(profile), kv_tokens: None };
    let load = |region| Load {
        region,
        source: Source::Closed {
            clients: 80,
            generator: Arc::new(Chat::default()),
            ramp: Duration::from_secs(10),
            programs: None,
        },
        may_run_in: None,
    };
    Scenario {
        seed: 1,
        regions: ["us", "eu", "asia"]
            .map(|name| Region { name: name.to_owned(), continent: name.to_owned() })
            .to_vec(),
        wan: Wan {
            rtt_ms: vec![vec![1.0, 92.0, 167.0], vec![92.0, 1.0, 230.0], vec![167.0, 230.0, 1.0]],
            jitter: 0.0,
            loss: 0.0,
        },
        replicas: (0..12).map(|at| hardware(at / 4)).collect(),
        system: System {
            name: policy.name.to_owned(),
            policy,
            params: Params::defaults(policy),
            admission: policy.admission,
            topology: Topology::TwoLayer,
            gateways: 1,
            held: HeldConfig { max_wait: Duration::from_secs(3600), ..HeldConfig::default() },
            probe: ProbeConfig::default(),
            digests: Digests { every: Duration::from_millis(100), on_change: None },
            news: if std::env::args().any(|a| a == "eager") { News::Eager } else { News::Lazy },
        },
        loads: (0..3).map(load).collect(),
        faults: Vec::new(),
        autoscaler: None,
        measure: Measure { warmup: Duration::from_secs(60), window: Duration::from_secs(seconds) },
        paranoid: false,
    }
}
