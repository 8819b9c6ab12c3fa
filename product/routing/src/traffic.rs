//! The traffic of a region: what its past requests say about the next ones.
//!
//! How long replies will be, when the queue will have drained, and whether requests arrive at all.
//!
//! Not here: requests that have not ended (`active.rs`).

use meridian_base::{Duration, Time};

use crate::active::Active;
use crate::cost::Ewma;
use crate::growth::Replies;
use crate::replica::lingering::UsualTimes;
use crate::request::Request;

/// A region without arrivals for this long is idle.
const IDLE_AFTER: Duration = Duration::from_secs(2);
/// Time constant of the rate of ends.
const ENDS_TAU: Duration = Duration::from_secs(10);
/// Time constant of the time that an answer takes, and that time until one was seen.
const USUAL_TAU: Duration = Duration::from_secs(30);
const USUAL_MS: f64 = 1000.0;
/// Seconds between ends until one was seen.
const GAP: f64 = 0.1;

#[derive(Debug)]
pub(crate) struct Traffic {
    /// Number of requests that have arrived.
    arrivals: u64,
    last_arrival: Option<Time>,
    replies: Replies,
    /// Mean seconds between ends, for `Retry-After`.
    gap: Ewma,
    last_end: Time,
    /// Mean ms of a good answer, and until its first token.
    usual_ms: Ewma,
    first_ms: Ewma,
}

impl Traffic {
    pub(crate) fn new() -> Traffic {
        Traffic {
            arrivals: 0,
            last_arrival: None,
            replies: Replies::default(),
            gap: Ewma::new(ENDS_TAU),
            last_end: Time::ZERO,
            usual_ms: Ewma::new(USUAL_TAU),
            first_ms: Ewma::new(USUAL_TAU),
        }
    }

    /// A request as if it arrived now.
    pub(crate) fn next(&self, now: Time, request: Request) -> Active {
        let reply = self.replies.expected(&request);
        Active::new(now, self.arrivals, request, reply)
    }

    /// A request that arrives now.
    pub(crate) fn arrived(&mut self, now: Time, request: Request) -> Active {
        let active = self.next(now, request);
        self.last_arrival = Some(now);
        self.arrivals += 1;
        active
    }

    /// Whether requests have arrived lately.
    pub(crate) fn is_coming(&self, now: Time) -> bool {
        self.last_arrival.is_some_and(|at| now.since(at) < IDLE_AFTER)
    }

    /// Records the tokens of a complete reply.
    pub(crate) fn learn_reply(&mut self, request: &Request, tokens: u32) {
        if tokens > 0 {
            self.replies.learn(request, tokens);
        }
    }

    /// Records that a good answer took so long.
    pub(crate) fn answered(&mut self, now: Time, took: Duration) {
        self.usual_ms.add(now, took.as_secs_f64() * 1e3);
    }

    /// Records that the first token of an answer took so long.
    pub(crate) fn began(&mut self, now: Time, took_ms: f64) {
        self.first_ms.add(now, took_ms);
    }

    /// How long a good answer takes.
    pub(crate) fn usual(&self) -> UsualTimes {
        let time = |mean: &Ewma| {
            let ms = mean.get().unwrap_or(USUAL_MS);
            Duration::from_nanos((ms * 1e6) as u64)
        };
        UsualTimes { answer: time(&self.usual_ms), first: time(&self.first_ms) }
    }

    /// Records the end of a request.
    pub(crate) fn ended(&mut self, now: Time) {
        let gap = now.since(self.last_end).as_secs_f64();
        self.last_end = now;
        self.gap.add(now, gap);
    }

    /// About the time in which a queue of this many requests drains, 1 to 60 s.
    pub(crate) fn retry_after(&self, queued: u32) -> Duration {
        let gap = self.gap.get().unwrap_or(GAP);
        let seconds = libm::ceil(gap * f64::from(queued));
        Duration::from_secs(seconds.clamp(1.0, 60.0) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meridian_base::{ModelId, RequestId};

    fn request(id: u64) -> Request {
        Request::plain(RequestId(id), ModelId(0))
    }

    // Asking about a request leaves the numbers of those that arrive as they are.
    #[test]
    fn only_arrivals_are_numbered() {
        let mut traffic = Traffic::new();
        let now = Time::from_millis(1);
        assert_eq!(traffic.next(now, request(9)).number, 0);
        assert_eq!(traffic.arrived(now, request(1)).number, 0);
        assert_eq!(traffic.next(now, request(9)).number, 1);
        assert_eq!(traffic.arrived(now, request(2)).number, 1);
    }

    // Requests count as coming for two seconds after the last one.
    #[test]
    fn idle_after_two_seconds() {
        let mut traffic = Traffic::new();
        assert!(!traffic.is_coming(Time::ZERO));
        traffic.arrived(Time::from_millis(100), request(1));
        assert!(traffic.is_coming(Time::from_millis(2099)));
        assert!(!traffic.is_coming(Time::from_millis(2100)));
    }

    // The longer the queue and the rarer the ends, the later a retry; between 1 and 60 s.
    #[test]
    fn a_retry_waits_for_the_queue() {
        let mut traffic = Traffic::new();
        assert_eq!(traffic.retry_after(0), Duration::from_secs(1));
        assert_eq!(traffic.retry_after(25), Duration::from_secs(3));
        (1..=40).for_each(|second| traffic.ended(Time::from_millis(1000 * second)));
        assert_eq!(traffic.retry_after(25), Duration::from_secs(25));
        assert_eq!(traffic.retry_after(1000), Duration::from_secs(60));
    }
}
