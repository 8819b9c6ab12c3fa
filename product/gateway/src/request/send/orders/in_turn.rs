//! The decode leg starts after the prefill's answer, which names the KV.

use std::sync::Arc;

use meridian_base::{ModelId, keyed};
use meridian_protocol::legs::{Handed, Pair};
use tokio::time::Instant;

use super::Split;
use crate::facts::timeline::Mark;
use crate::fault::{AttemptError, Fault};
use crate::http::parts::Taken;
use crate::machine::ticket::{Ticket, narrow};
use crate::replicas::member::Member;
use crate::request::context::RequestContext;
use crate::request::send::Attempts;
use crate::request::send::replica::Leg;
use crate::request::send::transport::{Failure, Started};

impl Attempts {
    /// The decode leg starts after the prefill's answer.
    pub(super) async fn in_turn(
        &self,
        split: Split<'_>,
        ticket: &Ticket,
    ) -> Result<Started, Failure> {
        let Split { context, payload, legs, protocol, pair, .. } = split;
        let ask = self.ask(split, ticket)?;
        let sent = Instant::now();
        ticket.mark(Mark::PrefillSent, None);
        let prefilled =
            ask.send().await.inspect_err(|unfilled| self.plane.metrics.fell_back(unfilled.why))?;
        ticket.mark(Mark::Prefilled, None);
        let endpoint = context.call.endpoint;
        let handed = match protocol.hands_over {
            true => Some(
                Handed::read(endpoint, &prefilled.body)
                    .map_err(|why| self.fall_back(why.word()))?,
            ),
            false => None,
        };
        if let Some(handed) = &handed {
            let prompt = keyed(self.plane.ids.seed(), &payload.body);
            if !self.plane.inputs.used_kv.is_for(handed.kv, prompt) {
                return Err(self.fall_back("reused"));
            }
        }
        let pair = Pair { ttft_left_ms: self.ttft_left_ms(context), ..*pair };
        let added =
            (protocol.decode)(&pair, handed.as_ref()).map_err(|_| self.fall_back("lacks"))?;
        if prefilled.not_before.elapsed() > context.settings.kv_fresh {
            return Err(self.fall_back("lease"));
        }
        self.plane.metrics.prefilled(sent.elapsed());
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
        Waiting { attempts: self, model: context.prompt.model, to, leg }
    }
}

/// KV that waits for a decode leg. It is given back when this is dropped before any byte of that leg
/// was taken.
struct Waiting<'a> {
    attempts: &'a Attempts,
    model: ModelId,
    to: &'a Arc<Member>,
    leg: &'a Leg,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.leg.is_taken() {
            self.attempts.give_back(self.model, self.to, &self.leg.added);
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
