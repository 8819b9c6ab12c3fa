//! The CSV of Azure's LLM inference traces (Azure/AzurePublicDataset): `TIMESTAMP` (UTC, 100 ns),
//! `ContextTokens`, `GeneratedTokens`. Times count from the first row. The format does not show
//! shared prefixes.

use std::time::{Duration, SystemTime};

use meridian_base::Time;

use super::{Fault, MAX_TOKENS, TraceRequest};

const COLUMNS: &str = "TIMESTAMP,ContextTokens,GeneratedTokens";

/// Reads rows; the first must be the header.
#[derive(Default)]
pub(crate) struct Azure {
    header: bool,
    start: Option<SystemTime>,
}

impl Azure {
    /// Parses a row; `None` for the header.
    pub(crate) fn line(&mut self, line: &str) -> Result<Option<TraceRequest>, Fault> {
        if !std::mem::replace(&mut self.header, true) {
            return match line == COLUMNS {
                true => Ok(None),
                false => {
                    Err(Fault::new("the first line", "not a header", format!("write {COLUMNS}")))
                }
            };
        }
        let [time, input, output] = columns(line)?;
        let input = tokens("ContextTokens", input, 1)?;
        let output = tokens("GeneratedTokens", output, 0)?;
        let time = instant(time)?;
        let start = *self.start.get_or_insert(time);
        let since = time.duration_since(start).map_err(|_| {
            let is = "before the first row's";
            Fault::new("TIMESTAMP", is, "sort the trace by time")
        })?;
        Ok(Some(TraceRequest::new(Time::ZERO + since, input, output)))
    }
}

/// Splits a row into its columns.
pub(crate) fn columns<const N: usize>(line: &str) -> Result<[&str; N], Fault> {
    let parts: Vec<&str> = line.splitn(N + 1, ',').collect();
    parts.try_into().map_err(|parts: Vec<&str>| {
        let is = format!("{} columns", parts.len());
        let fault = Fault::new("the line", is, format!("write {N} columns, split by commas"));
        if parts.len() < N { fault.unfinished() } else { fault }
    })
}

fn tokens(name: &str, text: &str, least: u32) -> Result<u32, Fault> {
    let tokens = text.parse().ok().filter(|tokens| (least..=MAX_TOKENS).contains(tokens));
    let remedy = format!("give whole tokens from {least} to {MAX_TOKENS}");
    tokens.ok_or_else(|| shown(name, text, &remedy))
}

/// A fault that shows the value if it is a number.
pub(crate) fn shown(name: &str, text: &str, remedy: &str) -> Fault {
    match text.parse::<f64>() {
        _ if text.is_empty() => Fault::new(name, "empty", remedy).unfinished(),
        Ok(_) => Fault::new(name, text.chars().take(40).collect::<String>(), remedy),
        Err(_) => Fault::new(name, "not a number", remedy),
    }
}

/// `2023-11-16 18:15:46.6805900`, or the same with an explicit `+00:00` or `Z`.
fn instant(text: &str) -> Result<SystemTime, Fault> {
    let parsed = humantime::parse_rfc3339_weak(text.strip_suffix("+00:00").unwrap_or(text)).ok();
    // Traces have no times a century before 1970, so all times fit 64 bits of nanoseconds.
    let era = Duration::from_secs(500 * 366 * 86_400);
    let sane =
        |time: &SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).is_ok_and(|d| d < era);
    parsed.filter(sane).ok_or_else(|| {
        let remedy = "give UTC as YYYY-MM-DD HH:MM:SS.fraction, from 1970 on";
        Fault::new("TIMESTAMP", "not a time", remedy)
    })
}
