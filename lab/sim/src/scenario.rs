//! All inputs of a run.

use std::sync::Arc;

use meridian_base::{Duration, Time};
use meridian_engine as engine;
use meridian_routing::policy::{Params, Spec};
use meridian_routing::{Admission, HeldConfig, ProbeConfig, Role, ShadowConfig};
use meridian_workload::{Day, Generator, Program};

/// One run.
pub struct Scenario {
    /// Seed of all randomness in the run.
    pub seed: u64,
    /// The regions; an index into this list identifies one.
    pub regions: Vec<Region>,
    /// The network between and within them.
    pub wan: Wan,
    /// The replicas present from the start.
    pub replicas: Vec<Hardware>,
    /// The system under test and its arrangement.
    pub system: System,
    /// The clients' loads.
    pub loads: Vec<Load>,
    /// The faults, in order of time.
    pub faults: Vec<(Time, Fault)>,
    /// Adds and removes replicas by load; `None` keeps them fixed.
    pub autoscaler: Option<Autoscaler>,
    /// The racks of replicas that move KV; an index into this list identifies one.
    pub racks: Vec<Rack>,
    /// The part of the run that counts.
    pub measure: Measure,
    /// Checks the invariants of the whole state after each event: slow, for tests.
    pub paranoid: bool,
}

/// A location with clients and replicas close to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// Its name.
    pub name: String,
    /// Peers on the same continent count as near.
    pub continent: String,
}

/// The network.
#[derive(Clone, Debug, PartialEq)]
pub struct Wan {
    /// Round-trip times between regions in ms, by index; the diagonal is within a region.
    pub rtt_ms: Vec<Vec<f64>>,
    /// Coefficient of variation of each one-way delay, 0 for none.
    pub jitter: f64,
    /// Share of messages that are lost and resent after a retransmission timeout.
    pub loss: f64,
}

/// A replica: an engine in a region.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hardware {
    /// Its region.
    pub region: usize,
    /// Its engine. Token outputs and stride are set by the simulator.
    pub engine: engine::Config,
    /// Tokens of KV configured in the gateway; `None` for the engine's real size.
    pub kv_tokens: Option<u64>,
    /// The part of requests that it takes. Prefill and decode replicas of a region form pairs.
    pub role: Role,
    /// How it moves KV, if it is one of a pair.
    pub transfer: Transfer,
}

impl Hardware {
    /// A replica of its real KV size that takes whole requests.
    #[must_use]
    pub fn new(region: usize, engine: engine::Config) -> Hardware {
        let (role, transfer) = (Role::Both, Transfer::default());
        Hardware { region, engine, kv_tokens: None, role, transfer }
    }
}

/// A rack of replicas. KV from one rack to another crosses both uplinks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rack {
    /// Rate of its uplink in each direction, in 10^9 bits per second; above 0.
    pub gbps: f64,
}

/// How a replica moves KV to or from another one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transfer {
    /// Rate of its network card in each direction, in 10^9 bits per second; above 0.
    pub gbps: f64,
    /// Its rack; `None` if no uplink limits it. Gateways learn rates by pair of racks.
    pub rack: Option<usize>,
    /// How long it holds the KV of a prompt for another replica. That one extends the lease while
    /// it waits, every sixth of it, to two thirds from then.
    pub lease: Duration,
}

impl Default for Transfer {
    /// 100 Gb/s, no rack, and vLLM's lease of 30 s.
    fn default() -> Transfer {
        Transfer { gbps: 100.0, rack: None, lease: Duration::from_secs(30) }
    }
}

/// A routing system under test.
#[derive(Clone)]
pub struct System {
    /// Its name in tables.
    pub name: String,
    /// The policy.
    pub policy: &'static Spec,
    /// Its parameters, complete.
    pub params: Params,
    /// When a replica may receive another request.
    pub admission: Admission,
    /// A policy that decides too and is not followed.
    pub shadow: Option<ShadowConfig>,
    /// How gateways are arranged.
    pub topology: Topology,
    /// Gateways in each region that has any; clients spread evenly.
    pub gateways: u32,
    /// What the gateways of a region tell each other of their requests; `None` for nothing.
    pub siblings: Option<Siblings>,
    /// Bounds of the held queue.
    pub held: HeldConfig,
    /// How long a request waits while no replica is in use, in place of the queue's longest time.
    pub scale_from_zero: Option<Duration>,
    /// Pace of probes.
    pub probe: ProbeConfig,
    /// Pace of digests between peers.
    pub digests: Digests,
    /// How probes and digests are simulated.
    pub news: News,
}

impl System {
    /// The policy with its own parameters, one gateway a region, and defaults for everything else.
    #[must_use]
    pub fn usual(policy: &'static Spec, topology: Topology) -> System {
        System {
            name: policy.name.to_owned(),
            policy,
            params: Params::defaults(policy),
            admission: policy.admission,
            shadow: None,
            topology,
            gateways: 1,
            siblings: None,
            held: HeldConfig::default(),
            scale_from_zero: None,
            probe: ProbeConfig::default(),
            digests: Digests { every: Duration::from_millis(100), on_change: None },
            news: News::Lazy,
        }
    }
}

/// How probes and digests are simulated. Both show a gateway the same state at the same times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// Each is an event, as the machine requests it: exact, and most of the events of a run.
    Eager,
    /// Each is looked up in a short history when a decision needs it. Unused ones cost nothing;
    /// smoothed figures are smoothed over fewer samples.
    Lazy,
}

/// How records of requests travel between the gateways of a region.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Siblings {
    /// The time that each takes.
    pub delay: Duration,
    /// The share that is lost.
    pub loss: f64,
}

/// Pace of digests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digests {
    /// At least this often.
    pub every: Duration,
    /// On a change, at most this often; `None`: not on changes.
    pub on_change: Option<Duration>,
}

/// How gateways are arranged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Topology {
    /// One gateway group per region; peers forward to each other (SkyWalker).
    TwoLayer,
    /// One gateway for all regions, located in `region` (GORGO-proxy and the RR, LL, CH and SGL
    /// baselines).
    Central {
        /// Its location.
        region: usize,
    },
    /// Every region by itself.
    RegionLocal,
    /// Every gateway sees all replicas.
    Flat,
    /// Local until utilisation passes `above`, then the nearest (the multi-cluster gateway).
    Waterfall {
        /// Share of utilisation, 0 to 1.
        above: f32,
    },
    /// As waterfall, but within the continent.
    Continent {
        /// Share of utilisation, 0 to 1.
        above: f32,
    },
    /// A clairvoyant scheduler in place of gateways: true caches, true lengths, no delay of
    /// information.
    Oracle(Objective),
}

/// The objective of an oracle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Objective {
    /// Least mean TTFT; the number weighs added work against the request's own TTFT (0: greedy).
    Ttft {
        /// Weight of the work that a placement adds.
        work: f64,
    },
    /// Most throughput; the number weighs balance against reuse.
    Throughput {
        /// Weight of balance.
        balance: f64,
    },
}

/// The load of one region's clients.
pub struct Load {
    /// The clients' region.
    pub region: usize,
    /// The source of requests.
    pub source: Source,
    /// Regions that may serve it, by index; `None` for any. Checked as an invariant.
    pub may_run_in: Option<Vec<usize>>,
}

/// Programs with their start times.
pub type Programs = Box<dyn Iterator<Item = (Time, Program)> + Send>;

/// The source of requests.
pub enum Source {
    /// Clients that each run one program at a time and then start the next.
    Closed {
        /// How many.
        clients: u32,
        /// Generates their programs, by (seed, region, client, ordinal).
        generator: Arc<dyn Generator>,
        /// Clients start evenly spread within this time, so that they are not synchronised.
        ramp: Duration,
        /// Programs each client runs; `None` until the measured window ends.
        programs: Option<u64>,
        /// When they sleep; `None` for never.
        day: Option<Day>,
    },
    /// Programs that start at given times, regardless of earlier ones.
    Open(Programs),
}

/// A fault or its repair.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// A replica stops; its requests fail and its cache is lost.
    ReplicaDown(usize),
    /// It is back, empty.
    ReplicaUp(usize),
    /// A replica's steps take this many times as long; 1 repairs it.
    ReplicaSlow(usize, f64),
    /// A region's gateways stop (with [`Topology::Central`]: the one in that region).
    GatewaysDown(usize),
    /// They are back, without state.
    GatewaysUp(usize),
    /// A region stops: gateways and replicas.
    RegionDown(usize),
    /// It is back.
    RegionUp(usize),
    /// A replica is suspended: it keeps its requests and its connections, but does not answer.
    ReplicaStopped(usize),
    /// It resumes.
    ReplicaContinued(usize),
    /// A region's gateways are suspended.
    GatewaysStopped(usize),
    /// They resume.
    GatewaysContinued(usize),
    /// The control plane is dead or suspended: the replicas of lost gateways stay unassigned.
    ControlDown,
    /// It is back.
    ControlUp,
    /// A region's gateways reload an unchanged file.
    Reload(usize),
    /// A replica's network card fails: no KV passes, but requests and answers do.
    CardDown(usize),
    /// KV passes again.
    CardUp(usize),
    /// A message from one region to another takes this much longer; zero repairs it.
    LinkSlow(usize, usize, Duration),
    /// Messages from one region to another are lost in this direction.
    LinkDown(usize, usize),
    /// Messages pass again.
    LinkUp(usize, usize),
}

/// Adds replicas when the present ones are busy, and removes them when they are not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Autoscaler {
    /// Target of outstanding requests per replica.
    pub target_outstanding: f64,
    /// How often it runs.
    pub every: Duration,
    /// Time from ordering a replica to having it.
    pub provisioning: Duration,
    /// How long the need must be lower before one is removed.
    pub cooldown: Duration,
    /// Fewest replicas of a region.
    pub min: u32,
    /// Most replicas of a region.
    pub max: u32,
}

/// The part of a run that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measure {
    /// Requests sent before this do not count.
    pub warmup: Duration,
    /// Requests sent within this time after the warm-up count; then loads stop, and requests in
    /// progress run to their end.
    pub window: Duration,
}
