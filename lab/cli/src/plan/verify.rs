//! `meridian plan verify`: links between servers, measured and compared with a topology file.

mod measure;
mod report;
mod servers;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use meridian_fleet::probe::{MOST_STREAMS, MOST_TIME, MOST_TRIPS};
use meridian_plan::verify::{
    Pair, Slow, Uplink, compared, cost, pairs, slow, together, untested, uplinks, with_measured,
};
use meridian_plan::{PlanFile, Topology, TopologySpec};

use measure::Asked;
use servers::Servers;

/// Measure the links between servers, and compare them with a topology file
///
/// On each server a `meridian plan probe` sends and receives. The exit status is 0 if every link that
/// was measured is as fast as the file says.
#[derive(Debug, clap::Args)]
pub(super) struct Verify {
    /// Topology: a file, or the name of a built-in one
    #[arg(short, long, value_name = "FILE")]
    topology: PathBuf,
    /// Where the probe of a server listens; with several cards, of each card: SERVER/CARD=ADDR:PORT
    #[arg(long, value_name = "SERVER=ADDR:PORT", value_delimiter = ',', required = true)]
    at: Vec<String>,
    /// Secret of all probes
    #[arg(long, env = "MERIDIAN_PROBE_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Start the probes by the `ssh` program, on the hosts that the topology names
    #[arg(long)]
    ssh: bool,
    /// Path of meridian on these hosts
    #[arg(long, value_name = "PATH", default_value = "meridian", requires = "ssh")]
    program: String,
    /// Time of each measurement
    #[arg(long = "for", value_name = "TIME", value_parser = humantime::parse_duration, default_value = "1s")]
    time: Duration,
    /// TCP streams of a measurement
    #[arg(long, default_value_t = 4)]
    streams: u32,
    /// Small messages to measure the round trip; 0 for none
    #[arg(long, default_value_t = 50)]
    trips: u32,
    /// Measure each server with this many others only [default: with all]
    #[arg(long, value_name = "COUNT")]
    partners: Option<usize>,
    /// Measure all cards at once, too, for the oversubscription of the core
    #[arg(long)]
    together: bool,
    /// Say what slow links cost this plan
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// config.json of the plan's model, if it has no short name
    #[arg(short, long, value_name = "NAME|FILE", requires = "plan")]
    model: Option<String>,
    /// Write the topology with the measured rates of slow links to this file
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Measures and reports.
pub(super) fn run(args: &Verify) -> anyhow::Result<()> {
    check(args)?;
    let spec = super::spec(&args.topology)?;
    let topology = super::all(spec.build(), "--topology")?;
    // Before the measurements, which take longer.
    let plan = args.plan.as_deref().map(|path| planned(args, path)).transpose()?;
    let servers = Servers::reach(args, &topology)?;
    let asked = Asked { time: args.time, streams: args.streams, trips: args.trips };
    let ports = servers.ports();
    let wanted = pairs(&topology, &ports, args.partners);
    ensure!(
        !wanted.is_empty(),
        "--at: no pair of cards that the topology joins; give addresses of two servers or more, \
         of cards on one switch"
    );
    let mut out = std::io::stdout();
    writeln!(out, "{}", report::head(wanted.len(), &asked))?;
    let (mut measured, mut failed) = (Vec::new(), 0);
    for (from, to) in wanted {
        let line = match servers.measure(from, to, &asked) {
            Ok(one) => {
                let pair = compared(&topology, &[one]);
                measured.push(one);
                pair.first().map(|pair| report::pair(&topology, pair)).unwrap_or_default()
            }
            Err(error) => {
                failed += 1;
                report::failed(&topology, (from, to), &error)
            }
        };
        writeln!(out, "{line}").and_then(|()| out.flush())?;
    }
    let pairs = compared(&topology, &measured);
    let mut found = Found { slow: slow(&topology, &pairs), uplinks: Vec::new(), pairs, failed };
    if args.together {
        let (at_once, errors) = servers.at_once(&together(&topology, &ports), &asked)?;
        for (flow, error) in &errors {
            writeln!(out, "{}", report::failed(&topology, *flow, error))?;
        }
        found.failed += errors.len();
        found.uplinks = uplinks(&topology, &at_once, &found.pairs);
        write!(out, "{}", report::core(&topology, &at_once, &found.uplinks))?;
    }
    conclude(args, (&spec, &topology), &found, plan.as_ref())
}

/// What was measured.
struct Found {
    pairs: Vec<Pair>,
    slow: Vec<Slow>,
    uplinks: Vec<Uplink>,
    failed: usize,
}

/// Reports slow links and their cost.
fn conclude(
    args: &Verify,
    (spec, topology): (&TopologySpec, &Topology),
    found: &Found,
    plan: Option<&(PlanFile, meridian_plan::Subject)>,
) -> anyhow::Result<()> {
    let Found { pairs, slow, uplinks, failed } = found;
    let mut said = report::slow(topology, slow);
    said.push_str(&report::limits(topology, pairs, &untested(topology, pairs)));
    let measured = with_measured(spec, slow, uplinks);
    if let Some((file, subject)) = plan {
        let cost = super::all(cost(file, spec, &measured, subject), "--plan does not fit")?;
        said.push_str(&report::cost(file, &cost));
    }
    if let Some(path) = &args.out {
        let text = format!("# Written by `meridian plan verify`.\n{}", measured.print());
        std::fs::write(path, text).with_context(|| format!("--out {}", path.display()))?;
        said.push_str(&format!("written to {}\n", path.display()));
    }
    std::io::stdout().write_all(said.as_bytes())?;
    let count = slow.len() + uplinks.iter().filter(|one| one.is_slow()).count();
    let unproven = uplinks.iter().filter(|one| one.is_unproven()).count();
    let busy = pairs.iter().filter(|pair| pair.is_cpu_bound()).count() + unproven;
    let what = if unproven > 0 { "pairs and uplinks" } else { "pairs" };
    match (count, failed, busy) {
        (0, 0, 0) => Ok(()),
        (0, 0, _) => {
            bail!("{busy} {what} were limited by a processor, so they say nothing")
        }
        (0, _, _) => bail!("{failed} pairs could not be measured; see the lines above"),
        (1, _, _) => bail!("1 place is slower than {} says", args.topology.display()),
        _ => bail!("{count} places are slower than {} says", args.topology.display()),
    }
}

fn check(args: &Verify) -> anyhow::Result<()> {
    let least = Duration::from_millis(300);
    ensure!(
        (least..=MOST_TIME).contains(&args.time),
        "--for: {:?}; use {least:?} to {MOST_TIME:?}",
        args.time
    );
    let streams = args.streams;
    ensure!((1..=MOST_STREAMS).contains(&streams), "--streams: {streams}; use 1 to {MOST_STREAMS}");
    let trips = args.trips;
    ensure!(trips <= MOST_TRIPS, "--trips: {trips}; use 0 to {MOST_TRIPS}");
    ensure!(args.partners != Some(0), "--partners: 0; use 1 or more");
    Ok(())
}

/// The plan and its model.
fn planned(args: &Verify, path: &Path) -> anyhow::Result<(PlanFile, meridian_plan::Subject)> {
    let file = super::all(PlanFile::read(&super::read(path)?), "--plan is not a plan")?;
    let subject = super::subject(args.model.as_ref().unwrap_or(&file.model))?;
    Ok((file, subject))
}
