//! `meridian plan discover`: a topology file from what servers say.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use meridian_fleet::ssh;
use meridian_plan::discover::{Asked, COLLECT, Discovered, Given, discover};
use meridian_plan::units::Rate;

/// Hosts that run the script at the same time.
const AT_ONCE: usize = 16;

/// Print the topology file of a set of servers, from what each of them says
///
/// The servers run a script that prints what nvidia-smi, NCCL and the kernel know, either over ssh or
/// by hand. What no server knows, as the switches, is stated by options or assumed, and the file says
/// which.
#[derive(Debug, clap::Args)]
pub(super) struct Discover {
    /// Folder with the output of the script on each server as HOST.txt, and its dump of NCCL, if there
    /// is one, as HOST.xml
    folder: Option<PathBuf>,
    /// Run the script on these hosts by the `ssh` program
    #[arg(long, value_name = "HOST", value_delimiter = ',', conflicts_with = "folder")]
    ssh: Vec<String>,
    /// Give up a host after this time
    #[arg(long, value_parser = humantime::parse_duration, default_value = "90s")]
    within: Duration,
    /// Print the script, to run it by hand
    #[arg(long, conflicts_with_all = ["folder", "ssh"])]
    script: bool,
    /// Write the topology to this file [default: print it]
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Name of the topology
    #[arg(long)]
    name: Option<String>,
    /// Plan the GPUs as this kind, in place of the product that nvidia-smi reports
    #[arg(long)]
    gpu: Option<String>,
    /// Rate of cards whose rate the kernel does not know
    #[arg(long, value_parser = super::rate)]
    card_rate: Option<Rate>,
    /// Cards to leave out, as those of a storage network
    #[arg(long, value_name = "CARD", value_delimiter = ',')]
    leave_out: Vec<String>,
    /// Servers under the same access switches; once for each unit [default: all of them]
    #[arg(long, value_name = "HOST,HOST")]
    unit: Vec<String>,
    /// Access switches of each unit: a server's card i goes to switch i modulo this
    #[arg(long)]
    access: Option<u32>,
    /// Core switches
    #[arg(long)]
    core: Option<u32>,
    /// Rate of an access switch's cards over the rate of its uplinks
    #[arg(long)]
    oversubscription: Option<f64>,
}

/// Writes the file; conflicts between sources go to stderr, too.
pub(super) fn run(args: &Discover) -> anyhow::Result<()> {
    if args.script {
        return Ok(std::io::stdout().write_all(COLLECT.as_bytes())?);
    }
    let hosts = match &args.folder {
        Some(folder) => from_folder(folder)?,
        None if args.ssh.is_empty() => bail!(
            "servers: none; name hosts with --ssh, or give a folder with the output of \
             `meridian plan discover --script` on each server"
        ),
        None => from_ssh(&args.ssh, args.within)?,
    };
    let given: Vec<Given<'_>> = hosts
        .iter()
        .map(|host| Given { server: &host.name, said: &host.said, nccl: &host.nccl })
        .collect();
    let found = super::all(discover(&given, &asked(args)), "the servers do not make a topology")?;
    write(&found, args.out.as_deref())
}

fn write(found: &Discovered, out: Option<&Path>) -> anyhow::Result<()> {
    for conflict in &found.conflicts {
        eprintln!("conflict: {conflict}");
    }
    match out {
        None => std::io::stdout().write_all(found.print().as_bytes())?,
        Some(path) => {
            let what = || format!("--out {}", path.display());
            std::fs::write(path, found.print()).with_context(what)?;
            writeln!(std::io::stdout(), "written to {}", path.display())?;
        }
    }
    Ok(())
}

fn asked(args: &Discover) -> Asked {
    let names = |text: &String| text.split(',').map(|name| name.trim().to_owned()).collect();
    Asked {
        name: args.name.clone(),
        gpu: args.gpu.clone(),
        card_rate: args.card_rate,
        leave_out: args.leave_out.clone(),
        units: args.unit.iter().map(names).collect(),
        access: args.access,
        core: args.core,
        oversubscription: args.oversubscription,
    }
}

/// A server's output.
struct Host {
    name: String,
    said: String,
    nccl: String,
}

fn from_folder(folder: &Path) -> anyhow::Result<Vec<Host>> {
    let what = || format!("cannot read the folder {}", folder.display());
    let entries = std::fs::read_dir(folder).with_context(what)?;
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry.with_context(what)?.path());
    }
    paths.retain(|path| path.extension().is_some_and(|end| end == "txt"));
    paths.sort();
    if paths.is_empty() {
        bail!(
            "{}: no file HOST.txt; run `meridian plan discover --script` on each server and put its \
             output there",
            folder.display()
        );
    }
    let host = |path: &PathBuf| {
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        let name = stem
            .with_context(|| format!("{}: the name of the file is not a host", path.display()))?;
        let dump = path.with_extension("xml");
        let nccl = if dump.exists() { super::read(&dump)? } else { String::new() };
        Ok(Host { name: name.to_owned(), said: super::read(path)?, nccl })
    };
    paths.iter().map(host).collect()
}

/// Runs the script on all hosts; every host that fails is named.
fn from_ssh(names: &[String], within: Duration) -> anyhow::Result<Vec<Host>> {
    let (mut hosts, mut failed) = (Vec::new(), Vec::new());
    for some in names.chunks(AT_ONCE) {
        let outputs: Vec<_> = std::thread::scope(|scope| {
            let started: Vec<_> = some
                .iter()
                .map(|name| scope.spawn(move || ssh::script(name, COLLECT, within)))
                .collect();
            started.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
        });
        for (name, output) in some.iter().zip(outputs) {
            match output {
                Ok(Ok(said)) => {
                    let host = name.split_once('@').map_or(name.as_str(), |(_, host)| host);
                    hosts.push(Host { name: host.to_owned(), said, nccl: String::new() });
                }
                Ok(Err(error)) => failed.push(error.to_string()),
                Err(_) => failed.push(format!("ssh {name}: the thread panicked")),
            }
        }
    }
    if !failed.is_empty() {
        bail!("{} of {} hosts failed\n{}", failed.len(), names.len(), failed.join("\n"));
    }
    Ok(hosts)
}
