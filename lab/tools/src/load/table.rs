//! The report as tables for a terminal.

use meridian_fleet::lined as table;

use super::{Arrivals, Check, Quantiles, Report, Row, Warmed};

/// The whole report as text.
#[must_use]
pub fn render(report: &Report) -> String {
    let mut out = Vec::new();
    out.extend(report.rows.iter().map(|row| times(row, report)));
    out.push(summary(report));
    if !report.replicas.is_empty() {
        out.push(replicas(report));
    }
    out.extend(report.gateway.as_ref().map(check));
    out.extend(beside(report));
    out.join("\n\n")
}

fn times(row: &Row, report: &Report) -> String {
    let mut t = table(&["ms", "mean", "p50", "p90", "p95", "p99"]);
    let mut line = |name: &str, q: &Option<Quantiles>| {
        let cells = q.map_or([None; 5], |q| [q.mean, q.p50, q.p90, q.p95, q.p99].map(Some));
        let mut line = vec![name.to_owned()];
        line.extend(cells.map(|v| v.map_or("-".into(), |v| format!("{v:.2}"))));
        t.add_row(line);
    };
    line("TTFT", &row.ttft_ms);
    line("TPOT", &row.tpot_ms);
    line("E2E", &row.e2e_ms);
    if report.lateness_ms.is_some() {
        line("lateness of the generator", &report.lateness_ms);
    }
    t.trim_fmt()
}

fn summary(report: &Report) -> String {
    let (c, row) = (&report.counts, report.rows.first());
    let number = |v: Option<f64>| v.map_or("-".to_owned(), |v| format!("{v:.1}"));
    let percent = |v: Option<f64>| v.map_or("-".to_owned(), |v| format!("{:.1} %", v * 100.0));
    let mut lines = vec![format!(
        "{} requests sent, {} ok, {} errors, {} cancelled by the client; {} programs in {:.1} s",
        c.sent, c.ok, c.errors, c.aborted, c.programs, report.window_s
    )];
    lines.push(format!(
        "{} requests/s, {} output tokens/s, cached share {}",
        number(row.and_then(|r| r.throughput_rps)),
        number(row.and_then(|r| r.output_tps)),
        percent(c.cached_share()),
    ));
    if let Some(slo) = report.options.slo {
        lines.push(format!(
            "goodput at {slo}: {} requests/s, {} of the requests met the limits",
            number(row.and_then(|r| r.goodput_rps)),
            percent(row.and_then(|r| r.slo_attainment)),
        ));
    }
    if let Some(Warmed { prefixes, prompts, failed, prompt_tokens }) = report.warmed {
        lines.push(format!(
            "warmed: {prefixes} prefixes in {prompts} prompts of {prompt_tokens} tokens, {failed} failed"
        ));
    }
    if let Arrivals::Throughput { .. } = report.options.arrivals {
        lines.push(format!("{} requests in flight at most", c.most_in_flight));
    }
    if c.shed > 0 {
        lines.push(format!(
            "{} programs not started: too many were running (--max-programs)",
            c.shed
        ));
    }
    if c.lost_below > 0 {
        lines.push(format!(
            "{} requests not sent: a request before them had no answer",
            c.lost_below
        ));
    }
    let errors = report.errors.iter().filter(|(_, n)| **n > 0);
    let errors: Vec<String> = errors.map(|(kind, n)| format!("{} {n}", kind.name())).collect();
    if !errors.is_empty() {
        lines.push(format!("errors: {}", errors.join(", ")));
    }
    lines.join("\n")
}

fn replicas(report: &Report) -> String {
    let mut t = table(&["replica", "requests", "ok", "cached share", "output tokens"]);
    for (name, r) in &report.replicas {
        let known = r.prompt_tokens > 0;
        let share = known.then(|| r.cached_tokens as f64 / r.prompt_tokens as f64 * 100.0);
        t.add_row([
            name.clone(),
            r.requests.to_string(),
            r.ok.to_string(),
            share.map_or("-".into(), |s| format!("{s:.1} %")),
            r.output_tokens.to_string(),
        ]);
    }
    t.trim_fmt()
}

/// How far from 1 the ratio to the simulator may be.
const WITHIN: f64 = 0.1;

/// TTFT live, as recorded and simulated, and the ratios.
fn beside(report: &Report) -> Option<String> {
    let live = report.rows.first()?.ttft_ms.filter(|_| !report.beside.is_empty())?;
    let mut header = vec!["TTFT, ms".to_owned(), "live".to_owned()];
    for other in &report.beside {
        header.push(other.name.clone());
        header.extend(other.range_ms.map(|_| "from - to".to_owned()));
        header.push(format!("live / {}", other.name));
    }
    let simulated = report.beside.iter().find(|other| other.name == "simulated");
    header.extend(simulated.map(|_| "within 10 %".to_owned()));
    let mut t = table(&header.iter().map(String::as_str).collect::<Vec<_>>());
    let all = |q: &Quantiles| [q.mean, q.p50, q.p90, q.p95, q.p99];
    for (at, name) in ["mean", "p50", "p90", "p95", "p99"].into_iter().enumerate() {
        let here = all(&live)[at];
        let mut row = vec![name.to_owned(), format!("{here:.1}")];
        for other in &report.beside {
            let there = all(&other.ttft_ms)[at];
            row.push(format!("{there:.1}"));
            let range = other.range_ms.map(|ends| ends.map(|end| format!("{:.0}", all(&end)[at])));
            row.extend(range.map(|ends| ends.join(" - ")));
            row.push(format!("{:.3}", here / there));
        }
        row.extend(simulated.map(|other| {
            let is_near = (here / all(&other.ttft_ms)[at] - 1.0).abs() <= WITHIN;
            let range = other.range_ms.map(|[least, most]| all(&least)[at]..=all(&most)[at]);
            let verdict = match (is_near, range.is_some_and(|range| range.contains(&here))) {
                (true, _) => "yes",
                (false, true) => "no, in range",
                (false, false) => "NO",
            };
            verdict.to_owned()
        }));
        t.add_row(row);
    }
    Some(t.trim_fmt())
}

fn check(check: &Check) -> String {
    let mut t = table(&["counts", "client", "gateway", ""]);
    for row in &check.rows {
        let client = match row.least == row.most {
            true => row.least.to_string(),
            false => format!("{} to {}", row.least, row.most),
        };
        let verdict = if row.agrees() { "agrees" } else { "DISAGREES" };
        t.add_row([row.name.clone(), client, row.gateway.to_string(), verdict.to_owned()]);
    }
    t.trim_fmt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Beside;

    // A figure within 10 % of the simulated mean is near; one outside may still be in the range of the
    // simulations. Of one run there is no range.
    #[test]
    fn a_range_is_shown() {
        let of = |mean: f64, p99: f64| Quantiles { mean, p50: 50.0, p90: 90.0, p95: 95.0, p99 };
        let mut report = Report::blank();
        report.rows[0].ttft_ms = Some(Quantiles { p90: 120.0, ..of(100.0, 150.0) });
        let runs = [of(98.0, 80.0), of(104.0, 160.0)];
        report.beside = vec![
            Beside::of("recorded", &runs[..1]).unwrap(),
            Beside::of("simulated", &runs).unwrap(),
        ];
        let table = beside(&report).unwrap();
        assert_eq!(table.matches("from - to").count(), 1, "{table}");
        let line = |name: &str| {
            let words = table.lines().find(|line| line.trim().starts_with(name)).unwrap();
            words.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(line("mean"), "mean 100.0 98.0 1.020 101.0 98 - 104 0.990 yes");
        assert_eq!(line("p90"), "p90 120.0 90.0 1.333 90.0 90 - 90 1.333 NO");
        assert_eq!(line("p99"), "p99 150.0 80.0 1.875 120.0 80 - 160 1.250 no, in range");
    }
}
