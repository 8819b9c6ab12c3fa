//! The results of a run.

use meridian_base::{Duration, Time};
use meridian_routing::ShadowTotals;

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// Answered completely.
    Done,
    /// Refused by a gateway before anything was sent (held too long, held queue full).
    Rejected,
    /// Refused by the engine as impossible (a prompt longer than its context).
    Invalid,
    /// Failed after it was accepted: no retry was left, or bytes had gone out.
    Lost,
}

/// The KV of a request whose prompt another replica computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crossing {
    /// The replica that computed the prompt, by its index in the scenario.
    pub from: u32,
    /// Bytes of the tokens that the replica that answered lacked.
    pub bytes: u64,
    /// From its question for them until it had them.
    pub time: Duration,
}

/// One request, as its client saw it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Record {
    /// When the client sent it.
    pub sent: Time,
    /// The client's region.
    pub region: u16,
    /// The region that served it (or last tried).
    pub served: u16,
    /// The replica that served it, by its index in the scenario; `u32::MAX` for none.
    pub replica: u32,
    /// Its load's index in the scenario.
    pub load: u16,
    /// How it ended.
    pub fate: Fate,
    /// Whether it was forwarded to a peer.
    pub forwarded: bool,
    /// Attempts at replicas.
    pub attempts: u8,
    /// Time to first token at the client; meaningless if there was none.
    pub ttft: Duration,
    /// Time to the end at the client.
    pub e2e: Duration,
    /// Time held in gateways.
    pub held: Duration,
    /// Of that, in the peer it was forwarded to.
    pub held_away: Duration,
    /// Forwards that a peer sent back for lack of capacity.
    pub sent_back: u16,
    /// Its KV's way between two replicas; `None` if its last attempt was whole.
    pub crossing: Option<Crossing>,
    /// Prompt tokens.
    pub prompt_tokens: u32,
    /// Of those, cached where its prompt was computed.
    pub cached_tokens: u32,
    /// Of those, expected to be cached by the gateway that dispatched it.
    pub matched_tokens: u32,
    /// Reply tokens.
    pub reply_tokens: u32,
    /// Its TTFT objective; `None` without.
    pub slo: Option<Duration>,
    /// The session key for hashing policies.
    pub session: u64,
}

impl Record {
    /// An answered request without a prompt, the only one of its session, to change in tests.
    #[must_use]
    pub fn answered(sent: Time, ttft: Duration, e2e: Duration) -> Record {
        Record {
            sent,
            region: 0,
            served: 0,
            replica: 0,
            load: 0,
            fate: Fate::Done,
            forwarded: false,
            attempts: 1,
            ttft,
            e2e,
            held: Duration::ZERO,
            held_away: Duration::ZERO,
            sent_back: 0,
            crossing: None,
            prompt_tokens: 0,
            cached_tokens: 0,
            matched_tokens: 0,
            reply_tokens: 0,
            slo: None,
            session: 0,
        }
    }
}

/// The state of one replica at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// When.
    pub at: Time,
    /// The replica, by its index in the scenario (added ones follow).
    pub replica: u32,
    /// In the batch.
    pub running: u32,
    /// In the engine.
    pub outstanding: u32,
    /// Share of KV blocks referenced.
    pub kv_used: f32,
}

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// The requests that count, in the order they ended.
    pub requests: Vec<Record>,
    /// All requests, including those that do not count.
    pub total_requests: u64,
    /// Replies that ended within the measured window, whenever they were sent: the basis of
    /// throughput, as requests and as tokens.
    pub done_in_window: u64,
    /// Reply tokens of those.
    pub tokens_in_window: u64,
    /// Length of the measured window.
    pub window: Duration,
    /// State of the replicas once a second within the window.
    pub samples: Vec<Sample>,
    /// Replica-seconds billed within the window.
    pub replica_seconds: f64,
    /// Prompts whose KV was not fetched before its lease ended.
    pub leases_expired: u64,
    /// Probes sent within the window to replicas of the gateway's region and of others. Only those
    /// of [`crate::News::Eager`] are counted: otherwise most are never made.
    pub probes: [u64; 2],
    /// Digests sent within the window, one for each peer, counted likewise.
    pub digests: u64,
    /// Most requests held in one gateway at one time.
    pub held_peak: u32,
    /// Decisions of the shadow policy in all gateways, warm-up included.
    pub shadow: ShadowTotals,
    /// Events handled.
    pub events: u64,
    /// When the last event happened.
    pub ended: Time,
    /// Broken invariants, at most a hundred, in words; empty in a sound run.
    pub violations: Vec<String>,
}
