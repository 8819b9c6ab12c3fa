//! A request in flight: it enters the machine with a ticket, and leaves it with the ticket's end.

use std::sync::Arc;

use meridian_base::{Duration, ReplicaId, RequestId};
use meridian_routing::{Input, Outcome, RejectWhy, Request, Usage};

use crate::machine::driver::{Driver, Inner, Verdict};

/// How a request ended, in the words of the status page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Done,
    ClientError,
    Rejected,
    Failed,
    Cancelled,
}

/// What became of an attempt, beyond its outcome.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) usage: Option<Usage>,
    pub(crate) extended: Option<Vec<u64>>,
    /// Of a forward: the peer's own id of the replica that served it.
    pub(crate) served: Option<ReplicaId>,
}

/// A request in flight. Dropped without an end, it counts as cancelled by its client: that is the
/// only way a handler stops early, be it by a hang-up, a timeout or a panic, so nothing leaks.
pub(crate) struct Ticket {
    driver: Arc<Driver>,
    pub(crate) id: RequestId,
    open: bool,
}

impl Ticket {
    /// The answer began; with its TTFT where it streams, since a whole answer's first byte says
    /// nothing of its first token.
    pub(crate) fn first_token(&self, ttft: Option<Duration>) {
        let mut inner = self.driver.lock();
        if let Some(ttft) = ttft {
            inner.ttft.add(ttft.as_secs_f32() * 1e3);
        }
        let now = self.driver.clock.now();
        inner.routing.handle(now, Input::FirstToken(self.id));
        let _ = inner.carry_out(None);
        self.driver.rearm(inner);
    }

    /// An attempt failed before a byte went out: the machine decides again.
    pub(crate) fn again(&self, outcome: Outcome) -> Verdict {
        self.retry(outcome, None)
    }

    /// An answer broke off: the machine decides who goes on with it. Its prompt has these blocks
    /// now.
    pub(crate) fn go_on(&self, blocks: Vec<u64>) -> Verdict {
        self.retry(Outcome::ReplicaError, Some(blocks))
    }

    fn retry(&self, outcome: Outcome, extended: Option<Vec<u64>>) -> Verdict {
        let (id, retry) = (self.id, true);
        let input = Input::Finished { id, outcome, retry, usage: None, extended, served: None };
        let mut inner = self.driver.lock();
        let verdict = self.driver.turn(&mut inner, self.id, input);
        self.driver.rearm(inner);
        verdict
    }

    /// The request is over after an attempt.
    pub(crate) fn finish(mut self, outcome: Outcome, told: Told) {
        let end = match outcome {
            Outcome::Done => End::Done,
            Outcome::ClientError => End::ClientError,
            Outcome::Full | Outcome::NoRoom => End::Rejected,
            _ => End::Failed,
        };
        let Told { usage, extended, served } = told;
        let input = Input::Finished { id: self.id, outcome, retry: false, usage, extended, served };
        self.close(end, Some(input), usage);
    }

    /// Nobody went on with a broken answer: for its client it has failed. `outcome` is that of the
    /// attempt; none where the machine is done with it.
    pub(crate) fn broke_off(mut self, outcome: Option<Outcome>) {
        let id = self.id;
        let input = outcome.map(|outcome| Input::Finished {
            id,
            outcome,
            retry: false,
            usage: None,
            extended: None,
            served: None,
        });
        self.close(End::Failed, input, None);
    }

    /// The machine refused it: it is over there already.
    pub(crate) fn rejected(mut self, why: RejectWhy) {
        let end = match why {
            RejectWhy::RetriesExhausted { .. } | RejectWhy::EngineDied { .. } => End::Failed,
            _ => End::Rejected,
        };
        self.close(end, None, None);
    }

    fn close(&mut self, end: End, input: Option<Input>, usage: Option<Usage>) {
        self.open = false;
        let mut inner = self.driver.lock();
        inner.count(end);
        if let Some((usage, cached)) = usage.and_then(|u| u.cached_tokens.map(|c| (u, c))) {
            inner.prefix.known_prompt_tokens += u64::from(usage.prompt_tokens);
            inner.prefix.cached_tokens += u64::from(cached);
        }
        inner.waiters.remove(&self.id);
        if let Some(input) = input {
            let now = self.driver.clock.now();
            inner.routing.handle(now, input);
            let _ = inner.carry_out(None);
        }
        self.driver.rearm(inner);
    }
}

impl Driver {
    /// A request enters. The ticket ends it, whatever happens to its holder.
    pub(crate) fn arrive(self: &Arc<Self>, request: Request) -> (Ticket, Verdict) {
        let id = request.id;
        let mut inner = self.lock();
        inner.requests.accepted += 1;
        inner.requests.in_flight += 1;
        let verdict = self.turn(&mut inner, id, Input::Arrived(request));
        self.rearm(inner);
        let ticket = Ticket { driver: self.clone(), id, open: true };
        (ticket, verdict)
    }
}

impl Inner {
    fn count(&mut self, end: End) {
        let r = &mut self.requests;
        r.in_flight -= 1;
        match end {
            End::Done => r.done += 1,
            End::ClientError => r.client_error += 1,
            End::Rejected => r.rejected += 1,
            End::Failed => r.failed += 1,
            End::Cancelled => r.cancelled += 1,
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.open {
            let input = Input::Cancelled(self.id);
            self.close(End::Cancelled, Some(input), None);
        }
    }
}
