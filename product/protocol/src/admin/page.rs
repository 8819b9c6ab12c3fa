//! The state behind the page of a gateway: `GET /admin/page`, and the events of `/admin/page/stream`.

use serde::{Deserialize, Serialize};

use super::{Decided, Status};

/// A snapshot: the state now, and points of the last hour. The first event of a stream has all
/// points, a later one those that are new or not complete yet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot<S = PageState> {
    /// The state now.
    pub state: S,
    /// Oldest first. A point replaces an earlier one of the same `at_s`.
    pub points: Vec<Point>,
}

/// The state of a gateway for its page.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PageState {
    /// The gateway's version and commit.
    pub build: String,
    /// The time there, in seconds since 1970.
    pub now_s: f64,
    /// Length of a point's interval, s.
    pub step_s: u32,
    /// Whether the gateway and everything that it depends on work.
    pub health: Health,
    /// The figures of the last 10 to 20 s.
    pub recent: Point,
    /// What the decisions of the last hour saved.
    pub saved: Saved,
    /// The newest decisions, newest first.
    pub decisions: Vec<Decided>,
    /// The same as `GET /admin/status`.
    pub status: Status,
}

/// Whether a gateway and everything that it depends on work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// How it is.
    pub level: Level,
    /// Each problem, the worst first.
    pub problems: Vec<Problem>,
}

/// How a gateway is, from good to bad.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Everything works.
    #[default]
    Ok,
    /// Requests are served, and something is wrong.
    Degraded,
    /// No replica takes requests.
    Down,
}

/// One problem.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// How bad it is.
    pub level: Level,
    /// Its kind: `replica`, `peer`, `control`, `source`, `certificate`, `requests` or `residency`.
    pub kind: String,
    /// What is affected: a replica's or a peer's name.
    pub name: String,
    /// One sentence.
    pub text: String,
}

/// The figures of one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// When it starts, in seconds since 1970.
    pub at_s: u64,
    /// Its length so far, s.
    pub seconds: f32,
    /// Accepted requests a second.
    pub requests_per_s: f32,
    /// Failed and rejected requests a second.
    pub errors_per_s: f32,
    /// Median TTFT at the gateway, ms; none without a streamed answer.
    pub ttft_p50_ms: Option<f32>,
    /// Its 99th percentile, ms.
    pub ttft_p99_ms: Option<f32>,
    /// Cached share of the prompt tokens, as engines reported them, 0 to 1.
    pub hit_ratio: Option<f32>,
    /// Most requests queued at once in the gateway.
    pub held: u32,
    /// Output tokens a second, of answers that ended.
    pub tokens_per_s: f32,
    /// Mean share of KV in use over the replicas that take requests, 0 to 1.
    pub kv_used: Option<f32>,
}

/// The decisions of the last hour beside what two other policies would have decided at the same
/// moment, under the same rules: the best replica of the own region, and the mean over its eligible
/// replicas, which is what round robin gets on average.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Saved {
    /// Seconds that it covers.
    pub seconds: f64,
    /// Decisions, those to queue or to refuse a request included.
    pub decided: u64,
    /// Of those, compared. The others sent nothing, had no eligible replica in the own region, or there were more
    /// in a second than are compared.
    pub compared: u64,
    /// Of those, forwarded to another region.
    pub forwarded: u64,
    /// Mean predicted time to the first token at the picked replicas, ms.
    pub picked_ms: f64,
    /// The same at the best replica of the own region.
    pub region_local_ms: f64,
    /// The same for the mean of the own region's eligible replicas.
    pub round_robin_ms: f64,
    /// Prefill not computed that region-local would have computed, GPU seconds.
    pub region_local_gpu_s: f64,
    /// Prefill not computed that round robin would have computed, GPU seconds.
    pub round_robin_gpu_s: f64,
}

impl Health {
    /// The health that follows from these problems.
    #[must_use]
    pub fn of(mut problems: Vec<Problem>) -> Health {
        problems.sort_by_key(|problem| core::cmp::Reverse(problem.level));
        let level = problems.first().map(|problem| problem.level).unwrap_or_default();
        Health { level, problems }
    }
}
