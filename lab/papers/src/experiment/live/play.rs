//! Runs cells on real processes, one after the other, and converts the clients' records to the
//! simulator's terms.

use std::time::Duration;

use anyhow::Context as _;
use meridian_base::Time;
use meridian_fleet::llamacpp::LlamaCpp;
use meridian_fleet::{Busy, Fleet, Played, Stage};
use meridian_sim::{Fate, Report};
use meridian_tools::load::{ErrorKind, Record};
use meridian_tools::table::Table;

use super::servers;
use super::stage::stage;
use crate::experiment::build;
use crate::experiment::plan::{Cell, Plan};
use crate::experiment::runner::{Observed, Progress};

/// Seeds of a cell that run concurrently: a fleet of a dozen processes uses some twentieth of two
/// cores, and the fleets are separate.
const TOGETHER: usize = 5;

/// Runs each cell under each seed, and converts each report by `shape`; also returns how busy the
/// machine was.
///
/// # Errors
///
/// When a process misbehaves.
pub(super) fn all(
    (plan, installed): (&Plan, Option<&LlamaCpp>),
    cells: &[Cell],
    seeds: &[u64],
    (shape, progress): (fn(Report) -> Report, &Progress<'_>),
) -> anyhow::Result<(Vec<Vec<Observed>>, Table)> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let title = format!("The machine's {cores} cores while live runs were measured, % of all");
    let mut machine = Table::new(title, &["run", "idle", "this fleet", "others"]);
    let mut observed = Vec::new();
    let runs = cells.len() * seeds.len();
    for cell in cells {
        let price = build::replica_price(&plan.fleets[cell.fleet]);
        let mut by_seed = Vec::new();
        // Real servers compute, so that concurrent fleets would slow each other down.
        let is_real = servers::of(&plan.fleets[cell.fleet])?.is_some();
        for seeds in seeds.chunks(if is_real { 1 } else { TOGETHER }) {
            let all = together((plan, installed), *cell, seeds);
            let played = tokio::task::LocalSet::new().block_on(&runtime, all)?;
            for (name, (report, busy)) in played {
                let Busy { idle, fleet } = busy;
                let percent = |share: f64| format!("{:.0}", share * 100.0);
                machine.row([name.clone(), percent(idle), percent(fleet), percent(busy.others())]);
                by_seed.push(Observed::of(shape(report), price, false));
                progress(machine.rows.len(), runs, &format!("live: {name}"));
            }
        }
        observed.push(by_seed);
    }
    Ok((observed, machine))
}

/// Runs a cell under all `seeds` at once; each result has its name.
async fn together(
    (plan, installed): (&Plan, Option<&LlamaCpp>),
    cell: Cell,
    seeds: &[u64],
) -> anyhow::Result<Vec<(String, (Report, Busy))>> {
    let at = [plan.workload(cell), plan.fleet(cell), plan.system(cell)].join(", ");
    let mut playing = Vec::new();
    for seed in seeds {
        let mut stage = stage(plan, cell, *seed)?;
        servers::seat(&mut stage, &plan.fleets[cell.fleet], installed)?;
        let task = tokio::task::spawn_local(async move { one(&stage).await });
        playing.push((format!("{at}, seed {seed}"), task));
    }
    let mut played = Vec::new();
    for (name, task) in playing {
        played.push((name.clone(), task.await?.context(name)?));
    }
    Ok(played)
}

async fn one(stage: &Stage) -> anyhow::Result<(Report, Busy)> {
    let fleet = Fleet::of_this_program()?;
    let played = stage.play(&fleet).await?;
    let report = report(stage, &played)?;
    if !report.violations.is_empty() {
        fleet.keep_logs();
    }
    Ok((report, played.busy))
}

/// The clients' records, in the form of the simulator's report.
fn report(stage: &Stage, played: &Played) -> anyhow::Result<Report> {
    let mut report = Report {
        window: stage.window,
        replica_seconds: stage.engines.len() as f64 * stage.window.as_secs_f64(),
        ..Report::default()
    };
    let books = played.counts.disagreements().into_iter();
    let words = |row| format!("client, gateways and engines count {row} differently");
    report.violations.extend(books.map(words));
    report.violations.extend(played.faults.iter().cloned());
    for (load, path) in stage.loads.iter().zip(&played.records) {
        for record in Record::read(path)? {
            take(&mut report, stage, load.region, &record);
        }
    }
    let sent: u64 = played.counts.rows.iter().find_map(|row| row.client).unwrap_or_default();
    if sent != report.total_requests {
        let seen = report.total_requests;
        report.violations.push(format!("{sent} requests were sent and {seen} recorded"));
    }
    report.requests.sort_by_key(|request| request.sent + request.e2e);
    Ok(report)
}

fn take(report: &mut Report, stage: &Stage, region: usize, record: &Record) {
    report.total_requests += 1;
    let fate = fate(record);
    let (sent, e2e) = (time(record.sent_ms), time(record.e2e_ms));
    let end = sent + e2e;
    let counted = stage.warmup..stage.warmup + stage.window;
    if fate == Fate::Done && counted.contains(&end) {
        report.done_in_window += 1;
        report.tokens_in_window += record.reply_tokens;
    }
    if !counted.contains(&sent) {
        return;
    }
    let tokens = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    report.requests.push(meridian_sim::Record {
        sent: Time::ZERO + sent,
        region: region as u16,
        served: region as u16,
        replica: u32::MAX,
        load: 0,
        fate,
        forwarded: record.forwarded,
        attempts: 1,
        ttft: record.ttft_ms.map_or(e2e, time),
        e2e,
        held: Duration::ZERO,
        held_away: Duration::ZERO,
        sent_back: 0,
        crossing: None,
        prompt_tokens: tokens(record.prompt_tokens),
        cached_tokens: tokens(record.cached_tokens.unwrap_or(0)),
        matched_tokens: 0,
        reply_tokens: tokens(record.reply_tokens),
        slo: None,
        session: 0,
    });
}

fn fate(record: &Record) -> Fate {
    match record.error {
        None if !record.aborted => Fate::Done,
        Some(ErrorKind::Http429 | ErrorKind::Http503) => Fate::Rejected,
        Some(ErrorKind::Http4xx) => Fate::Invalid,
        _ => Fate::Lost,
    }
}

fn time(ms: f64) -> Duration {
    Duration::from_secs_f64((ms / 1e3).max(0.0))
}
