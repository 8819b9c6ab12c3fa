//! Options of a load: contents, target, rate and duration.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{anyhow, bail, ensure};
use meridian_protocol::policy::Policy;
use meridian_workload::{Chat, Day, Generator, Mixed, Sessions, Tree};
use rustix::process::{Resource, getrlimit};
use serde::{Deserialize, Serialize};

use super::place::{Place, Site, nearest_first};
use super::{Recorded, Slo};
use crate::generator;

/// Files that a load has open beside its connections.
const SPARE_FILES: u64 = 64;

/// How programs start.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// This many clients, each with one program at a time.
    Closed {
        /// Clients.
        clients: u32,
    },
    /// A Poisson process of programs.
    Programs {
        /// Programs a second.
        per_second: f64,
    },
    /// A Poisson process of programs, at the rate that gives this many requests.
    Requests {
        /// Requests a second.
        per_second: f64,
    },
    /// As many programs at once as this, each followed by the next: more than the replicas run and
    /// queue (GORGO, section 4.3, "throughput").
    Throughput {
        /// Programs at a time.
        most: u32,
    },
    /// Recorded requests at their own times ([`Options::recorded`]).
    Recorded {
        /// Programs.
        programs: u64,
        /// Speed, as a multiple of the recorded one.
        speed: f64,
        /// A hash of the trace.
        trace: u64,
    },
}

impl Arrivals {
    fn validate(self) -> anyhow::Result<()> {
        match self {
            Arrivals::Closed { clients } => {
                ensure!(clients > 0, "clients is 0: no request would be sent, use 1 or more");
            }
            Arrivals::Programs { per_second } | Arrivals::Requests { per_second } => {
                let ok = per_second > 0.0 && per_second <= 1e6;
                ensure!(ok, "rate is {per_second}: use a number above 0 and at most 1e6");
            }
            Arrivals::Throughput { most } => {
                ensure!(most > 0, "throughput is 0: no request would be sent, use 1 or more");
                let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
                ensure!(
                    u64::from(most) + SPARE_FILES <= files,
                    "throughput is {most}, and this process may open {files} files: use at most \
                     {}, or raise the limit with `ulimit -n`",
                    files.saturating_sub(SPARE_FILES)
                );
            }
            Arrivals::Recorded { programs, .. } => {
                ensure!(programs > 0, "the trace has no requests: nothing would be sent");
            }
        }
        Ok(())
    }
}

/// The knobs of the workloads, one set for all of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// One of [`Workload::NAMES`].
    pub name: String,
    /// A generator of the experiments with its own knobs, in place of all of these.
    pub generator: Option<Policy>,
    /// Turns of a session.
    pub turns: u32,
    /// Bytes of the system prompt that sessions share.
    pub system_bytes: u32,
    /// Bytes of a question.
    pub question_bytes: u32,
    /// Levels of a tree.
    pub depth: u32,
    /// Most tokens of a reply.
    pub max_tokens: u32,
}

impl Default for Workload {
    fn default() -> Workload {
        Workload {
            name: "sessions".into(),
            generator: None,
            turns: 8,
            system_bytes: 6 * 1024,
            question_bytes: 160,
            depth: 4,
            max_tokens: 64,
        }
    }
}

impl Workload {
    /// Every workload.
    pub const NAMES: [&'static str; 6] =
        ["sessions", "tree2", "tree4", "chat", "mixed", "documents"];

    /// The generator of the named workload.
    pub fn generator(&self) -> anyhow::Result<Arc<dyn Generator>> {
        if let Some(named) = &self.generator {
            return generator::build(named).map_err(|errors| anyhow!(errors.join("\n")));
        }
        ensure!(self.max_tokens > 0, "max_tokens is 0: a reply has at least one token");
        ensure!(self.turns > 0, "turns is 0: a session has at least one turn");
        ensure!((1..=6).contains(&self.depth), "depth is {}: use 1 to 6", self.depth);
        Ok(match self.name.as_str() {
            "sessions" => Arc::new(self.sessions()),
            "tree2" => Arc::new(self.tree(2)),
            "tree4" => Arc::new(self.tree(4)),
            "chat" => Arc::new(self.chat()),
            "mixed" => Arc::new(Mixed::new(self.shapes())),
            "documents" => {
                let rag = meridian_workload::find_generator("rag").expect("the registry has it");
                let mut shapes = self.shapes();
                shapes.push(rag.published());
                Arc::new(Mixed::new(shapes))
            }
            other => bail!("workload {other:?} is unknown: use one of {}", Self::NAMES.join(", ")),
        })
    }

    fn shapes(&self) -> Vec<Box<dyn Generator>> {
        vec![
            Box::new(self.sessions()),
            Box::new(self.tree(2)),
            Box::new(self.tree(4)),
            Box::new(self.chat()),
        ]
    }

    fn sessions(&self) -> Sessions {
        Sessions {
            turns: self.turns,
            system_bytes: self.system_bytes,
            question_bytes: self.question_bytes.max(1),
            max_tokens: self.max_tokens,
        }
    }

    fn tree(&self, branch: u32) -> Tree {
        Tree { branch, depth: self.depth, max_tokens: self.max_tokens, ..Tree::default() }
    }

    fn chat(&self) -> Chat {
        Chat { max_tokens: self.max_tokens, ..Chat::default() }
    }
}

/// The caches to warm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Warm {
    /// Most prefixes.
    pub prefixes: u32,
    /// Replicas that each get all prefixes; empty for the endpoint of the run.
    pub at: Vec<String>,
}

/// A run of the load generator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Options {
    /// The endpoint, without `/v1`.
    pub url: String,
    /// Endpoints that share the sessions with it, each session at one of them.
    pub also: Vec<String>,
    /// Fallback endpoints, in this order, for a request that got no byte of an answer.
    pub elsewhere: Vec<String>,
    /// Gateways with their locations, instead of `url` and `elsewhere`: each client uses the
    /// nearest, then the next nearest.
    pub sites: Vec<Site>,
    /// Locations of clients, in turn.
    pub places: Vec<Place>,
    /// The model to request; `None` for the first of `/v1/models`.
    pub model: Option<String>,
    /// Sent as a bearer token; with several each session uses one.
    #[serde(skip)]
    pub api_keys: Vec<String>,
    /// The API keys of recorded tenants, by the hash of the tenant; the others use `api_keys`.
    #[serde(skip)]
    pub tenant_keys: BTreeMap<u64, String>,
    /// The report's `system` field.
    pub system: String,
    /// The workload.
    pub workload: Workload,
    /// The arrivals.
    pub arrivals: Arrivals,
    /// The programs of [`Arrivals::Recorded`], in place of the workload.
    #[serde(skip)]
    pub recorded: Option<Arc<Recorded>>,
    /// Shared prefixes to send before the run.
    #[serde(default)]
    pub warm: Option<Warm>,
    /// Clients of a closed loop start within this time, evenly spread.
    pub ramp: Duration,
    /// The number of the first client: concurrent loads have separate clients.
    pub first_client: u32,
    /// The day of a closed loop's clients; without one all are always awake.
    pub day: Option<Day>,
    /// The clients' region.
    pub region: u32,
    /// Seed of all randomness.
    pub seed: u64,
    /// Seed of an open loop's arrivals, if different from `seed`.
    pub arrival_seed: Option<u64>,
    /// Stop starting requests after this long, including the warm-up.
    pub duration: Option<Duration>,
    /// Stop after this many programs.
    pub programs: Option<u64>,
    /// Stop after this many requests.
    pub requests: Option<u64>,
    /// Requests started in the first part of the run are sent, counted, and not measured.
    pub warmup: Duration,
    /// Request server-sent events.
    pub stream: bool,
    /// Request the usage of a streamed answer.
    pub include_usage: bool,
    /// Request that the engine always generates `max_tokens` (an extension of vLLM's API).
    pub ignore_eos: bool,
    /// Header with the program's session key; `None` sends none.
    pub session_header: Option<String>,
    /// Share of requests whose client disconnects in the middle.
    pub abort_share: f64,
    /// A disconnecting client does so within this time, uniformly.
    pub abort_within: Duration,
    /// Longest whole request.
    pub timeout: Duration,
    /// Longest connect.
    pub connect_timeout: Duration,
    /// Longest wait for the requests in flight after the end.
    pub drain: Duration,
    /// Most concurrent programs in an open loop; arrivals beyond are shed, counted and shown.
    pub max_programs: usize,
    /// Objective that a request must meet to count as goodput.
    #[serde(default)]
    pub slo: Option<Slo>,
    /// Path for a line per finished request.
    pub records: Option<PathBuf>,
    /// Admin address of a gateway whose counts must agree.
    pub check_gateway: Option<String>,
    /// How long the gateway may take to record the last end before its counts are judged.
    pub settle: Duration,
    /// Interval between progress reports.
    pub tick: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            url: String::new(),
            also: Vec::new(),
            elsewhere: Vec::new(),
            sites: Vec::new(),
            places: Vec::new(),
            model: None,
            api_keys: Vec::new(),
            tenant_keys: BTreeMap::new(),
            system: "live".into(),
            workload: Workload::default(),
            arrivals: Arrivals::Closed { clients: 8 },
            recorded: None,
            warm: None,
            ramp: Duration::ZERO,
            first_client: 0,
            day: None,
            region: 0,
            seed: 1,
            arrival_seed: None,
            duration: None,
            programs: None,
            requests: None,
            warmup: Duration::ZERO,
            stream: true,
            include_usage: true,
            ignore_eos: false,
            session_header: Some("x-session-id".into()),
            abort_share: 0.0,
            abort_within: Duration::from_secs(2),
            timeout: Duration::from_secs(120),
            connect_timeout: Duration::from_secs(5),
            drain: Duration::from_secs(30),
            max_programs: 10_000,
            slo: None,
            records: None,
            check_gateway: None,
            settle: Duration::from_secs(5),
            tick: Duration::from_secs(1),
        }
    }
}

impl Options {
    /// A key for requests that belong to no tenant.
    pub(crate) fn any_key(&self) -> Option<&str> {
        let any = self.api_keys.first().or_else(|| self.tenant_keys.values().next());
        any.map(String::as_str)
    }

    /// Checks the options.
    pub fn validate(&self) -> anyhow::Result<()> {
        ensure!(
            !self.url.is_empty(),
            "url is empty: give the endpoint with --url, as http://host:port"
        );
        ensure!(
            self.sites.is_empty() == self.places.is_empty(),
            "--at and --gateway belong together: give both"
        );
        ensure!(
            self.sites.is_empty() || self.elsewhere.is_empty(),
            "the gateways' places replace elsewhere: leave it out"
        );
        ensure!(
            self.also.is_empty() || self.sites.is_empty(),
            "endpoints that share sessions have no place: leave out --also, or --at and --gateway"
        );
        let times_tokens = self.slo.is_some_and(|slo| slo.tpot.is_some());
        ensure!(
            self.stream || !times_tokens,
            "slo has a limit of tpot, and whole answers show no time per token: leave out \
             --no-stream, or limit e2e"
        );
        let share = self.abort_share;
        ensure!((0.0..=1.0).contains(&share), "abort_share is {share}: use 0 to 1");
        ensure!(!self.timeout.is_zero(), "timeout is 0: every request would fail, use 1s or more");
        ensure!(!self.tick.is_zero(), "tick is 0: use 100ms or more");
        self.arrivals.validate()?;
        if let Some(day) = &self.day {
            let closed = matches!(self.arrivals, Arrivals::Closed { .. });
            ensure!(closed, "day needs clients: an open loop has none");
            ensure!(!day.length.is_zero(), "day is 0: use 1s or more");
            ensure!((0.0..=1.0).contains(&day.peak), "peak is {}: use 0 to 1", day.peak);
            ensure!((0.0..=1.0).contains(&day.night), "night is {}: use 0 to 1", day.night);
        }
        if let Some(duration) = self.duration {
            let warmup = self.warmup;
            ensure!(
                warmup < duration,
                "warmup is {warmup:?} of a run of {duration:?}: nothing would be measured"
            );
        }
        Ok(())
    }

    /// The addresses that clients use, in order: a list for each location, or for each endpoint if
    /// clients have none.
    pub(super) fn orders(&self) -> Vec<Vec<&str>> {
        if self.sites.is_empty() {
            let order = |first| [first].into_iter().chain(&self.elsewhere).map(String::as_str);
            let first = [&self.url].into_iter().chain(&self.also);
            return first.map(|first| order(first).collect()).collect();
        }
        let order = |place: &Place| -> Vec<&str> {
            nearest_first(&self.sites, *place).iter().map(|site| site.url.as_str()).collect()
        };
        self.places.iter().map(order).collect()
    }

    /// Number of programs for client `client` of `clients`: a fixed share, so that the speed of
    /// answers does not affect which client sends which program.
    pub(super) fn share_of(&self, client: u32, clients: u32) -> u64 {
        let Some(all) = self.programs else { return u64::MAX };
        let (client, clients) = (u64::from(client), u64::from(clients));
        all / clients + u64::from(client < all % clients)
    }
}
