//! `meridian policies`

use meridian_routing::policy::{self, Value};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Show the rule, the source and the parameters of each policy
    #[arg(short, long)]
    verbose: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    for spec in policy::ALL {
        println!("{}", spec.name);
        if !args.verbose {
            continue;
        }
        println!(
            "    {}\n    source: {}\n    admission: {}",
            spec.summary,
            spec.source,
            spec.admission.name()
        );
        for param in spec.params {
            let default = match param.default {
                Value::Number(n) => n.to_string(),
                Value::Word(w) => w.to_owned(),
            };
            println!("    {} = {default}: {}", param.name, param.doc);
        }
    }
    Ok(())
}
