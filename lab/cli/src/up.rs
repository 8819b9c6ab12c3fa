//! `meridian up`: regions on this machine, with a load to watch; or the instances of a plan.

mod measured;
mod planned;
mod report;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use meridian_fleet::up::{self, Demand, Engines, Options, Pools};
use meridian_protocol::policy::Policy;

/// Start regions on this machine, with a load and a page that shows it
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Regions: one, or several of us, eu and asia [default: us,eu,asia; of llamacpp us]
    #[arg(long, value_delimiter = ',', conflicts_with = "plan")]
    regions: Vec<String>,
    /// Forwarding between regions: two_layer or region_local; central has one gateway for all. With
    /// --plan, the plan's topology: a file, or the name of a built-in one [default: two_layer]
    #[arg(long)]
    topology: Option<String>,
    /// Length of a day; the clients of the regions wake and sleep in turn
    #[arg(long, default_value = "120s", value_parser = duration, conflicts_with = "plan")]
    day: Duration,
    /// Share of the clients that is awake at the quietest time of their day
    #[arg(long, default_value_t = 0.3, conflicts_with = "plan")]
    night: f64,
    /// Kind of replicas
    #[arg(long, value_enum, default_value_t = Engine::Model, conflicts_with = "plan")]
    engine: Engine,
    /// Gateways in each region; a region's clients use all of them
    #[arg(long, default_value_t = 1, conflicts_with = "plan")]
    gateways: u32,
    /// Replicas in each region
    #[arg(long, default_value_t = 4, conflicts_with = "plan")]
    replicas: u32,
    /// Prefill and decode replicas of one region, in place of its --replicas; `none` for no such
    /// region [default: one prefill replica in asia, for model engines in several regions]
    #[arg(long, value_name = "REGION=PREFILL:DECODE", conflicts_with = "plan")]
    pools: Option<String>,
    /// Policy of the gateways; `meridian policies` lists them [default: meridian, or that of a plan's
    /// rendered gateway.yaml]
    #[arg(long)]
    policy: Option<String>,
    /// Policy that decides too and is not followed (docs/routing.md)
    #[arg(long, value_name = "POLICY", conflicts_with = "plan")]
    shadow: Option<String>,
    /// Speed of the model engines, as a multiple of real time
    #[arg(long, default_value_t = 1.0)]
    time_scale: f64,
    /// Load on the regions
    #[arg(long, value_enum, default_value_t = UpLoad::Mixed, conflicts_with = "plan")]
    load: UpLoad,
    /// Seed of the load
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Stop after this time [default: at Ctrl-C]. With --plan, the length of a run after its warm-up of
    /// a quarter of that [default: 120s]
    #[arg(long = "for", value_name = "DURATION", value_parser = duration)]
    duration: Option<Duration>,
    /// New folder for each gateway's access log and journal, and for the traces; at the end, their
    /// counts are compared with those of the metrics and of the page
    #[arg(long, value_name = "DIR", conflicts_with = "plan")]
    record: Option<PathBuf>,
    /// Folder of llama.cpp, installed if missing [default: $MERIDIAN_HOME/llamacpp, or
    /// .venv/llamacpp in the repository]
    #[arg(long, value_name = "DIR")]
    llamacpp_home: Option<PathBuf>,
    #[command(flatten)]
    planned: planned::Planned,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Engine {
    /// Model engines: Llama-3.1-8B on L4
    Model,
    /// Real llama.cpp servers with a tiny random model
    Llamacpp,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum UpLoad {
    /// No load: the regions are free for your own requests
    None,
    /// A few sessions
    Light,
    /// Sessions, trees and chats that keep the replicas busy
    Mixed,
}

/// Region with pools, unless given: one of its replicas computes prompts, the others answer.
const USUAL_POOLS: &str = "asia";

/// Runs the command. It succeeds only if every request succeeded and all counts agree.
///
/// # Errors
/// If the regions cannot start, or a request failed.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    args.check()?;
    if args.planned.is_given() {
        return planned::run(args);
    }
    let mut options = args.options()?;
    options.beside = meridian_tools::beside::begin(&options);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let verdict = runtime.block_on(up::run(&options))?;
    if !verdict.faults.is_empty() {
        bail!("{}", verdict.faults.join("\nerror: "));
    }
    println!(
        "\n{}",
        match verdict.broken {
            false => "every request succeeded, and all counts agree",
            true =>
                "every request ended; killed processes took their counts with them, so none are compared",
        }
    );
    Ok(())
}

impl Args {
    /// What the processes would refuse later, each in its own words.
    fn check(&self) -> anyhow::Result<()> {
        ensure!(
            self.duration != Some(Duration::ZERO),
            "--for: 0s runs nothing; give a longer time"
        );
        for (flag, name) in [("--policy", &self.policy), ("--shadow", &self.shadow)] {
            let Some(name) = name else { continue };
            let policy = Policy { name: name.clone(), ..Policy::default() };
            meridian_config::resolve(&policy)
                .map_err(|errors| anyhow!("{flag}: {}", errors.join("; ")))?;
        }
        Ok(())
    }

    fn options(self) -> anyhow::Result<Options> {
        let usual: &[&str] = match self.engine {
            Engine::Model => &["us", "eu", "asia"],
            Engine::Llamacpp => &["us"],
        };
        let usual = || usual.iter().map(|name| (*name).to_owned()).collect();
        let regions = if self.regions.is_empty() { usual() } else { self.regions };
        let usual = matches!(self.engine, Engine::Model) && regions.len() > 1 && self.replicas > 1;
        let pools = match self.pools.as_deref() {
            None if usual && regions.iter().any(|name| *name == USUAL_POOLS) => {
                let decode = self.replicas - 1;
                Some(Pools { region: USUAL_POOLS.to_owned(), prefill: 1, decode })
            }
            None | Some("none") => None,
            Some(text) => Some(text.parse().map_err(|why: String| anyhow!("--pools: {why}"))?),
        };
        Ok(Options {
            regions,
            gateways: self.gateways,
            pools,
            topology: self.topology.unwrap_or_else(|| "two_layer".to_owned()),
            day: self.day,
            night: self.night,
            engines: match self.engine {
                Engine::Model => Engines::Model,
                Engine::Llamacpp => Engines::LlamaCpp,
            },
            replicas: self.replicas,
            policy: self.policy.unwrap_or_else(|| "meridian".to_owned()),
            shadow: self.shadow,
            usual_port: true,
            time_scale: self.time_scale,
            demand: match self.load {
                UpLoad::None => Demand::None,
                UpLoad::Light => Demand::Light,
                UpLoad::Mixed => Demand::Mixed,
            },
            seed: self.seed,
            beside: None,
            duration: self.duration,
            record: self.record,
            binary: None,
            llamacpp_home: self.llamacpp_home,
            clocks: None,
            resume: false,
            log_requests: false,
            relays_kv: false,
            pool_args: Vec::new(),
            ..Options::default()
        })
    }
}

/// A duration with its unit: 500ms, 15s, 2m.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let seconds = match &text[digits.len()..] {
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        _ => return Err(format!("`{text}` has no unit; write 500ms, 15s or 2m")),
    };
    let number: f64 =
        digits.parse().map_err(|_| format!("`{text}` is not a time; write 500ms, 15s or 2m"))?;
    Duration::try_from_secs_f64(number * seconds)
        .map_err(|_| format!("`{text}` is not a time; write 500ms, 15s or 2m"))
}
