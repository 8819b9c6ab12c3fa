//! An attempt with two legs: one replica computes the prompt, another one answers with its KV.
//!
//! The two requests, their order and what each says of the other replica come from the protocol
//! ([`meridian_protocol::legs`]). Dropping the attempt drops both connections, which cancels both legs.
//! A prefill leg that fails, or hands over nothing that is safe to use, is reported to the machine,
//! which decides again; nothing has been sent to the client by then.

mod decode_only;
mod give_back;
mod in_turn;
mod prefill;
mod together;

use std::sync::Arc;

use meridian_base::mix;
use meridian_protocol::legs::{Order, Pair, Protocol};
use meridian_protocol::openai::Splices;
use meridian_routing::Outcome;
use tokio::time::Instant;

use self::prefill::Unfilled;
use crate::machine::ticket::Ticket;
use crate::replicas::member::Member;
use crate::request::context::{Payload, RequestContext};
use crate::request::send::Attempts;
use crate::request::send::transport::{Failure, Started};

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

impl Attempts {
    pub(crate) async fn to_pair(
        &self,
        context: &RequestContext,
        payload: &Payload,
        legs: Legs<'_>,
        ticket: &Ticket,
    ) -> Result<Started, Failure> {
        assert_ne!(legs.from.id, legs.to.id, "a replica hands its KV over to itself");
        assert!(!payload.continues || payload.prefill.is_none(), "a broken chat is not split");
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
            id: mix(self.plane.ids.seed(), ticket.fresh()),
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
            Order::DecodeOnly => self.decode_only(split, ticket).await,
        }
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
                    self.plane.metrics.transferred(since.elapsed());
                }
                Ok(started)
            }
            Err(failure) => {
                self.plane.metrics.fell_back("decode");
                Err(Failure { said: None, ..failure })
            }
        }
    }

    /// The request stays whole at the replica that answers, for this reason.
    fn fall_back(&self, why: &'static str) -> Failure {
        self.plane.metrics.fell_back(why);
        let outcome = match why {
            // Not the prefill replica's: the request cannot be split, it was late, or its answer
            // ended with the first token. A client can cause the last at every replica.
            "body" | "lease" | "finish" | "unfinished" => Outcome::ClientError,
            _ => Outcome::NoKv,
        };
        Unfilled::of(outcome, format!("it hands over no KV ({why})")).into()
    }
}
