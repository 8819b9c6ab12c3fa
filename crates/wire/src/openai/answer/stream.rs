//! Cuts a stream into events, has each one read, and removes the additions caused by a splice.

use std::ops::Range;

use bytes::{Bytes, BytesMut};

use super::reader::{Reader, awaits_timings, timings_member};
use super::reply::Reply;
use super::{Feed, MAX_EVENT, Summary, sse};
use crate::openai::endpoint::Endpoint;

/// Bytes kept of an event that is too long, enough to find its end.
const OVERLAP: usize = 3;

pub(super) struct Stream {
    undo: bool,
    /// The beginning of an incomplete event.
    carry: BytesMut,
    /// How many bytes of `carry` have already been forwarded.
    passed: usize,
    /// The event in `carry` is too long to read.
    skipping: bool,
    /// The event in `carry` is complete and waits for the next one.
    waiting: bool,
    finished: bool,
    reader: Reader,
}

/// A change to the forwarded bytes.
struct Edit {
    cut: Range<usize>,
    insert: Vec<u8>,
}

impl Stream {
    pub(super) fn new(endpoint: Endpoint, undo: bool, collect: bool) -> Stream {
        let reply = collect.then(Reply::default);
        Stream {
            undo,
            carry: BytesMut::new(),
            passed: 0,
            skipping: false,
            waiting: false,
            finished: false,
            reader: Reader { endpoint, reply, ..Reader::default() },
        }
    }

    pub(super) fn feed(&mut self, chunk: Bytes) -> Feed {
        let (first, ended) = (self.reader.first, self.reader.ended);
        let pass = if self.carry.is_empty() { self.aligned(chunk) } else { self.joined(chunk) };
        Feed { pass, first_token: self.reader.first && !first, ended: self.reader.ended && !ended }
    }

    /// A chunk that starts with an event: only an incomplete event at its end is copied.
    fn aligned(&mut self, chunk: Bytes) -> Bytes {
        let mut edits = Vec::new();
        let done = self.events(&chunk, 0, &mut edits);
        if done < chunk.len() {
            self.carry.extend_from_slice(&chunk[done..]);
        }
        let over = self.limit();
        if self.undo { join(edited(chunk.slice(..done), 0, &edits), over) } else { chunk }
    }

    /// A chunk that starts within an event.
    fn joined(&mut self, chunk: Bytes) -> Bytes {
        let scanned = if std::mem::take(&mut self.waiting) { 0 } else { self.carry.len() };
        let mut carry = std::mem::take(&mut self.carry);
        carry.extend_from_slice(&chunk);
        let mut edits = Vec::new();
        let done = self.events(&carry, scanned, &mut edits);
        let whole = carry.split_to(done).freeze();
        self.carry = carry;
        let passed = if done == 0 { 0 } else { std::mem::take(&mut self.passed) };
        let over = self.limit();
        if self.undo { join(edited(whole, passed, &edits), over) } else { chunk }
    }

    /// Reads the complete events of `bytes`, collects the edits and returns the start of the
    /// incomplete event. The first `scanned` bytes contain no end of an event.
    fn events(&mut self, bytes: &[u8], mut scanned: usize, edits: &mut Vec<Edit>) -> usize {
        let mut start = 0;
        let mut awaiting = None;
        while let Some(len) = sse::event_end(&bytes[start..], scanned - start) {
            let end = start + len;
            let event = &bytes[start..end];
            let read = !std::mem::take(&mut self.skipping) && len <= MAX_EVENT;
            let awaits = read && self.undo && !self.finished && awaits_timings(event);
            if awaits && sse::event_end(&bytes[end..], 0).is_none() {
                self.waiting = true;
                return start;
            }
            if let Some(cut) = read.then(|| self.reader.event(event, self.undo)).flatten() {
                if let Some(edit) = awaiting
                    .filter(|_| cut.len() == len)
                    .and_then(|at| Some(Edit { cut: at..at, insert: timings_member(event)? }))
                {
                    edits.push(edit);
                }
                edits.push(Edit { cut: start + cut.start..start + cut.end, insert: Vec::new() });
            }
            awaiting = awaits.then(|| start + event.trim_ascii_end().len() - 1);
            start = end;
            scanned = scanned.max(start);
        }
        start
    }

    /// Gives up an event that is too long to buffer, and returns the buffered part.
    fn limit(&mut self) -> Bytes {
        if self.carry.len() <= MAX_EVENT && !(self.skipping && self.carry.len() > OVERLAP) {
            return Bytes::new();
        }
        self.skipping = true;
        self.waiting = false;
        let over = Bytes::copy_from_slice(&self.carry[self.passed..]);
        let keep = self.carry.len() - OVERLAP;
        self.carry = BytesMut::from(&self.carry[keep..]);
        self.passed = OVERLAP;
        over
    }

    pub(super) fn pieces(&self) -> u32 {
        self.reader.pieces
    }

    pub(super) fn finish(mut self) -> Summary {
        self.finished = true;
        let last = std::mem::take(&mut self.carry).freeze();
        let mut edits = Vec::new();
        if !self.skipping && !last.is_empty() {
            let done = self.events(&last, 0, &mut edits);
            if let Some(cut) = self.reader.event(&last[done..], self.undo) {
                let cut = done + cut.start..done + cut.end;
                edits.push(Edit { cut, insert: Vec::new() });
            }
        }
        Summary {
            rest: if self.undo { edited(last, self.passed, &edits) } else { Bytes::new() },
            usage: self.reader.usage.usage(),
            response_id: self.reader.response_id,
            complete: self.reader.ended,
            reply: self.reader.reply.map(Reply::finish),
        }
    }
}

/// `bytes` from `start` on, changed by `edits`, which are in order and do not overlap.
fn edited(bytes: Bytes, start: usize, edits: &[Edit]) -> Bytes {
    if edits.is_empty() {
        return bytes.slice(start..);
    }
    let mut kept = BytesMut::with_capacity(bytes.len());
    let mut at = start;
    for edit in edits {
        kept.extend_from_slice(&bytes[at..edit.cut.start.max(at)]);
        kept.extend_from_slice(&edit.insert);
        at = edit.cut.end.max(at);
    }
    kept.extend_from_slice(&bytes[at..]);
    kept.freeze()
}

fn join(a: Bytes, b: Bytes) -> Bytes {
    match (a.is_empty(), b.is_empty()) {
        (_, true) => a,
        (true, _) => b,
        _ => Bytes::from([a, b].concat()),
    }
}
