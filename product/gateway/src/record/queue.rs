//! The queue between the requests and the thread that writes their records.
//!
//! A full queue drops records, and counts them: the disk is slow, or the reader of the standard
//! output does not read. A request costs an allocation at its start and one move at its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use meridian_config as config;
use meridian_protocol::openai::Endpoint;
use meridian_tls::{Look, Unread};
use prometheus_client::metrics::counter::Counter;

use super::recent::Recent;
use crate::facts::Record;
use crate::facts::blocks::Spans;
use crate::facts::trace::TraceIds;

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
    /// Use these sections of the file from now on, or report the problems and go on as before.
    /// Nothing of both if the flag is set: the sender has given up.
    Configure(Box<Sections>, Arc<AtomicBool>, SyncSender<Vec<String>>),
    /// Write everything, and stop.
    Stop(SyncSender<Vec<String>>),
}

/// The sections of the configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sections {
    pub(super) access_log: Option<config::AccessLog>,
    pub(super) journal: Option<config::Journal>,
}

impl Sections {
    pub(super) fn of(config: &config::Gateway) -> Sections {
        Sections { access_log: config.access_log.clone(), journal: config.journal.clone() }
    }
}

/// The sinks' counters of dropped records.
#[derive(Clone, Default)]
pub(super) struct Dropped {
    pub(super) access_log: Counter,
    pub(super) journal: Counter,
    pub(super) traces: Counter,
}

/// The queue of records, shared by all threads.
pub(crate) struct Records {
    queue: SyncSender<Message>,
    /// Which sinks are configured.
    has_log: AtomicBool,
    has_journal: AtomicBool,
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
        assert!(most > 0, "a queue without room would make requests wait for the writer");
        let (queue, records) = sync_channel(most);
        let (spans, recent) = (Arc::new(Spans::new()), Arc::new(Recent::new(keep)));
        let trace_ids = TraceIds::new(seed);
        let (has_log, has_journal) = Default::default();
        (Records { queue, has_log, has_journal, dropped, spans, recent, trace_ids }, records)
    }

    /// These sections are in use.
    pub(super) fn uses(&self, sections: &Sections) {
        self.has_log.store(sections.access_log.is_some(), Ordering::Relaxed);
        self.has_journal.store(sections.journal.is_some(), Ordering::Relaxed);
        if let Some(journal) = &sections.journal {
            self.spans.cut_at(journal.block_tokens);
        }
    }

    fn has_log(&self) -> bool {
        self.has_log.load(Ordering::Relaxed)
    }

    fn has_journal(&self) -> bool {
        self.has_journal.load(Ordering::Relaxed)
    }

    /// Whether anything but a trace takes a request to this endpoint.
    pub(super) fn wants(&self, endpoint: Endpoint, from_client: bool) -> bool {
        let is_journaled = self.has_journal() && Record::is_traced(endpoint, from_client);
        self.has_log() || self.recent.keeps() || is_journaled
    }

    /// Whether there are files to open again.
    pub(crate) fn has_files(&self) -> bool {
        self.has_log() || self.has_journal()
    }

    /// Whether an admitted request goes to the journal.
    pub(super) fn journals(&self, record: &Record) -> bool {
        self.has_journal() && Record::is_traced(record.endpoint, record.from_client)
    }

    /// Passes a record to the writer, or drops it.
    pub(super) fn push(&self, record: Box<Record>) {
        let Err(TrySendError::Full(lost) | TrySendError::Disconnected(lost)) =
            self.queue.try_send(Message::Record(record))
        else {
            return;
        };
        let Message::Record(lost) = lost else { return };
        for (counter, is_lost) in [
            (&self.dropped.access_log, self.has_log()),
            (&self.dropped.journal, lost.blocks.is_some()),
            (&self.dropped.traces, lost.times.trace.is_some()),
        ] {
            counter.inc_by(is_lost.into());
        }
    }

    /// Adopts the sections of another file, or reports why its files can't be written. Waits for the
    /// writer.
    pub(crate) fn configure(&self, config: &config::Gateway) -> Result<(), Unread> {
        let sections = Sections::of(config);
        let (next, taken) = (Box::new(sections.clone()), Arc::new(AtomicBool::default()));
        let flag = taken.clone();
        let answer = self.ask(|answer| Message::Configure(next, flag, answer));
        match answer {
            // The writer sets the flag when it starts, and then the change is made.
            None if taken.swap(true, Ordering::AcqRel) => {
                self.uses(&sections);
                Ok(())
            }
            Some(problems) if problems.is_empty() => {
                self.uses(&sections);
                Ok(())
            }
            Some(problems) => Err(Unread(problems.join("; "))),
            None => Err(stuck()),
        }
    }

    /// Opens the files again, as after a rename by logrotate. Waits for the writer.
    pub(crate) fn reopen(&self) -> Look {
        match self.ask(Message::Reopen) {
            Some(problems) if problems.is_empty() => Look::New,
            Some(problems) => Look::Bad(Unread(problems.join("; "))),
            None => Look::Bad(stuck()),
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
    fn ask(&self, message: impl FnOnce(SyncSender<Vec<String>>) -> Message) -> Option<Vec<String>> {
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

fn stuck() -> Unread {
    let waited = PATIENCE.as_secs();
    Unread(format!("access_log, journal: the disk did not take earlier lines within {waited} s"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::tests::answered;

    // A queue that is not emptied takes its number of records; the others are dropped and counted,
    // each for the sinks that would have had it.
    #[test]
    fn a_full_queue() {
        let dropped = Dropped::default();
        let (records, _queue) = Records::new(2, 0, [1, 2], dropped.clone());
        let config = "version: 1\naccess_log: {to: a}\njournal: {to: b}\n";
        records.uses(&Sections::of(&config::Gateway::read(config).expect("is valid")));
        for n in 0..5 {
            let mut record = answered();
            if n != 4 {
                let prompt = meridian_base::Fingerprinter::new(1, 0, 64);
                record.blocks = Some(records.spans.take(meridian_base::ModelId(0), &prompt));
            }
            records.push(Box::new(record));
        }
        assert_eq!((dropped.access_log.get(), dropped.journal.get()), (3, 2));
    }
}
