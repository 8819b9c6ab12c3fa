//! The report of a plan that was started: predicted beside measured, the shares of the instances, the KV
//! between them, the counts, and what a killed instance cost.

use std::fmt::Write as _;

use comfy_table::Table;
use meridian_fleet::{Killed, PlayedRuns, Runs, table};
use meridian_plan::{Forecast, Handing, Phase, forecast};

use super::measured::{Measured, median};
use super::planned::Setup;

/// A figure further from its prediction than this is named.
const NEAR: f64 = 0.15;
/// With more of the CPU in use, times show waits for it.
const BUSY: f64 = 0.5;

/// What is about to start.
pub(super) fn head(setup: &Setup<'_>, runs: &Runs) -> String {
    let (file, window) = (&setup.running.file, &setup.window);
    let gpus: u32 = setup.instances.iter().map(|one| one.gpus).sum();
    let count = runs.seeds.len();
    let mut text = format!(
        "{} instances of {} on {gpus} GPUs of {}, policy {}\n{count} run{} of {} after {} of warm-up, at \
         {:.3} requests/s, {:.0} % of the plan's goodput\n",
        setup.instances.len(),
        setup.running.subject.name,
        setup.running.topology.name,
        setup.policy,
        if count == 1 { "" } else { "s" },
        seconds(window.length.as_secs_f64()),
        seconds(window.warmup.as_secs_f64()),
        setup.rate,
        100.0 * setup.rate / file.goodput,
    );
    for one in &setup.instances {
        let stages = one.stages.len();
        let _ = writeln!(text, "  {:<10} {} GPUs, {stages} stages", one.name, one.gpus);
    }
    text
}

/// The report.
///
/// # Errors
/// If a run's records can't be read.
pub(super) fn text(setup: &Setup<'_>, played: &PlayedRuns) -> anyhow::Result<String> {
    let slo = &setup.task.slo;
    let measured: anyhow::Result<Vec<Measured>> =
        played.runs.iter().map(|run| setup.window.of(&run.records, slo)).collect();
    let measured = measured?;
    let mut text = format!("\n{}\n", figures(setup, &measured));
    text.push_str(&cpu(played));
    let _ = writeln!(text, "\n{}\n\n{}", shares(setup, played), pairs(setup, played));
    let _ = writeln!(text, "\n{}", played.tables.join("\n\n"));
    let answers: u64 = played.runs.iter().map(|run| run.counts.ok).sum();
    let split = played.gateway.count("meridian_kv_transfer_seconds_count").unwrap_or(0);
    let _ = writeln!(text, "{split} of {answers} answers had both legs");
    for run in &played.runs {
        lost(run, &mut text);
    }
    if let Some(killed) = &played.killed {
        text.push_str(&after_kill(setup, killed, played)?);
    }
    Ok(text)
}

/// Predicted beside measured, and what is far from it.
fn figures(setup: &Setup<'_>, measured: &[Measured]) -> String {
    let fleets = &setup.running.fleets;
    let of = |handing| forecast(&setup.task, fleets, setup.rate, handing);
    let (plan, started) = (of(Handing::Layers), of(Handing::Pulled));
    let share = 100.0 * setup.task.slo.attainment;
    let mut table =
        table(&["", "plan", "as started", "measured", "runs", "to plan", "to as started"]);
    let mut far = Vec::new();
    type Of = (fn(&Forecast) -> f64, fn(&Measured) -> f64);
    let rows: [(String, Of); 4] = [
        ("TTFT, mean".to_owned(), (|one| one.ttft, |one| one.ttft)),
        (format!("TTFT, {share:.0} % below"), (|one| one.ttft_within, |one| one.ttft_within)),
        ("TPOT, mean".to_owned(), (|one| one.tpot, |one| one.tpot)),
        ("goodput, requests/s".to_owned(), (|one| one.good, |one| one.good)),
    ];
    for (name, (predicted, seen)) in rows {
        let (plan, started, value) =
            (predicted(&plan), predicted(&started), median(measured, seen));
        let shown = |value: f64| match name.starts_with("goodput") {
            _ if !value.is_finite() => "-".to_owned(),
            true => format!("{value:.3}"),
            false => format!("{:.1} ms", 1e3 * value),
        };
        let runs: Vec<f64> = measured.iter().map(seen).collect();
        let (low, high) =
            runs.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), one| {
                (low.min(*one), high.max(*one))
            });
        let ratio = |to: f64| match to > 0.0 && to.is_finite() {
            true => format!("{:.2}", value / to),
            false => "-".to_owned(),
        };
        if ratio(started) == "-" || (value / started - 1.0).abs() > NEAR {
            far.push(format!("{name} {}", ratio(started)));
        }
        table.add_row([
            name.clone(),
            shown(plan),
            shown(started),
            shown(value),
            format!("{} to {}", shown(low), shown(high)),
            ratio(plan),
            ratio(started),
        ]);
    }
    let count: usize = measured.iter().map(|run| run.count).sum();
    let middle = |of| median(measured, of);
    let verdict = match far.is_empty() {
        _ if !started.ttft.is_finite() => {
            "no prediction: the rate is above what the plan can serve".to_owned()
        }
        true => "every figure is within 15 % of the prediction as started".to_owned(),
        false => format!("more than 15 % from the prediction as started: {}", far.join(", ")),
    };
    format!(
        "{table}\n{verdict}\n{count} requests, {:.3}/s; prompts of {:.0} tokens (plan {:.0}), replies of \
         {:.0} (plan {:.0})",
        middle(|one| one.rate),
        middle(|one| one.prompt),
        setup.task.prompt.mean,
        middle(|one| one.output),
        setup.task.output.mean,
    )
}

/// CPU use, and whether the times can be trusted.
fn cpu(played: &PlayedRuns) -> String {
    let runs = || played.runs.iter().map(|run| run.busy);
    let used = runs().map(|busy| 1.0 - busy.idle).fold(0.0, f64::max);
    let fleet = runs().map(|busy| busy.fleet).fold(0.0, f64::max);
    let verdict = match used < BUSY {
        true => "below half, so the times are the model's",
        false => "the machine is too busy to trust these times: stop other work, or lower --rate",
    };
    let (used, fleet) = (100.0 * used, 100.0 * fleet);
    format!("CPU at most {used:.0} % in use, {fleet:.0} % by this fleet: {verdict}\n")
}

/// The requests of each instance, beside the planned ones.
fn shares(setup: &Setup<'_>, played: &PlayedRuns) -> Table {
    let mut table = table(&["instance", "requests", "share", "planned share", "preemptions"]);
    let done =
        |page: &meridian_fleet::Scrape| page.count("vllm:request_success_total").unwrap_or(0);
    let all = || setup.instances.iter().zip(&played.engines).zip(rates(setup));
    for phase in [Phase::Prefill, Phase::Decode] {
        let of = || all().filter(move |((one, _), _)| one.phase == phase);
        let total: u64 = of().map(|((_, page), _)| done(page)).sum();
        let planned: f64 = of().map(|(_, rate)| rate).sum();
        for ((one, page), rate) in of() {
            let share = done(page) as f64 / total.max(1) as f64;
            let preempted = page.count("vllm:num_preemptions_total").unwrap_or(0);
            table.add_row([
                one.name.clone(),
                done(page).to_string(),
                format!("{:.1} %", 100.0 * share),
                format!("{:.1} %", 100.0 * rate / planned),
                preempted.to_string(),
            ]);
        }
    }
    table
}

/// The planned rate of each instance, in the order of the instances: prefill and decode of each cell.
fn rates(setup: &Setup<'_>) -> Vec<f64> {
    setup.running.fleets.iter().flat_map(meridian_plan::Fleet::all).map(|one| one.rate).collect()
}

/// The KV between each pair.
fn pairs(setup: &Setup<'_>, played: &PlayedRuns) -> Table {
    let mut table = table(&["KV", "transfers", "mean", "planned for a mean prompt alone"]);
    let scale = setup.window.scale;
    for ((from, to), way) in &setup.ways.ways {
        let at = setup.instances.iter().position(|one| one.name == *to);
        let Some(page) = at.and_then(|at| played.engines.get(at)) else { continue };
        let label = format!("from=\"{from}\"");
        let of = |name| page.sum_with(name, &[&label]).unwrap_or(0.0);
        let count = of("meridian_engine_kv_transfers_total");
        let mean = of("meridian_engine_kv_transfer_seconds_total") / count * scale;
        table.add_row([
            format!("{from} to {to}"),
            format!("{count:.0}"),
            if count > 0.0 { format!("{:.1} ms", 1e3 * mean) } else { "-".to_owned() },
            format!("{:.1} ms", 1e3 * way.mean),
        ]);
    }
    table
}

/// Requests without an answer, by kind.
fn lost(run: &meridian_fleet::OneRun, text: &mut String) {
    let counts = &run.counts;
    if counts.errors > 0 {
        let kinds = run.errors.iter().filter(|(_, n)| **n > 0);
        let kinds: Vec<String> = kinds.map(|(kind, n)| format!("{n} {kind}")).collect();
        let _ = writeln!(
            text,
            "{} of {} requests failed: {}",
            counts.errors,
            counts.sent,
            kinds.join(", ")
        );
    }
}

/// What the kill cost.
fn after_kill(setup: &Setup<'_>, killed: &Killed, before: &PlayedRuns) -> anyhow::Result<String> {
    let name = setup.kill.and_then(|at| setup.instances.get(at)).map_or("", |one| &one.name);
    let counts = &killed.run.counts;
    let mut text = format!(
        "\n{name} was killed after {:.0} s of a further run: {} requests sent, {} answered, {} lost\n",
        killed.after, counts.sent, counts.ok, counts.errors
    );
    lost(&killed.run, &mut text);
    for (metric, what) in [
        ("meridian_prefill_fallbacks_total", "prefill legs whose KV was not used"),
        ("meridian_unsplit_total", "requests sent whole"),
    ] {
        for (labels, count) in killed.gateway.samples(metric) {
            let all: Vec<&str> = labels.split(',').collect();
            let earlier = before.gateway.sum_with(metric, &all).unwrap_or(0.0);
            if count > earlier {
                let _ = writeln!(text, "  {what}: {:.0} ({labels})", count - earlier);
            }
        }
    }
    let transfers = |page: &meridian_fleet::Scrape| {
        page.count("meridian_kv_transfer_seconds_count").unwrap_or(0)
    };
    let split = transfers(&killed.gateway).saturating_sub(transfers(&before.gateway));
    let _ = writeln!(text, "  {split} of its {} answers had both legs", counts.ok);
    let seen = setup.window.of(&killed.run.records, &setup.task.slo)?;
    let _ = writeln!(
        text,
        "  TTFT {:.1} ms mean, {:.1} ms for {:.0} %; TPOT {:.1} ms; {:.3} requests/s within both objectives",
        1e3 * seen.ttft,
        1e3 * seen.ttft_within,
        100.0 * setup.task.slo.attainment,
        1e3 * seen.tpot,
        seen.good
    );
    Ok(text)
}

fn seconds(value: f64) -> String {
    format!("{value:.0} s")
}
