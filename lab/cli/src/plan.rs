//! `meridian plan`: the placement of GPUs and their collectives.

mod asked;
mod cost;
mod discover;
mod lengths;
mod probe;
mod revise;
mod show;
mod sweep;
mod verify;
mod worth;

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use meridian_plan::units::Rate;
use meridian_plan::{
    Plan, PlanFile, Problems, Ranked, Subject, TOPOLOGIES, Task, Topology, TopologySpec, from_nccl,
    from_smi, model_id,
};
use meridian_tools::outputs;

use asked::About;
use cost::Cost;

/// Plan the placement of GPUs and their collectives; see lab/docs/planner.md
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    asked: Asked,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Check a plan against a topology, and list all problems
    Check(Check),
    /// Show the cheapest way to grow and to shrink a running plan
    Step(Check),
    /// Plan several rates: the least GPUs of each, with separate and with aggregated instances
    Sweep(Box<sweep::Args>),
    /// Say whether a running plan still serves recorded requests, and if not how to change it
    Revise(revise::Args),
    /// Print the topology file of a server, from NCCL's dump or from `nvidia-smi topo -m`
    Import(Import),
    /// Print the topology file of a set of servers, from what each of them says
    Discover(discover::Discover),
    /// Measure the links between servers, and compare them with a topology file
    Verify(Box<verify::Verify>),
    /// Answer the measurements of `plan verify` on a server
    Probe(probe::Probe),
}

#[derive(Debug, clap::Args)]
struct Asked {
    #[command(flatten)]
    about: About,
    #[command(flatten)]
    cost: Cost,
    /// Requests a second to serve with the fewest GPUs [default: as many as the topology can]
    #[arg(long, allow_negative_numbers = true)]
    rate: Option<f64>,
    /// Serve the rate of the trace in --lengths-from
    #[arg(long, requires = "lengths_from", conflicts_with = "rate")]
    measured_rate: bool,
    /// The corrected planner, the paper's as printed, or ours by the paper's network formulas
    #[arg(long, value_enum, default_value_t)]
    mode: Mode,
    /// Plans to show
    #[arg(long, default_value_t = 3)]
    top: usize,
    /// Write the best plan to this file
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write deployment files of the best plan to this folder
    #[arg(long, value_name = "DIR")]
    render: Option<PathBuf>,
    /// Weights for the rendered files [default: those that the short name stands for]
    #[arg(long, value_name = "ORG/NAME|PATH", requires = "render")]
    model_id: Option<String>,
    /// Show the gain of one more server or a faster link
    #[arg(long)]
    advise: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Mode {
    #[default]
    Corrected,
    Paper,
    Network,
}

#[derive(Debug, clap::Args)]
pub(super) struct Check {
    /// Plan file
    pub(super) plan: PathBuf,
    /// Topology file
    #[arg(short, long, value_name = "FILE")]
    pub(super) topology: PathBuf,
    /// config.json of the model, if it has no short name
    #[arg(short, long, value_name = "NAME|FILE")]
    pub(super) model: Option<String>,
}

#[derive(Debug, clap::Args)]
struct Import {
    /// The dump, or the output of `nvidia-smi topo -m`
    file: PathBuf,
    /// Short name of the GPUs
    #[arg(long)]
    gpu: String,
    /// Rate of a network card, which `nvidia-smi` does not report
    #[arg(long, value_parser = rate, default_value = "100Gb/s")]
    card_rate: Rate,
}

fn rate(text: &str) -> Result<Rate, String> {
    Rate::parse(text)
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match &args.command {
        None => plan(&args.asked),
        Some(Command::Check(args)) => check(args),
        Some(Command::Step(args)) => steps(args),
        Some(Command::Sweep(args)) => sweep::run(args),
        Some(Command::Revise(args)) => revise::run(args),
        Some(Command::Import(args)) => import(args),
        Some(Command::Discover(args)) => discover::run(args),
        Some(Command::Verify(args)) => verify::run(args),
        Some(Command::Probe(args)) => probe::run(args),
    }
}

fn plan(asked: &Asked) -> anyhow::Result<()> {
    let about = &asked.about;
    outputs::check([("--out", &asked.out)])?;
    let spec = about.spec()?;
    let topology = all(spec.build(), "--topology")?;
    let subject = about.subject()?;
    // Before the search, which takes longer.
    let id = asked.render.as_ref().map(|_| model_id(&subject, asked.model_id.as_deref()));
    let id = id.map(|id| all(id, "--render")).transpose()?;
    let prices = asked.cost.prices(&topology)?;
    let measured = about.measured(&subject)?;
    let mut task = about.task(&topology, &subject, measured.as_ref())?;
    task.rate = asked.rate;
    if let Some(measured) = measured.as_ref().filter(|_| asked.measured_rate) {
        task.rate = Some(all(measured.averages.rate(), "--measured-rate")?);
    }
    let mut said = measured.map_or(String::new(), |measured| measured.text(&task));
    let plans = match asked.mode {
        Mode::Corrected => all(meridian_plan::plan(&task), "no plan")?,
        Mode::Paper => {
            let (plan, printed) = all(meridian_plan::paper(&task), "no plan")?;
            said.push_str(&show::printed(&printed));
            vec![plan]
        }
        Mode::Network => {
            let (plan, promised) = all(meridian_plan::network(&task), "no plan")?;
            said.push_str(&show::promised(promised));
            vec![plan]
        }
    };
    for (nth, plan) in plans.iter().take(asked.top.max(1)).enumerate() {
        said.push_str(&show::plan(&task, plan, nth + 1));
        said.push_str(&worth::text(&task, plan, prices.as_ref()));
    }
    let best = plans.first().context("no plan")?;
    if asked.advise {
        let advice = meridian_plan::advice(&spec, &task);
        said.push_str(&show::advice(best, &advice));
    }
    // Files first, because the reader of stdout may close the pipe.
    said.push_str(&written(asked, &task, best, id.as_deref())?);
    Ok(std::io::stdout().write_all(said.as_bytes())?)
}

/// Writes the requested files; returns a line for each.
fn written(
    asked: &Asked,
    task: &Task<'_>,
    best: &Plan,
    id: Option<&str>,
) -> anyhow::Result<String> {
    let mut said = String::new();
    if let Some(path) = &asked.out {
        let text = PlanFile::of(task, best).print();
        std::fs::write(path, text).with_context(|| format!("--out {}", path.display()))?;
        said.push_str(&format!("\nwritten to {}\n", path.display()));
    }
    if let (Some(folder), Some(id)) = (&asked.render, id) {
        let what = || format!("--render {}", folder.display());
        std::fs::create_dir_all(folder).with_context(what)?;
        for (name, text) in meridian_plan::rendered(task, best, id) {
            std::fs::write(folder.join(name), text).with_context(what)?;
        }
        said.push_str(&format!("\nrendered into {}\n", folder.display()));
    }
    Ok(said)
}

fn check(args: &Check) -> anyhow::Result<()> {
    let running = Running::read(args)?;
    let Running { file, topology, fleets, .. } = &running;
    let instances: usize = fleets.iter().map(|fleet| fleet.all().count()).sum();
    let gpus: u32 = fleets.iter().map(meridian_plan::Fleet::gpus).sum();
    let (path, name, goodput) = (args.plan.display(), &topology.name, file.goodput);
    writeln!(
        std::io::stdout(),
        "{path} works on {name}: {instances} instances on {gpus} GPUs serve {goodput:.3} requests/s"
    )?;
    Ok(())
}

/// A plan from a file that passed the check.
pub(super) struct Running {
    pub(super) file: PlanFile,
    pub(super) topology: Topology,
    pub(super) subject: Subject,
    pub(super) fleets: Vec<meridian_plan::Fleet>,
}

impl Running {
    pub(super) fn read(args: &Check) -> anyhow::Result<Running> {
        let topology = all(spec(&args.topology)?.build(), "--topology")?;
        let file = all(PlanFile::read(&read(&args.plan)?), "no plan")?;
        let subject = subject(args.model.as_ref().unwrap_or(&file.model))?;
        let what = format!("{} does not fit on {}", args.plan.display(), topology.name);
        let fleets = all(meridian_plan::check(&file, &topology, &subject), &what)?;
        Ok(Running { file, topology, subject, fleets })
    }

    pub(super) fn task(&self) -> Task<'_> {
        meridian_plan::task_of(&self.file, &self.topology, &self.subject)
    }
}

fn steps(args: &Check) -> anyhow::Result<()> {
    let running = Running::read(args)?;
    let task = running.task();
    let [fleet] = &running.fleets[..] else {
        let count = running.fleets.len();
        bail!("cells: {count}; a step changes one cell; give a plan with that cell alone");
    };
    let verdict = fleet.judged(&task).context("the plan serves no request")?;
    let ranked = Ranked { fleet: fleet.clone(), verdict };
    std::io::stdout().write_all(show::steps(&task, &ranked).as_bytes())?;
    Ok(())
}

fn import(args: &Import) -> anyhow::Result<()> {
    let text = read(&args.file)?;
    let path = args.file.display();
    anyhow::ensure!(!text.trim().is_empty(), "{path} is empty; write the dump or the table again");
    let spec = if text.trim_start().starts_with('<') {
        from_nccl(&text, &args.gpu)
    } else {
        from_smi(&text, &args.gpu, args.card_rate)
    };
    let spec = all(spec, &format!("{} does not describe a server", args.file.display()))?;
    std::io::stdout().write_all(spec.print().as_bytes())?;
    Ok(())
}

/// A built-in topology by its name, or a file.
fn spec(path: &Path) -> anyhow::Result<TopologySpec> {
    let named = TOPOLOGIES.iter().find(|(name, _)| Path::new(name) == path);
    let text = match named {
        Some((_, yaml)) => (*yaml).to_owned(),
        None if !path.exists() => {
            let known: Vec<&str> = TOPOLOGIES.iter().map(|(name, _)| *name).collect();
            let name = path.to_string_lossy();
            let remedy = format!("use a file, or {}", meridian_plan::one_of(&name, &known));
            bail!("--topology: {name} is not a file; {remedy}");
        }
        None => read(path)?,
    };
    all(TopologySpec::read(&text), &format!("{} is not a valid topology", path.display()))
}

/// A short name, or a file.
fn subject(model: &str) -> anyhow::Result<Subject> {
    let path = Path::new(model);
    if path.extension().is_none_or(|end| end != "json") {
        return all(Subject::named(model), "--model");
    }
    // The name of the folder is the model's name; config.json has none.
    let folder = path.parent().and_then(Path::file_name).and_then(|name| name.to_str());
    let name = folder.unwrap_or("model");
    all(
        Subject::from_config(name, &read(path)?),
        &format!("{model} is not a model that the planner knows"),
    )
}

fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Puts every problem into the error, each on its own line.
pub(super) fn all<T>(result: Result<T, Problems>, what: &str) -> anyhow::Result<T> {
    match result {
        Ok(value) => Ok(value),
        Err(problems) => bail!("{what}\n{problems}"),
    }
}
