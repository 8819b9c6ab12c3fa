//! The ORCA load report in a response header: a replica's load without a probe.
//!
//! Requested with the header `endpoint-load-metrics-format: TEXT` or `JSON`, answered in
//! `endpoint-load-metrics`:
//!
//! ```text
//! TEXT named_metrics.num_requests_waiting=1.0, named_metrics.kv_cache_usage_perc=0.25
//! JSON {"named_metrics": {"num_requests_waiting": 1.0, "kv_cache_usage_perc": 0.25}}
//! ```
//!
//! Forms: vllm-project/vllm pull request 24905, `entrypoints/serve/utils/orca_metrics.py` of
//! 0.32.0, and headers recorded from it; Triton (triton-inference-server/server pull request 7839)
//! names `kv_cache_utilization` and `max_token_capacity`. Other fields of a report are ignored. A
//! data-parallel vLLM repeats each name in TEXT, where they are summed or averaged as on the
//! metrics page, and keeps only the last in JSON: ask for TEXT. The report dates from when the
//! answer's headers were made, and it contains pending requests but not running ones.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::load::Tally;
use super::{Load, SignalError};

/// The request header that asks for the report; its value is `TEXT` or `JSON`.
pub const ORCA_REQUEST_HEADER: &str = "endpoint-load-metrics-format";
/// The response header that carries the report.
pub const ORCA_RESPONSE_HEADER: &str = "endpoint-load-metrics";

/// Reads the value of [`ORCA_RESPONSE_HEADER`].
pub fn orca(header: &[u8]) -> Result<Load, SignalError> {
    let header = header.trim_ascii();
    let blank = header.iter().position(u8::is_ascii_whitespace).unwrap_or(header.len());
    let (form, body) = header.split_at(blank);
    if form.eq_ignore_ascii_case(b"TEXT") {
        text(body)
    } else if form.eq_ignore_ascii_case(b"JSON") {
        json(body)
    } else {
        Err(SignalError::Orca { found: "neither TEXT nor JSON" })
    }
}

fn text(body: &[u8]) -> Result<Load, SignalError> {
    let mut seen = OrcaReport::default();
    for pair in body.split(|byte| *byte == b',') {
        let mut halves = pair.splitn(2, |byte| *byte == b'=');
        let (Some(name), Some(value)) = (halves.next(), halves.next()) else {
            continue;
        };
        let name = name.trim_ascii();
        let name = name.strip_prefix(b"named_metrics.").unwrap_or(name);
        seen.take(name, value.trim_ascii())?;
    }
    seen.load()
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    named_metrics: Option<Named<'a>>,
}

#[derive(Deserialize)]
struct Named<'a> {
    #[serde(borrow)]
    kv_cache_usage_perc: Option<&'a RawValue>,
    #[serde(borrow)]
    kv_cache_utilization: Option<&'a RawValue>,
    #[serde(borrow)]
    num_requests_waiting: Option<&'a RawValue>,
    #[serde(borrow)]
    max_token_capacity: Option<&'a RawValue>,
}

fn json(body: &[u8]) -> Result<Load, SignalError> {
    let body: Body<'_> = serde_json::from_slice(body)
        .map_err(|_| SignalError::Orca { found: "JSON that does not parse" })?;
    let mut seen = OrcaReport::default();
    if let Some(named) = body.named_metrics {
        let fields: [(&[u8], _); 4] = [
            (b"kv_cache_usage_perc", named.kv_cache_usage_perc),
            (b"kv_cache_utilization", named.kv_cache_utilization),
            (b"num_requests_waiting", named.num_requests_waiting),
            (b"max_token_capacity", named.max_token_capacity),
        ];
        for (name, value) in fields {
            if let Some(value) = value {
                seen.take(name, value.get().as_bytes())?;
            }
        }
    }
    seen.load()
}

#[derive(Default)]
struct OrcaReport {
    pending: Tally,
    kv: Tally,
    kv_tokens: Tally,
}

impl OrcaReport {
    fn take(&mut self, name: &[u8], value: &[u8]) -> Result<(), SignalError> {
        let (tally, name) = match name {
            b"num_requests_waiting" => (&mut self.pending, "num_requests_waiting"),
            b"kv_cache_usage_perc" => (&mut self.kv, "kv_cache_usage_perc"),
            b"kv_cache_utilization" => (&mut self.kv, "kv_cache_utilization"),
            b"max_token_capacity" => (&mut self.kv_tokens, "max_token_capacity"),
            _ => return Ok(()),
        };
        tally.add(super::page::value(name, value)?);
        Ok(())
    }

    fn load(self) -> Result<Load, SignalError> {
        let load = Load {
            pending: self.pending.count(),
            kv_used: self.kv.share(),
            kv_tokens: self.kv_tokens.sum(),
            ..Load::default()
        };
        if load == Load::default() {
            return Err(SignalError::Orca {
                found: "without num_requests_waiting and kv_cache_usage_perc",
            });
        }
        Ok(load)
    }
}
