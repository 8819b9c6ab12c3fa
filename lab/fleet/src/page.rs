//! The output of `up`: the live table, the plain line for logs, and the summary.
//!
//! Everything is text made from values; drawing in place takes three control codes.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::time::Duration;

use comfy_table::Table;
use meridian_protocol::admin::{Peer, Status};

use crate::legs::LegCounts;
pub(crate) use crate::table::table;
use crate::{Counts, Live, Report};

/// The state of a region at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    /// Its name.
    pub(crate) name: String,
    /// Its gateway's status; none while that is dead.
    pub(crate) status: Option<Status>,
    /// Its clients' running counts.
    pub(crate) live: Option<Live>,
    /// The names of dead processes.
    pub(crate) dead: Vec<String>,
}

/// The output that the page is drawn on.
#[derive(Debug)]
pub(crate) struct Screen {
    terminal: bool,
    /// Lines of the last page.
    drawn: usize,
    /// When the last plain line was written.
    last: Option<Duration>,
}

/// A tick may come this much early because of clock rounding.
const LATE: Duration = Duration::from_millis(100);
/// Interval between two lines in a log.
const PLAIN_EVERY: Duration = Duration::from_secs(2);

impl Screen {
    pub(crate) fn new() -> Screen {
        Screen { terminal: std::io::stdout().is_terminal(), drawn: 0, last: None }
    }

    /// Shows the state: in place of the last one on a terminal, otherwise a line at intervals.
    pub(crate) fn show(&mut self, elapsed: Duration, seen: &[Seen]) {
        let mut out = std::io::stdout().lock();
        // The reader of the output may be gone; the run continues.
        let _ = if self.terminal {
            let page = page(elapsed, seen);
            let up = std::mem::replace(&mut self.drawn, page.lines().count());
            // Up to the first line of the last page, then erase everything below.
            let back = if up > 0 { format!("\x1b[{up}F\x1b[J") } else { String::new() };
            // Long lines are cut and not wrapped, or the next page would not find the start of this
            // one.
            write!(out, "{back}\x1b[?7l{page}\x1b[?7h").and_then(|()| out.flush())
        } else if self.last.is_none_or(|last| elapsed >= last + PLAIN_EVERY - LATE) {
            self.last = Some(elapsed);
            for seen in seen {
                let _ = writeln!(out, "{:>4.0}s  {}", elapsed.as_secs_f64(), of_region(seen));
            }
            Ok(())
        } else {
            Ok(())
        };
    }
}

/// A region's state in one line, with its name if there are several.
fn of_region(seen: &Seen) -> String {
    let name = if seen.name.is_empty() { String::new() } else { format!("{:5}", seen.name) };
    let state = match &seen.status {
        Some(status) => format!("{}{}", line(status, seen.live.as_ref()), forwards(status)),
        None => "no gateway".to_owned(),
    };
    let dead = if seen.dead.is_empty() { String::new() } else { "   dead: ".to_owned() };
    format!("{name}{state}{dead}{}", seen.dead.join(" "))
}

/// Forwards to and from peers, if there are any.
fn forwards(status: &Status) -> String {
    if status.peers.is_empty() {
        return String::new();
    }
    let (sent, taken) = sent_and_taken(status);
    format!("   forwarded {sent}, accepted {taken}")
}

fn sent_and_taken(status: &Status) -> (u64, u64) {
    let sum = |of: fn(&Peer) -> u64| status.peers.iter().map(of).sum();
    (sum(|peer| peer.sent.begun), sum(|peer| peer.taken.begun))
}

/// The whole state in one line.
fn line(status: &Status, live: Option<&Live>) -> String {
    let r = &status.requests;
    let unsuccessful = r.client_error + r.rejected + r.failed + r.cancelled;
    let (p50, p99) = ttft(status, live);
    let pending: u32 = status.replicas.iter().map(|replica| replica.pending).sum();
    format!(
        "requests {} done, {} in flight, {unsuccessful} unsuccessful   TTFT p50 {p50} p99 {p99}   \
         prefix hit ratio {}   pending {pending}   queued {}",
        r.done,
        r.in_flight,
        percent(status.prefix.cached_tokens, status.prefix.known_prompt_tokens),
        status.held,
    )
}

/// The whole state as a table of each region's replicas.
fn page(elapsed: Duration, seen: &[Seen]) -> String {
    let mut page = format!("\n{:>5.0} s\n", elapsed.as_secs_f64());
    for seen in seen {
        let rate = seen
            .live
            .as_ref()
            .map_or(String::new(), |live| format!("   {:.1} requests/s", live.rps));
        let _ = writeln!(page, "\n{}{rate}\n", of_region(seen));
        if let Some(status) = &seen.status {
            let _ = writeln!(page, "{}", replicas(status));
        }
    }
    page
}

fn replicas(status: &Status) -> Table {
    let mut table = table(&[
        "replica",
        "state",
        "done",
        "running",
        "pending",
        "KV used",
        "hit ratio",
        "ms/token",
        "failed",
    ]);
    for replica in &status.replicas {
        table.add_row([
            replica.url.trim_start_matches("http://").to_owned(),
            if replica.breaker == "closed" {
                replica.state.clone()
            } else {
                format!("{}, breaker {}", replica.state, replica.breaker)
            },
            replica.done.to_string(),
            replica.running.to_string(),
            replica.pending.to_string(),
            format!("{:.0} %", replica.kv_used * 100.0),
            percent(replica.cached_tokens, replica.prompt_tokens),
            format!("{:.3}", replica.ms_per_token),
            replica.failed.to_string(),
        ]);
    }
    table
}

/// Requests, forwards and losses by region.
pub(crate) fn regions(seen: &[Seen], reports: &[Option<Report>]) -> Table {
    let mut table = table(&["", "sent", "answered", "lost", "moved", "forwarded", "accepted"]);
    for (seen, report) in seen.iter().zip(reports) {
        let counts = report.as_ref().map(|report| report.counts).unwrap_or_default();
        let (sent_on, taken) = seen.status.as_ref().map(sent_and_taken).unwrap_or_default();
        table.add_row([
            seen.name.clone(),
            counts.sent.to_string(),
            counts.ok.to_string(),
            (counts.sent - counts.ok - counts.aborted).to_string(),
            counts.moved.to_string(),
            sent_on.to_string(),
            taken.to_string(),
        ]);
    }
    table
}

/// The three counts as a table.
pub(crate) fn counts(counts: &Counts) -> String {
    let mut table = table(&["", "client", "gateway", "engines", ""]);
    let number = |n: Option<u64>| n.map_or_else(|| "-".to_owned(), |n| n.to_string());
    for row in &counts.rows {
        table.add_row([
            row.name.to_owned(),
            number(row.client),
            number(row.gateway),
            number(row.engines),
            if row.agrees() { "agree".to_owned() } else { "DIFFER".to_owned() },
        ]);
    }
    table.to_string()
}

/// The counts of requests with two legs as a table; not `judged` if processes were killed, which
/// took their counts with them.
pub(crate) fn legs(legs: &LegCounts, scale: f64, judged: bool) -> String {
    let mut table = table(&["", "gateways", "prefill", "decode", ""]);
    let number = |n: Option<u64>| n.map_or_else(|| "-".to_owned(), |n| n.to_string());
    for row in legs.rows(scale) {
        let verdict = match (judged, row.agrees()) {
            (false, _) => "",
            (true, true) => "agree",
            (true, false) => "DIFFER",
        };
        table.add_row([
            row.name.to_owned(),
            number(row.gateways),
            number(row.prefill),
            number(row.decode),
            verdict.to_owned(),
        ]);
    }
    let LegCounts { fallbacks, expired, late, failed, mismatches, held, .. } = legs;
    format!(
        "{table}\nfallbacks {fallbacks}   leases expired {expired}, released late {late}   transfers \
         failed {failed}, with wrong KV {mismatches}   KV held {:.2} %",
        held * 100.0
    )
}

/// The share of split requests among those that the region with pools answered; nothing for a
/// region without a gateway.
pub(crate) fn split(legs: &LegCounts, region: &str, seen: &[Seen]) -> Option<String> {
    let here = seen.iter().find(|seen| seen.name == region);
    let status = here.and_then(|seen| seen.status.as_ref())?;
    // A forward whose client has left is done at the peer and cancelled here.
    let forwarded: u64 = status.peers.iter().map(|peer| peer.sent.done).sum();
    let answered = status.requests.done.saturating_sub(forwarded);
    Some(format!(
        "{region}: {} of {answered} answers with a prefill leg ({})",
        legs.transferred,
        percent(legs.transferred, answered)
    ))
}

/// Measured at the client if there is one, at the gateway otherwise.
fn ttft(status: &Status, live: Option<&Live>) -> (String, String) {
    match live {
        Some(live) => (ms(live.ttft_ms.p50), ms(live.ttft_ms.p99)),
        None => {
            let known = |value| (status.ttft_ms.count > 0).then_some(value);
            (ms(known(status.ttft_ms.p50)), ms(known(status.ttft_ms.p99)))
        }
    }
}

pub(crate) fn ms(value: Option<f64>) -> String {
    value.map_or_else(|| "-".into(), |value| format!("{value:.0} ms"))
}

pub(crate) fn tenths(value: Option<f64>) -> String {
    value.map_or_else(|| "-".into(), |value| format!("{value:.1} ms"))
}

pub(crate) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".into();
    }
    format!("{:.1} %", part as f64 / whole as f64 * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use meridian_protocol::admin::{Prefix, Replica, Requests};

    // A line and a table show the values of the status, and a dash for unknown ones.
    #[test]
    fn a_status_is_shown_whole() {
        let replica = Replica {
            url: "http://127.0.0.1:9001".into(),
            state: "up".into(),
            breaker: "closed".into(),
            done: 7,
            pending: 2,
            ..Replica::default()
        };
        let status = Status {
            requests: Requests { done: 7, failed: 1, in_flight: 3, ..Requests::default() },
            prefix: Prefix { known_prompt_tokens: 200, cached_tokens: 50, ..Prefix::default() },
            held: 4,
            replicas: vec![replica],
            ..Status::default()
        };
        assert_eq!(
            line(&status, None),
            "requests 7 done, 3 in flight, 1 unsuccessful   TTFT p50 - p99 -   \
             prefix hit ratio 25.0 %   pending 2   queued 4"
        );
        let seen = Seen { status: Some(status), ..Seen::default() };
        assert!(page(Duration::from_secs(3), &[seen]).contains("127.0.0.1:9001"));
    }
}
