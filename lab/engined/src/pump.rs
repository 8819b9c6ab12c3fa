//! The task that owns the machine: it receives commands, advances time, and delivers outputs to the
//! mailboxes.

use crate::clock::Clock;
use crate::kv::{Denial, FetchError, Legs, Op, Part, Read, Running};
use crate::lora_info::InUse;
use crate::mailbox::{Mailbox, Progress};
use crate::metrics::Metrics;
use meridian_base::{RequestId, Time};
use meridian_engine::{Engine, Input, Output, Stats, Submission};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// Commands from connections to the pump.
#[derive(Debug)]
pub(crate) enum Command {
    /// Start a request, or one leg of one, for an adapter if it names one, and report to the mailbox.
    Submit(Submission, Arc<Mailbox>, Option<Box<Part>>, Option<Arc<str>>),
    /// The client disconnected.
    Abort(RequestId),
    /// The fetch of a decode leg's KV has ended.
    Fetched(RequestId, Result<(), FetchError>),
    /// Another engine asks for something of a prefill leg.
    Remote {
        /// Its name in the params.
        request: String,
        /// What it asks for.
        op: Op,
        /// Gets the blocks that were asked for.
        reply: oneshot::Sender<Result<Read, Denial>>,
    },
    /// No request makes progress until the next of these; and then they do again.
    Stall(bool),
    /// Render the metrics page.
    Metrics(oneshot::Sender<String>),
    /// Report the load.
    Load(oneshot::Sender<Stats>),
}

/// A request in the engine, as the pump follows it.
#[derive(Debug)]
struct Entry {
    mailbox: Arc<Mailbox>,
    arrived: Time,
    /// When its latest token was generated.
    latest: Option<Time>,
    leg: Option<Running>,
    adapter: Option<Arc<str>>,
    /// It is in the batch.
    runs: bool,
}

/// The machine and everything that drives it.
#[derive(Debug)]
pub(crate) struct Pump {
    engine: Engine,
    clock: Clock,
    entries: HashMap<u64, Entry>,
    metrics: Metrics,
    legs: Option<Legs>,
    /// For the tasks of decode legs.
    commands: mpsc::WeakUnboundedSender<Command>,
    /// What has come since the engine stalled; none if it makes progress.
    stalled: Option<Vec<Command>>,
}

/// Commands received at a time. A client's connection has at most one request and its abort in
/// flight, a connection of the side channel one command, and a decode leg one transfer, so the
/// number of connections limits the queue.
const BATCH: usize = 256;

impl Pump {
    /// `commands` is a sender to this pump.
    pub(crate) fn new(
        engine: Engine,
        clock: Clock,
        metrics: Metrics,
        legs: Option<Legs>,
        commands: mpsc::WeakUnboundedSender<Command>,
    ) -> Pump {
        let entries = HashMap::new();
        Pump { engine, clock, entries, metrics, legs, commands, stalled: None }
    }

    /// Runs until every sender of commands is gone.
    pub(crate) async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command>) {
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            let due = self.engine.poll_timeout().filter(|_| self.stalled.is_none());
            let due = due.map(|at| self.clock.instant(at));
            let sleep = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                count = commands.recv_many(&mut batch, BATCH) => {
                    if count == 0 {
                        return;
                    }
                    let now = self.clock.now();
                    batch.drain(..).for_each(|command| self.command(now, command));
                    self.turn(now);
                }
                () = sleep => self.turn(self.clock.now()),
            }
        }
    }

    /// Performs everything that is due and delivers the results.
    fn turn(&mut self, now: Time) {
        if self.stalled.is_some() {
            return;
        }
        self.engine.handle_timeout(now);
        self.drain();
    }

    fn command(&mut self, now: Time, command: Command) {
        if let Some(kept) = &mut self.stalled
            && !matches!(command, Command::Stall(_) | Command::Metrics(_) | Command::Load(_))
        {
            kept.push(command);
            return;
        }
        match command {
            Command::Stall(true) => _ = self.stalled.get_or_insert_default(),
            Command::Stall(false) => {
                let kept = self.stalled.take().unwrap_or_default();
                kept.into_iter().for_each(|command| self.command(now, command));
            }
            Command::Submit(submission, mailbox, part, adapter) => {
                self.submit(now, submission, &mailbox, part, adapter);
                mailbox.update(|progress| progress.accepted = true);
            }
            Command::Abort(id) => self.input(now, Input::Abort(id)),
            Command::Fetched(id, result) => {
                let input = self.legs.as_ref().map(|legs| legs.fetched(id, result));
                if matches!(input, Some(Input::FetchFailed { recompute: true, .. })) {
                    self.computes_itself(id);
                }
                input.into_iter().for_each(|input| self.input(now, input));
            }
            Command::Remote { request, op, reply } => {
                let Some(legs) = &mut self.legs else { return };
                let (result, input) = legs.remote(&request, &op);
                input.into_iter().for_each(|input| self.input(now, input));
                let _ = reply.send(result);
            }
            // A client that left before its answer is not an error.
            Command::Metrics(reply) => {
                self.turn(now);
                let in_use = self.adapters();
                let kv = self.legs.as_ref().map(|legs| legs.shared().metrics());
                let page = self.metrics.page(&self.engine.stats(), kv.as_deref(), &in_use);
                drop(kv);
                let _ = reply.send(page);
            }
            Command::Load(reply) => {
                self.turn(now);
                let _ = reply.send(self.engine.stats());
            }
        }
    }

    fn submit(
        &mut self,
        now: Time,
        submission: Submission,
        mailbox: &Arc<Mailbox>,
        part: Option<Box<Part>>,
        adapter: Option<Arc<str>>,
    ) {
        let id = submission.id;
        let commands = self.commands.clone();
        let report = move |result| {
            if let Some(commands) = commands.upgrade() {
                // Without a pump there is no request to inform.
                let _ = commands.send(Command::Fetched(id, result));
            }
        };
        let start = |(legs, part): (&Legs, Box<Part>)| legs.start(*part, report);
        let (leg, running) = self.legs.as_ref().zip(part).map(start).unzip();
        let entry = Entry {
            mailbox: mailbox.clone(),
            arrived: now,
            latest: None,
            leg: running,
            adapter,
            runs: false,
        };
        self.entries.insert(id.0, entry);
        self.input(now, Input::SubmitLeg(submission, leg.unwrap_or_default()));
    }

    fn input(&mut self, now: Time, input: Input) {
        self.engine.handle(now, input);
        self.drain();
    }

    /// The usage of a decode leg that computes its prompt itself has its own prefix hit.
    fn computes_itself(&mut self, id: RequestId) {
        let leg = self.entries.get_mut(&id.0).and_then(|entry| entry.leg.as_mut());
        if let Some(Running::Decode { cached, .. }) = leg {
            *cached = None;
        }
    }

    fn drain(&mut self) {
        while let Some(output) = self.engine.poll() {
            match output {
                Output::Admitted { id, .. } => self.runs(id, true),
                Output::Preempted { id, .. } => self.runs(id, false),
                Output::Tokens { id, at, total, new } => self.tokens(id, at, total, new),
                Output::Deferred { id, cached_blocks, .. } => self.deferred(id, cached_blocks),
                Output::Held { id, tokens, .. } => self.held(id, tokens),
                Output::Released { id, .. } => {
                    self.legs.iter_mut().for_each(|legs| legs.released(id));
                }
                Output::Finished { id, why, mut usage, timings, .. } => {
                    let wall = |model| self.clock.wall_seconds(model);
                    self.metrics.finished(why, &usage, &timings, wall);
                    let leg = self.entries.get_mut(&id.0).and_then(|entry| entry.leg.take());
                    if let (Some(legs), Some(leg)) = (&self.legs, leg) {
                        legs.finished(&self.engine, id, leg, &mut usage);
                    }
                    self.finish(id, |progress| {
                        progress.generated = usage.reply_tokens;
                        progress.finished = Some((why, usage));
                    });
                }
                Output::Refused { id, why, .. } => {
                    self.finish(id, |progress| progress.refused = Some(why));
                }
            }
        }
    }

    fn runs(&mut self, id: RequestId, runs: bool) {
        if let Some(entry) = self.entries.get_mut(&id.0) {
            entry.runs = runs;
        }
    }

    /// The adapters of the requests in the engine.
    fn adapters(&self) -> InUse {
        let mut in_use = InUse::default();
        for entry in self.entries.values() {
            let of = if entry.runs { &mut in_use.running } else { &mut in_use.waiting };
            of.extend(entry.adapter.clone());
        }
        in_use
    }

    /// A decode leg has KV for its prompt: the fetch starts.
    fn deferred(&self, id: RequestId, cached_blocks: u32) {
        let leg = self.entries.get(&id.0).and_then(|entry| entry.leg.as_ref());
        if let Some(Running::Decode { orders, .. }) = leg {
            // The channel has room for the only order of a request.
            let _ = orders.try_send(cached_blocks);
        }
    }

    fn held(&mut self, id: RequestId, tokens: u32) {
        let leg = self.entries.get_mut(&id.0).and_then(|entry| entry.leg.as_mut());
        if let (Some(legs), Some(Running::Prefill(export, held))) = (&mut self.legs, leg) {
            *held = Some(tokens);
            legs.held(&self.engine, id, export);
        }
    }

    fn tokens(&mut self, id: RequestId, at: Time, total: u32, new: u32) {
        let Some(entry) = self.entries.get_mut(&id.0) else { return };
        match entry.latest.replace(at) {
            None => self.metrics.first_token(self.clock.wall_seconds(at.since(entry.arrived))),
            Some(latest) => {
                let gap = self.clock.wall_seconds(at.since(latest)) / f64::from(new);
                self.metrics.token_gap(gap, new);
            }
        }
        entry.mailbox.update(|progress| progress.generated = total);
    }

    fn finish(&mut self, id: RequestId, change: impl FnOnce(&mut Progress)) {
        if let Some(entry) = self.entries.remove(&id.0) {
            entry.mailbox.update(change);
        }
    }
}

/// Informs all waiting readers that nothing more will come.
impl Drop for Pump {
    fn drop(&mut self) {
        for entry in self.entries.values() {
            entry.mailbox.update(|progress| progress.closed = true);
        }
    }
}
