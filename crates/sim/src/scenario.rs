//! Everything that one run depends on.

use std::sync::Arc;

use meridian_base::{Duration, Time};
use meridian_engine as engine;
use meridian_routing::policy::{Params, Spec};
use meridian_routing::{Admission, HeldConfig, ProbeConfig};
use meridian_workload::{Day, Generator, Program};

/// One run.
pub struct Scenario {
    /// Seed of all chance in the run.
    pub seed: u64,
    /// The regions; others name them by their place in this list.
    pub regions: Vec<Region>,
    /// The network between and within them.
    pub wan: Wan,
    /// The replicas that are there from the start.
    pub replicas: Vec<Hardware>,
    /// Who decides, and how they are arranged.
    pub system: System,
    /// What clients send.
    pub loads: Vec<Load>,
    /// What breaks, in order of time.
    pub faults: Vec<(Time, Fault)>,
    /// Adds and removes replicas by load; `None` leaves them as they are.
    pub autoscaler: Option<Autoscaler>,
    /// Which part of the run counts.
    pub measure: Measure,
    /// Compares the whole state with its invariants after each event: slow, for tests.
    pub paranoid: bool,
}

/// A place with clients and replicas close to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// Its name.
    pub name: String,
    /// Peers on one continent are near each other.
    pub continent: String,
}

/// The network.
#[derive(Clone, Debug, PartialEq)]
pub struct Wan {
    /// Round-trip times between regions in ms, by their places; the diagonal is within a region.
    pub rtt_ms: Vec<Vec<f64>>,
    /// Coefficient of variation of each one-way delay, 0 for none.
    pub jitter: f64,
    /// Share of messages that are lost and sent again after a retransmission timeout.
    pub loss: f64,
}

/// A replica: an engine in a region.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hardware {
    /// Where it stands.
    pub region: usize,
    /// Its engine. Token outputs and stride are set by the simulator.
    pub engine: engine::Config,
    /// Tokens of KV that the gateway is told of; `None`: what the engine has.
    pub kv_tokens: Option<u64>,
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
    /// When a replica may be given another request.
    pub admission: Admission,
    /// How gateways are arranged.
    pub topology: Topology,
    /// Gateways in each region that has any; clients spread evenly.
    pub gateways: u32,
    /// Bounds of the held queue.
    pub held: HeldConfig,
    /// Pace of probes.
    pub probe: ProbeConfig,
    /// Pace of digests between peers.
    pub digests: Digests,
    /// How probes and digests are simulated.
    pub news: News,
}

impl System {
    /// The policy with its own parameters, one gateway a region, and everything else as usual.
    #[must_use]
    pub fn usual(policy: &'static Spec, topology: Topology) -> System {
        System {
            name: policy.name.to_owned(),
            policy,
            params: Params::defaults(policy),
            admission: policy.admission,
            topology,
            gateways: 1,
            held: HeldConfig::default(),
            probe: ProbeConfig::default(),
            digests: Digests { every: Duration::from_millis(100), on_change: None },
            news: News::Lazy,
        }
    }
}

/// How probes and digests are simulated. Both show a gateway the same state at the same times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// Each is an event, as the machine asks for it: exact, and most of the events of a run.
    Eager,
    /// Each is looked up in a short history when a decision needs it. What nobody looks at costs
    /// nothing; smoothed figures are smoothed over fewer samples.
    Lazy,
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
    /// A gateway group a region, peers forward to each other (SkyWalker).
    TwoLayer,
    /// One gateway for all regions, standing in `region` (GORGO-proxy and the RR, LL, CH and SGL
    /// baselines).
    Central {
        /// Where it stands.
        region: usize,
    },
    /// Every region on its own.
    RegionLocal,
    /// Every gateway sees all replicas.
    Flat,
    /// Local until utilisation passes `above`, then the nearest (the multi-cluster gateway).
    Waterfall {
        /// Share of utilisation, 0 to 1.
        above: f32,
    },
    /// As waterfall, never off the continent.
    Continent {
        /// Share of utilisation, 0 to 1.
        above: f32,
    },
    /// A clairvoyant scheduler in place of gateways: true caches, true lengths, no delay of news.
    Oracle(Objective),
}

/// What an oracle minimises or maximises.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Objective {
    /// Least mean TTFT; the number weighs work against one's own TTFT (0: greedy).
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

/// What the clients of one region send.
pub struct Load {
    /// Where they stand.
    pub region: usize,
    /// What they send.
    pub source: Source,
    /// Regions that may serve it, by place; `None`: anywhere. Checked as an invariant.
    pub may_run_in: Option<Vec<usize>>,
}

/// Programs with the times they start at.
pub type Programs = Box<dyn Iterator<Item = (Time, Program)> + Send>;

/// Where requests come from.
pub enum Source {
    /// Clients that each run one program at a time, the next when it is over.
    Closed {
        /// How many.
        clients: u32,
        /// Makes their programs, by (seed, region, client, ordinal).
        generator: Arc<dyn Generator>,
        /// Clients start within this time, evenly spread, so that they do not march in step.
        ramp: Duration,
        /// Programs each client runs; `None` until the measured window ends.
        programs: Option<u64>,
        /// When they sleep; `None`: never.
        day: Option<Day>,
    },
    /// Programs that start at given times, whatever becomes of earlier ones.
    Open(Programs),
}

/// Something that breaks or is mended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// A replica stops; its requests fail, its cache is lost.
    ReplicaDown(usize),
    /// It is back, empty.
    ReplicaUp(usize),
    /// A replica's steps take this many times as long; 1 mends it.
    ReplicaSlow(usize, f64),
    /// A region's gateways stop (with [`Topology::Central`]: the one in that region).
    GatewaysDown(usize),
    /// They are back, knowing nothing.
    GatewaysUp(usize),
    /// A region stops: gateways and replicas.
    RegionDown(usize),
    /// It is back.
    RegionUp(usize),
    /// A replica is suspended: it keeps its requests and its connections, and answers nothing.
    ReplicaStopped(usize),
    /// It goes on where it was.
    ReplicaContinued(usize),
    /// A region's gateways are suspended.
    GatewaysStopped(usize),
    /// They go on where they were.
    GatewaysContinued(usize),
    /// The control plane is dead or suspended: the replicas of lost gateways stay without one.
    ControlDown,
    /// It is back.
    ControlUp,
    /// A region's gateways read a file again that says what it said before.
    Reload(usize),
    /// A message from one region to another takes this much longer; zero mends it.
    LinkSlow(usize, usize, Duration),
    /// Nothing passes from one region to another in this direction.
    LinkDown(usize, usize),
    /// It passes again.
    LinkUp(usize, usize),
}

/// Adds replicas when the present ones are used, and removes them when they are not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Autoscaler {
    /// Outstanding requests a replica that it aims at.
    pub target_outstanding: f64,
    /// How often it looks.
    pub every: Duration,
    /// Time from wanting a replica to having it.
    pub provisioning: Duration,
    /// How long less must be wanted before one is removed.
    pub cooldown: Duration,
    /// Fewest replicas of a region.
    pub min: u32,
    /// Most replicas of a region.
    pub max: u32,
}

/// Which part of a run counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measure {
    /// Requests sent before this do not count.
    pub warmup: Duration,
    /// Requests sent within this time after the warm-up count; then loads stop, and what is under
    /// way is brought to its end.
    pub window: Duration,
}
