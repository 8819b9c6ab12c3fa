//! `meridian flow sim`: simulates the order of transfers in a prefill cluster.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, bail};
use meridian_base::Duration;
use meridian_flow::policy;
use meridian_protocol::policy::Policy;
use meridian_tools::cluster::compare::Compare;
use meridian_tools::cluster::{File, compare};
use meridian_tools::given;

/// Simulate a prefill cluster, or single flows, under flow policies
#[derive(Debug, clap::Args)]
pub(crate) struct Sim {
    /// File with a cluster (servers, network, models, load) or flows on ports; see lab/docs/flow.md
    file: PathBuf,
    /// Simulate only this model of the file
    #[arg(long)]
    model: Option<String>,
    /// Generator to use instead of the file's load; `meridian workload list` lists them
    #[arg(long, conflicts_with = "trace")]
    generator: Option<String>,
    /// Trace to use instead of the file's load
    #[arg(long)]
    trace: Option<PathBuf>,
    /// Requests per second for each GPU that computes prompts
    #[arg(long)]
    rate: Option<f64>,
    /// Policies, separated by commas [default: all]
    #[arg(long, value_delimiter = ',')]
    policy: Vec<String>,
    /// Requests of each model
    #[arg(long)]
    requests: Option<usize>,
    /// Seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Port of the timelines [default: the busiest]
    #[arg(long)]
    port: Option<String>,
    /// Start of the timelines [default: the middle of the arrivals, or the first flow]
    #[arg(long, value_parser = humantime::parse_duration)]
    from: Option<Duration>,
    /// Length of the timelines [default: 20ms, or until the last flow]
    #[arg(long, value_parser = humantime::parse_duration)]
    window: Option<Duration>,
    /// Folder for the report, the timelines, results.json, results.csv and
    /// results.parquet
    #[arg(long, default_value = "target/flow-sim")]
    out: PathBuf,
}

/// Runs the command.
pub(super) fn run(args: Sim) -> anyhow::Result<()> {
    let name = args.file.display().to_string();
    let text =
        std::fs::read_to_string(&args.file).with_context(|| format!("cannot read {name}"))?;
    let all = || policy::ALL.iter().map(|spec| spec.name.to_owned()).collect();
    let compare = Compare {
        policies: if args.policy.is_empty() { all() } else { args.policy.clone() },
        seed: args.seed,
        port: args.port.clone(),
        from: args.from,
        window: args.window,
    };
    let found = if given::file::is_flows(&text) {
        args.only_of_a_cluster()?;
        given::File::read(&text).and_then(|file| given::compare::run(&file, &compare))
    } else {
        cluster(&args, &text).and_then(|file| compare::run(&file, &compare))
    };
    let found = found.with_context(|| name)?;
    found.write(&args.out, args.seed)?;
    let mut out = std::io::stdout().lock();
    // The reader may have closed the pipe; the files are written.
    writeln!(out, "{}\n{}", found.text(), args.out.join("report.md").display()).ok();
    Ok(())
}

impl Sim {
    /// Refuses options that do not apply to a file of single flows.
    fn only_of_a_cluster(&self) -> anyhow::Result<()> {
        let given = [
            ("--model", self.model.is_some()),
            ("--generator", self.generator.is_some()),
            ("--trace", self.trace.is_some()),
            ("--rate", self.rate.is_some()),
            ("--requests", self.requests.is_some()),
        ];
        if let Some((option, _)) = given.into_iter().find(|(_, is_given)| *is_given) {
            bail!(
                "{option}: applies to clusters, and {} lists flows; remove it",
                self.file.display()
            );
        }
        Ok(())
    }
}

/// The cluster file, with the command line's replacements.
fn cluster(args: &Sim, text: &str) -> anyhow::Result<File> {
    let mut file = File::read(text)?;
    if let Some(model) = &args.model {
        let known: Vec<_> = file.models.iter().map(|served| served.model.clone()).collect();
        file.models.retain(|served| served.model == *model);
        if file.models.is_empty() {
            bail!("--model: `{model}` is not in the file; use one of {}", known.join(", "));
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
