//! `meridian import`: a gateway's configuration from the file of another program.
//!
//! Each format reads its file into a [`Draft`]: settings, each with its place in the file, and
//! notes on everything that is not converted. The configuration goes to stdout, the notes go to
//! stderr. A setting that is not converted never fails the import; a file without replicas does.
//!
//! Keys and passwords appear in neither output. A note shows a value only where its setting cannot
//! hold a secret, and a client's key becomes its hash.

mod act;
mod draft;
mod key;
mod litellm;
mod nginx;
mod note;
mod smg;
mod source;
mod value;

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::builder::{PossibleValue, PossibleValuesParser};

use draft::Draft;
use source::Source;

/// A program whose files can be imported.
struct Format {
    name: &'static str,
    aliases: &'static [&'static str],
    about: &'static str,
    read: fn(&Source, &mut Draft) -> anyhow::Result<()>,
}

const FORMATS: [Format; 3] = [
    Format {
        name: "nginx",
        aliases: &[],
        about: "servers, timeouts and TLS of nginx: one file, or the output of `nginx -T`",
        read: nginx::read,
    },
    Format {
        name: "litellm",
        aliases: &[],
        about: "config.yaml of the LiteLLM proxy",
        read: litellm::read,
    },
    Format {
        name: "smg",
        aliases: &["sglang-router", "vllm-router"],
        about: "the command line of smg, sglang-router or vllm-router: in a shell script, a systemd \
                unit, or YAML of Docker Compose or Kubernetes",
        read: smg::read,
    },
];

const EXAMPLES: &str = "\
Examples:
  nginx -T > all.conf
  meridian import nginx all.conf > gateway.yaml
  meridian import litellm config.yaml > gateway.yaml
  meridian import smg start-router.sh > gateway.yaml
  systemctl cat vllm-router | meridian import vllm-router - > gateway.yaml
  meridian check -c gateway.yaml";

/// Print a gateway's configuration made from another program's file
///
/// stdout gets the configuration, with a comment at each value that names where it came from. stderr
/// gets one line for each setting that is not converted, with the reason and what to do instead.
/// No key or password is printed.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The program whose file it is
    #[arg(value_parser = formats())]
    format: String,
    /// The file; `-` is standard input
    file: PathBuf,
}

fn formats() -> PossibleValuesParser {
    let value = |format: &Format| {
        PossibleValue::new(format.name).aliases(format.aliases).help(format.about)
    };
    PossibleValuesParser::new(FORMATS.iter().map(value))
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let named = |f: &&Format| f.name == args.format || f.aliases.contains(&args.format.as_str());
    let format = FORMATS.iter().find(named).context("format: is none of the known ones")?;
    let source = Source::open(&args.file)?;
    let mut draft = Draft::default();
    (format.read)(&source, &mut draft).with_context(|| source.name.clone())?;
    let done = draft.finish(format.name, &source.name);
    let (yaml, notes) = done.with_context(|| source.name.clone())?;
    let mut stderr = std::io::stderr().lock();
    for note in &notes {
        writeln!(stderr, "{note}")?;
    }
    drop(stderr);
    Ok(std::io::stdout().lock().write_all(yaml.as_bytes())?)
}

#[cfg(test)]
mod tests;
