//! A sweep as a table, CSV, JSON and plots.

use super::{Ended, Found, Phase, Point, Sweep, found};
use crate::load::Quantiles;
use crate::plot::Line;
use crate::table::Table;
use crate::{plot, stats};

/// The sweep as text: a row for each rate, and the answer.
#[must_use]
pub fn render(sweep: &Sweep) -> String {
    let mut out = Vec::new();
    for (phase, title) in [(Phase::Search, "Rates"), (Phase::Confirm, "Again, in fresh windows")] {
        let rates = found(&sweep.points, phase, &sweep.options);
        if !rates.is_empty() {
            out.push(table(sweep, phase, title, &rates));
        }
    }
    out.extend(answer(sweep));
    out.join("\n")
}

fn table(sweep: &Sweep, phase: Phase, title: &str, rates: &[Found]) -> String {
    let header = [
        "requests/s",
        "windows",
        "answered/s",
        "goodput/s",
        "within, %",
        "TTFT p50",
        "TTFT p99",
        "TPOT p50",
        "failed",
        "objective",
    ];
    let mut table = Table::new(format!("{title}, times in ms"), &header);
    for rate in rates {
        let here = || sweep.points.iter().filter(|p| p.phase == phase && p.rate == rate.rate);
        let mean = |of: &dyn Fn(&Point) -> Option<f64>| {
            stats::mean(&here().filter_map(of).collect::<Vec<_>>())
        };
        let show = |of: &dyn Fn(&Point) -> Option<f64>, digits: usize| {
            mean(of).map_or("-".to_owned(), |mean| format!("{:.digits$}", mean.mean))
        };
        table.row([
            rate.rate.to_string(),
            rate.rounds.to_string(),
            show(&|p| Some(p.throughput_rps), 2),
            show(&|p| Some(p.goodput_rps), 2),
            share(rate),
            show(&|p| p.ttft_ms.map(|q| q.p50), 1),
            show(&|p| p.ttft_ms.map(|q| q.p99), 1),
            show(&|p| p.tpot_ms.map(|q| q.p50), 1),
            failed(here()),
            match here().all(|p| p.client_is_slow) {
                true => "client is slow",
                false if rate.met => "met",
                false => "missed",
            }
            .to_owned(),
        ]);
    }
    table.text()
}

/// Failed requests by kind.
fn failed<'a>(points: impl Iterator<Item = &'a Point> + Clone) -> String {
    let sum = |of: fn(&Point) -> u64| points.clone().map(of).sum::<u64>();
    let kinds = [
        ("429", sum(|p| p.http_429)),
        ("503", sum(|p| p.http_503)),
        ("other", sum(|p| p.other_errors)),
        ("not started", sum(|p| p.shed)),
    ];
    let some = kinds.iter().filter(|(_, count)| *count > 0);
    let words: Vec<String> = some.map(|(name, count)| format!("{name}: {count}")).collect();
    if words.is_empty() { "0".to_owned() } else { words.join(", ") }
}

/// A share with its interval, in percent.
fn share(rate: &Found) -> String {
    let [mean, low, high] = [rate.attainment, rate.low, rate.high].map(|share| share * 100.0);
    match rate.rounds {
        1 => format!("{mean:.1}"),
        _ => format!("{mean:.1} [{low:.1}, {high:.1}]"),
    }
}

/// The rate that was found, and all reasons for doubt.
fn answer(sweep: &Sweep) -> Vec<String> {
    let mut lines = Vec::new();
    let slo = sweep.options.load.slo.map_or(String::new(), |slo| slo.to_string());
    match (&sweep.found, &sweep.ended) {
        (Some(found), _) => lines.push(carries(sweep, found, &slo)),
        (None, Some(_)) => {}
        (None, None) => lines.push(format!(
            "No rate met the objective ({slo}). Is it below the times of a single request? The \
             first row of the table has them."
        )),
    }
    lines.extend(sweep.found.and_then(|found| too_few(sweep, found.rate)));
    if sweep.points.iter().any(|point| point.client_is_slow) {
        let late = sweep.points.iter().map(|point| point.lateness_ms).fold(0.0, f64::max);
        lines.push(format!(
            "This client was up to {late:.0} ms late (p99) in some windows, which say nothing about the \
             endpoint: use --threads, a faster machine, or several clients."
        ));
    }
    match &sweep.ended {
        Some(Ended::Stopped) => {
            lines.push("Stopped: these are the windows that were complete.".into())
        }
        Some(Ended::Dead) => {
            let point = sweep.points.last();
            let (sent, rate) = point.map_or((0, 0.0), |point| (point.sent, point.rate));
            lines.push(format!(
                "Ended at {rate} requests/s: none of {sent} requests got an answer from {}.",
                sweep.options.load.url
            ));
        }
        Some(Ended::Failed(why)) => lines.push(format!("Ended early: {why}")),
        None => {}
    }
    lines
}

/// A window of few requests cannot show a share near 1.
fn too_few(sweep: &Sweep, rate: f64) -> Option<String> {
    let share = sweep.options.load.slo?.share;
    let requests = rate * sweep.options.window.as_secs_f64();
    let few = requests * (1.0 - share) < 1.0;
    few.then(|| {
        format!(
            "A window has some {requests:.0} requests at this rate, too few for a share of {} %: \
             use a longer --window.",
            (share * 1e4).round() / 1e2
        )
    })
}

fn carries(sweep: &Sweep, found: &Found, slo: &str) -> String {
    let Found { rate, rounds, .. } = *found;
    let start = format!("{rate} requests/s within {slo}: {} % of the requests", share(found));
    if sweep.points.iter().all(|point| point.phase == Phase::Search) {
        return format!(
            "{start}, in {rounds} windows. The highest of several rates is too high on average: \
             see the intervals of its neighbours."
        );
    }
    let all: Vec<String> = sweep.maxima.iter().map(ToString::to_string).collect();
    let fresh = || sweep.points.iter().filter(|point| point.phase == Phase::Confirm);
    let verdict = match found.met {
        true => "",
        false if fresh().all(|point| point.client_is_slow) => {
            ", in all of which the client was late"
        }
        false => ", so that rate was luck: choose a lower one",
    };
    let mean = stats::mean(&sweep.maxima).map_or(String::new(), |mean| {
        format!("; mean {:.1} [{:.1}, {:.1}]", mean.mean, mean.low, mean.high)
    });
    format!(
        "{start}, in {rounds} fresh windows{verdict}. It is the lowest result of {} searches \
         ({}{mean}).",
        all.len(),
        all.join(", ")
    )
}

/// A row for each window.
#[must_use]
pub fn csv(sweep: &Sweep) -> String {
    let header = [
        "phase",
        "round",
        "rate_rps",
        "throughput_rps",
        "goodput_rps",
        "attainment",
        "ttft_ms_mean",
        "ttft_ms_p50",
        "ttft_ms_p90",
        "ttft_ms_p99",
        "tpot_ms_mean",
        "tpot_ms_p50",
        "tpot_ms_p90",
        "tpot_ms_p99",
        "e2e_ms_mean",
        "e2e_ms_p50",
        "e2e_ms_p90",
        "e2e_ms_p99",
        "sent",
        "ok",
        "http_429",
        "http_503",
        "other_errors",
        "shed",
        "lateness_ms_p99",
        "client_is_slow",
        "met",
    ];
    let mut table = Table::new("", &header);
    for point in &sweep.points {
        let phase = match point.phase {
            Phase::Search => "search",
            Phase::Confirm => "confirm",
        };
        let mut cells = vec![phase.to_owned(), point.round.to_string(), point.rate.to_string()];
        let rates = [point.throughput_rps, point.goodput_rps, point.attainment];
        cells.extend(rates.map(|rate| format!("{rate:.4}")));
        for times in [point.ttft_ms, point.tpot_ms, point.e2e_ms] {
            let all = |q: Quantiles| [q.mean, q.p50, q.p90, q.p99].map(|v| format!("{v:.3}"));
            cells.extend(times.map(all).unwrap_or_default());
        }
        let refused = [point.http_429, point.http_503, point.other_errors];
        let counts = [point.sent, point.ok].into_iter().chain(refused).chain([point.shed]);
        cells.extend(counts.map(|count| count.to_string()));
        cells.push(format!("{:.3}", point.lateness_ms));
        cells.extend([point.client_is_slow, point.met].map(|yes| yes.to_string()));
        table.row(cells);
    }
    table.csv()
}

/// The sweep as JSON.
///
/// # Errors
/// Never: its keys are strings.
pub fn json(sweep: &Sweep) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(sweep)? + "\n")
}

/// TTFT and goodput over the rate.
///
/// # Errors
/// Those of the plotting library.
pub fn svg(sweep: &Sweep) -> anyhow::Result<String> {
    let line = |name: &str, of: &dyn Fn(&Point) -> Option<f64>| -> Line {
        let mut rates: Vec<f64> = sweep.points.iter().map(|point| point.rate).collect();
        rates.sort_by(f64::total_cmp);
        rates.dedup();
        let at = |rate: f64| {
            let here = sweep.points.iter().filter(|point| point.rate == rate);
            let mean = stats::mean(&here.filter_map(of).collect::<Vec<_>>())?;
            Some(plot::Point { x: rate, mean: mean.mean, low: mean.low, high: mean.high })
        };
        (name.to_owned(), rates.into_iter().filter_map(at).collect())
    };
    let url = &sweep.options.load.url;
    let ttft =
        [line("p50", &|p| p.ttft_ms.map(|q| q.p50)), line("p99", &|p| p.ttft_ms.map(|q| q.p99))];
    let slo = sweep.options.load.slo.map_or(String::new(), |slo| slo.to_string());
    let goodput = [
        line("goodput", &|p| Some(p.goodput_rps)),
        line("answered", &|p| Some(p.throughput_rps)),
        line("sent", &|p| Some(p.rate)),
    ];
    plot::stack(&[
        plot::lines(&format!("TTFT over the rate ({url})"), ["requests/s", "ms"], &ttft, true)?,
        plot::lines(&format!("Goodput: {slo}"), ["requests/s", "requests/s"], &goodput, false)?,
    ])
}
