//! `meridian up --plan`: starts the instances of a plan as model engines behind a gateway, loads them,
//! and prints what was predicted beside what was measured.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use meridian_fleet::{
    EngineSpec, Fleet, GatewaySpec, PlannedInstance, Post, Runs, Stage, StageLoad,
};
use meridian_plan::{GATEWAY, KvWays, Phase, Started, Task, kv_ways, one_of, started};
use meridian_protocol::admin::Role;

use super::measured::Window;
use super::{Args, report};
use crate::plan::{Check, Running, all};

/// The plan and its load.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "A plan")]
pub(super) struct Planned {
    /// Start the instances of this plan in place of regions: a file of `meridian plan --out`, with its
    /// --topology
    #[arg(long, value_name = "FILE", requires = "topology")]
    plan: Option<PathBuf>,
    /// config.json of the plan's model, if it has no short name
    #[arg(long, value_name = "NAME|FILE", requires = "plan")]
    model: Option<String>,
    /// Requests a second [default: a share of the plan's goodput]
    #[arg(long, requires = "plan", conflicts_with = "share", allow_negative_numbers = true)]
    rate: Option<f64>,
    /// Share of the plan's goodput that is loaded
    #[arg(long, requires = "plan", default_value_t = 0.6, allow_negative_numbers = true)]
    share: f64,
    /// Runs, each with its own seed; the report has their median
    #[arg(long, requires = "plan", default_value_t = 1,
          value_parser = clap::value_parser!(u64).range(1..=99))]
    runs: u64,
    /// Kill this instance in the middle of a further run: prefill-0, decode-0 and so on
    #[arg(long, value_name = "INSTANCE", requires = "plan")]
    kill: Option<String>,
}

/// Engines are processes of this machine.
const MOST_INSTANCES: usize = 64;
/// The length of a run.
const WINDOW: Duration = Duration::from_secs(120);
/// Part of it that comes before as a warm-up.
const WARMUP: u32 = 4;
/// Tokens that the chat template adds to a prompt of one message, and one to spare.
const TEMPLATE: u32 = 5;

/// A plan that is about to start.
pub(super) struct Setup<'a> {
    pub(super) task: Task<'a>,
    pub(super) running: &'a Running,
    pub(super) instances: Vec<Started>,
    pub(super) ways: KvWays,
    /// Requests a second of model time.
    pub(super) rate: f64,
    pub(super) window: Window,
    /// The index of the instance that is killed.
    pub(super) kill: Option<usize>,
    pub(super) policy: String,
}

impl Planned {
    pub(super) fn is_given(&self) -> bool {
        self.plan.is_some()
    }

    fn rate(&self, goodput: f64) -> anyhow::Result<f64> {
        let rate = match self.rate {
            Some(rate) if rate > 0.0 && rate <= 1e4 => rate,
            Some(rate) => bail!("--rate: {rate}; use requests a second above 0, up to 10000"),
            None if self.share > 0.0 && self.share <= 2.0 => self.share * goodput,
            None => bail!("--share: {}; use a share of the goodput above 0, up to 2", self.share),
        };
        anyhow::ensure!(rate > 0.0, "goodput: {goodput}; the plan serves nothing: use --rate");
        Ok(rate)
    }
}

/// Runs the command.
pub(super) fn run(args: Args) -> anyhow::Result<()> {
    let planned = &args.planned;
    let plan = planned.plan.clone().context("--plan: is missing; give a file")?;
    let topology = args.topology.clone().context("--topology: is missing; give the plan's")?;
    let (topology, model) = (PathBuf::from(topology), planned.model.clone());
    let (scale, seed) = (args.time_scale, args.seed);
    anyhow::ensure!(scale > 0.0 && scale <= 1e3, "--time-scale: {scale}; use above 0, up to 1000");
    let check = Check { plan: plan.clone(), topology: topology.clone(), model: model.clone() };
    let running = Running::read(&check)?;
    let setup = setup(&args, &running)?;
    let engine = |one: &Started| {
        let (name, subject) = (one.name.clone(), model.clone());
        let (plan, topology) = (plan.clone(), topology.clone());
        let role = if one.phase == Phase::Prefill { Role::Prefill } else { Role::Decode };
        let planned = Some(PlannedInstance { name, plan, topology, subject });
        let spec = EngineSpec { planned, role, time_scale: scale, seed, ..EngineSpec::default() };
        (0, spec)
    };
    let gateway = GatewaySpec {
        policy: setup.policy.clone(),
        engine: GATEWAY.engine.to_owned(),
        transfer: Some(GATEWAY.transfer),
        ..GatewaySpec::default()
    };
    let replicas = (0..setup.instances.len()).collect();
    let stage = Stage {
        regions: vec!["local".to_owned()],
        rtt_ms: vec![vec![0.0]],
        engines: setup.instances.iter().map(engine).collect(),
        gateways: vec![Post { spec: gateway, replicas, ..Post::default() }],
        loads: vec![StageLoad { region: 0, gateways: vec![0], args: load(&setup) }],
        warmup: setup.window.warmup,
        window: setup.window.length,
        ..Stage::default()
    };
    let seeds = (0..planned.runs).map(|run| seed.wrapping_add(run)).collect();
    play(&setup, &stage, &Runs { seeds, kill: setup.kill })
}

fn setup<'a>(args: &Args, running: &'a Running) -> anyhow::Result<Setup<'a>> {
    let task = running.task();
    let instances = all(started(&task, &running.fleets), "--plan")?;
    let ways = all(kv_ways(&task, &running.fleets), "--topology")?;
    let count = instances.len();
    anyhow::ensure!(
        count <= MOST_INSTANCES,
        "cells: {count} instances; this machine starts at most {MOST_INSTANCES}: give a plan of a part of \
         the topology"
    );
    let known: Vec<&str> = instances.iter().map(|one| one.name.as_str()).collect();
    let kill = args.planned.kill.as_deref().map(|name| {
        let at = known.iter().position(|one| *one == name);
        at.ok_or_else(|| anyhow!("--kill: {name}; use {}", one_of(name, &known)))
    });
    let kill = kill.transpose()?;
    let rate = args.planned.rate(running.file.goodput)?;
    let length = args.duration.unwrap_or(WINDOW);
    let scale = args.time_scale;
    let window = Window { warmup: length / WARMUP, length, scale };
    let policy = args.policy.as_deref().unwrap_or(GATEWAY.policy).to_owned();
    Ok(Setup { task, running, instances, ways, rate, window, kill, policy })
}

/// The arguments of the load: Poisson, with the plan's lengths, within the engines' context.
fn load(setup: &Setup<'_>) -> Vec<String> {
    let (prompt, output) = (setup.task.prompt, setup.task.output);
    let context = setup.instances.iter().map(|one| one.config.max_model_len).min().unwrap_or(2);
    let context = context.saturating_sub(TEMPLATE).max(16);
    let knobs = [
        ("prompt_tokens", (prompt.mean - f64::from(TEMPLATE) + 1.0).max(1.0)),
        ("prompt_cv", prompt.cv),
        ("reply_tokens", output.mean),
        ("reply_cv", output.cv),
        ("max_context", f64::from(context)),
    ];
    let rate = setup.rate * setup.window.scale;
    let slo = |seconds: f64| (1e3 * seconds / setup.window.scale).max(1.0);
    let mut args: Vec<String> =
        ["--generator", "lengths", "--ignore-eos", "--timeout", "600s", "--drain", "300s"]
            .map(str::to_owned)
            .into();
    for (knob, value) in knobs {
        args.extend(["--knob".to_owned(), format!("{knob}={value}")]);
    }
    args.extend(["--rate".to_owned(), rate.to_string()]);
    args.extend(["--warmup".to_owned(), format!("{}ms", setup.window.warmup.as_millis())]);
    let (ttft, tpot) = (slo(setup.task.slo.ttft), slo(setup.task.slo.tpot));
    args.extend(["--slo".to_owned(), format!("ttft={ttft:.0}ms,tpot={tpot:.0}ms")]);
    args
}

fn play(setup: &Setup<'_>, stage: &Stage, runs: &Runs) -> anyhow::Result<()> {
    print!("{}", report::head(setup, runs));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let fleet = Fleet::of_this_program()?;
    let played = runtime.block_on(async {
        tokio::select! {
            played = stage.play_runs(&fleet, runs) => Ok(played?),
            _ = tokio::signal::ctrl_c() => Err(anyhow!("stopped before its end")),
        }
    })?;
    print!("{}", report::text(setup, &played)?);
    if !played.faults.is_empty() {
        fleet.keep_logs();
        bail!(
            "{}\nerror: the logs are in {}",
            played.faults.join("\nerror: "),
            fleet.dir().display()
        );
    }
    println!("\nall counts agree, and no request is missing");
    Ok(())
}
