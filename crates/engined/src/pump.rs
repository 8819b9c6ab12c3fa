//! The task that owns the machine: it receives commands, advances time, and delivers outputs to the
//! mailboxes.

use crate::clock::Clock;
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
    /// Start a request and report to the mailbox.
    Submit(Submission, Arc<Mailbox>),
    /// The client disconnected.
    Abort(RequestId),
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
}

/// The machine and everything that drives it.
#[derive(Debug)]
pub(crate) struct Pump {
    engine: Engine,
    clock: Clock,
    entries: HashMap<u64, Entry>,
    metrics: Metrics,
}

/// Commands received at a time. A connection has at most one request and its abort in flight, so
/// the number of connections limits the queue.
const BATCH: usize = 256;

impl Pump {
    pub(crate) fn new(engine: Engine, clock: Clock, model: &str) -> Pump {
        let metrics = Metrics::new(model, engine.config());
        Pump { engine, clock, entries: HashMap::new(), metrics }
    }

    /// Runs until every sender of commands is gone.
    pub(crate) async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command>) {
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            let due = self.engine.poll_timeout().map(|at| self.clock.instant(at));
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
        self.engine.handle_timeout(now);
        self.drain();
    }

    fn command(&mut self, now: Time, command: Command) {
        match command {
            Command::Submit(submission, mailbox) => {
                let id = submission.id;
                let entry = Entry { mailbox: mailbox.clone(), arrived: now, latest: None };
                self.entries.insert(id.0, entry);
                self.engine.handle(now, Input::Submit(submission));
                self.drain();
                mailbox.update(|progress| progress.accepted = true);
            }
            Command::Abort(id) => {
                self.engine.handle(now, Input::Abort(id));
                self.drain();
            }
            // A client that left before its answer is not an error.
            Command::Metrics(reply) => {
                self.turn(now);
                let _ = reply.send(self.metrics.page(&self.engine.stats()));
            }
            Command::Load(reply) => {
                self.turn(now);
                let _ = reply.send(self.engine.stats());
            }
        }
    }

    fn drain(&mut self) {
        while let Some(output) = self.engine.poll() {
            match output {
                Output::Admitted { .. } | Output::Preempted { .. } => {}
                Output::Tokens { id, at, total, new } => self.tokens(id, at, total, new),
                Output::Finished { id, why, usage, timings, .. } => {
                    let wall = |model| self.clock.wall_seconds(model);
                    self.metrics.finished(why, &usage, &timings, wall);
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
