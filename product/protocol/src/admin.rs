//! The admin API of a gateway: requests and responses of `/admin/*`.

mod add;
mod counts;
mod decision;
mod engine;
mod guard;
mod legs;
mod page;
mod peer;
mod pools;
mod problems;
mod query;
mod source;
mod times;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use crate::intervals::Standing;
pub use crate::signals::Transfers;
pub use add::AddReplica;
pub use counts::{Prefix, Quantiles, Requests, SessionCounts};
pub use decision::{
    Candidate, Decided, Ending, Explanation, PeerCandidate, ShadowPick, SiblingShare,
};
pub use engine::{EngineName, UnknownEngine};
pub use guard::{Barred, Guard, check_json};
pub use legs::{CutPair, Links, Pair, Pool};
pub use meridian_base::Role;
pub use page::{Health, Level, PageState, Point, Problem, Saved, Snapshot};
pub use peer::{Peer, Sibling};
pub use pools::{RoleName, TransferName, UnknownName};
pub use problems::{bootstrap, from_problems, pool_problems};
pub use query::{BadQuery, Query};
pub use source::{EndpointCounts, Source};
pub use times::{RequestTimes, SpanTimes, Times};

/// `GET /admin/status`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The program's version.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// The commit that it was built from.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub commit: String,
    /// The region's name.
    pub region: String,
    /// The policy in force.
    pub policy: String,
    /// The admission mode in force.
    pub admission: String,
    /// Seconds since the gateway started.
    pub uptime_s: f64,
    /// Keys of the gateway's file that have changed and need a restart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restart_needed: Vec<String>,
    /// Parts whose newest reload failed, or has not ended, with the reason; their former version is in use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reload_problems: Vec<String>,
    /// How requests ended.
    pub requests: Requests,
    /// Requests queued in the gateway now.
    pub held: u32,
    /// Of these, those of each model, also of one without a replica.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub held_by_model: BTreeMap<String, u32>,
    /// Clients' sessions that were served within minutes.
    #[serde(default)]
    pub sessions: SessionCounts,
    /// TTFT at the gateway: from a request's first byte in to its answer's first token.
    pub ttft_ms: Quantiles,
    /// Prefix matches, predicted and as the engines reported them.
    pub prefix: Prefix,
    /// The shadow policy, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shadow: Option<Shadow>,
    /// The replicas, by id.
    pub replicas: Vec<Replica>,
    /// The replicas together, by their first model and their role.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<Pool>,
    /// How fast KV moves between prefill and decode replicas, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub links: Option<Links>,
    /// What to change about the pools, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advice: Vec<String>,
    /// Sources of replicas (service discovery).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub discovery: Vec<Source>,
    /// The peers that this gateway follows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<Peer>,
    /// Outcomes of requests that residency rules name, if there are rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub residency: Option<Residency>,
    /// The control plane, where one is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<Control>,
    /// The certificates of its ports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub certificates: Vec<Certificate>,
    /// The issuers whose tokens clients may send.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub issuers: Vec<Issuer>,
}

/// An issuer of tokens, as the gateway sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Issuer {
    /// Its URL.
    pub issuer: String,
    /// Its keys in force. With 0, its tokens are refused for now.
    pub keys: usize,
    /// Seconds since they were last fetched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub good_s: Option<f64>,
    /// Failed fetches.
    pub failures: u64,
    /// Why the newest fetch failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// The certificate in force at a port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Certificate {
    /// The port: `clients`, `admin` or `peers`.
    pub port: String,
    /// When it expires, in seconds since 1970.
    pub expires: u64,
}

/// `POST /admin/replicas`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Added {
    /// The replica.
    #[serde(flatten)]
    pub replica: Replica,
    /// How long it stays registered.
    pub kept: String,
}

/// Outcomes of requests that residency rules name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Residency {
    /// By rule; `others` are rules that only other gateways know.
    pub rules: Vec<RuleCounts>,
    /// Answers given by a replica that a rule does not permit. Anything but 0 is a bug.
    pub breaches: u64,
}

/// Outcomes of the requests that one rule names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleCounts {
    /// Its name.
    pub rule: String,
    /// Answered by a replica of this gateway.
    pub served: u64,
    /// Answered by a peer.
    pub sent: u64,
    /// Refused, since no permitted replica could serve it.
    pub refused: u64,
}

/// The decisions of the shadow policy beside those that were made, since it or the policy changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Shadow {
    /// Its policy.
    pub policy: String,
    /// Its admission mode.
    pub admission: String,
    /// Its decisions by what they would have changed: `same`, `other_replica`, `would_send`,
    /// `would_wait`, `would_forward`, `would_keep` and `other_peer`.
    pub decisions: BTreeMap<String, u64>,
    /// Of those, the ones in which both sent the request to replicas here. What follows is of these.
    pub compared: u64,
    /// Of those, the same.
    pub compared_same: u64,
    /// Prompt tokens.
    pub prompt_tokens: u64,
    /// Of those, expected in the cache where the prompt was sent.
    pub matched_tokens: u64,
    /// Of those, expected in the cache at the shadow's pick.
    pub shadow_matched_tokens: u64,
    /// The predicted times to the first token where requests were sent, together.
    pub first_token_ms: f64,
    /// The same at the shadow's picks.
    pub shadow_first_token_ms: f64,
    /// Why it does not decide, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<String>,
}

/// One replica.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Replica {
    /// Its id in this gateway. Another replica may get it after this one has left.
    pub id: u16,
    /// Its name in headers, metrics and logs. Names are never reused: `r` and the id, followed by a
    /// number from the second replica with that id on, as in `r0.2`.
    #[serde(default)]
    pub name: String,
    /// Its base address.
    pub url: String,
    /// The region of the replica.
    #[serde(default)]
    pub region: String,
    /// The problem with its model list or its newest probe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// The engine, as configured or detected.
    pub engine: String,
    /// `unproven`, `up`, `down` or `draining`.
    pub state: String,
    /// Since when and why, with its downtime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing: Option<Standing>,
    /// Its part of a request: `both`, `prefill` or `decode`.
    #[serde(default)]
    pub role: String,
    /// How it hands over KV; none if it takes whole requests only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer: Option<String>,
    /// The version of its engine, if its role depends on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The revision of its pod, if its source reads that. Replicas pair within a revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// The models it serves.
    pub models: Vec<String>,
    /// Reported pending requests plus dispatches since that report.
    pub pending: u32,
    /// In the batch, as counted here.
    pub running: u32,
    /// Dispatched here and not ended.
    pub outstanding: u32,
    /// The same of the region's other gateways, as far as they told.
    #[serde(default)]
    pub of_siblings: u32,
    /// Reported share of KV in use.
    pub kv_used: f32,
    /// Attempts sent, done, failed, refused as full.
    pub dispatched: u64,
    /// Attempts that succeeded.
    pub done: u64,
    /// Attempts that failed because of the replica.
    pub failed: u64,
    /// Attempts it refused as full.
    pub full: u64,
    /// Prompt tokens of answers for which it reported cached tokens.
    pub prompt_tokens: u64,
    /// Of those, cached.
    pub cached_tokens: u64,
    /// `closed`, `open` or `half_open`.
    pub breaker: String,
    /// Requests that the engine reports beyond ours: those of other gateways (positive) or lost ones (negative).
    pub drift: i32,
    /// Learned prefill time, ms a token.
    pub ms_per_token: f32,
    /// Weight of the inferred prefix matches, 0 to 1.
    pub trust: f32,
    /// Prompt tokens that it has to compute before a new request's.
    #[serde(default)]
    pub front_tokens: f32,
    /// Smoothed utilisation, 0 to 1: the larger of its share of KV in use and its share of time in prefill.
    #[serde(default)]
    pub utilisation: f32,
    /// Tokens of KV prefilled here that the decode replicas have not fetched.
    #[serde(default)]
    pub held_tokens: f32,
    /// Tokens of KV under way to or from here.
    #[serde(default)]
    pub moving_tokens: f32,
    /// Prompts whose KV came here from a prefill replica.
    #[serde(default)]
    pub fetched: u64,
    /// Tokens of that KV, estimated.
    #[serde(default)]
    pub fetched_tokens: u64,
    /// What its engine reports about the transfers of KV.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfers: Option<Transfers>,
}

/// The control plane as a gateway sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Control {
    /// URL of the one in use.
    pub url: String,
    /// The other ones of the configuration, in its order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<OtherControl>,
    /// How often the gateway moved from one to the next.
    #[serde(default)]
    pub moves: u64,
    /// This gateway's name in the fleet.
    pub name: String,
    /// One of:
    /// - `up`;
    /// - `lost`: the gateway uses the last view it received;
    /// - `kept`: the gateway uses the view from its file, since the control plane has not answered
    ///   yet;
    /// - `unseen`: no view yet.
    pub state: String,
    /// Seconds since the control plane last confirmed the view; none before the first view.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view_age_s: Option<f64>,
    /// Seconds since it was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_s: Option<f64>,
    /// Times it was lost.
    pub losses: u64,
    /// The revision of the view.
    pub revision: u64,
    /// Whether the gateway holds a lease there, as far as it knows.
    pub leased: bool,
    /// The gateways that are alive, according to the view.
    pub gateways: Vec<String>,
    /// Regions whose replicas this gateway serves because none of their own gateways is alive.
    pub adopted: Vec<String>,
    /// Number of adopted replicas.
    pub adopted_replicas: usize,
    /// Number of this gateway's replicas left out because it has `limits.replicas` already.
    #[serde(default)]
    pub left_out: usize,
    /// Why it is lost, or which parts of the view can't be applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

/// A control plane that a gateway does not use now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OtherControl {
    /// Its URL.
    pub url: String,
    /// Why the last request to it failed; none if no request has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Seconds since that request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_s: Option<f64>,
}

/// Forwarded requests. Each attempt is in exactly one of the other counters. Unless a link was cut,
/// both gateways count the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forwards {
    /// Attempts.
    pub begun: u64,
    /// Answered whole.
    pub done: u64,
    /// Refused by the peer's engine as the client's mistake.
    pub client_error: u64,
    /// Refused by the peer: full, or not served there.
    pub refused: u64,
    /// Lost: the peer, the connection to it, or its last replica failed.
    pub failed: u64,
    /// Ended by the client.
    pub cancelled: u64,
    /// Not ended yet.
    pub in_flight: u64,
    /// Bytes of request bodies.
    pub request_bytes: u64,
    /// Bytes of answer bodies, without refusals.
    pub answer_bytes: u64,
}
