//! `meridian flow`: the order of a cluster's transfers.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, bail};
use meridian_base::Duration;
use meridian_bench::cluster::{File, compare};
use meridian_flow::policy;
use meridian_wire::config::Policy;

/// The order of a cluster's transfers
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Simulates a prefill cluster under flow policies: objectives met, TTFT, exchanges, a timeline
    Sim(Box<Sim>),
    /// Lists the flow policies
    Policies,
}

/// Simulate a prefill cluster under flow policies
#[derive(Debug, clap::Args)]
pub(crate) struct Sim {
    /// The cluster file: servers, network, models, load; docs/flow.md has one
    file: PathBuf,
    /// Only this model of the file
    #[arg(long)]
    model: Option<String>,
    /// A generator in place of the file's load; `meridian workload list` names them
    #[arg(long, conflicts_with = "trace")]
    generator: Option<String>,
    /// A trace in place of the file's load
    #[arg(long)]
    trace: Option<PathBuf>,
    /// Requests a second for each GPU that computes prompts
    #[arg(long)]
    rate: Option<f64>,
    /// Policies, with commas between them [default: all]
    #[arg(long, value_delimiter = ',')]
    policy: Vec<String>,
    /// Requests of each model
    #[arg(long)]
    requests: Option<usize>,
    /// Seed of everything random
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The port of the timelines [default: the busiest]
    #[arg(long)]
    port: Option<String>,
    /// When the timelines begin [default: in the middle of the arrivals]
    #[arg(long, value_parser = humantime::parse_duration)]
    from: Option<Duration>,
    /// How long the timelines are
    #[arg(long, default_value = "20ms", value_parser = humantime::parse_duration)]
    window: Duration,
    /// Where the report, the timelines and results.json go
    #[arg(long, default_value = "target/flow-sim")]
    out: PathBuf,
}

/// Runs the command.
pub(crate) fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Sim(args) => sim(*args),
        Command::Policies => {
            let mut out = std::io::stdout().lock();
            for spec in policy::ALL {
                writeln!(out, "{:<10} {} ({})", spec.name, spec.summary, spec.source)?;
            }
            Ok(())
        }
    }
}

fn sim(args: Sim) -> anyhow::Result<()> {
    let file = file(&args)?;
    let all = || policy::ALL.iter().map(|spec| spec.name.to_owned()).collect();
    let compare = compare::Compare {
        policies: if args.policy.is_empty() { all() } else { args.policy.clone() },
        seed: args.seed,
        port: args.port.clone(),
        from: args.from,
        window: args.window,
    };
    let name = args.file.display();
    let found = compare::run(&file, &compare).with_context(|| name.to_string())?;
    found.write(&args.out, args.seed)?;
    let mut out = std::io::stdout().lock();
    // Whoever read the tables may be gone; the files are written.
    writeln!(out, "{}\n{}", found.text(), args.out.join("report.md").display()).ok();
    Ok(())
}

/// The cluster file with what the command line puts in its place.
fn file(args: &Sim) -> anyhow::Result<File> {
    let name = args.file.display();
    let text =
        std::fs::read_to_string(&args.file).with_context(|| format!("cannot read {name}"))?;
    let mut file = File::read(&text).with_context(|| name.to_string())?;
    if let Some(model) = &args.model {
        let known: Vec<_> = file.models.iter().map(|served| served.model.clone()).collect();
        file.models.retain(|served| served.model == *model);
        if file.models.is_empty() {
            bail!("--model `{model}` is not in {name}; use one of {}", known.join(", "));
        }
    }
    for served in &mut file.models {
        if let Some(generator) = &args.generator {
            let named = Policy { name: generator.clone(), params: Default::default() };
            served.load.generator = Some(named);
            (served.load.trace, served.load.excerpt) = (None, None);
        }
        if let Some(trace) = &args.trace {
            served.load.trace = Some(trace.clone());
            (served.load.generator, served.load.excerpt) = (None, None);
        }
        served.load.rate = args.rate.or(served.load.rate);
    }
    file.requests = args.requests.unwrap_or(file.requests);
    Ok(file)
}
