//! `meridian plan revise`: whether a running plan still serves its requests, and if not a new one.

use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, ensure};
use meridian_plan::{Averages, Change, Instance, PlanFile, RECENT, Revised, Task, names};
use meridian_tools::outputs;

use super::lengths::Measured;
use super::{Check, Running, show};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    running: Check,
    /// Recorded requests, as the gateway's journal: their moving averages are the new lengths and
    /// rate
    #[arg(short, long, value_name = "TRACE")]
    journal: Option<PathBuf>,
    /// An instance that is lost with its GPUs, as prefill-0; repeat for more
    #[arg(long, value_name = "INSTANCE")]
    without: Vec<String>,
    /// Requests a second to serve [default: the journal's, or without one the plan's goodput]
    #[arg(long, allow_negative_numbers = true)]
    rate: Option<f64>,
    /// Write the new plan to this file
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    ensure!(
        args.journal.is_some() || !args.without.is_empty() || args.rate.is_some(),
        "nothing has changed; give --journal, --without or --rate"
    );
    outputs::check([("--out", &args.out)])?;
    let running = Running::read(&args.running)?;
    let Running { file, topology, subject, fleets } = &running;
    let mut task = meridian_plan::task_of(file, topology, subject);
    let mut said = String::new();
    let mut rate = file.goodput;
    if let Some(journal) = &args.journal {
        let measured = Measured::read(journal, subject, Averages::moving())?;
        let old = (task.prompt.mean, task.output.mean);
        (task.prompt, task.output) = super::all(measured.averages.lengths(), "--journal")?;
        said.push_str(&measured.text(&task));
        let _ = writeln!(
            said,
            "moving averages of some {RECENT:.0} requests: K_in is {:.0} tokens a request, {:.0} in \
             the plan; K_out {:.0}, {:.0} in the plan",
            task.prompt.mean, old.0, task.output.mean, old.1
        );
        if args.rate.is_none() {
            rate = super::all(measured.averages.rate(), "--journal")?;
        }
    }
    rate = args.rate.unwrap_or(rate);
    let path = args.running.plan.display().to_string();
    let revised = meridian_plan::revise(&task, fleets, &args.without, rate);
    let revised: Revised = super::all(revised, &path)?;
    said.push_str(&verdict(&path, &task, &revised, rate, !args.without.is_empty()));
    let before: Vec<&Instance> =
        fleets.iter().flat_map(|fleet| fleet.all().map(|one| &one.instance)).collect();
    said.push_str(&diff(&task, &before, &revised));
    if let Some(path) = &args.out {
        let whole = !revised.plan.cells.is_empty();
        ensure!(whole, "--out {}: no plan is left to write; free some GPUs", path.display());
        let text = PlanFile::of(&task, &revised.plan).print();
        std::fs::write(path, text).with_context(|| format!("--out {}", path.display()))?;
        let _ = writeln!(said, "written to {}", path.display());
    }
    Ok(std::io::stdout().write_all(said.as_bytes())?)
}

/// Whether the running plan is enough, and what the new one serves.
fn verdict(path: &str, task: &Task<'_>, revised: &Revised, rate: f64, lost: bool) -> String {
    let Revised { before, remaining, plan, .. } = revised;
    let mut text = format!("{path} serves {before:.3} requests/s with these lengths");
    if lost {
        let _ = write!(text, ", and {remaining:.3} without the lost instances");
    }
    if *remaining >= rate {
        let times = plan.times(task, rate);
        let _ = writeln!(
            text,
            ": enough for {rate:.3}. There TTFT is {} for {} %, and TPOT {}; it can stay as it is",
            meridian_plan::units::Span(times.ttft_within),
            100.0 * task.slo.attainment,
            meridian_plan::units::Span(times.tpot)
        );
        return text;
    }
    let after = plan.goodput();
    let _ = writeln!(text, ": not enough for {rate:.3}");
    let more = 100.0 * (after / remaining - 1.0);
    let gained = if *remaining > 0.0 { format!(" ({more:+.1} %)") } else { String::new() };
    let short = if after < rate * 0.9999 { ", which is still too little: add GPUs" } else { "" };
    let gpus = plan.gpus();
    let _ = writeln!(text, "new plan: {after:.3} requests/s{gained} on {gpus} GPUs{short}");
    text
}

/// A line for each instance: what becomes of it, its GPUs, and its name in the new plan.
fn diff(task: &Task<'_>, before: &[&Instance], revised: &Revised) -> String {
    let known = names(before.iter().copied());
    let old = |name: &String| {
        let at = known.iter().position(|one| one == name).unwrap_or(0);
        gpus(task, before[at])
    };
    let mut text = String::new();
    for change in &revised.changes {
        let _ = match change {
            Change::Kept(was, is) if was == is => writeln!(text, "  keep {was} on {}", old(was)),
            Change::Kept(was, is) => writeln!(text, "  keep {was}, now {is}, on {}", old(was)),
            Change::Changed(was, one, is) => {
                writeln!(
                    text,
                    "~ change {was} to {is}, {}, on {}",
                    split(task, one),
                    gpus(task, one)
                )
            }
            Change::Stopped(was) => writeln!(text, "- stop {was} on {}", old(was)),
            Change::Lost(was) => writeln!(text, "- lost {was} on {}", old(was)),
            Change::Started(one, is) => {
                writeln!(text, "+ start {is}, {}, on {}", split(task, one), gpus(task, one))
            }
        };
    }
    text
}

fn split(task: &Task<'_>, one: &Instance) -> String {
    show::split(task, one.parallel, one.gpus())
}

fn gpus(task: &Task<'_>, one: &Instance) -> String {
    one.gpus().map(|gpu| task.topology.gpu_name(gpu)).collect::<Vec<_>>().join(" ")
}
