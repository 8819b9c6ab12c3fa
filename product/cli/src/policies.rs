//! `meridian policies`

use std::io::Write as _;

use meridian_config::policies;
use meridian_routing::policy::{self, Value};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Show the rule, the source and the parameters of each policy
    #[arg(short, long)]
    verbose: bool,
}

/// Makes the policies that this binary is built with the ones that configurations may name.
pub(crate) fn install() {
    #[cfg(feature = "rivals")]
    policies::install(meridian_rivals::EVERY);
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    // A reader such as `head` may close the pipe; `println` would panic.
    let mut out = std::io::stdout().lock();
    for spec in policies::all() {
        writeln!(out, "{}", spec.name)?;
        if !args.verbose {
            continue;
        }
        writeln!(
            out,
            "    {}\n    source: {}\n    admission: {}",
            spec.summary,
            spec.source,
            spec.admission.name()
        )?;
        for param in spec.params {
            let default = match &param.default {
                Value::Number(n) => n.to_string(),
                Value::Word(w) => (*w).to_owned(),
                Value::Text(text) => text.to_string(),
            };
            writeln!(out, "    {} = {default}: {}", param.name, param.doc)?;
        }
        if spec.params.iter().any(|param| param.check.is_some()) {
            for one in policy::FIGURES {
                writeln!(out, "    figure {}: {}", one.name, one.doc)?;
            }
            for one in policy::FUNCTIONS {
                writeln!(out, "    function {}: {}", one.form, one.doc)?;
            }
        }
    }
    Ok(())
}
