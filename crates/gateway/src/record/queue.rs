//! The queue between the requests and the thread that writes their records.
//!
//! A full queue drops records, and counts them: the disk is slow, or the reader of the standard
//! output does not read. A request costs an allocation at its start and one move at its end.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use meridian_tls::{Look, Unread};
use meridian_wire::openai::Endpoint;
use prometheus_client::metrics::counter::Counter;

use super::blocks::Spans;
use super::facts::Record;
use super::recent::Recent;
use super::trace::TraceIds;

/// Most records in the queue. The writer empties it every few milliseconds.
pub(super) const MOST_QUEUED: usize = 8192;
/// Time for the writer to do as it is asked. A disk may hang.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(5);

/// A message to the writer.
pub(super) enum Message {
    Record(Box<Record>),
    /// Open the files again, and report the problems.
    Reopen(SyncSender<Vec<String>>),
    /// Write everything, and stop.
    Stop(SyncSender<Vec<String>>),
}

/// The sinks' counters of dropped records; none for a sink that is not configured.
#[derive(Clone)]
pub(super) struct Dropped {
    pub(super) access_log: Option<Counter>,
    pub(super) journal: Option<Counter>,
    pub(super) traces: Counter,
}

/// The queue of records, shared by all threads.
pub(crate) struct Records {
    queue: SyncSender<Message>,
    dropped: Dropped,
    pub(super) spans: Arc<Spans>,
    /// The newest finished requests.
    pub(crate) recent: Arc<Recent>,
    pub(crate) trace_ids: TraceIds,
}

impl Records {
    /// A queue for at most `most` records, and its other end.
    /// The newest `keep` are kept after they are written.
    pub(super) fn new(
        most: usize,
        keep: usize,
        seed: [u64; 2],
        dropped: Dropped,
    ) -> (Records, Receiver<Message>) {
        let (queue, records) = sync_channel(most);
        let (spans, recent) = (Arc::new(Spans::new()), Arc::new(Recent::new(keep)));
        let trace_ids = TraceIds::new(seed);
        (Records { queue, dropped, spans, recent, trace_ids }, records)
    }

    /// Whether anything but a trace takes a request to this endpoint.
    pub(super) fn wants(&self, endpoint: Endpoint, from_client: bool) -> bool {
        let is_journaled =
            self.dropped.journal.is_some() && Record::is_traced(endpoint, from_client);
        self.dropped.access_log.is_some() || self.recent.keeps() || is_journaled
    }

    /// Whether there are files to open again.
    pub(crate) fn has_files(&self) -> bool {
        self.dropped.access_log.is_some() || self.dropped.journal.is_some()
    }

    /// Whether an admitted request goes to the journal.
    pub(super) fn journals(&self, record: &Record) -> bool {
        self.dropped.journal.is_some() && Record::is_traced(record.endpoint, record.from_client)
    }

    /// Passes a record to the writer, or drops it.
    pub(super) fn push(&self, record: Box<Record>) {
        let Err(TrySendError::Full(lost) | TrySendError::Disconnected(lost)) =
            self.queue.try_send(Message::Record(record))
        else {
            return;
        };
        let Message::Record(lost) = lost else { return };
        if let Some(dropped) = &self.dropped.access_log {
            dropped.inc();
        }
        if lost.times.trace.is_some() {
            self.dropped.traces.inc();
        }
        if let Some(dropped) = self.dropped.journal.as_ref().filter(|_| lost.blocks.is_some()) {
            dropped.inc();
        }
    }

    /// Opens the files again, as after a rename by logrotate. Waits for the writer.
    pub(crate) fn reopen(&self) -> Look {
        match self.ask(Message::Reopen) {
            Some(problems) if problems.is_empty() => Look::New,
            Some(problems) => Look::Bad(Unread(problems.join("; "))),
            None => {
                let waited = PATIENCE.as_secs();
                Look::Bad(Unread(format!("the disk did not take earlier lines within {waited} s")))
            }
        }
    }

    /// Writes all records and ends the writer. Later records are dropped.
    pub(crate) fn stop(&self) {
        match self.ask(Message::Stop) {
            Some(problems) => {
                for problem in problems {
                    tracing::error!(problem, "the last records were not written");
                }
            }
            None => tracing::error!("the last records were not written in time"),
        }
    }

    /// Sends a message and waits for the problems that it met; none if the writer does not answer.
    fn ask(&self, message: fn(SyncSender<Vec<String>>) -> Message) -> Option<Vec<String>> {
        let until = Instant::now() + PATIENCE;
        let (answer, answered) = sync_channel(1);
        let mut message = message(answer);
        loop {
            message = match self.queue.try_send(message) {
                Ok(()) => break,
                Err(TrySendError::Disconnected(_)) => return None,
                Err(TrySendError::Full(message)) => message,
            };
            if Instant::now() >= until {
                return None;
            }
            std::thread::sleep(PAUSE);
        }
        answered.recv_timeout(until.saturating_duration_since(Instant::now())).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::facts::tests::answered;

    // A queue that is not emptied takes its number of records; the others are dropped and counted,
    // each for the sinks that would have had it.
    #[test]
    fn a_full_queue() {
        let counter = || Some(Counter::default());
        let traces = Counter::default();
        let dropped = Dropped { access_log: counter(), journal: counter(), traces };
        let (records, _queue) = Records::new(2, 0, [1, 2], dropped.clone());
        for n in 0..5 {
            let mut record = answered();
            if n != 4 {
                let prompt = meridian_base::Fingerprinter::new(1, 0, 64);
                record.blocks = Some(records.spans.take(meridian_base::ModelId(0), &prompt));
            }
            records.push(Box::new(record));
        }
        let count = |counter: &Option<Counter>| counter.as_ref().map(Counter::get);
        assert_eq!((count(&dropped.access_log), count(&dropped.journal)), (Some(3), Some(2)));
    }
}
