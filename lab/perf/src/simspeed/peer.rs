//! Installs and runs Vidur on a trace, timed by its own process.
//!
//! Both simulate the same requests on the same number of replicas with the same step times; each
//! request goes to the replica with the fewest outstanding. Prompts share nothing and there is KV
//! for all, since the published Vidur neither caches prefixes nor survives its own preemptions.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use meridian_base::Time;
use meridian_engine::{BLOCK_TOKENS, Config, Profile};
use meridian_sim::{Hardware, Load, Measure, Region, Scenario, Source, Topology, Wan};
use meridian_workload::{
    BYTES_PER_TOKEN, Poisson, Program, ProgramKey, Role, Segment, find_generator, prompt_of,
};
use serde_json::{Value, json};

use super::world;

const VERSIONS: &str = include_str!("../../../../versions.env");
const SCRIPT: &str = include_str!("../../peers/vidur_trace.py");
const REPLICAS: usize = 12;
/// Requests a second that twelve L4 can serve of these chats.
const RATE: f64 = 3.0;
/// More than the trace ever needs at a time, here by far, in Vidur by a little. Several times more
/// would measure how fast memory is cleared.
const KV_BLOCKS: u32 = 50_000;

/// One request: arrival, tokens of prompt and of reply.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    at: Duration,
    prompt: u32,
    reply: u32,
}

/// The lengths of the arena's chats, whole prompts, at Poisson times.
pub(super) fn trace(requests: u64) -> Vec<Request> {
    let generator = find_generator("arena").expect("the generator is built in").published();
    let programs = (0..).map(|ordinal| {
        generator.program(ProgramKey { seed: 1, region: 0, client: ordinal as u32 % 80, ordinal })
    });
    let lengths = programs.flat_map(|program| {
        let each = |node| {
            let bytes: u32 = prompt_of(&program, node).iter().map(|s| s.bytes).sum();
            (bytes.div_ceil(BYTES_PER_TOKEN), program.nodes[node].max_tokens)
        };
        (0..program.nodes.len()).map(each).collect::<Vec<_>>()
    });
    let times = Poisson::new(1, RATE).take(requests as usize);
    times.zip(lengths).map(|(at, (prompt, reply))| Request { at, prompt, reply }).collect()
}

fn engine() -> anyhow::Result<Config> {
    let profile = Profile::named("llama-3.1-8b", "l4", 1).map_err(|e| anyhow!("{e}"))?;
    Ok(Config::new(profile).with_kv_blocks(KV_BLOCKS))
}

/// The trace in this simulator.
pub(super) fn scenario(trace: &[Request]) -> anyhow::Result<Scenario> {
    let engine = engine()?;
    let program = |(at, request): (usize, &Request)| {
        let key = ProgramKey { seed: 1, region: 0, client: 0, ordinal: at as u64 };
        let (id, bytes) = (at as u64, request.prompt * BYTES_PER_TOKEN);
        let prompt = vec![Segment { role: Role::User, id, bytes }];
        (Time::ZERO + request.at, Program::path(key, vec![(prompt, request.reply)]))
    };
    let programs: Vec<_> = trace.iter().enumerate().map(program).collect();
    let last = trace.last().context("an empty trace")?.at;
    Ok(Scenario {
        seed: 1,
        regions: vec![Region { name: "here".to_owned(), continent: "here".to_owned() }],
        wan: Wan { rtt_ms: vec![vec![0.0]], jitter: 0.0, loss: 0.0 },
        replicas: vec![Hardware::new(0, engine); REPLICAS],
        system: world::system("least_outstanding", Topology::RegionLocal)?,
        loads: vec![Load {
            region: 0,
            source: Source::Open(Box::new(programs.into_iter())),
            may_run_in: None,
        }],
        faults: Vec::new(),
        autoscaler: None,
        racks: Vec::new(),
        measure: Measure { warmup: Duration::ZERO, window: last + Duration::from_secs(1) },
        paranoid: false,
    })
}

/// Vidur's requests a second on the trace.
pub(super) fn vidur(trace: &[Request]) -> anyhow::Result<f64> {
    let home = PathBuf::from(".venv/vidur");
    let python = installed(&home)?;
    let line = |r: &Request| format!("{},{},{}\n", r.at.as_secs_f64(), r.prompt, r.reply);
    let (csv, settings) = (home.join("trace.csv"), home.join("settings.json"));
    std::fs::write(&csv, trace.iter().map(line).collect::<String>())?;
    std::fs::write(&settings, settings_json()?.to_string())?;
    let script = home.join("vidur_trace.py");
    std::fs::write(&script, SCRIPT)?;
    let said = said(Command::new(python).args([script, csv, settings]))?;
    let said: Value = serde_json::from_str(said.lines().last().unwrap_or_default())
        .context("Vidur's script printed no result")?;
    let figure = |name: &str| said[name].as_f64().with_context(|| format!("no {name}: {said}"));
    ensure!(figure("requests")? as usize == trace.len(), "Vidur lost requests: {said}");
    Ok(figure("requests")? / figure("seconds")?)
}

fn settings_json() -> anyhow::Result<Value> {
    let engine = engine()?;
    let t = engine.profile.terms;
    Ok(json!({
        "replicas": REPLICAS,
        "kv_blocks": KV_BLOCKS,
        "block_tokens": BLOCK_TOKENS,
        "max_num_seqs": engine.max_num_seqs,
        "max_num_batched_tokens": engine.max_num_batched_tokens,
        "terms": {
            "weights": t.weights, "token": t.token, "head": t.head, "kv": t.kv, "pair": t.pair,
            "step": t.step, "sequence": t.sequence,
        },
    }))
}

/// The interpreter of an environment with the pinned packages, which is created if missing.
fn installed(home: &std::path::Path) -> anyhow::Result<PathBuf> {
    let pins = VERSIONS.lines().find_map(|line| line.strip_prefix("VIDUR_PIP="));
    let pins = pins.context("versions.env names no VIDUR_PIP")?.trim_matches('"');
    let (python, stamp) = (home.join("bin/python"), home.join("pins.txt"));
    if std::fs::read_to_string(&stamp).is_ok_and(|found| found == pins) {
        return Ok(python);
    }
    eprintln!("installing Vidur into {}", home.display());
    said(Command::new("python3").args(["-m", "venv", "--clear"]).arg(home))?;
    let options = ["-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check"];
    said(Command::new(&python).args(options).args(pins.split(' ')))?;
    // Written last: an interrupted installation has no stamp and is repeated.
    std::fs::write(&stamp, pins)?;
    Ok(python)
}

/// Runs a program to its end and returns its output.
fn said(command: &mut Command) -> anyhow::Result<String> {
    let what = format!("{:?}", command.get_program());
    let out = command.output().with_context(|| format!("cannot start {what}"))?;
    let error = String::from_utf8_lossy(&out.stderr);
    let last = error.lines().last().unwrap_or_default();
    ensure!(out.status.success(), "{what} failed: {last}");
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}
