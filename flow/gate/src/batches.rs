//! The batches and requests under way: the client's numbers, the machine's rows.
//!
//! A client that forgets to report ends would fill the tables, so the oldest batch makes way for a
//! new one.

use std::collections::{HashMap, VecDeque};

use meridian_base::{BatchId, PortId, Time};
use meridian_flow::Batch;
use meridian_messages as flow;

use crate::error::GateError;

/// A batch that arrives, as its engine or connector reports it.
pub type NewBatch = flow::Batch;

/// Those that are known.
#[derive(Debug)]
pub(crate) struct Batches {
    known: HashMap<u64, Known>,
    /// By request: its batch.
    of_request: HashMap<u64, u64>,
    /// The numbers of all batches, oldest first, perhaps with some that are over.
    order: VecDeque<u64>,
    free: Vec<u32>,
    begun: u64,
}

#[derive(Debug)]
struct Known {
    id: BatchId,
    number: u64,
    departed: bool,
    requests: Vec<u64>,
    /// What the coordinator hears, and when it was said.
    report: (Time, flow::Batch),
}

impl Batches {
    pub(crate) fn new(rows: u32) -> Batches {
        Batches {
            known: HashMap::new(),
            of_request: HashMap::new(),
            order: VecDeque::new(),
            free: (0..rows).rev().collect(),
            begun: 0,
        }
    }

    /// The batch for the machine, if there is a row.
    ///
    /// # Errors
    /// If it is under way already, or one of its values is not valid.
    pub(crate) fn translate(
        &self,
        now: Time,
        batch: &flow::Batch,
        port: impl Fn(&str) -> Option<PortId>,
    ) -> Result<Option<Batch>, GateError> {
        if self.known.contains_key(&batch.batch) {
            return Err(GateError::BatchTwice(batch.batch));
        }
        let Some(&row) = self.free.last() else { return Ok(None) };
        Ok(Some(batch.input(now, (BatchId(row), self.begun + 1), port)?))
    }

    /// The machine has accepted what [`Self::translate`] made.
    pub(crate) fn begin(&mut self, now: Time, batch: &flow::Batch) {
        let Some(row) = self.free.pop() else { return };
        self.begun += 1;
        let requests: Vec<_> = batch.requests.iter().map(|one| one.request).collect();
        self.of_request.extend(requests.iter().map(|one| (*one, batch.batch)));
        self.order.push_back(batch.batch);
        let (id, number) = (BatchId(row), self.begun);
        let report = (now, batch.clone());
        let known = Known { id, number, departed: false, requests, report };
        let before = self.known.insert(batch.batch, known);
        assert!(before.is_none(), "a batch has one row");
    }

    /// The row of a batch that computes.
    pub(crate) fn row(&self, batch: u64) -> Option<BatchId> {
        self.known.get(&batch).filter(|known| !known.departed).map(|known| known.id)
    }

    /// The row and the number inside of a batch.
    pub(crate) fn inside(&self, batch: u64) -> Option<(BatchId, u64)> {
        self.known.get(&batch).map(|known| (known.id, known.number))
    }

    pub(crate) fn knows(&self, request: u64) -> bool {
        self.of_request.contains_key(&request)
    }

    /// A batch has computed all of its layers; its requests may still hand over KV.
    pub(crate) fn departed(&mut self, batch: u64) {
        if let Some(known) = self.known.get_mut(&batch) {
            assert!(!known.departed, "a batch departs once");
            known.departed = true;
            self.free.push(known.id.0);
        }
        self.drop_if_over(batch);
    }

    pub(crate) fn ended(&mut self, request: u64) {
        let Some(batch) = self.of_request.remove(&request) else { return };
        if let Some(known) = self.known.get_mut(&batch) {
            known.requests.retain(|one| *one != request);
        }
        self.drop_if_over(batch);
    }

    fn drop_if_over(&mut self, batch: u64) {
        let over = |known: &Known| known.departed && known.requests.is_empty();
        if self.known.get(&batch).is_some_and(over) {
            self.known.remove(&batch);
        }
        if self.order.len() > 64 + 2 * self.known.len() {
            self.order.retain(|one| self.known.contains_key(one));
        }
    }

    /// The oldest batch: whether it computes still, and its requests.
    pub(crate) fn oldest(&mut self) -> Option<(u64, bool, Vec<u64>)> {
        while let Some(&batch) = self.order.front() {
            if let Some(known) = self.known.get(&batch) {
                return Some((batch, !known.departed, known.requests.clone()));
            }
            self.order.pop_front();
        }
        None
    }

    /// The batches that compute, as the coordinator hears of them at `now`.
    pub(crate) fn reports(&self, now: Time) -> Vec<flow::Batch> {
        let live = self.known.values().filter(|known| !known.departed);
        let report =
            |Known { report: (at, batch), .. }: &Known| batch.clone().later(now.since(*at));
        live.map(report).collect()
    }
}
