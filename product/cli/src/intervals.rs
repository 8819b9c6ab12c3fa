//! `meridian intervals`: when the replicas and the peers of a gateway were up and down. The same table
//! for a whole fleet is printed by `meridian replicas intervals` and `meridian gateways intervals`.

use std::io::Write;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::Context;
use meridian_protocol::intervals::{History, Intervals};

use crate::registry::table;

/// List when the replicas and peers of a gateway were up and down, and why
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    admin: crate::admin::Admin,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let body = args.admin.get("/admin/intervals")?;
    if args.json {
        writeln!(std::io::stdout(), "{body}")?;
        return Ok(());
    }
    let read: Intervals = serde_json::from_str(&body).context(
        "the answer has an unknown form; check that --admin is a gateway's admin address",
    )?;
    let all: Vec<&History> = read.replicas.iter().chain(&read.gateways).collect();
    print(&all, read.now_ms)?;
    Ok(())
}

/// Prints the intervals, oldest first under each name, at this date.
pub(crate) fn print(all: &[&History], now_ms: u64) -> std::io::Result<()> {
    let rows = all.iter().flat_map(|one| rows(one, now_ms)).collect();
    table::print(&["NAME", "STATE", "CAUSE", "BEGIN", "LENGTH"], rows)
}

fn rows(history: &History, now_ms: u64) -> Vec<Vec<String>> {
    let one = |interval: &meridian_protocol::intervals::Interval| {
        let begin = UNIX_EPOCH + Duration::from_millis(interval.begin_ms);
        let length = interval.end_ms.unwrap_or(now_ms).saturating_sub(interval.begin_ms);
        let lasts = if interval.end_ms.is_none() { " so far" } else { "" };
        vec![
            history.name.clone(),
            interval.state.clone(),
            interval.cause.clone(),
            humantime::format_rfc3339_millis(begin).to_string(),
            format!("{}{lasts}", length_of(length)),
        ]
    };
    history.intervals.iter().map(one).collect()
}

/// A length for people: in ms below ten seconds, else in seconds.
fn length_of(ms: u64) -> String {
    let length = if ms < 10_000 { ms } else { ms / 1000 * 1000 };
    humantime::format_duration(Duration::from_millis(length)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    // An interval that has ended and one that lasts.
    #[test]
    fn lengths() {
        let mut history = History::of("http://h:1");
        history.enter(1_700_000_000_250, "up", "answered");
        history.enter(1_700_000_072_000, "down", "refused");
        assert_eq!(
            rows(&history, 1_700_000_073_500),
            [
                ["http://h:1", "up", "answered", "2023-11-14T22:13:20.250Z", "1m 11s"],
                ["http://h:1", "down", "refused", "2023-11-14T22:14:32.000Z", "1s 500ms so far"],
            ]
        );
    }
}
