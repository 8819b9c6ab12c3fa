//! `meridian what-if`: a user's own traffic on other fleets and under other policies.

mod command;
mod source;

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow};
use meridian_papers::what_if::{
    Arrangement, Gpus, Places, Prices, Question, Report, Sizes, Traffic, answer,
};
use meridian_routing::HeldConfig;
use meridian_tools::load::{Slo, seconds};
use meridian_tools::rule::Rule;

/// Simulate your own traffic on other fleets and under other policies
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: meridian what-if journal.jsonl --gpu h100 --replicas 4..8 --slo ttft=2s,tpot=80ms"
)]
pub(crate) struct Args {
    #[command(flatten)]
    source: source::Requests,
    #[command(flatten)]
    fleets: Fleets,
    #[command(flatten)]
    gateways: Gateways,
    /// Objective, as ttft=2s,tpot=80ms,share=0.95; `e2e` limits the whole answer. The share of the
    /// requests that must meet it is 0.95 by default
    #[arg(long, default_value = "ttft=2s,tpot=80ms")]
    slo: Slo,
    /// Time in which requests only warm the caches [default: a tenth of the trace, at most 2m]
    #[arg(long, value_parser = seconds)]
    warmup: Option<Duration>,
    /// Simulate the seeds 1 to this, and show the means with their 95 % intervals
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    seeds: u32,
    /// Folder for report.html, report.txt, what-if.json, what-if.csv, what-if.parquet and
    /// ttft.svg
    #[arg(long, default_value = "target/what-if")]
    out: PathBuf,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Fleets")]
struct Fleets {
    /// GPU, or several with their shares of a fleet, as h100=1,l4=3
    #[arg(long, default_value = "h100")]
    gpu: Gpus,
    /// Model on all replicas
    #[arg(long, default_value = "llama-3.1-8b")]
    model: String,
    /// GPUs of a replica
    #[arg(long, default_value_t = 1)]
    tp: u32,
    /// Sizes of the fleets in replicas: 4..8 is all from 4 to 8; or a list
    #[arg(long, default_value = "4..8")]
    replicas: Sizes,
    /// Largest fleet of the search for the least one, in replicas
    #[arg(long, default_value_t = 64)]
    most: u32,
    /// Also split each fleet into pools, with this share of prefill replicas; a list for several
    #[arg(long, value_name = "SHARE", value_delimiter = ',')]
    pools: Vec<f64>,
    /// Rate of the network card of a replica in a pool, in Gb/s
    #[arg(long, default_value_t = 100.0)]
    kv_gbps: f64,
    /// Price of a GPU in USD an hour, as h100=1.89 [default: the shipped on-demand prices]
    #[arg(long)]
    price: Option<Prices>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Gateways")]
struct Gateways {
    /// Policies; `meridian policies` lists them, and `default` is meridian. Or files with the keys
    /// policy and admission of a gateway's configuration
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "default,round_robin,least_outstanding,sglang_cache_aware"
    )]
    policies: Vec<String>,
    /// File with regions: their shares, round trips, egress prices and residency [default: one region]
    #[arg(long, value_name = "FILE")]
    regions: Option<PathBuf>,
    /// Most requests in the queue of a gateway (`held.max`)
    #[arg(long, default_value_t = HeldConfig::default().max)]
    queue_max: u32,
    /// Longest time in the queue of a gateway (`held.max_wait`)
    #[arg(long, default_value = "10s", value_parser = seconds)]
    queue_wait: Duration,
}

/// The question that the command line asks.
pub(crate) fn question(args: &Args) -> anyhow::Result<Question> {
    let Fleets { gpu, model, tp, replicas, most, pools, kv_gbps, price } = &args.fleets;
    let traffic = Traffic::read(args.source.source()?, &args.source.cut()?)
        .with_context(|| format!("TRACE {}", args.source.trace))?;
    let tenth = Duration::from_secs((traffic.seconds() / 10.0) as u64);
    let pools = pools.iter().map(|share| Arrangement::Pools(*share));
    Ok(Question {
        places: args.gateways.regions.as_deref().map_or_else(|| Ok(Places::one()), Places::read)?,
        gpus: gpu.clone(),
        tp: *tp,
        model: model.clone(),
        sizes: replicas.0.clone(),
        policies: args
            .gateways
            .policies
            .iter()
            .map(|given| Rule::given(given).context("--policies"))
            .collect::<Result<_, _>>()?,
        arrangements: std::iter::once(Arrangement::Whole).chain(pools).collect(),
        kv_gbps: *kv_gbps,
        slo: args.slo,
        prices: price
            .clone()
            .unwrap_or_default()
            .spelled(gpu.names())
            .map_err(|error| anyhow!("--price: {error}"))?,
        held: HeldConfig {
            max: args.gateways.queue_max,
            max_per_tenant: args.gateways.queue_max,
            max_wait: args.gateways.queue_wait,
            ..HeldConfig::default()
        },
        warmup: args.warmup.unwrap_or(tenth.min(Duration::from_secs(120))),
        most: *most,
        first_seed: 1,
        seeds: args.seeds,
        each_region: false,
        traffic,
    })
}

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let question = question(&args)?;
    std::fs::create_dir_all(&args.out)
        .with_context(|| format!("--out {}: cannot make this folder", args.out.display()))?;
    let command = command::of(&args, &question);
    let bar = super::experiment::bar("what-if");
    let given = question.policies.len() * question.arrangements.len() * question.sizes.len();
    let answer = answer(&question, &|done, what| {
        bar.set_length(given.max(done) as u64);
        bar.set_position(done as u64);
        bar.set_message(what.to_owned());
    })?;
    bar.finish_and_clear();
    let report = Report { question: &question, answer: &answer, command: &command };
    // The answer is shown even if it can't be written, and the reader may have closed the pipe.
    writeln!(std::io::stdout().lock(), "{}", report.text()).ok();
    report.write(&args.out).with_context(|| format!("--out {}", args.out.display()))?;
    writeln!(std::io::stdout().lock(), "{}", args.out.join("report.html").display()).ok();
    Ok(())
}
