//! Compares the client's counts with the gateway's own.
//!
//! Both gateway and client count every request once, by its outcome. Without clients that
//! disconnect the counts agree exactly. A client may disconnect before the gateway has seen the
//! request or after it has sent the last byte, so each such request widens the expected range by
//! one. Other traffic through the same gateway makes the two disagree.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::http::{Http, get_json, join};
use super::report::{Counts, Report};
use super::{ErrorKind, Options};

/// One line of the comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckRow {
    /// The counted quantity.
    pub name: String,
    /// The minimum that the client's counts allow.
    pub least: u64,
    /// The maximum that they allow.
    pub most: u64,
    /// The gateway's count, over this run.
    pub gateway: u64,
}

impl CheckRow {
    /// Whether the gateway's count is possible.
    #[must_use]
    pub fn agrees(&self) -> bool {
        (self.least..=self.most).contains(&self.gateway)
    }
}

/// The comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Line by line.
    pub rows: Vec<CheckRow>,
}

impl Check {
    /// Whether all lines agree.
    #[must_use]
    pub fn agrees(&self) -> bool {
        self.rows.iter().all(CheckRow::agrees)
    }
}

/// `requests` of the gateway's `/admin/status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Status {
    accepted: u64,
    done: u64,
    client_error: u64,
    rejected: u64,
    failed: u64,
    cancelled: u64,
    in_flight: u64,
}

/// Fetches the gateway's counts.
pub(super) async fn status(http: &Http, admin: &str) -> anyhow::Result<Status> {
    #[derive(Deserialize)]
    struct GatewayPage {
        requests: Status,
    }
    let uri = join(admin, "/admin/status")?;
    let page = get_json(http, uri, None, Duration::from_secs(5)).await?;
    Ok(serde_json::from_value::<GatewayPage>(page)?.requests)
}

/// Polls until nothing is in flight and the counts agree, up to a timeout.
pub(super) async fn check(
    http: &Http,
    options: &Options,
    before: Option<Status>,
    report: &Report,
) -> anyhow::Result<Option<Check>> {
    let (Some(admin), Some(before)) = (&options.check_gateway, before) else { return Ok(None) };
    let deadline = tokio::time::Instant::now() + options.settle;
    loop {
        let check = compare(&before, &status(http, admin).await?, report);
        if check.agrees() || tokio::time::Instant::now() >= deadline {
            return Ok(Some(check));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn compare(before: &Status, after: &Status, report: &Report) -> Check {
    let Counts { sent, ok, aborted, .. } = report.counts;
    let of = |kinds: &[ErrorKind]| kinds.iter().map(|k| report.errors_of(*k)).sum::<u64>();
    let connect = of(&[ErrorKind::Connect]);
    let hung_up = aborted + of(&[ErrorKind::Timeout, ErrorKind::Cancelled]);
    let done = ok + of(&[ErrorKind::BadJson]);
    let client_error = of(&[ErrorKind::Http4xx]);
    let bad = of(&[
        ErrorKind::Http429,
        ErrorKind::Http503,
        ErrorKind::Http5xx,
        ErrorKind::BrokenStream,
        ErrorKind::ErrorEvent,
    ]);
    let row = |name: &str, least: u64, most: u64, gateway: u64| CheckRow {
        name: name.to_owned(),
        least,
        most,
        gateway,
    };
    let delta = |f: fn(&Status) -> u64| f(after).saturating_sub(f(before));
    let reached = sent - connect;
    let rows = vec![
        row("accepted", reached - hung_up, reached, delta(|s| s.accepted)),
        row("done", done, done + hung_up, delta(|s| s.done)),
        row("client_error", client_error, client_error + hung_up, delta(|s| s.client_error)),
        row("rejected+failed", bad, bad + hung_up, delta(|s| s.rejected + s.failed)),
        row("cancelled", 0, hung_up, delta(|s| s.cancelled)),
        row("in_flight", 0, 0, after.in_flight),
    ];
    Check { rows }
}

#[cfg(test)]
mod tests;
