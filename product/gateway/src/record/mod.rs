//! One record for each request, for the metrics, the access log, the journal, traces, and the newest
//! requests that the admin port shows.
//!
//! A [`Recording`] accompanies its request from the first header on, and is emitted when it is
//! dropped. It is a field of whatever owns the request at the time, at last of its ticket, so each
//! request has exactly one record: an answer, a refusal, a client that disconnects and a panic all
//! drop it. So metrics, log, journal and traces count the same requests. Where only the metrics take
//! it, the cost is one allocation and two reads of the clock.
//!
//! The request's thread only moves the finished record into a queue. One thread for all formats and
//! writes the lines, and builds the spans. If it does not keep up, records are dropped and counted;
//! requests never wait for a disk or a collector.
//!
//! A record has no text of a prompt or a reply, and no model name or session of the client's own
//! writing: models are named as the engines or the configuration name them, and sessions are keyed hashes.

mod collector;
mod export;
mod file;
mod journal;
mod line;
mod otlp;
mod queue;
mod recent;
mod start;
mod tree;
mod writer;

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::HeaderValue;
use meridian_base::Fingerprinter;
use meridian_protocol::openai::Endpoint;

pub(crate) use self::queue::Records;
pub(crate) use self::recent::Recent;
pub(crate) use self::start::{problems, start};
use crate::facts::timeline::{Mark, Part};
use crate::facts::trace::Trace;
use crate::facts::{Asked, Record};
use crate::metrics::RequestMetrics;

/// The record of a request that has not ended; empty once it has been emitted.
#[derive(Default)]
pub(crate) struct Recording(Option<Open>);

struct Open {
    record: Box<Record>,
    metrics: Arc<RequestMetrics>,
    /// The queue to the writer, if anything behind it takes this request.
    records: Option<Arc<Records>>,
}

impl Recording {
    /// Starts the record of a request that has just arrived; `trace` is its place in a trace, if it is
    /// traced.
    pub(crate) fn begin(
        metrics: &Arc<RequestMetrics>,
        records: &Arc<Records>,
        endpoint: Endpoint,
        from_client: bool,
        trace: Option<Trace>,
    ) -> Recording {
        let is_wanted = trace.is_some() || records.wants(endpoint, from_client);
        let mut record = Box::new(Record::new(endpoint, from_client));
        record.times.trace = trace;
        Recording(Some(Open {
            record,
            metrics: metrics.clone(),
            records: is_wanted.then(|| records.clone()),
        }))
    }

    /// Notes facts, unless the request has ended.
    pub(crate) fn note(&mut self, fill: impl FnOnce(&mut Record)) {
        if let Some(open) = &mut self.0 {
            fill(&mut open.record);
        }
    }

    /// Notes facts that the metrics do not need, if anything else takes the record.
    pub(crate) fn note_kept(&mut self, fill: impl FnOnce(&mut Record)) {
        if let Some(open) = self.0.as_mut().filter(|open| open.records.is_some()) {
            fill(&mut open.record);
        }
    }

    /// Notes a moment of the attempt in progress: now, or `at`.
    pub(crate) fn mark(&self, mark: Mark, at: Option<Instant>) {
        if let Some(open) = self.0.as_ref().filter(|open| open.records.is_some()) {
            open.record.times.mark(mark, at.unwrap_or_else(Instant::now));
        }
    }

    /// The `traceparent` for the receiver of a part of the attempt in progress; none if the request
    /// is not traced.
    pub(crate) fn traceparent(&self, part: Part) -> Option<HeaderValue> {
        self.0.as_ref().and_then(|open| open.record.times.header(part))
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
        assert!(record.ttft.is_none(), "a client sees one first token");
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
