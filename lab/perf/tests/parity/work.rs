//! The work of both sides (programs, engines, configuration), and their records of each request.

use std::sync::Arc;
use std::time::Duration;

use meridian_base::{Time, keyed, mix};
use meridian_config::{Gateway, policies};
use meridian_engine::{Config, Profile, Terms};
use meridian_routing::Role;
use meridian_workload::{Generator, Poisson, Program, ProgramKey, open_loop};

/// The replicas of a region without pools.
pub(crate) const WHOLE: &[Role] = &[Role::Both; 3];
/// Pools, and a replica that takes whole requests.
pub(crate) const POOLS: &[Role] =
    &[Role::Prefill, Role::Prefill, Role::Decode, Role::Decode, Role::Both];
/// The regions by index; a load of one region runs in the first.
pub(crate) const REGIONS: [&str; 2] = ["us", "eu"];
/// Between them, as slow as the engines.
pub(crate) const RTT: Duration = Duration::from_millis(800);
/// Interval between digests while something changes, and while nothing does.
pub(crate) const PUSH: Duration = Duration::from_millis(1);
pub(crate) const BEAT: Duration = Duration::from_secs(1);
pub(crate) const SEED: u64 = 11;
const SECRET: &str = "the fleet's secret";
/// Factor by which the engines are slower than real ones, and the probes rarer.
const SLOW: u32 = 100;
/// No request is sent before this: every replica has reported by then.
const BEGIN: Duration = Duration::from_secs(400);
/// Rate at which a card moves KV, in Gb/s: one of 25 Gb/s, as slow as the engines.
pub(crate) const CARD_GBPS: f64 = 0.25;
/// For how long engines keep KV for another one.
pub(crate) const LEASE: Duration = Duration::from_secs(3000);

/// A load on all regions.
pub(crate) struct Load {
    /// KV blocks of 16 tokens in each replica.
    pub(crate) kv_blocks: u32,
    /// The replicas of each region, by role.
    pub(crate) roles: &'static [Role],
    /// The source of each region.
    pub(crate) sources: Vec<Source>,
}

impl Load {
    /// Number of replicas in each region.
    pub(crate) fn replicas(&self) -> u32 {
        self.roles.len() as u32
    }
}

/// The source of a region's requests.
pub(crate) enum Source {
    Closed { clients: u32, programs: u64, generator: Arc<dyn Generator> },
    Open { programs: usize, per_second: f64, generator: Arc<dyn Generator> },
}

/// A request as its client saw it. Both sides list them by time sent, then session.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Decision {
    pub(crate) sent_ms: u128,
    pub(crate) session: u64,
    /// The replica's index over all regions.
    pub(crate) replica: u32,
    /// The index of the replica that computed the prompt, if that was another one.
    pub(crate) prefill: Option<u32>,
    pub(crate) forwarded: bool,
    /// Share of the prompt that the gateway expected to be cached, in percent.
    pub(crate) matched: u32,
    pub(crate) prompt: u32,
    /// Prompt tokens that the engine found cached.
    pub(crate) cached: u32,
    pub(crate) ttft_ms: u128,
    pub(crate) e2e_ms: u128,
}

/// The seed of the gateway's machine and fingerprints, as its secret makes it.
pub(crate) fn gateway_seed() -> u64 {
    keyed(0, SECRET.as_bytes())
}

/// The session header of a program.
pub(crate) fn session_header(program: &Program) -> String {
    format!("{:016x}", program.key.id())
}

/// The engine of every replica: an L4 in slow motion.
pub(crate) fn engine(load: &Load) -> Config {
    let mut profile = Profile::named("llama-3.1-8b", "l4", 1).unwrap();
    let (t, slow) = (profile.terms, f64::from(SLOW));
    profile.terms = Terms {
        weights: slow * t.weights,
        experts: slow * t.experts,
        touch: t.touch,
        token: slow * t.token,
        head: slow * t.head,
        kv: slow * t.kv,
        pair: slow * t.pair,
        reduce: slow * t.reduce,
        token_reduce: slow * t.token_reduce,
        launch: slow * t.launch,
        step: slow * t.step,
        sequence: slow * t.sequence,
        ..Terms::default()
    };
    Config { max_num_seqs: 6, ..Config::new(profile) }.with_kv_blocks(load.kv_blocks)
}

/// The gateway's configuration, without replicas.
pub(crate) fn config(policy: &str) -> Gateway {
    let text = format!(
        "version: 1\nlisten: 127.0.0.1:0\nadmin: 127.0.0.1:0\nsecret: {SECRET}\npolicy: {policy}\n\
         kv_lease: {}s\n\
         limits: {{connections: 1024}}\n\
         timeouts: {{first_byte: 1000000s, idle: 1000000s, probe: 60s}}\n\
         held: {{max_wait: 1000000s, patience: 500s, promise: 100s}}\n\
         probe: {{busy: 10s, idle: 100s, stale: 200s}}\n",
        LEASE.as_secs()
    );
    policies::install(meridian_rivals::EVERY);
    Gateway::read(&text).unwrap()
}

/// Programs whose clients think before each request, for distinct whole milliseconds, and whose
/// session is the gateway's hash of the header.
pub(crate) struct Paced(pub(crate) Arc<dyn Generator>);

impl Generator for Paced {
    fn program(&self, key: ProgramKey) -> Program {
        let mut program = self.0.program(key);
        program.session = keyed(gateway_seed(), session_header(&program).as_bytes());
        for (at, node) in program.nodes.iter_mut().enumerate() {
            let think = mix(program.key.id(), at as u64) % 200_000;
            node.think = Duration::from_millis(1 + think);
            if at == 0 && key.ordinal == 0 {
                node.think += BEGIN;
            }
        }
        program
    }

    fn mean_requests(&self) -> f64 {
        self.0.mean_requests()
    }
}

/// The programs of an open load, at whole milliseconds.
pub(crate) fn arrivals(
    programs: usize,
    per_second: f64,
    generator: &Arc<dyn Generator>,
    region: u32,
) -> Vec<(Time, Program)> {
    let times = Poisson::new(SEED, per_second).map(|at| {
        let ms = u64::try_from(at.as_millis()).unwrap();
        BEGIN + Duration::from_millis(ms)
    });
    let paced: Arc<dyn Generator> = Arc::new(Paced(generator.clone()));
    open_loop(paced, times, SEED, region).take(programs).collect()
}

/// The clients of a closed loop are numbered as in the simulator, one load per region.
pub(crate) fn key(region: u32, client: u32, ordinal: u64) -> ProgramKey {
    ProgramKey { seed: SEED, region, client: region << 16 | client, ordinal }
}
