//! Sorts requests by time within a window.
//!
//! A journal is written when requests end, so it is not in order of arrival. A request waits here
//! until no earlier one can follow: until the file is `within` ahead of it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use meridian_base::Time;

use super::{TraceError, TraceRequest};

/// Most requests that wait; beyond it the earliest is released at once.
const MOST: usize = 1 << 20;

/// An iterator over the requests of another one, by time; equal times keep their order.
pub(crate) struct Ordered<I> {
    source: Option<I>,
    waiting: BinaryHeap<Reverse<Waiting>>,
    within: Duration,
    newest: Time,
    gone: Time,
    count: u64,
}

impl<I> Ordered<I> {
    pub(crate) fn new(source: I, within: Duration) -> Ordered<I> {
        let (newest, gone) = (Time::ZERO, Time::ZERO);
        Ordered { source: Some(source), waiting: BinaryHeap::new(), within, newest, gone, count: 0 }
    }

    fn ready(&self) -> bool {
        let Some(Reverse(first)) = self.waiting.peek() else { return false };
        let behind = self.newest.since(first.request.at);
        self.source.is_none() || behind >= self.within || self.waiting.len() > MOST
    }

    fn enter(&mut self, request: TraceRequest) -> Result<(), TraceError> {
        self.count += 1;
        if request.at < self.gone {
            let by = self.gone.since(request.at);
            let within = self.within;
            return Err(TraceError::Unsorted { request: self.count, by, within });
        }
        self.newest = self.newest.max(request.at);
        self.waiting.push(Reverse(Waiting { order: self.count, request }));
        Ok(())
    }
}

impl<I: Iterator<Item = Result<TraceRequest, TraceError>>> Iterator for Ordered<I> {
    type Item = Result<TraceRequest, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.ready() {
            let Some(source) = &mut self.source else { return None };
            let entered = match source.next() {
                None => {
                    self.source = None;
                    Ok(())
                }
                Some(request) => request.and_then(|request| self.enter(request)),
            };
            if let Err(error) = entered {
                self.source = None;
                self.waiting.clear();
                return Some(Err(error));
            }
        }
        let Reverse(first) = self.waiting.pop()?;
        self.gone = first.request.at;
        Some(Ok(first.request))
    }
}

/// A request and its place in the file.
struct Waiting {
    order: u64,
    request: TraceRequest,
}

impl Waiting {
    fn key(&self) -> (Time, u64) {
        (self.request.at, self.order)
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Waiting) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Waiting) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Waiting) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Waiting {}
