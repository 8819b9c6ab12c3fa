//! `meridian policies`

use std::io::Write as _;

use meridian_config::policies;
use meridian_routing::policy::{self, Spec, Value};
use serde_json::{Value as Json, json};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Show the rule, the source and the parameters of each policy
    #[arg(short, long)]
    verbose: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    // A reader such as `head` may close the pipe; `println` would panic.
    let mut out = std::io::stdout().lock();
    if args.json {
        let all: Vec<Json> = policies::all().iter().map(|spec| as_json(spec)).collect();
        writeln!(out, "{}", serde_json::to_string_pretty(&all)?)?;
        return Ok(());
    }
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
            let default = default(&param.default);
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

/// A policy with its parameters.
fn as_json(spec: &Spec) -> Json {
    let param = |param: &policy::Param| json!({"name": param.name, "default": default(&param.default), "about": param.doc});
    json!({
        "name": spec.name,
        "summary": spec.summary,
        "source": spec.source,
        "admission": spec.admission.name(),
        "params": spec.params.iter().map(param).collect::<Vec<_>>(),
    })
}

fn default(value: &Value) -> String {
    match value {
        Value::Number(n) => n.to_string(),
        Value::Word(w) => (*w).to_owned(),
        Value::Text(text) => text.to_string(),
    }
}
