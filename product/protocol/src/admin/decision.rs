//! Decisions in the admin API: what was picked among which candidates, and how it ended.

use serde::{Deserialize, Serialize};

use super::Pair;

/// `GET /admin/explain/ID`, and a dry run's answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// The request, as in `x-request-id`.
    pub id: String,
    /// The gateway's own id of the request, as in its log.
    #[serde(default)]
    pub logged_as: String,
    /// The policy that decided.
    pub policy: String,
    /// Which attempt this was.
    pub attempt: u32,
    /// This attempt resumes an answer that broke off.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub resumed: bool,
    /// The picked replica's address, or the peer as `region/name`; none when queued or refused.
    pub picked: Option<String>,
    /// The address of the replica that computes the prompt, if it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefill: Option<String>,
    /// With a prefill replica: the price of the two against one alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pair: Option<Pair>,
    /// Why it was picked, or why nothing was picked.
    pub reason: String,
    /// Predicted time from the decision to the first token, if something was picked; for a forward, at
    /// the peer's best replica.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted_first_token_ms: Option<f64>,
    /// What the shadow policy would have done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shadow: Option<ShadowPick>,
    /// How it ended.
    #[serde(flatten)]
    pub ending: Ending,
    /// The earlier decisions about the request that are still kept, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<Decided>,
    /// The residency rules that name the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<String>,
    /// Every candidate, as of this decision.
    pub candidates: Vec<Candidate>,
    /// Every peer, as of this decision.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<PeerCandidate>,
}

/// How a decision ended. All times are from the decision on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ending {
    /// How its attempt ended: `done`, `client_error`, `engine_error`, `replica_error`, `died`,
    /// `unreached`, `full`, `no_room`, `not_served` or `no_kv`. Without an attempt: `released` from
    /// the queue, `refused` or `cancelled`. None while the request is queued or in progress, and for
    /// a dry run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// The error code of a refused request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    /// The outcome is that of the prefill leg.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_prefill: bool,
    /// The attempt failed, and the gateway decided about the request again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retried: bool,
    /// Time to the first token of an answer that streams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_token_ms: Option<f64>,
    /// Time to the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_ms: Option<f64>,
}

/// What the shadow policy would have done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ShadowPick {
    /// Its policy.
    pub policy: String,
    /// Beside what was done: `same`, `other_replica`, `would_send`, `would_wait`, `would_forward`,
    /// `would_keep` or `other_peer`.
    pub would: String,
    /// The replica's address, or the peer as `region/name`; none if it would queue the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub picked: Option<String>,
    /// The address of the replica that would compute the prompt, if it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefill: Option<String>,
    /// Its reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Prompt tokens expected in the cache there, as the policy in force sees it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matched_tokens: Option<u32>,
    /// Predicted time from the decision to the first token there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted_first_token_ms: Option<f64>,
}

/// A decision in one line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Decided {
    /// The request's id.
    pub id: String,
    /// When, in seconds since the gateway started.
    pub at_s: f64,
    /// Which attempt this was.
    pub attempt: u32,
    /// This attempt resumes an answer that broke off.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub resumed: bool,
    /// The picked replica's address, or the peer as `region/name`; none when queued or refused.
    pub picked: Option<String>,
    /// The picked replica's name, if it was given one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The address of the replica that computes the prompt, if it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefill: Option<String>,
    /// Why it was picked, or why nothing was picked.
    pub reason: String,
    /// How it ended.
    #[serde(flatten)]
    pub ending: Ending,
    /// The prompt's tokens, as estimated.
    pub prompt_tokens: u32,
    /// Of those, expected in the picked replica's cache.
    pub matched_tokens: f32,
    /// The residency rules that name the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<String>,
}

/// One peer of a decision.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PeerCandidate {
    /// `region/name`.
    pub name: String,
    /// Why it could not receive the request; none when it could.
    pub unavailable: Option<String>,
    /// Prompt tokens that match earlier requests forwarded there.
    pub matched_tokens: f32,
    /// Round trip.
    pub rtt_ms: f32,
    /// Requests queued there.
    pub held: u32,
    /// Its replicas with free capacity.
    pub eligible: u32,
    /// Requests forwarded there since its digest.
    pub since: u32,
}

/// One candidate of a decision.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// Its id.
    pub id: u16,
    /// Its address.
    pub url: String,
    /// Its name, if it was given one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its part of a request: `both`, `prefill` or `decode`.
    #[serde(default)]
    pub role: String,
    /// Why it could not be picked; none when it was eligible.
    pub ineligible: Option<String>,
    /// Prompt tokens expected in its cache.
    pub matched_tokens: f32,
    /// Prompt tokens of the request.
    pub prompt_tokens: u32,
    /// Pending requests.
    pub pending: u32,
    /// In the batch.
    pub running: u32,
    /// Dispatched and not ended.
    pub outstanding: u32,
    /// Prefill tokens queued before this request.
    pub front_tokens: f32,
    /// What other gateways of the region sent there; none without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_siblings: Option<SiblingShare>,
    /// Share of KV in use.
    pub kv_used: f32,
    /// Tokens of KV under way to or from it.
    #[serde(default)]
    pub moving_tokens: f32,
    /// The policy's terms, by name.
    pub terms: Vec<(String, f64)>,
}

/// What other gateways of the region have at a candidate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SiblingShare {
    /// Their requests that have not ended.
    pub outstanding: u32,
    /// Of these, those without a first token.
    pub waiting: u32,
    /// Prefill tokens of the waiting ones.
    pub front_tokens: f32,
}
