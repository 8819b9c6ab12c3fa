//! The newest finished requests, kept for `meridian explain --perfetto`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use meridian_protocol::admin::{RequestTimes, SpanTimes};
use serde_json::Value as Json;

use super::line::shown;
use super::tree::{self, Kind, Span, Value};
use crate::facts::Record;
use crate::lock::Mutex;
use crate::model_ids::ModelIds;

/// The newest records. The writer's thread adds them, and the admin port reads them.
pub(crate) struct Recent {
    records: Mutex<VecDeque<Arc<Record>>>,
    most: AtomicUsize,
}

impl Recent {
    pub(super) fn new(most: usize) -> Recent {
        Recent { records: Mutex::default(), most: AtomicUsize::new(most) }
    }

    /// Whether any are kept.
    pub(super) fn keeps(&self) -> bool {
        self.most() > 0
    }

    fn most(&self) -> usize {
        self.most.load(Ordering::Relaxed)
    }

    /// Changes how many are kept.
    pub(crate) fn configured(&self, most: usize) {
        self.most.store(most, Ordering::Relaxed);
        let mut records = self.records.lock();
        let extra = records.len().saturating_sub(most);
        let old: Vec<_> = records.drain(..extra).collect();
        drop(records);
        drop(old);
    }

    pub(super) fn add(&self, mut record: Box<Record>) {
        if !self.keeps() {
            return;
        }
        record.detach();
        let record = Arc::from(record);
        let mut records = self.records.lock();
        let oldest = if records.len() >= self.most() { records.pop_front() } else { None };
        records.push_back(record);
        drop(records);
        drop::<Option<Arc<Record>>>(oldest);
    }

    /// The newest requests, oldest first, or only the newest that the client knows as `id`.
    pub(crate) fn newest(
        &self,
        model_ids: &ModelIds,
        most: usize,
        id: Option<&str>,
    ) -> Vec<RequestTimes> {
        let is_wanted = |record: &&Arc<Record>| match id {
            Some(id) => record.id.as_ref().is_some_and(|known| known.as_bytes() == id.as_bytes()),
            None => true,
        };
        let records: Vec<Arc<Record>> = {
            let records = self.records.lock();
            records.iter().rev().filter(is_wanted).take(most).cloned().collect()
        };
        records.iter().rev().map(|record| times(record, model_ids)).collect()
    }
}

fn times(record: &Record, model_ids: &ModelIds) -> RequestTimes {
    let model = record.asked.as_ref().and_then(|asked| model_ids.name(asked.model));
    let spans = tree::spans(record, model.as_deref());
    let at = record.at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    RequestTimes {
        id: record.id.as_ref().map(|id| shown(id).into_owned()),
        at_us: u64::try_from(at.as_micros()).unwrap_or(u64::MAX),
        spans: spans.iter().map(span).collect(),
    }
}

fn span(span: &Span<'_>) -> SpanTimes {
    let us = |time: Duration| time.as_nanos() as f64 / 1e3;
    let value = |value: &Value<'_>| match value {
        Value::Text(text) => Json::from(&**text),
        Value::Count(count) => Json::from(*count),
        Value::Seconds(seconds) => Json::from(*seconds),
        Value::Flag(flag) => Json::from(*flag),
    };
    SpanTimes {
        name: span.name.to_string(),
        parent: span.parent,
        is_call: span.kind == Kind::Client,
        place: span.place.as_ref().map(ToString::to_string),
        from_us: us(span.from),
        to_us: us(span.to),
        error: span.error.as_ref().map(ToString::to_string),
        attributes: span
            .attributes
            .iter()
            .map(|(name, one)| ((*name).to_owned(), value(one)))
            .collect(),
    }
}
