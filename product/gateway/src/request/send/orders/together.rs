//! Both legs start at once, and the engines find each other.

use meridian_protocol::legs::Finish;
use meridian_routing::Outcome;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::Split;
use super::prefill::{Prefilled, Unfilled};
use crate::facts::timeline::Mark;
use crate::machine::ticket::Ticket;
use crate::request::send::Attempts;
use crate::request::send::replica::Leg;
use crate::request::send::transport::{Failure, Started};

impl Attempts {
    /// Both legs start at once. The first to fail ends the other.
    pub(super) async fn together(
        &self,
        split: Split<'_>,
        ticket: &Ticket,
    ) -> Result<Started, Failure> {
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
        let filled = filled.inspect_err(|unfilled| self.plane.metrics.fell_back(unfilled.why))?;
        if protocol.needs_limit {
            match Finish::read(context.call.endpoint, &filled.body) {
                Ok(Finish::Limit) => {}
                Ok(_) => return Err(self.fall_back("finish")),
                Err(why) => return Err(self.fall_back(why.word())),
            }
        }
        self.plane.metrics.prefilled(sent.elapsed());
        ticket.mark(Mark::Prefilled, None);
        ticket.prefilled(None);
        let started = decode.await;
        self.decoded(Some(filled.at), started)
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
