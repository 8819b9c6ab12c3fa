//! `meridian check` and `meridian config`

use std::io::Write;

use clap::Subcommand;
use meridian_config::{Control, Gateway, Key, keys, replica_list_schema};

use crate::config_file::{ConfigFile, NamedFile};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    file: NamedFile,
}

#[derive(clap::Args)]
pub(crate) struct Check {
    #[command(flatten)]
    args: Args,
    /// Also try ports, replicas, peers and control planes; sends each replica a request of one token
    #[arg(long)]
    live: bool,
}

/// Reports every problem that would make a start fail or limit the process. Only the live check tries
/// addresses, because a running process holds its own.
pub(crate) fn run(check: &Check) -> anyhow::Result<()> {
    let Check { args, live } = check;
    let (mut fine, mut hints) = (Vec::new(), Vec::new());
    let file = ConfigFile::read(args.file.path())?;
    let is_control = Control::is_in(&file.yaml);
    anyhow::ensure!(
        !(is_control && *live),
        "--live: {} is a control plane's file; use it with a gateway's file, which names replicas and peers",
        args.file.path().display()
    );
    let checked = if is_control {
        let config = Control::examine(&file.yaml, meridian_control::serve::check);
        config.map(|config| format!("control plane, store {}", config.place()))
    } else {
        let config = Gateway::examine(&file.yaml, |config| {
            let found = meridian_gateway::check(config);
            match *live && found.is_empty() {
                true => meet(config, &mut fine),
                false => found,
            }
        });
        config.map(|c| {
            hints = c.hints();
            format!("region {}, {}", c.region, replicas(&c))
        })
    };
    for line in fine {
        println!("ok: {line}");
    }
    for hint in file.located(hints) {
        eprintln!("warning: {hint}");
    }
    let what = checked.map_err(|error| file.refused(&error.problems))?;
    let shown = args.file.path().display();
    match *live || is_control {
        true => println!("{shown} is valid: {what}."),
        false => println!("{shown} is valid: {what}. --live also tries ports, replicas and peers."),
    }
    Ok(())
}

/// The problems of a live check; what works goes to `fine`.
fn meet(config: &Gateway, fine: &mut Vec<String>) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let live = match runtime {
        Ok(runtime) => runtime.block_on(meridian_gateway::check_live(config)),
        Err(error) => return vec![format!("no runtime: {error}")],
    };
    *fine = live.fine;
    live.problems
}

/// The replicas that the gateway starts with.
fn replicas(config: &Gateway) -> String {
    let learns = !config.discovery.is_empty() || config.control.is_some();
    match config.replicas.len() {
        0 if !learns && config.peers.is_none() => {
            "no replicas, so it refuses every request; list them in `replicas` or `discovery`"
                .into()
        }
        1 => "1 replica".into(),
        n => format!("{n} replicas"),
    }
}

#[derive(Subcommand)]
pub(crate) enum Show {
    /// Print the configuration in force, with all defaults
    Print(Args),
    /// List every key of a gateway's file, and whether it reloads
    Keys,
    /// Print the JSON schema of a configuration file, for editors and checks in CI
    Schema {
        /// The kind of file
        #[arg(value_enum, default_value_t = CheckKind::Gateway)]
        of: CheckKind,
    },
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum CheckKind {
    /// A gateway's file
    Gateway,
    /// A control plane's file
    Control,
    /// A list of replicas that `discovery` reads
    Replicas,
}

pub(crate) fn show(show: &Show) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    match show {
        Show::Print(args) => {
            let file = ConfigFile::read(args.file.path())?;
            write!(out, "{}", crate::gateway::read(&file)?.print()?)?;
        }
        Show::Keys => keys().iter().try_for_each(print_key)?,
        Show::Schema { of } => {
            let schema = match of {
                CheckKind::Gateway => Gateway::schema(),
                CheckKind::Control => Control::schema(),
                CheckKind::Replicas => replica_list_schema(),
            };
            writeln!(out, "{}", serde_json::to_string_pretty(&schema)?)?;
        }
    }
    Ok(())
}

/// Prints a key. The reader of the output may have read enough.
fn print_key(key: &Key) -> anyhow::Result<()> {
    let reloads = key.at_start.map_or_else(|| "yes".to_owned(), |reason| format!("no: {reason}"));
    let (path, default, about) = (&key.path, key.default.as_deref().unwrap_or("none"), &key.about);
    let mut out = std::io::stdout();
    writeln!(out, "{path}\n    default: {default}\n    reloads: {reloads}\n    meaning: {about}")?;
    Ok(())
}
