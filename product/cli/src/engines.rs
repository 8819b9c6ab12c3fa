//! `meridian engines`

use std::collections::BTreeMap;
use std::io::Write as _;

use meridian_protocol::engines::{ALL, Engine};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Show how each engine is detected, which of its pages the gateway reads, and its own fields
    #[arg(short, long)]
    verbose: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    if args.json {
        let one = |engine: &Engine| {
            let facts: BTreeMap<&str, String> = facts(engine).collect();
            serde_json::json!({"name": engine.name, "summary": engine.summary, "facts": facts})
        };
        let all: Vec<_> = ALL.iter().map(one).collect();
        writeln!(out, "{}", serde_json::to_string_pretty(&all)?)?;
        return Ok(());
    }
    for engine in ALL {
        writeln!(out, "{}", engine.name)?;
        if !args.verbose {
            continue;
        }
        writeln!(out, "    {}", engine.summary)?;
        for (fact, value) in facts(engine) {
            writeln!(out, "    {fact}: {value}")?;
        }
    }
    Ok(())
}

/// The non-empty facts about an engine, each with its label.
fn facts(engine: Engine) -> impl Iterator<Item = (&'static str, String)> {
    let private = &engine.private;
    let is_alone = |field: &&str| !private.families.iter().any(|(p, _)| field.starts_with(p));
    let families = private.families.iter().map(|(prefix, _)| format!("`{prefix}*`"));
    let alone = quoted(private.fields.iter().copied().filter(is_alone));
    let fields = families.chain(alone).collect::<Vec<_>>();
    let yes_or_no = |is: bool| if is { "yes" } else { "no" }.to_owned();
    let facts = [
        ("recognized by", recognized(engine)),
        ("sign of life", format!("`{}`", engine.health)),
        ("load", engine.load.map_or_else(String::new, |page| format!("`{}`", page.path))),
        ("capacity", engine.capacity.map_or_else(String::new, |page| format!("`{}`", page.path))),
        ("where the load is missing", engine.load.map_or("", |page| page.remedy).to_owned()),
        ("load in the headers of answers (ORCA)", yes_or_no(engine.reports_load)),
        ("gets a `cache_salt`", yes_or_no(engine.reads_cache_salt)),
        ("loads LoRA adapters at run time", yes_or_no(engine.loads_adapters)),
        ("resumes broken chats", yes_or_no(engine.continues_chats)),
        ("private fields", fields.join(", ")),
        ("merges into a request", quoted(private.containers.iter().copied()).join(", ")),
        ("private headers", quoted(private.headers.iter().copied()).join(", ")),
    ];
    facts.into_iter().filter(|(_, value)| !value.is_empty())
}

fn recognized(engine: Engine) -> String {
    let detect = &engine.detect;
    let metrics = detect.metrics.iter().map(|prefix| format!("metrics `{prefix}*`"));
    let own_page = detect.own_page.map(|own| format!("its page `{}`", own.path));
    metrics.chain(own_page).collect::<Vec<_>>().join(", ")
}

fn quoted(names: impl Iterator<Item = &'static str>) -> Vec<String> {
    names.map(|name| format!("`{name}`")).collect()
}
