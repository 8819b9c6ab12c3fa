//! What became of the requests of clients that resolve the fleet's name and keep answers for their TTL.

use std::time::Duration;

use super::super::answers::End;
use super::super::clients::Record;

/// Their outcomes.
pub(super) struct Named {
    records: Vec<Record>,
}

impl Named {
    pub(super) fn of(records: Vec<Record>) -> Named {
        Named { records }
    }

    /// Every request must have its answer, however often it was sent.
    pub(super) fn judge(&self, faults: &mut Vec<String>) {
        let bad: Vec<&Record> = self.records.iter().filter(|r| r.end != End::Whole).collect();
        if let Some(first) = bad.first() {
            let (count, Record { id, end, .. }) = (bad.len(), first);
            faults.push(format!("{count} requests by name had no good answer: {id} was {end:?}"));
        }
        if self.records.is_empty() {
            faults.push("no request was sent by name, so nothing was tested".into());
        }
    }

    /// Their count, and the longest one.
    pub(super) fn line(&self) -> String {
        let moved: u32 = self.records.iter().map(|record| record.moved).sum();
        let took = |record: &Record| record.ended - record.sent;
        let longest = self.records.iter().map(took).max().unwrap_or(Duration::ZERO);
        format!(
            "   {} requests by name; {moved} attempts failed; the longest request took {:.1} s",
            self.records.len(),
            longest.as_secs_f64()
        )
    }
}
