//! Cuts a stream into events, has each one read, and removes the additions caused by a splice.

use std::ops::Range;

use bytes::{Bytes, BytesMut};

use super::rare::RareMembers;
use super::reader::{Reader, awaits_timings, timings_member};
use super::rename;
use super::reply::Reply;
use super::{Feed, MAX_EVENT, Summary, sse};
use crate::openai::endpoint::Endpoint;

/// Bytes kept of an event that is too long, enough to find its end.
const OVERLAP: usize = 3;

pub(super) struct Stream {
    undo: bool,
    /// The client's name of the model, as a JSON string, if it is another one.
    pub(super) name: Option<Bytes>,
    /// The beginning of an incomplete event.
    carry: BytesMut,
    /// How many bytes of `carry` have already been forwarded.
    passed: usize,
    /// The event in `carry` is too long to read.
    skipping: bool,
    /// The event in `carry` is complete and waits for the next one.
    waiting: bool,
    finished: bool,
    /// How many choices the answer has.
    pub(super) choices: u32,
    /// Whether an error and all that follows it are kept back.
    pub(super) keeps_errors: bool,
    /// What is kept of them.
    error: BytesMut,
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
            name: None,
            carry: BytesMut::new(),
            passed: 0,
            skipping: false,
            waiting: false,
            finished: false,
            choices: 1,
            keeps_errors: false,
            error: BytesMut::new(),
            reader: Reader { endpoint, reply, ..Reader::default() },
        }
    }

    pub(super) fn feed(&mut self, chunk: Bytes) -> Feed {
        let (first, ended, told) = (self.reader.first, self.reader.ended, self.reader.told);
        let pass = if self.carry.is_empty() { self.aligned(chunk) } else { self.joined(chunk) };
        assert!(self.carry.len() <= MAX_EVENT, "an event that is too long is not kept");
        assert!(self.passed <= self.carry.len(), "bytes that were forwarded are still kept");
        Feed {
            pass,
            first_token: self.reader.first && !first,
            ended: self.reader.ended && !ended,
            told: self.reader.told.filter(|_| told.is_none()),
        }
    }

    /// A chunk that starts with an event: only an incomplete event at its end is copied.
    fn aligned(&mut self, chunk: Bytes) -> Bytes {
        let mut edits = Vec::new();
        let done = self.events(&chunk, 0, &mut edits);
        if done < chunk.len() {
            self.carry.extend_from_slice(&chunk[done..]);
        }
        let over = self.limit();
        if self.edits() { join(edited(chunk.slice(..done), 0, &edits), over) } else { chunk }
    }

    /// Whether bytes may change, so that an incomplete event waits for its end.
    fn edits(&self) -> bool {
        self.undo || self.name.is_some() || self.keeps_errors
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
        if self.edits() { join(edited(whole, passed, &edits), over) } else { chunk }
    }

    /// Reads the complete events of `bytes`, collects the edits and returns the start of the
    /// incomplete event. The first `scanned` bytes contain no end of an event.
    fn events(&mut self, bytes: &[u8], mut scanned: usize, edits: &mut Vec<Edit>) -> usize {
        assert!(scanned <= bytes.len(), "what was scanned before is a part of the bytes");
        let mut start = 0;
        let mut awaiting = None;
        let mut rare = RareMembers::new(bytes);
        while let Some(len) = sse::event_end(&bytes[start..], scanned - start) {
            let end = start + len;
            let event = &bytes[start..end];
            let read = !std::mem::take(&mut self.skipping) && len <= MAX_EVENT;
            let awaits = read && self.undo && !self.finished && awaits_timings(event);
            if awaits && sse::event_end(&bytes[end..], 0).is_none() {
                self.waiting = true;
                return start;
            }
            let named = if read { self.named(event, start) } else { None };
            let found = rare.within(start..end);
            let mut cut = read.then(|| self.reader.event(event, found, self.undo)).flatten();
            if self.keeps_errors && self.reader.told.is_some() {
                self.error.extend_from_slice(event);
                cut = Some(0..len);
            }
            if let Some(edit) = awaiting
                .filter(|_| cut.as_ref().is_some_and(|cut| cut.len() == len))
                .and_then(|at| Some(Edit { cut: at..at, insert: timings_member(event)? }))
            {
                edits.push(edit);
            }
            add(edits, named, cut.map(|cut| start + cut.start..start + cut.end));
            awaiting = awaits.then(|| start + event.trim_ascii_end().len() - 1);
            start = end;
            scanned = scanned.max(start);
        }
        start
    }

    /// The edit that puts the client's name of the model into an event at `start`.
    fn named(&self, event: &[u8], start: usize) -> Option<Edit> {
        let name = self.name.as_ref()?;
        let place = rename::place(self.reader.endpoint, event)?;
        Some(Edit { cut: start + place.start..start + place.end, insert: name.to_vec() })
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

    /// The id of a stored response.
    pub(super) fn response_id(&self) -> Option<&str> {
        self.reader.response_id.as_deref()
    }

    /// Whether its end mark has arrived, or every choice has finished. The last event may lack its
    /// blank line.
    pub(super) fn is_complete(&self) -> bool {
        let mut last = self.reader.after();
        if !self.skipping {
            let found = RareMembers::new(&self.carry).within(0..self.carry.len());
            last.event(&self.carry, found, false);
        }
        self.reader.ended || last.ended || last.has_finished(self.choices)
    }

    pub(super) fn finish(mut self) -> Summary {
        self.finished = true;
        let last = std::mem::take(&mut self.carry).freeze();
        let mut edits = Vec::new();
        if !self.skipping && !last.is_empty() {
            let done = self.events(&last, 0, &mut edits);
            let named = self.named(&last[done..], done);
            let found = RareMembers::new(&last).within(done..last.len());
            let cut = self.reader.event(&last[done..], found, self.undo);
            add(&mut edits, named, cut.map(|cut| done + cut.start..done + cut.end));
        }
        let rest = if self.edits() { edited(last, self.passed, &edits) } else { Bytes::new() };
        let complete = self.reader.ended || self.reader.has_finished(self.choices);
        Summary {
            rest: join(self.error.freeze(), rest),
            usage: self.reader.usage.usage(),
            response_id: self.reader.response_id,
            complete,
            told: self.reader.told,
            reply: self.reader.reply.map(Reply::finish),
        }
    }
}

/// Adds the edits of one event in their order. A cut may contain the name.
fn add(edits: &mut Vec<Edit>, named: Option<Edit>, cut: Option<Range<usize>>) {
    let named = named.filter(|named| {
        cut.as_ref().is_none_or(|cut| named.cut.end <= cut.start || cut.end <= named.cut.start)
    });
    let at = edits.len();
    edits.extend(named);
    edits.extend(cut.map(|cut| Edit { cut, insert: Vec::new() }));
    edits[at..].sort_by_key(|edit| edit.cut.start);
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
