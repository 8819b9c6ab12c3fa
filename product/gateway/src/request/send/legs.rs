//! An attempt with two legs: one replica computes the prompt, another one answers with its KV.
//!
//! The two requests, their order and what each says of the other replica come from the protocol
//! ([`meridian_protocol::legs`]). Dropping the attempt drops both connections, which cancels both legs.
//! A prefill leg that fails, or hands over nothing that is safe to use, is reported to the machine,
//! which decides again; nothing has been sent to the client by then.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http_body_util::{BodyExt, Limited};
use meridian_base::{ModelId, mix};
use meridian_protocol::legs::{Finish, Handed, MAX_ANSWER, NoParams, Order, Pair, Protocol};
use meridian_protocol::openai::Splices;
use meridian_routing::Outcome;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use crate::facts::hops::{Mark, Part};
use crate::fault::{AttemptError, Fault};
use crate::http::parts::{Parts, Taken};
use crate::machine::ticket::Ticket;
use crate::replicas::http1::Broken;
use crate::replicas::member::Member;
use crate::replicas::upstream::{Answered, Request, Upstream};
use crate::request::answer::usage::narrow;
use crate::request::context::{Payload, RequestContext};
use crate::request::send::engine_error::{Meaning, meaning};
use crate::request::send::leg::{Leg, leg_body};
use crate::request::send::transport::{Added, Failure, Started, Transport, broke, late};

/// How often a leg notes that its answer is not there yet: so many times while KV may be used, and
/// once a second at least.
const TICKS: u32 = 8;
const TICK: Duration = Duration::from_secs(1);

/// The replicas of an attempt.
#[derive(Clone, Copy)]
pub(crate) struct Legs<'a> {
    pub(crate) from: &'a Arc<Member>,
    pub(crate) to: &'a Arc<Member>,
}

/// A request that is split, and what its two legs say of each other.
#[derive(Clone, Copy)]
struct Split<'a> {
    context: &'a RequestContext,
    payload: &'a Payload,
    /// For the body of the prefill leg.
    splices: &'a Splices,
    legs: Legs<'a>,
    protocol: &'static Protocol,
    pair: &'a Pair<'a>,
}

/// The end of a prefill leg.
struct Prefilled {
    body: Bytes,
    at: Instant,
    /// When it had not ended yet. A gateway that was stopped finds an old answer in its socket.
    not_before: Instant,
}

/// A prefill leg that failed.
struct Unfilled {
    outcome: Outcome,
    message: String,
    /// For the count of fallbacks.
    why: &'static str,
}

impl Unfilled {
    fn of(outcome: Outcome, message: impl Into<String>) -> Unfilled {
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
struct Ask {
    upstream: Upstream,
    member: Arc<Member>,
    method: http::Method,
    path: String,
    headers: HeaderMap,
    added: Added,
    body: Parts,
    patience: Duration,
    tick: Duration,
}

impl Transport {
    pub(crate) async fn to_pair(
        &self,
        context: &RequestContext,
        payload: &Payload,
        legs: Legs<'_>,
        ticket: &Ticket,
    ) -> Result<Started, Failure> {
        let (protocol, splices) = match (legs.from.transfer(), &payload.prefill) {
            (Some(protocol), Some(splices)) => (protocol, splices),
            // The decode replica computes the prompt itself.
            (protocol, _) => {
                let why = if protocol.is_none() { "no_protocol" } else { "body" };
                return Err(self.fall_back(why));
            }
        };
        let ranks = if protocol.names_engine { legs.from.found().ranks } else { Vec::new() };
        let rank = ranks.first();
        let host = legs.from.authority.host().trim_matches(['[', ']']);
        let bootstrap = legs.from.bootstrap(protocol);
        let pair = Pair {
            id: mix(self.seed, ticket.fresh()),
            host,
            port: legs.from.port(),
            bootstrap_host: bootstrap.map(|(host, _)| host),
            bootstrap_port: bootstrap.map(|(_, port)| port),
            engine_id: rank.map(|rank| &*rank.engine_id),
            rank: rank.map(|rank| rank.rank).filter(|_| ranks.len() > 1),
            ttft_left_ms: self.ttft_left_ms(context),
        };
        let split = Split { context, payload, splices, legs, protocol, pair: &pair };
        match protocol.order {
            Order::PrefillFirst => self.in_turn(split, ticket).await,
            Order::Together => self.together(split, ticket).await,
            Order::DecodeOnly => {
                let added = (protocol.decode)(&pair, None).map_err(|_| self.fall_back("lacks"))?;
                // One request, which the replicas divide among themselves.
                let leg = Leg { part: Part::Whole, ..Leg::of(added) };
                self.to_replica(context, payload, legs.to, &leg, ticket).await
            }
        }
    }

    /// The decode leg starts after the prefill's answer.
    async fn in_turn(&self, split: Split<'_>, ticket: &Ticket) -> Result<Started, Failure> {
        let Split { context, payload, legs, protocol, pair, .. } = split;
        let ask = self.ask(split, ticket)?;
        let sent = Instant::now();
        ticket.mark(Mark::PrefillSent, None);
        let prefilled =
            ask.send().await.inspect_err(|unfilled| self.metrics.fell_back(unfilled.why))?;
        ticket.mark(Mark::Prefilled, None);
        let endpoint = context.call.endpoint;
        let handed = match protocol.hands_over {
            true => Some(
                Handed::read(endpoint, &prefilled.body)
                    .map_err(|why| self.fall_back(why.word()))?,
            ),
            false => None,
        };
        let pair = Pair { ttft_left_ms: self.ttft_left_ms(context), ..*pair };
        let added =
            (protocol.decode)(&pair, handed.as_ref()).map_err(|_| self.fall_back("lacks"))?;
        if prefilled.not_before.elapsed() > context.settings.kv_fresh {
            return Err(self.fall_back("lease"));
        }
        self.metrics.prefilled(sent.elapsed());
        ticket.prefilled(handed.as_ref().and_then(Handed::all_usage).map(narrow));
        let leg = Leg { taken: Some(Taken::default()), ..Leg::of(added) };
        let _waiting = handed.is_some().then(|| self.waiting(context, legs.to, &leg));
        let started = tokio::select! {
            // First, so that a gateway that was stopped while it dialled does not send the leg now.
            biased;
            () = unsent(&leg, prefilled.not_before + context.settings.kv_fresh) => {
                // A failure of this pair: the request goes whole, to this replica or another.
                let message = "no connection while its KV could be used (kv_lease)";
                Err(AttemptError::of(Fault::Engine, message).into())
            }
            started = self.to_replica(context, payload, legs.to, &leg, ticket) => started,
        };
        self.decoded(Some(prefilled.at), started)
    }

    fn waiting<'a>(
        &'a self,
        context: &RequestContext,
        to: &'a Arc<Member>,
        leg: &'a Leg,
    ) -> Waiting<'a> {
        Waiting { transport: self, model: context.prompt.model, to, leg }
    }

    /// Counts the end of a transfer. A refusal has none. A decode replica's own error may be about
    /// the KV, so it does not show that the request is the cause. `since` is the end of the prefill
    /// leg, if it was seen.
    fn decoded(
        &self,
        since: Option<Instant>,
        started: Result<Started, Failure>,
    ) -> Result<Started, Failure> {
        match started {
            Ok(started) => {
                if let Some(since) = since.filter(|_| started.head.status.is_success()) {
                    self.metrics.transferred(since.elapsed());
                }
                Ok(started)
            }
            Err(failure) => {
                self.metrics.fell_back("decode");
                Err(Failure { said: None, ..failure })
            }
        }
    }

    /// Both legs start at once. The first to fail ends the other.
    async fn together(&self, split: Split<'_>, ticket: &Ticket) -> Result<Started, Failure> {
        let Split { context, payload, legs, protocol, pair, .. } = split;
        let ask = self.ask(split, ticket)?;
        let added = (protocol.decode)(pair, None).map_err(|_| self.fall_back("lacks"))?;
        let leg = Leg::of(added);
        let sent = Instant::now();
        ticket.mark(Mark::PrefillSent, None);
        let mut prefill = Task(Some(tokio::spawn(ask.send())));
        let mut decode = std::pin::pin!(self.to_replica(context, payload, legs.to, &leg, ticket));
        let filled = tokio::select! {
            biased;
            filled = prefill.end() => filled,
            started = &mut decode => {
                if started.as_ref().is_ok_and(|started| started.head.status.is_success()) {
                    // Its answer follows; a cancelled engine might not finish the transfer.
                    prefill.goes_on();
                }
                return self.decoded(None, started);
            }
        };
        let filled = filled.inspect_err(|unfilled| self.metrics.fell_back(unfilled.why))?;
        if protocol.needs_limit {
            match Finish::read(context.call.endpoint, &filled.body) {
                Ok(Finish::Limit) => {}
                Ok(_) => return Err(self.fall_back("finish")),
                Err(why) => return Err(self.fall_back(why.word())),
            }
        }
        self.metrics.prefilled(sent.elapsed());
        ticket.mark(Mark::Prefilled, None);
        ticket.prefilled(None);
        let started = decode.await;
        self.decoded(Some(filled.at), started)
    }

    /// The request of the prefill leg.
    fn ask(&self, split: Split<'_>, ticket: &Ticket) -> Result<Ask, Failure> {
        let Split { context, payload, splices, legs, protocol, pair } = split;
        let from = legs.from;
        let added = (protocol.prefill)(pair).map_err(|_| self.fall_back("lacks"))?;
        let splices = if protocol.limits_prefill { splices } else { &payload.splices };
        Ok(Ask {
            upstream: self.upstream(from).clone(),
            member: from.clone(),
            method: context.call.method.clone(),
            path: context.call.path.clone(),
            headers: context.call.headers.clone(),
            added: self.headers(context, &added.headers, Part::Prefill, ticket),
            body: leg_body(payload, splices, &added, from),
            patience: context.settings.timeouts.first_byte.0,
            tick: TICK.min(context.settings.kv_fresh / TICKS),
        })
    }

    /// The request stays whole at the replica that answers, for this reason.
    fn fall_back(&self, why: &'static str) -> Failure {
        self.metrics.fell_back(why);
        let outcome = match why {
            // Not the prefill replica's: the request cannot be split, it was late, or its answer
            // ended with the first token. A client can cause the last at every replica.
            "body" | "lease" | "finish" | "unfinished" => Outcome::ClientError,
            _ => Outcome::NoKv,
        };
        Unfilled::of(outcome, format!("it hands over no KV ({why})")).into()
    }
}

impl Ask {
    /// Sends the prefill leg and reads its whole answer.
    async fn send(self) -> Result<Prefilled, Unfilled> {
        let down = self.member.life.down();
        let patience = self.patience;
        let exchange = timeout(patience, self.exchange());
        tokio::select! {
            biased;
            (body, not_before) = dated(exchange, self.tick) => {
                let late = |_| Err(Unfilled::of(Outcome::ReplicaError, late(patience)));
                Ok(Prefilled { body: body.unwrap_or_else(late)?, at: Instant::now(), not_before })
            }
            () = down.cancelled() => {
                let message = "the replica stopped answering its probes";
                Err(Unfilled::of(Outcome::Unreached, message))
            }
        }
    }

    async fn exchange(&self) -> Result<Bytes, Unfilled> {
        let Ask { upstream, member, method, path, headers, added, body, .. } = self;
        let request = Request { method, path, headers, added, body };
        let Answered { head, body, .. } = upstream.send(&member.dial, request).await?;
        member.life.answered();
        let status = head.status;
        let outcome = match meaning(status) {
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

/// KV that waits for a decode leg. It is given back when this is dropped before any byte of that leg
/// was taken.
struct Waiting<'a> {
    transport: &'a Transport,
    model: ModelId,
    to: &'a Arc<Member>,
    leg: &'a Leg,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.leg.is_taken() {
            self.transport.give_back(self.model, self.to, &self.leg.added);
        }
    }
}

/// Waits for `then`, and on if the leg is being sent at that time.
async fn unsent(leg: &Leg, then: Instant) {
    tokio::time::sleep_until(then).await;
    if leg.is_taken() {
        std::future::pending().await
    }
}

/// A prefill leg that runs beside its decode leg; dropping it cancels the leg.
struct Task(Option<JoinHandle<Result<Prefilled, Unfilled>>>);

impl Task {
    async fn end(&mut self) -> Result<Prefilled, Unfilled> {
        let Some(task) = &mut self.0 else { return std::future::pending().await };
        let ended = task.await;
        self.0 = None;
        ended.unwrap_or_else(|_| Err(Unfilled::of(Outcome::ReplicaError, "the leg was stopped")))
    }

    fn goes_on(&mut self) {
        self.0 = None;
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
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
