//! Times of finished requests in the admin API, for `meridian explain --perfetto`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// `GET /admin/times`, and `GET /admin/times/ID`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// The gateway's region.
    pub region: String,
    /// The newest finished requests, oldest first.
    pub requests: Vec<RequestTimes>,
}

/// One finished request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RequestTimes {
    /// The request, as in `x-request-id`; none if it was refused before it had one.
    pub id: Option<String>,
    /// When it arrived, in microseconds since 1970.
    pub at_us: u64,
    /// The request itself, then its parts, each after its parent.
    pub spans: Vec<SpanTimes>,
}

/// A part of a request. It lies within its parent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SpanTimes {
    /// Its name, as in a trace.
    pub name: String,
    /// The index of its parent among the request's spans; none for the request itself.
    pub parent: Option<usize>,
    /// Whether it is an attempt, or a leg of one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_call: bool,
    /// The replica or the peer that works in it; none for the gateway itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// Its beginning, in microseconds since the request arrived.
    pub from_us: f64,
    /// Its end, likewise.
    pub to_us: f64,
    /// What kind of failure it ended with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Its attributes, as in a trace.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub attributes: Map<String, Value>,
}
