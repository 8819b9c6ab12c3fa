//! `meridian bench replay`: recorded requests against a live endpoint.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use meridian_tools::load::Slo;
use meridian_tools::replay::Fleet;
use meridian_tools::rule::Rule;
use meridian_tools::{load, replay};

use super::contents::Warming;
use super::load::verdict;
use super::output::{Files, Forms, print};
use super::progress;
use super::requests::{Requests, runtime, stop};
use super::target::Target;
use crate::workload::files::Source;
use crate::workload::{self, shaping::Shaping};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: meridian bench replay journal.jsonl --url http://127.0.0.1:8080 --speed 2"
)]
pub(super) struct Replay {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    replayed: Replayed,
    #[command(flatten)]
    shaping: Shaping,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    requests: Requests,
    #[command(flatten)]
    files: Files,
    /// Write a line of JSON with times and tokens for each request to this file
    #[arg(long)]
    records: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Replay")]
struct Replayed {
    /// Fleet to simulate with the same requests, as 3xllama-3.1-8b@l4; without --url, model engines
    /// and a gateway are started for the replay too
    #[arg(long, value_name = "COUNTxMODEL@GPU")]
    fleet: Option<Fleet>,
    /// Policy of the fleet's gateway, or a file with the keys policy and admission of its
    /// configuration
    #[arg(long, default_value = "meridian", requires = "fleet")]
    policy: String,
    /// File with a line TENANT=KEY for each tenant: the hash in the journal, and its API key
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    /// Send a turn only after the answers that its session had before it, and the recorded time to
    /// think
    #[arg(long)]
    chained: bool,
    /// Bytes of a token of the endpoint [default: measured with two prompts]
    #[arg(long)]
    bytes_per_token: Option<f64>,
    /// Let replies end before their recorded length, for endpoints that refuse `ignore_eos`
    #[arg(long)]
    allow_eos: bool,
    /// Objective, as ttft=500ms,tpot=50ms
    #[arg(long)]
    slo: Option<Slo>,
    #[command(flatten)]
    warming: Warming,
}

/// Replays the requests.
pub(super) fn run(args: Replay) -> anyhow::Result<()> {
    let Replay { source, replayed, shaping, target, requests, files, records } = args;
    files.check()?;
    ensure!(source.given(), "FILE is missing: name the journal or trace, or - for standard input");
    let bytes = replayed.bytes_per_token;
    if let Some(bytes) = bytes.filter(|bytes| !(0.5..=16.0).contains(bytes)) {
        bail!("bytes-per-token is {bytes}: use 0.5 to 16");
    }
    let mut recorded = Vec::new();
    workload::each(&source, &shaping.shape(), &mut |request, _| {
        recorded.push(request);
        Ok(())
    })?;
    let runtime = runtime(requests.threads)?;
    let mut load = load::Options {
        slo: replayed.slo,
        ignore_eos: !replayed.allow_eos,
        records,
        seed: shaping.shape().seed,
        tick: Duration::from_millis(250),
        ..load::Options::default()
    };
    target.set(&mut load);
    requests.set(&mut load);
    replayed.warming.set(&mut load);
    let progress =
        progress::bar(recorded.last().map(|r| r.at.since(meridian_base::Time::ZERO)), None);
    let rule = Rule::given(&replayed.policy).context("--policy")?;
    let options = replay::Options {
        load,
        requests: recorded,
        speed: shaping.shape().rate,
        chained: replayed.chained,
        bytes_per_token: bytes,
        keys: replayed.keys.as_deref().map(keys).transpose()?.unwrap_or_default(),
        fleet: replayed.fleet.map(|fleet| fleet.with_policy(rule)),
    };
    let report = runtime.block_on(async { replay::run(options, progress, stop()?).await })?;
    print(&load::render(&report));
    files.write(&Forms {
        json: &|| load::json(&report),
        csv: &|| load::csv(&report),
        svg: &|| load::svg(&report),
    })?;
    verdict(&report)
}

/// The keys by tenant. No error shows a key.
fn keys(file: &Path) -> anyhow::Result<BTreeMap<u64, String>> {
    let name = file.display();
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {name}"))?;
    let mut keys = BTreeMap::new();
    for (at, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wanted = || {
            format!(
                "{name}:{at} is not TENANT=KEY: the tenant is 1 to 16 hexadecimal digits, as in the journal"
            )
        };
        let (tenant, key) = line.split_once('=').with_context(wanted)?;
        let tenant = u64::from_str_radix(tenant.trim(), 16).ok().with_context(wanted)?;
        ensure!(!key.trim().is_empty(), "{name}:{at} has no key after `=`");
        keys.insert(tenant, key.trim().to_owned());
    }
    ensure!(!keys.is_empty(), "{name} has no line TENANT=KEY");
    Ok(keys)
}
