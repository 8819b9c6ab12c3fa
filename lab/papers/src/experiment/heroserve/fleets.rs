//! Figures 7, 8 and 10: the goodput of each system within the objectives, the latencies at one
//! rate, and the KV memory used.

use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context as _;
use meridian_plan::{Network, Slo, Subject, Task};
use meridian_tools::plot::{self, Figure, Point};
use meridian_tools::table::Table;
use meridian_tools::{parallel, results};
use serde_json::{Value, json};

use super::unit;
use crate::experiment::claim::Claim;
use crate::experiment::spec::{FleetCase, FleetMetric, Fleets};
use crate::experiment::{Context, Findings, params};
use crate::fleet::{Asked, Deployed, Mode, Score, System, lengths, score, sustained};

/// The share that must meet the objectives.
pub(super) const ATTAINMENT: f64 = 0.9;

/// A system's figures in a case.
#[derive(Clone, Debug)]
struct FleetsFound {
    mode: Mode,
    system: System,
    placement: String,
    /// Requests a second for each GPU; 0 if the case has a fixed rate.
    sustained: f64,
    /// At the case's rate.
    score: Score,
    /// Gigabytes of KV for each GPU.
    kv: f64,
}

/// Runs the file's cases.
///
/// # Errors
/// If the file is invalid, or a system has no placement.
pub(crate) fn run(context: &Context<'_>) -> anyhow::Result<Findings> {
    let spec = context.spec.fleet.as_ref().context("fleet: missing; say what is served where")?;
    let spec = if context.quick { spec.clone().small() } else { spec.clone() };
    let each = Mode::ALL.len();
    let (done, count) = (AtomicUsize::new(0), each * spec.cases.len());
    let cases = parallel(count, |nth| {
        let (case, mode) = (&spec.cases[nth / each], Mode::ALL[nth % each]);
        let found = one(case, mode, spec.window.0.as_secs_f64(), context.seeds);
        let so_far = done.fetch_add(1, Ordering::Relaxed) + 1;
        (context.progress)(so_far, count, &case.name);
        found.with_context(|| format!("fleet.cases: {}, mode {}", case.name, mode.name()))
    });
    let cases: Vec<Vec<FleetsFound>> = cases.into_iter().collect::<anyhow::Result<_>>()?;
    let cases: Vec<Vec<FleetsFound>> = cases.chunks(each).map(<[_]>::concat).collect();
    let params = format!("{:?}{}", meridian_engine::GPUS, serde_json::to_string(&spec)?);
    let mut found = Findings { params: params::of_text(&params), ..Findings::default() };
    for (case, all) in spec.cases.iter().zip(&cases) {
        found.rows.extend(all.iter().map(|one| row(case, one)));
        found.tables.push(table(case, all));
        if case.rate.is_none() {
            found.figures.push(figure(case, all)?);
        }
    }
    found.claims = claims(&spec, &cases);
    Ok(found)
}

/// All systems of a case in one mode.
fn one(case: &FleetCase, mode: Mode, window: f64, seeds: u32) -> anyhow::Result<Vec<FleetsFound>> {
    let topology = unit(&case.topology, case.gpu.as_deref())?;
    let subject = Subject::named(&case.model)?;
    let pairs = lengths::pairs(&case.lengths, subject.shape.context)?;
    let (prompt, output) = lengths::statistics(&pairs);
    let slo = Slo {
        ttft: case.ttft.0.as_secs_f64(),
        tpot: case.tpot.0.as_secs_f64(),
        attainment: ATTAINMENT,
    };
    let network = match mode {
        Mode::Network => Network::Printed,
        Mode::Paper | Mode::Corrected => Network::Corrected,
    };
    let task = Task { network, ..Task::new(&topology, &subject, (prompt, output), slo) };
    let asked = Asked { pairs: &pairs, slo, window, seeds };
    let gpus = f64::from(topology.gpus());
    let mut known = None;
    let mut all: Vec<FleetsFound> = Vec::new();
    let mut deployed: Vec<Deployed<'_>> = Vec::new();
    for system in System::ALL {
        let placed = case.placement.place(&task, system, mode, &mut known)?;
        let laid = Deployed::new(&task, system, mode.assumptions(), &placed)?;
        let same = deployed.iter().position(|other| other.same(&laid));
        let most = match (case.rate, same) {
            (Some(_), _) => 0.0,
            (None, Some(same)) => all[same].sustained,
            (None, None) => sustained(&laid, &asked, placed.rate()) / gpus,
        };
        deployed.push(laid);
        let (placement, score) = (placed.text(), Score::default());
        all.push(FleetsFound { mode, system, placement, sustained: most, score, kv: 0.0 });
    }
    let rate = case.rate.unwrap_or(all[0].sustained);
    for nth in 0..all.len() {
        let same = deployed[..nth].iter().position(|other| other.same(&deployed[nth]));
        let known = same.map(|same| all[same].score);
        let one = &mut all[nth];
        one.score = known.unwrap_or_else(|| score(&deployed[nth], &asked, rate * gpus));
        one.kv = one.score.kv_tokens * subject.shape.kv_bytes(1) / gpus / 1e9;
    }
    Ok(all)
}

fn table(case: &FleetCase, all: &[FleetsFound]) -> Table {
    let header = [
        "mode",
        "system",
        "prefill + decode",
        "sustained, requests/s a GPU",
        "in time, %",
        "TTFT, ms",
        "TPOT, ms",
        "of prefill in collectives, %",
        "of decode, %",
        "KV, GB a GPU",
        "ways",
    ];
    let at = case.rate.map_or("what distserve sustains".to_owned(), |rate| format!("{rate} a GPU"));
    let title = format!("{} (simulated); what follows the rate is at {at}", case.name);
    let mut table = Table::new(title, &header);
    for one in all {
        let FleetsFound { score, .. } = one;
        table.row([
            one.mode.name().to_owned(),
            one.system.name().to_owned(),
            one.placement.clone(),
            if case.rate.is_some() { "-".to_owned() } else { format!("{:.4}", one.sustained) },
            format!("{:.1}", 100.0 * score.attainment),
            millis(score.ttft),
            millis(score.tpot),
            format!("{:.1}", 100.0 * score.prefill_joining),
            format!("{:.1}", 100.0 * score.decode_joining),
            format!("{:.3}", one.kv),
            ways(score.picked),
        ]);
    }
    table
}

/// Milliseconds, if there is a value.
fn millis(seconds: f64) -> String {
    if seconds.is_finite() { format!("{:.1}", 1e3 * seconds) } else { "-".to_owned() }
}

/// Shares of the algorithms that were chosen.
fn ways(picked: [u64; 4]) -> String {
    let all = picked.iter().sum::<u64>().max(1) as f64;
    let names = ["ring", "tree", "relayed", "in-network"];
    let chosen = names.iter().zip(picked).filter(|(_, count)| *count > 0);
    let share = |(name, count): (&&str, u64)| format!("{name} {:.0} %", 100.0 * count as f64 / all);
    let text = chosen.map(share).collect::<Vec<_>>().join(", ");
    if text.is_empty() { "none".to_owned() } else { text }
}

fn row(case: &FleetCase, one: &FleetsFound) -> Value {
    let FleetsFound { score, .. } = one;
    let given = [
        ("mode", json!(one.mode.name())),
        ("placement", json!(one.placement)),
        ("sustained_rps_per_gpu", json!(one.sustained)),
        ("slo_attainment", json!(score.attainment)),
        ("ttft_ms.mean", json!(1e3 * score.ttft)),
        ("tpot_ms.mean", json!(1e3 * score.tpot)),
        ("kv_gb_per_gpu", json!(one.kv)),
    ];
    results::bare(one.system.name(), &case.name, &given)
}

fn figure(case: &FleetCase, all: &[FleetsFound]) -> anyhow::Result<Figure> {
    let bar = |one: &FleetsFound| {
        let mean = one.sustained;
        let point = Point { x: 0.0, mean, low: mean, high: mean };
        (format!("{}, {}", one.system.name(), one.mode.name()), point)
    };
    let title = format!("Sustained rate ({}, simulated)", case.name);
    let bars: Vec<_> = all.iter().map(bar).collect();
    let svg = plot::bars(&title, "requests/s a GPU", &bars)?;
    Ok(Figure::new(&["sustained", &case.name], title, svg))
}

fn claims(spec: &Fleets, cases: &[Vec<FleetsFound>]) -> Vec<Claim> {
    let mut all = Vec::new();
    for claim in &spec.published {
        for mode in Mode::ALL {
            let about = spec.cases.iter().zip(cases);
            let about = about.filter(|(case, _)| claim.cases.contains(&case.name));
            let mut ours = Vec::new();
            for (_, found) in about {
                let of = |system| {
                    let is = |one: &&FleetsFound| (one.mode, one.system) == (mode, system);
                    found.iter().find(is).map(|one| value(claim.metric, one))
                };
                let others = claim.over.iter().filter_map(|system| of(*system));
                let hero = of(System::Heroserve);
                ours.extend(
                    others.filter_map(|other| Some(hero? / other)).filter(|r| r.is_finite()),
                );
            }
            let what = format!("{}, mode {}", claim.what, mode.name());
            all.push(Claim::ratios(&what, &claim.source, &claim.published, &ours));
        }
    }
    all
}

fn value(metric: FleetMetric, one: &FleetsFound) -> f64 {
    match metric {
        FleetMetric::Rate | FleetMetric::Throughput => one.sustained,
        FleetMetric::Ttft => one.score.ttft,
        FleetMetric::Tpot => one.score.tpot,
        // A late system holds little KV, since its requests have not started.
        FleetMetric::Kv if one.score.attainment < ATTAINMENT => f64::NAN,
        FleetMetric::Kv => one.kv,
    }
}
