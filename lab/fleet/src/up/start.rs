//! The parts of a region: its replicas, its address, its load.

use std::path::{Path, PathBuf};

use meridian_protocol::admin::Role;

use super::paths::Paths;
use super::{DRAIN, Demand, Engines, Options};
use crate::llamacpp::{self, LlamaCpp, ServerSpec};
use crate::{EngineSpec, Fleet, Process, Result};

/// The generator of agents' tasks, in place of a workload.
const AGENTS: &str = "agents";
/// What generators count for a token.
const BYTES_PER_TOKEN: u32 = 4;

/// How to create replicas.
pub(super) enum Maker {
    Model,
    LlamaCpp(LlamaCpp),
}

impl Maker {
    /// Installs the required software.
    pub(super) async fn new(options: &Options) -> Result<Maker> {
        if options.engines == Engines::Model {
            return Ok(Maker::Model);
        }
        let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
        let usual = || llamacpp::home(&here);
        let home = options.llamacpp_home.clone().unwrap_or_else(usual);
        note_installation(&home);
        Ok(Maker::LlamaCpp(llamacpp::install(&home).await?))
    }

    /// Starts one replica on this port, 0 for any. All replicas have one model, so each gives the
    /// same answer to a prompt.
    pub(super) async fn replica(
        &self,
        fleet: &Fleet,
        options: &Options,
        paths: Option<&Paths>,
        (name, role): (&str, Role),
        port: u16,
    ) -> Result<Process> {
        match self {
            Maker::Model => {
                let mut args = Vec::new();
                if role != Role::Both {
                    args.extend(options.pool_args.iter().cloned());
                    // Engines count it in their own time.
                    let lease = options.kv_lease.mul_f64(options.time_scale);
                    args.extend(["--kv-lease".into(), format!("{}ms", lease.as_millis())]);
                }
                if let Some(address) = paths.and_then(|paths| paths.announced(name)) {
                    args.extend(["--side-channel-announce".into(), address.to_string()]);
                }
                if options.log_requests {
                    args.push("--log-requests".into());
                }
                let spec = EngineSpec {
                    listen: format!("127.0.0.1:{port}"),
                    time_scale: options.time_scale,
                    role,
                    seed: options.seed,
                    args,
                    ..EngineSpec::default()
                };
                let engine = fleet.engine(name, &spec).await?;
                if let Some(paths) = paths {
                    paths.lead(name, &engine).await?;
                }
                Ok(engine)
            }
            Maker::LlamaCpp(installed) => {
                let spec = ServerSpec { slots: 4, context: 12288, port };
                fleet.llamacpp(name, installed, spec).await
            }
        }
    }
}

fn note_installation(home: &Path) {
    if !home.join("venv").exists() {
        println!("installing llama.cpp for Python into {}, once", home.display());
    }
}

/// One region, chosen by the seed, has many more clients than it can serve well, so it forwards
/// requests.
fn uneven(options: &Options, region: usize) -> u32 {
    let regions = options.regions.len() as u64;
    if options.seed % regions == region as u64 { 40 } else { 8 }
}

/// The clients of one region.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Clients {
    /// Their workload, of `meridian bench`, or the generator of agents.
    pub workload: &'static str,
    /// Their number.
    pub count: u32,
    /// Most tokens of a reply.
    pub max_tokens: u32,
    /// Bytes of the system prompt that sessions share.
    pub system_bytes: u32,
    /// When most are active, as a share of the day.
    pub peak: f64,
    /// The share that is active at the quietest time.
    pub night: f64,
}

impl Options {
    /// The clients of this region. All regions have the same number, and their days follow one
    /// another. With steady demand there are no days, and one region has more.
    #[must_use]
    pub fn clients(&self, region: usize) -> Clients {
        let (workload, count, max_tokens, system_bytes) = match (self.demand, self.engines) {
            (Demand::Mixed, Engines::Model) if self.pools.is_some() => ("documents", 24, 64, 6144),
            (Demand::Mixed, Engines::Model) => ("mixed", 24, 64, 6144),
            (Demand::Demo, _) => (AGENTS, 20, 40, 24_000),
            (Demand::Steady, _) => ("mixed", uneven(self, region), 48, 6144),
            (_, Engines::Model) => ("sessions", 4, 64, 6144),
            (Demand::Mixed, Engines::LlamaCpp) => ("mixed", 8, 32, 2048),
            (_, Engines::LlamaCpp) => ("sessions", 2, 32, 2048),
        };
        let peak = region as f64 / self.regions.len() as f64;
        Clients { workload, count, max_tokens, system_bytes, peak, night: self.night }
    }
}

/// What the clients send. Agents' tools take little time, so that a run of a minute has whole tasks.
fn prompts(clients: &Clients) -> Vec<(&'static str, String)> {
    let Clients { workload, max_tokens, system_bytes, .. } = clients;
    if *workload != AGENTS {
        return vec![
            ("--workload", (*workload).to_owned()),
            ("--max-tokens", max_tokens.to_string()),
            ("--system-bytes", system_bytes.to_string()),
        ];
    }
    let system = system_bytes / BYTES_PER_TOKEN;
    vec![
        ("--generator", AGENTS.to_owned()),
        ("--knob", format!("reply_tokens={max_tokens}")),
        ("--knob", format!("system_tokens={system}")),
        ("--knob", format!("sub_system_tokens={}", system / 2)),
        ("--knob", "result_tokens=300".to_owned()),
        ("--knob", "tool_s=0.5".to_owned()),
    ]
}

/// The arguments of a region's load.
pub(super) fn load_args(options: &Options, region: usize) -> Vec<String> {
    let clients = options.clients(region);
    let mut args = prompts(&clients);
    args.extend([
        ("--clients", clients.count.to_string()),
        ("--seed", options.seed.to_string()),
        ("--region", region.to_string()),
        ("--drain", format!("{}s", DRAIN.as_secs())),
    ]);
    if !options.ramp.is_zero() {
        args.push(("--ramp", format!("{}ms", options.ramp.as_millis())));
    }
    if options.demand == Demand::Steady {
        args.extend([("--abort-share", "0.05".to_owned()), ("--abort-within", "2s".to_owned())]);
    } else if options.regions.len() > 1 {
        args.extend([
            ("--day", format!("{}ms", options.day.as_millis())),
            ("--peak", clients.peak.to_string()),
            ("--night", clients.night.to_string()),
        ]);
    }
    args.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]).collect()
}
