//! The result of a run: conditions on its numbers, and the summary.

use std::fmt::Write as _;

use meridian_protocol::admin::Status;

use crate::load::ReportQuantiles;
use crate::page::{self, Seen};
use crate::total::total;
use crate::{ClientCounts, Counts, Report};

/// The counts of all regions' clients; none without clients.
pub(super) fn clients(reports: &[Option<Report>]) -> Option<ClientCounts> {
    let counts = reports.iter().flatten().map(|report| report.counts);
    counts.reduce(|a, b| a + b)
}

/// Checks all conditions on the numbers.
pub(super) fn judge(
    all: &Status,
    counts: &Counts,
    reports: &[Option<Report>],
    faults: &mut Vec<String>,
) {
    let r = &all.requests;
    for (count, how) in [
        (r.client_error, "refused as client errors"),
        (r.rejected, "rejected by the gateway"),
        (r.failed, "failed"),
        (r.cancelled, "cancelled"),
        (r.in_flight, "unfinished"),
    ] {
        if count > 0 {
            faults.push(format!("the gateway has {count} requests {how}"));
        }
    }
    for report in reports.iter().flatten() {
        for (kind, count) in report.errors.iter().filter(|(_, count)| **count > 0) {
            faults.push(format!("the client has {count} errors of kind {kind}"));
        }
        if report.counts.ok == 0 {
            faults.push("the client got no answer".into());
        }
    }
    faults.extend(breached(all));
    for row in counts.disagreements() {
        faults.push(format!(
            "client, gateway and engines count {row} differently (requests of other clients to \
             this gateway cause this too)"
        ));
    }
}

/// Rules must hold whatever was killed.
fn breached(all: &Status) -> Option<String> {
    let breaches = all.residency.as_ref().map_or(0, |residency| residency.breaches);
    (breaches > 0)
        .then(|| format!("{breaches} answers came from places that a residency rule forbids"))
}

/// Conditions that hold even if processes were killed: every request has an end, at the client and
/// at the gateways that are alive.
pub(super) fn judge_broken(all: &Status, reports: &[Option<Report>], faults: &mut Vec<String>) {
    faults.extend(breached(all));
    if all.requests.in_flight > 0 {
        faults.push(format!("the gateway has {} unfinished requests", all.requests.in_flight));
    }
    for report in reports.iter().flatten() {
        let lost = report.rows.first().and_then(|row| row.lost).unwrap_or(0);
        if lost > 0 {
            faults.push(format!("the client has {lost} unfinished requests"));
        }
    }
}

/// Prints the result, and the three counts as a table.
pub(super) fn summarize(seen: &[Seen], counts: &Counts, reports: &[Option<Report>]) {
    let mut text = String::from("\n");
    for (seen, report) in seen.iter().zip(reports) {
        let name = if reports.len() > 1 { format!("{:5}", seen.name) } else { String::new() };
        if let Some(line) = report.as_ref().and_then(measured) {
            let _ = writeln!(text, "{name}{line}");
        }
    }
    let all = total(seen);
    let prefix = &all.prefix;
    let _ = writeln!(
        text,
        "policy {}   prefix hit ratio {} by the engines, {} as the gateway expected\n",
        all.policy,
        page::percent(prefix.cached_tokens, prefix.known_prompt_tokens),
        page::percent(prefix.matched_tokens, prefix.prompt_tokens),
    );
    if seen.len() > 1 {
        let _ = writeln!(text, "{}\n", page::regions(seen, reports));
    }
    if let Some(residency) = &all.residency {
        for row in &residency.rules {
            let _ = writeln!(
                text,
                "residency rule {}: {} answered in permitted places, {} of them forwarded there, \
                 {} refused",
                row.rule, row.served, row.sent, row.refused
            );
        }
        let _ = writeln!(text, "answers from forbidden places: {}\n", residency.breaches);
    }
    println!("{text}{}", page::counts(counts));
}

/// The measurements of a region's clients.
fn measured(report: &Report) -> Option<String> {
    let row = report.rows.first()?;
    let of = |q: Option<ReportQuantiles>| (page::ms(q.map(|q| q.p50)), page::ms(q.map(|q| q.p99)));
    let (ttft, e2e) = (of(row.ttft_ms), of(row.e2e_ms));
    let tpot = (page::tenths(row.tpot_ms.map(|q| q.p50)), page::tenths(row.tpot_ms.map(|q| q.p99)));
    let rate = row.throughput_rps.unwrap_or(0.0);
    Some(format!(
        "{rate:.1} requests/s   TTFT p50 {} p99 {}   TPOT p50 {} p99 {}   E2E p50 {} p99 {}",
        ttft.0, ttft.1, tpot.0, tpot.1, e2e.0, e2e.1
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClientCounts, EngineCounts};
    use meridian_protocol::admin::{Prefix, Requests, Residency};

    /// Five successful requests, as counted by the gateway.
    fn gateway() -> Status {
        let requests = Requests { accepted: 5, done: 5, ..Requests::default() };
        let prefix = Prefix { known_prompt_tokens: 50, cached_tokens: 20, ..Prefix::default() };
        Status { requests, prefix, ..Status::default() }
    }

    fn client() -> Report {
        let counts = ClientCounts {
            sent: 5,
            ok: 5,
            prompt_tokens: 50,
            cached_tokens: 20,
            output_tokens: 10,
            ..ClientCounts::default()
        };
        Report { counts, errors: [].into(), rows: Vec::new(), gateway: None }
    }

    fn engines() -> EngineCounts {
        EngineCounts {
            done: Some(5),
            prompt_tokens: 50,
            cached_tokens: Some(20),
            output_tokens: 10,
            outstanding: 0,
        }
    }

    fn faults(client: &Report, gateway: &Status, engines: &EngineCounts) -> Vec<String> {
        let counts = Counts::new(Some(&client.counts), gateway, engines);
        let mut faults = Vec::new();
        judge(gateway, &counts, &[Some(client.clone())], &mut faults);
        faults
    }

    // A successful run has no faults.
    #[test]
    fn a_run_that_went_well_has_no_faults() {
        assert_eq!(faults(&client(), &gateway(), &engines()), Vec::<String>::new());
    }

    // Each possible problem is a separate fault, and names the part and the numbers.
    #[test]
    fn every_fault_is_named() {
        let has = |faults: Vec<String>, word: &str| {
            assert!(faults.iter().any(|fault| fault.contains(word)), "{word}: {faults:?}");
        };
        let engine = |change: fn(&mut EngineCounts)| {
            let mut engines = engines();
            change(&mut engines);
            faults(&client(), &gateway(), &engines)
        };
        has(engine(|e| e.done = Some(4)), "requests done");
        has(engine(|e| e.prompt_tokens += 1), "prompt tokens");
        has(engine(|e| e.cached_tokens = Some(19)), "cached tokens");
        has(engine(|e| e.output_tokens += 1), "output tokens");
        has(engine(|e| e.outstanding = 1), "requests in flight");

        let at_gateway = |change: fn(&mut Requests)| {
            let mut gateway = gateway();
            change(&mut gateway.requests);
            faults(&client(), &gateway, &engines())
        };
        let breaches = Residency { breaches: 1, ..Residency::default() };
        let breached = Status { residency: Some(breaches), ..gateway() };
        has(faults(&client(), &breached, &engines()), "places that a residency rule forbids");
        let mut broken = Vec::new();
        judge_broken(&breached, &[], &mut broken);
        has(broken, "places that a residency rule forbids");

        has(at_gateway(|r| r.accepted = 6), "requests accepted");
        has(at_gateway(|r| r.failed = 1), "failed");
        has(at_gateway(|r| r.rejected = 1), "rejected");
        has(at_gateway(|r| r.cancelled = 1), "cancelled");

        let mut lost = client();
        lost.errors.insert("error_event".into(), 2);
        has(faults(&lost, &gateway(), &engines()), "2 errors of kind error_event");
        let idle = Report { counts: ClientCounts::default(), ..client() };
        has(faults(&idle, &gateway(), &engines()), "got no answer");
    }
}
