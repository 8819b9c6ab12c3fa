//! The facts of one request.

pub(crate) mod blocks;
pub(crate) mod name;
pub(crate) mod timeline;
pub(crate) mod trace;

use std::time::{Duration, Instant, SystemTime};

use http::{HeaderValue, StatusCode};
use meridian_base::ModelId;
use meridian_protocol::openai::Endpoint;
use meridian_routing::{Priority, Usage};

use self::blocks::Blocks;
use self::timeline::Timeline;
use crate::facts::name::ReplicaName;

/// The outcome of a request that is dropped without an end: its client disconnected, or its task
/// panicked.
const CANCELLED: &str = "cancelled";
/// The outcome of an answer that the gateway gives itself.
pub(crate) const DONE: &str = "done";

/// The facts of one request, filled in while it is served. Nothing is formatted until the writer's
/// thread has it.
pub(crate) struct Record {
    /// Time of arrival.
    pub(crate) at: SystemTime,
    began: Instant,
    pub(crate) endpoint: Endpoint,
    /// Whether it came from a client and not from a peer.
    pub(crate) from_client: bool,
    /// The id that the client sees.
    pub(crate) id: Option<HeaderValue>,
    pub(crate) tenant: Option<HeaderValue>,
    /// Whether the configuration names this tenant.
    pub(crate) is_tenant_known: bool,
    pub(crate) priority: Option<Priority>,
    /// Forwards between regions before it came here.
    pub(crate) hops: u8,
    /// Present once the request is admitted.
    pub(crate) asked: Option<Asked>,
    /// The client's name of the model, if it is an alias of the configuration.
    pub(crate) alias: Option<Box<str>>,
    /// The fallback that was tried last.
    pub(crate) fallback: Option<HeaderValue>,
    /// The blocks of its prompt, if it belongs in the journal.
    pub(crate) blocks: Option<Blocks>,
    /// The policy in force when it was admitted.
    pub(crate) policy: Option<&'static str>,
    /// The status sent to the client.
    pub(crate) status: Option<StatusCode>,
    pub(crate) outcome: &'static str,
    /// The policy's reason for the last attempt, or the code of the refusal.
    pub(crate) reason: Option<&'static str>,
    /// The replica of the last attempt, by its name in its region.
    pub(crate) replica: Option<HeaderValue>,
    /// The replica that computed the prompt, if it is another one.
    pub(crate) prefill: Option<HeaderValue>,
    /// The peer of the last attempt.
    pub(crate) peer: Option<HeaderValue>,
    /// The region of the last attempt.
    pub(crate) region: Option<HeaderValue>,
    /// Tokens of the prompt expected in the replica's cache.
    pub(crate) matched: Option<u32>,
    /// The shadow policy's decision about the last attempt.
    pub(crate) shadow: Option<Shadowed>,
    /// The engine's count of tokens, or an estimate.
    pub(crate) usage: Option<Usage>,
    /// Whether the count is an estimate: the answer ended before the engine's.
    pub(crate) is_estimated: bool,
    /// Pieces of the reply that were delivered.
    pub(crate) pieces: u32,
    pub(crate) ttft: Option<Duration>,
    /// Failed attempts.
    pub(crate) retries: u32,
    /// Times that a broken stream was resumed.
    pub(crate) resumes: u32,
    /// Time in the gateway's queue, without the present wait.
    queued: Duration,
    waits_since: Option<Instant>,
    /// From its arrival to its end.
    e2e: Duration,
    /// The times of its hops, and its place in a trace.
    pub(crate) times: Timeline,
}

/// The content of an admitted request, as far as it is recorded.
pub(crate) struct Asked {
    pub(crate) model: ModelId,
    pub(crate) stream: bool,
    /// Estimated tokens of the prompt.
    pub(crate) tokens: u32,
    /// Bytes of the prompt.
    pub(crate) bytes: u64,
    /// Keyed hash of the tenant's name; 0 for none.
    pub(crate) tenant: u64,
    /// Keyed hash of the request's own affinity key, if it has one.
    pub(crate) session: Option<u64>,
}

/// The decision of the shadow policy.
pub(crate) struct Shadowed {
    pub(crate) seen: meridian_routing::Shadowed,
    /// The replica that it would have picked.
    pub(crate) replica: Option<ReplicaName>,
}

impl Record {
    pub(crate) fn new(endpoint: Endpoint, from_client: bool) -> Record {
        #[expect(clippy::disallowed_methods, reason = "a log line has the date")]
        let at = SystemTime::now();
        Record {
            at,
            began: Instant::now(),
            endpoint,
            from_client,
            id: None,
            tenant: None,
            is_tenant_known: false,
            priority: None,
            hops: 0,
            asked: None,
            alias: None,
            fallback: None,
            blocks: None,
            policy: None,
            status: None,
            outcome: CANCELLED,
            reason: None,
            replica: None,
            prefill: None,
            peer: None,
            region: None,
            matched: None,
            shadow: None,
            usage: None,
            is_estimated: false,
            pieces: 0,
            ttft: None,
            retries: 0,
            resumes: 0,
            queued: Duration::ZERO,
            waits_since: None,
            e2e: Duration::ZERO,
            times: Timeline::default(),
        }
    }

    /// The gateway refuses the request.
    pub(crate) fn refused(&mut self, status: StatusCode, code: &'static str) {
        self.status = Some(status);
        self.reason = Some(code);
    }

    /// An attempt's answer ended, with the engine's count.
    pub(crate) fn counted(&mut self, pieces: u32, usage: Usage) {
        self.pieces += pieces;
        (self.usage, self.is_estimated) = (Some(usage), false);
    }

    /// An attempt's answer ended without the engine's count. The earlier pieces of a resumed answer
    /// count as well.
    pub(crate) fn passed(&mut self, pieces: u32, estimate: Option<Usage>) {
        self.pieces += pieces;
        let completion_tokens = |usage: Usage| usage.completion_tokens.max(self.pieces);
        self.usage =
            estimate.map(|usage| Usage { completion_tokens: completion_tokens(usage), ..usage });
        self.is_estimated = estimate.is_some();
    }

    /// Copies the values that came in a head. Each is a part of a connection's read buffer, which may
    /// hold keys and prompts, and would live as long as the record.
    pub(crate) fn detach(&mut self) {
        let own = [&mut self.id, &mut self.tenant];
        let of_peer = [&mut self.replica, &mut self.prefill, &mut self.region];
        own.into_iter().chain(of_peer).flatten().for_each(detach);
        self.times.detach();
    }

    /// The request waits for a decision.
    pub(crate) fn waits(&mut self) {
        assert!(self.waits_since.is_none(), "a request waits for two decisions at a time");
        self.waits_since = Some(Instant::now());
    }

    /// The decision has arrived.
    pub(crate) fn waited(&mut self) {
        if let Some(since) = self.waits_since.take() {
            let now = Instant::now();
            self.queued += now - since;
            self.times.waits.push((since, now));
        }
    }

    /// The request is given to another model, which ends a wait and an attempt that still run.
    pub(crate) fn falls_back(&mut self, to: Option<HeaderValue>) {
        self.waited();
        self.fallback = to;
        if let Some(times) = self.times.current().filter(|times| times.ended.is_none()) {
            times.fail(CANCELLED, None);
        }
    }

    /// The request has ended.
    pub(crate) fn over(&mut self) {
        self.waited();
        self.e2e = self.began.elapsed();
    }

    pub(crate) fn e2e(&self) -> Duration {
        self.e2e
    }

    pub(crate) fn began(&self) -> Instant {
        self.began
    }

    /// Time from its arrival until then.
    pub(crate) fn since(&self, then: Instant) -> Duration {
        then.saturating_duration_since(self.began)
    }

    pub(crate) fn queued(&self) -> Duration {
        self.queued
    }

    /// Tokens of the prompt: the engine's count, or else the estimate.
    pub(crate) fn prompt_tokens(&self) -> Option<u32> {
        self.usage
            .map(|usage| usage.prompt_tokens)
            .or(self.asked.as_ref().map(|asked| asked.tokens))
    }

    /// Time for each token of the reply after the first, for a stream of two or more.
    pub(crate) fn tpot(&self) -> Option<Duration> {
        let counted = self.usage.filter(|_| !self.is_estimated)?;
        let further = counted.completion_tokens.checked_sub(1).filter(|n| *n > 0)?;
        Some(self.e2e.saturating_sub(self.ttft?) / further)
    }

    /// Whether a journal keeps such a request, once it is admitted: from a client, to an endpoint
    /// that generates. A request of several gateways is in the journal of the first.
    pub(crate) fn is_traced(endpoint: Endpoint, from_client: bool) -> bool {
        from_client && endpoint.is_generation()
    }
}

/// Makes a header's value independent of the buffer that it was read into.
pub(crate) fn detach(value: &mut HeaderValue) {
    if let Ok(copy) = HeaderValue::from_bytes(value.as_bytes()) {
        *value = copy;
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A streamed chat that was answered, of 100 prompt tokens and 5 tokens in the reply.
    pub(crate) fn answered() -> Record {
        let mut record = Record::new(Endpoint::ChatCompletions, true);
        record.at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_250);
        record.id = Some(HeaderValue::from_static("req-1"));
        record.asked = Some(Asked {
            model: ModelId(0),
            stream: true,
            tokens: 90,
            bytes: 360,
            tenant: 0,
            session: None,
        });
        record.status = Some(StatusCode::OK);
        record.outcome = DONE;
        record.reason = Some("turn");
        record.ttft = Some(Duration::from_millis(200));
        record.e2e = Duration::from_millis(1000);
        record.usage = Some(Usage {
            prompt_tokens: 100,
            cached_tokens: Some(64),
            completion_tokens: 5,
            prefill_us: None,
        });
        record
    }

    // A record that is kept does not keep the buffers that its values were read into.
    #[test]
    fn detached() {
        use crate::facts::timeline::To;
        let head = bytes::Bytes::from(vec![b'k'; 64 << 10]);
        let value = || HeaderValue::from_maybe_shared(head.slice(100..120)).ok();
        let mut record = answered();
        (record.id, record.tenant, record.replica) = (value(), value(), value());
        record.times.begin(To { replica: value(), region: value(), ..To::default() });
        assert!(!head.is_unique());
        record.detach();
        assert!(head.is_unique());
        assert_eq!((record.id.unwrap().len(), record.tenant.unwrap().len()), (20, 20));
    }

    // TPOT counts the gaps between tokens; it is unknown without a count, for one token, and without
    // a first token's time.
    #[test]
    fn tpot() {
        let mut record = answered();
        assert_eq!(record.tpot(), Some(Duration::from_millis(200)));
        record.ttft = None;
        assert_eq!(record.tpot(), None);
        let mut record = answered();
        record.usage = record.usage.map(|usage| Usage { completion_tokens: 1, ..usage });
        assert_eq!(record.tpot(), None);
        record.usage = None;
        assert_eq!((record.tpot(), record.prompt_tokens()), (None, Some(90)));
    }
}
