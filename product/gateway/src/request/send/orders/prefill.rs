//! The prefill leg: its request, the wait for its whole answer, and why it failed.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http_body_util::{BodyExt, Limited};
use meridian_protocol::legs::{MAX_ANSWER, NoParams};
use meridian_routing::Outcome;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::Split;
use crate::facts::timeline::Part;
use crate::fault::AttemptError;
use crate::http::parts::Parts;
use crate::machine::driver::Driver;
use crate::machine::ticket::Ticket;
use crate::replicas::http1::Broken;
use crate::replicas::member::Member;
use crate::replicas::reports;
use crate::replicas::upstream::{Answered, Request, Upstream};
use crate::request::send::Attempts;
use crate::request::send::engine_error::{Meaning, meaning};
use crate::request::send::replica::leg_body;
use crate::request::send::transport::{Added, Failure, broke, late};

/// How often a leg notes that its answer is not there yet: so many times while KV may be used, and
/// once a second at least.
const TICKS: u32 = 8;
const TICK: Duration = Duration::from_secs(1);

/// The end of a prefill leg.
pub(super) struct Prefilled {
    pub(super) body: Bytes,
    pub(super) at: Instant,
    /// When it had not ended yet. A gateway that was stopped finds an old answer in its socket.
    pub(super) not_before: Instant,
}

/// A prefill leg that failed.
pub(super) struct Unfilled {
    outcome: Outcome,
    message: String,
    /// For the count of fallbacks.
    pub(super) why: &'static str,
}

impl Unfilled {
    pub(super) fn of(outcome: Outcome, message: impl Into<String>) -> Unfilled {
        Unfilled { outcome, message: message.into(), why: "prefill" }
    }
}

impl From<AttemptError> for Unfilled {
    fn from(error: AttemptError) -> Unfilled {
        Unfilled::of(error.outcome(), error.message)
    }
}

impl From<Unfilled> for Failure {
    fn from(unfilled: Unfilled) -> Failure {
        let Unfilled { outcome, message, why: _ } = unfilled;
        let error = AttemptError::replica(format!("prefill: {message}"));
        Failure { error, said: None, prefill: Some(outcome) }
    }
}

/// The request of a prefill leg.
pub(super) struct Ask {
    driver: Arc<Driver>,
    upstream: Upstream,
    member: Arc<Member>,
    method: http::Method,
    path: String,
    headers: HeaderMap,
    added: Added,
    body: Parts,
    cut: AtomicBool,
    patience: Duration,
    tick: Duration,
}

impl Attempts {
    /// The request of the prefill leg.
    pub(super) fn ask(&self, split: Split<'_>, ticket: &Ticket) -> Result<Ask, Failure> {
        let Split { context, payload, splices, legs, protocol, pair } = split;
        let from = legs.from;
        let added = (protocol.prefill)(pair).map_err(|_| self.fall_back("lacks"))?;
        let splices = if protocol.limits_prefill { splices } else { &payload.splices };
        Ok(Ask {
            driver: self.plane.region.driver.clone(),
            upstream: self.upstream(from).clone(),
            member: from.clone(),
            method: context.call.method.clone(),
            path: context.call.path.clone(),
            headers: context.call.headers.clone(),
            added: self.headers(context, &added.headers, Part::Prefill, ticket),
            body: leg_body(payload, splices, &added, from),
            cut: AtomicBool::new(ticket.cut.load(Ordering::Relaxed)),
            patience: context.settings.timeouts.first_byte.0,
            tick: TICK.min(context.settings.kv_fresh / TICKS),
        })
    }
}

impl Ask {
    /// Sends the prefill leg and reads its whole answer.
    pub(super) async fn send(self) -> Result<Prefilled, Unfilled> {
        let down = self.member.life.down();
        let patience = self.patience;
        let exchange = timeout(patience, self.exchange());
        tokio::select! {
            biased;
            (body, not_before) = dated(exchange, self.tick) => {
                let late = |_| Err(Unfilled::of(Outcome::ReplicaError, late(patience)));
                let at = Instant::now();
                assert!(not_before <= at, "KV would be used after its lease");
                Ok(Prefilled { body: body.unwrap_or_else(late)?, at, not_before })
            }
            () = down.cancelled() => {
                let message = "the replica stopped answering its probes";
                Err(Unfilled::of(Outcome::Unreached, message))
            }
        }
    }

    async fn exchange(&self) -> Result<Bytes, Unfilled> {
        let Ask { upstream, member, method, path, headers, added, body, cut, .. } = self;
        let request = Request { method, path, headers, added, body, cut };
        let Answered { head, body, .. } = upstream.send(&member.dial, request).await?;
        member.life.answered();
        let status = head.status;
        let outcome = match meaning(status, member.dial.with.has_key()) {
            Meaning::Passes if status.is_success() => None,
            // These may be about the replica: if the other one answers the request, they are.
            Meaning::Passes if matches!(status.as_u16(), 401 | 403 | 404 | 405) => {
                Some(Outcome::NoKv)
            }
            Meaning::Passes => Some(Outcome::ClientError),
            Meaning::Full => Some(Outcome::Full),
            Meaning::Fails => Some(Outcome::EngineError),
            Meaning::Unfinished => Some(Outcome::ReplicaError),
        };
        if outcome == Some(Outcome::Full) {
            reports::pause(&self.driver, member, &head.headers);
        }
        if let Some(outcome) = outcome {
            return Err(Unfilled::of(outcome, format!("the engine answered {status}")));
        }
        let body = Limited::new(body, MAX_ANSWER).collect().await.map_err(unread)?;
        Ok(body.to_bytes())
    }
}

/// Waits for an answer. Returns it with a time when it was not there yet, at most two ticks old
/// unless the gateway was stopped.
///
/// A gateway that goes on after a stop may run its timers before it reads its sockets, where the
/// answer may have waited all the time. So only the last tick but one shows that it was not there,
/// and of the ticks that were missed only one is made up for.
async fn dated<T>(answer: impl Future<Output = T>, tick: Duration) -> (T, Instant) {
    let mut answer = std::pin::pin!(answer);
    let mut ticks = interval(tick);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = Instant::now();
    let mut not_before = last;
    loop {
        tokio::select! {
            biased;
            answer = &mut answer => return (answer, not_before),
            _ = ticks.tick() => not_before = mem::replace(&mut last, Instant::now()),
        }
    }
}

/// Why the body of a prefill's answer was not read to its end. A long one is no failure of the
/// replica: the request stays whole.
fn unread(error: Box<dyn std::error::Error + Send + Sync>) -> Unfilled {
    match error.downcast::<Broken>() {
        Ok(error) => broke(&error).into(),
        Err(_) => {
            let why = NoParams::TooLarge;
            Unfilled { why: why.word(), ..Unfilled::of(Outcome::ClientError, why.to_string()) }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;
    use tokio::time::advance;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    // The gateway is stopped for 10 s. When it goes on, its timers fire before it reads the answer,
    // which came at some time in between: it counts as from before the stop. Without a stop, its
    // time is known within two ticks.
    #[tokio::test(start_paused = true)]
    async fn timers_run_before_sockets() {
        for stopped in [Duration::ZERO, 10_000 * MS] {
            let (send, answer) = oneshot::channel();
            let began = Instant::now();
            let dated = tokio::spawn(dated(answer, 100 * MS));
            tokio::time::sleep(950 * MS).await;
            advance(stopped).await;
            for _ in 0..50 {
                tokio::task::yield_now().await;
            }
            send.send(()).expect("it still waits");
            let (_, not_before) = dated.await.expect("it ends");
            let at = not_before - began;
            assert!(at <= 950 * MS && at >= 750 * MS, "{stopped:?}: {at:?}");
        }
    }
}
