//! The load of a fleet: `meridian bench` as a process, and its reports.
//!
//! Only the fields that a fleet uses are read; the report's format belongs to the load generator.

use std::collections::BTreeMap;
use std::ops::Add;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Error, Fleet, Process, Result};

/// Settings of a load.
#[derive(Debug, Clone)]
pub struct LoadSpec {
    /// The target URL: `http://127.0.0.1:PORT`.
    pub url: String,
    /// How long it sends requests; SIGTERM ends it earlier.
    pub duration: Duration,
    /// Further arguments of `meridian bench`.
    pub args: Vec<String>,
}

/// A running load.
#[derive(Debug)]
pub struct Load {
    /// The process.
    pub process: Process,
    /// Path of its report.
    report: PathBuf,
}

/// The latest of its running counts.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct Live {
    /// Requests started.
    pub sent: u64,
    /// Complete answers.
    pub ok: u64,
    /// Failed requests.
    pub errors: u64,
    /// Requests in flight.
    pub in_flight: u64,
    /// Complete answers a second since the last line.
    pub rps: f64,
    /// TTFT over the whole run so far.
    pub ttft_ms: LiveQuantiles,
    /// TTFT since the last line.
    pub recent_ttft_ms: LiveQuantiles,
}

/// Quantiles of a running load; none before anything was measured.
#[derive(Debug, Clone, Copy, Default, Deserialize, Serialize)]
pub struct LiveQuantiles {
    /// Median.
    pub p50: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
}

/// The final report of a load.
#[derive(Debug, Clone, Deserialize)]
pub struct Report {
    /// Counts over the whole run.
    pub counts: ClientCounts,
    /// Errors by kind.
    pub errors: BTreeMap<String, u64>,
    /// Measurements.
    pub rows: Vec<ReportRow>,
    /// The comparison with the gateway's counts, if requested.
    pub gateway: Option<serde_json::Value>,
}

/// The client's counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct ClientCounts {
    /// Requests started.
    pub sent: u64,
    /// Complete answers.
    pub ok: u64,
    /// Requests whose client disconnected on purpose.
    pub aborted: u64,
    /// All others.
    pub errors: u64,
    /// Of those, without any piece of an answer.
    #[serde(default)]
    pub bare: u64,
    /// Attempts without any byte of an answer, after which the request was retried elsewhere.
    #[serde(default)]
    pub moved: u64,
    /// Tokens of the replies, by the engines' usage.
    pub output_tokens: u64,
    /// Tokens of the prompts, by the engines' usage.
    pub prompt_tokens: u64,
    /// Cached ones among them.
    pub cached_tokens: u64,
}

impl Add for ClientCounts {
    type Output = ClientCounts;

    fn add(self, other: ClientCounts) -> ClientCounts {
        ClientCounts {
            sent: self.sent + other.sent,
            ok: self.ok + other.ok,
            aborted: self.aborted + other.aborted,
            errors: self.errors + other.errors,
            bare: self.bare + other.bare,
            moved: self.moved + other.moved,
            output_tokens: self.output_tokens + other.output_tokens,
            prompt_tokens: self.prompt_tokens + other.prompt_tokens,
            cached_tokens: self.cached_tokens + other.cached_tokens,
        }
    }
}

/// The single row of a load's measurements.
#[derive(Debug, Clone, Deserialize)]
pub struct ReportRow {
    /// Complete answers a second.
    pub throughput_rps: Option<f64>,
    /// TTFT at the client.
    pub ttft_ms: Option<ReportQuantiles>,
    /// Time of each further token.
    pub tpot_ms: Option<ReportQuantiles>,
    /// From the first byte sent to the last received.
    pub e2e_ms: Option<ReportQuantiles>,
    /// Cached share of the prompt tokens, as reported by the engines.
    pub prefix_hit_ratio: Option<f64>,
    /// Requests without an end.
    pub lost: Option<u64>,
}

/// Quantiles of a measurement in milliseconds.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct ReportQuantiles {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
}

impl Fleet {
    /// Starts a load. It prints no line when it is ready, which it is at once.
    pub async fn load(&self, name: &str, spec: &LoadSpec) -> Result<Load> {
        let report = self.dir().join(format!("{name}.json"));
        let mut args: Vec<String> =
            ["bench", "--live-json", "--url", &spec.url].map(str::to_owned).into();
        args.extend(["--for".into(), format!("{}ms", spec.duration.as_millis())]);
        args.extend(["--json".into(), report.display().to_string()]);
        args.extend(spec.args.iter().cloned());
        let process = self.meridian(name, args, &[]).await?;
        Ok(Load { process, report })
    }
}

impl Load {
    /// The latest running counts; none before the first.
    pub fn live(&self) -> Option<Live> {
        serde_json::from_str(&self.process.line().borrow()).ok()
    }

    /// Waits for its own end and reads its report.
    pub async fn report(&mut self, limit: Duration) -> Result<Report> {
        let status = self.process.wait(limit).await?;
        // It fails if nothing was answered or counts disagree, but it has still written its report.
        read(&self.report).map_err(|error| match error {
            Error::File { .. } => Error::EndedEarly {
                name: self.process.name().to_owned(),
                status,
                awaited: "a report".into(),
                log: self.process.log_tail(),
            },
            other => other,
        })
    }
}

fn read(path: &Path) -> Result<Report> {
    let text = std::fs::read(path).map_err(Error::file("reading", path))?;
    serde_json::from_slice(&text).map_err(|source| Error::Answer {
        url: path.display().to_string(),
        what: format!("unexpected report: {source}"),
    })
}
