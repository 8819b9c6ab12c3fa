//! One record for each request, which feeds the metrics and, if they are on, the access log and the
//! journal.
//!
//! A [`Recording`] accompanies its request from the first header on, and is emitted when it is
//! dropped. It is a field of whatever owns the request at the time, at last of its ticket, so each
//! request has exactly one record: an answer, a refusal, a client that disconnects and a panic all
//! drop it. So the metrics, the log and the journal count the same requests. The cost is one
//! allocation and two reads of the clock.
//!
//! The request's thread only moves the finished record into a queue. One thread for all formats and
//! writes the lines. If it does not keep up, records are dropped and counted; requests never wait
//! for a disk.
//!
//! A record has no text of a prompt or a reply, and no model name or session of the client's own
//! writing: models are named as the engines name them, and sessions are keyed hashes.

mod blocks;
pub(crate) mod facts;
mod file;
mod journal;
mod line;
mod queue;
mod start;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use meridian_base::Fingerprinter;
use meridian_wire::openai::Endpoint;

use self::facts::{Asked, Record};
pub(crate) use self::queue::Records;
pub(crate) use self::start::{problems, start};
use crate::metrics::RequestMetrics;

/// The record of a request that has not ended; empty once it has been emitted.
#[derive(Default)]
pub(crate) struct Recording(Option<Open>);

struct Open {
    record: Box<Record>,
    metrics: Arc<RequestMetrics>,
    /// The access log and the journal, if one of them takes this request.
    records: Option<Arc<Records>>,
}

impl Recording {
    /// Starts the record of a request that has just arrived.
    pub(crate) fn begin(
        metrics: &Arc<RequestMetrics>,
        records: Option<&Arc<Records>>,
        endpoint: Endpoint,
        from_client: bool,
    ) -> Recording {
        let wanted = records.filter(|records| records.wants(endpoint, from_client));
        Recording(Some(Open {
            record: Box::new(Record::new(endpoint, from_client)),
            metrics: metrics.clone(),
            records: wanted.cloned(),
        }))
    }

    /// Notes facts, unless the request has ended.
    pub(crate) fn note(&mut self, fill: impl FnOnce(&mut Record)) {
        if let Some(open) = &mut self.0 {
            fill(&mut open.record);
        }
    }

    /// Notes the admitted request, with the blocks of its prompt if it belongs in the journal.
    pub(crate) fn admitted(&mut self, asked: impl FnOnce() -> Asked, prompt: &Fingerprinter) {
        let Some(Open { record, records, .. }) = &mut self.0 else { return };
        let asked = asked();
        if let Some(records) = records.as_ref().filter(|records| records.journals(record)) {
            record.blocks = Some(records.spans.take(asked.model, prompt));
        }
        record.asked = Some(asked);
    }

    /// Notes the time of the first token, and counts it at once: a long answer may go on for minutes.
    pub(crate) fn first_token(&mut self, ttft: Duration) {
        let Some(Open { record, metrics, .. }) = &mut self.0 else { return };
        record.ttft = Some(ttft);
        metrics.first_token(record, ttft);
    }

    /// Ends the request with this outcome.
    pub(crate) fn end(&mut self, outcome: &'static str) {
        self.note(|record| record.outcome = outcome);
        self.emit();
    }

    fn emit(&mut self) {
        if let Some(Open { mut record, metrics, records }) = self.0.take() {
            record.over();
            metrics.ended(&record);
            if let Some(records) = records {
                records.push(record);
            }
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.emit();
    }
}
