//! One record for each request, written to the access log, to the journal, or to both.
//!
//! A [`Recording`] accompanies its request from the first header on, and is emitted when it is
//! dropped. It is a field of whatever owns the request at the time, at last of its ticket, so each
//! request has exactly one record: an answer, a refusal, a client that disconnects and a panic all
//! drop it. Without an access log and a journal it is empty, and nothing is noted.
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

use meridian_base::Fingerprinter;
use meridian_wire::openai::Endpoint;

use self::facts::{Asked, Record};
pub(crate) use self::queue::Records;
pub(crate) use self::start::{problems, start};

/// The record of a request that has not ended; empty if it is not recorded.
#[derive(Default)]
pub(crate) struct Recording(Option<Open>);

struct Open {
    record: Box<Record>,
    records: Arc<Records>,
}

impl Recording {
    /// Starts the record of a request that has just arrived, if it is wanted.
    pub(crate) fn begin(
        records: Option<&Arc<Records>>,
        endpoint: Endpoint,
        from_client: bool,
    ) -> Recording {
        let wanted = records.filter(|records| records.wants(endpoint, from_client));
        Recording(wanted.map(|records| {
            let record = Box::new(Record::new(endpoint, from_client));
            Open { record, records: records.clone() }
        }))
    }

    /// Notes facts, if the request is recorded.
    pub(crate) fn note(&mut self, fill: impl FnOnce(&mut Record)) {
        if let Some(open) = &mut self.0 {
            fill(&mut open.record);
        }
    }

    /// Notes the admitted request, with the blocks of its prompt if it belongs in the journal.
    pub(crate) fn admitted(&mut self, asked: impl FnOnce() -> Asked, prompt: &Fingerprinter) {
        let Some(Open { record, records }) = &mut self.0 else { return };
        let asked = asked();
        if records.journals(record) {
            record.blocks = Some(records.spans.take(asked.model, prompt));
        }
        record.asked = Some(asked);
    }

    /// Ends the request with this outcome.
    pub(crate) fn end(&mut self, outcome: &'static str) {
        self.note(|record| record.outcome = outcome);
        self.emit();
    }

    fn emit(&mut self) {
        if let Some(Open { mut record, records }) = self.0.take() {
            record.over();
            records.push(record);
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.emit();
    }
}
