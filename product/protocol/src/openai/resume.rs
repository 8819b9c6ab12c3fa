//! Resumes a stream that broke after its first byte: the text so far becomes the beginning of
//! another engine's answer, and the client sees one stream.
//!
//! A [`Thread`] follows an answer on its way to the client. It lets only complete events through,
//! so a break never leaves half an event behind, and it keeps the text. After a break it makes the
//! continuation request ([`Thread::take_up`], in `request.rs`). From then on it edits the new
//! answer to match the earlier one (`seam.rs`): the first answer's id and model, no second role,
//! and usage of the whole.
//!
//! Only streams that are known to resume correctly are resumed. A request with a field outside the
//! list of `request.rs`, or an answer with anything but the text of one choice (`chunk.rs`), ends
//! as it would without this feature. Before the first piece of text there is nothing to resume: the
//! request is sent again unchanged.
//!
//! Greedy decoding yields the same text as an unbroken run if the engine's tokenizer splits the
//! text so far into the tokens that were generated, which it nearly always does. Tokens are counted
//! as the engine reports them in its chunks on request (`continuous_usage_stats`); otherwise, as
//! with llama.cpp, as pieces of the stream.

mod chunk;

mod request;
mod seam;

use bytes::{Bytes, BytesMut};

use super::answer::{MAX_EVENT, sse};
use super::endpoint::Endpoint;
use super::opening::event_error;
use super::splice::Splices;
use super::usage::Usage;
use chunk::Chunk;
use request::Ask;
use seam::{Head, Seam};

/// Why a broken answer cannot be resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Its last piece had arrived: only the end mark is missing.
    Finished,
    /// The token limit is used up.
    Spent,
    /// It contains more than the text of one choice: tool calls, reasoning, log probabilities.
    NotText,
    /// The text is longer than the limit.
    TooLong,
    /// The request has a field that is not known to be resumable.
    Request,
}

impl Lost {
    /// A stable label for metrics and logs.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Lost::Finished => "finished",
            Lost::Spent => "spent",
            Lost::NotText => "not_text",
            Lost::TooLong => "too_long",
            Lost::Request => "request",
        }
    }
}

/// A continuation request.
#[derive(Clone)]
pub struct Continued {
    /// Its body.
    pub body: Bytes,
    /// Changes to the body on its way to a replica.
    pub splices: Splices,
}

/// The text of an answer so far and its state. See the [module](self).
pub struct Thread {
    endpoint: Endpoint,
    most: usize,
    /// The beginning of an incomplete event.
    carry: BytesMut,
    text: Vec<u8>,
    lost: Option<Lost>,
    head: Option<Head>,
    has_role: bool,
    /// Tokens of the broken answers, and of the current one.
    before: u64,
    now: u64,
    is_later: bool,
    counts: Counts,
}

/// Whether chunks contain a count that the client did not ask for, and what the client sees
/// instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counts {
    /// Chunks have no count, or the client asked for it.
    Asis,
    /// No member `usage`.
    Hidden,
    /// A null, as for clients that ask for usage at the end.
    Null,
}

impl Thread {
    /// The thread of an answer of `endpoint`, which keeps at most `most` bytes of text. None if
    /// answers of this endpoint cannot be resumed.
    #[must_use]
    pub fn new(endpoint: Endpoint, most: usize, counts: Counts) -> Option<Thread> {
        let goes_on = matches!(endpoint, Endpoint::ChatCompletions | Endpoint::Completions);
        goes_on.then(|| Thread {
            endpoint,
            most,
            carry: BytesMut::new(),
            text: Vec::new(),
            lost: None,
            head: None,
            has_role: false,
            before: 0,
            now: 0,
            is_later: false,
            counts,
        })
    }

    /// Takes the next bytes of the answer and returns those to send.
    pub fn feed(&mut self, piece: Bytes) -> Bytes {
        let changes = self.is_later || self.counts != Counts::Asis;
        if self.carry.is_empty() && !changes && ends_event(&piece) {
            self.events(&piece, 0, None);
            return piece;
        }
        let scanned = self.carry.len();
        self.carry.extend_from_slice(&piece);
        let carry = std::mem::take(&mut self.carry);
        let mut changed = changes.then(BytesMut::new);
        let done = self.events(&carry, scanned, changed.as_mut());
        let mut carry = carry;
        let whole = carry.split_to(done).freeze();
        let pass = changed.map_or(whole, BytesMut::freeze);
        if carry.len() <= MAX_EVENT {
            self.carry = carry;
            return pass;
        }
        // No client reads an event of this size.
        self.lose(Lost::NotText);
        Bytes::from([pass, carry.freeze()].concat())
    }

    /// The buffered part of an event that never ended.
    #[must_use]
    pub fn rest(&mut self) -> Bytes {
        std::mem::take(&mut self.carry).freeze()
    }

    /// After a break: the continuation request, made from the client's own body without the
    /// engines' private fields. A replica gets it with `salt`.
    ///
    /// # Errors
    /// Why the answer cannot be resumed.
    pub fn take_up(&mut self, body: &Bytes, salt: Option<&str>) -> Result<Continued, Lost> {
        if let Some(lost) = self.lost {
            return Err(lost);
        }
        let text = std::str::from_utf8(&self.text).map_err(|_| Lost::NotText)?;
        let said = self.before.saturating_add(self.now);
        let continued = {
            let counts = self.counts != Counts::Asis;
            request::continued(self.endpoint, body, text, said, Ask { counts, salt })?
        };
        self.carry.clear();
        self.before = said;
        self.now = 0;
        self.is_later = true;
        Ok(continued)
    }

    /// The text so far.
    #[must_use]
    pub fn text(&self) -> Option<&[u8]> {
        (self.lost != Some(Lost::TooLong)).then_some(&self.text)
    }

    /// Whether an earlier answer broke and this is its continuation.
    #[must_use]
    pub fn is_later(&self) -> bool {
        self.is_later
    }

    /// The usage of the whole, if the newest answer reported its own outside the stream.
    #[must_use]
    pub fn whole(&self, own: Usage) -> Usage {
        let prompt_tokens = own.prompt_tokens.saturating_sub(self.before);
        Usage {
            prompt_tokens,
            cached_tokens: own.cached_tokens.map(|cached| cached.min(prompt_tokens)),
            completion_tokens: own.completion_tokens.saturating_add(self.before),
            prefill_us: None,
        }
    }

    /// Reads the complete events of `bytes` and returns the start of the incomplete one. For a
    /// continuation, they are written to `changed` as the client should see them.
    fn events(
        &mut self,
        bytes: &[u8],
        mut scanned: usize,
        mut changed: Option<&mut BytesMut>,
    ) -> usize {
        assert!(scanned <= bytes.len(), "what was scanned before is a part of the bytes");
        let mut start = 0;
        while let Some(len) = sse::event_end(&bytes[start..], scanned.saturating_sub(start)) {
            let event = &bytes[start..start + len];
            let fits = self.event(event);
            if let Some(changed) = &mut changed {
                match fits {
                    Some(edits) => edits.write(event, changed),
                    None => changed.extend_from_slice(event),
                }
            }
            start += len;
            scanned = scanned.max(start);
        }
        start
    }

    /// Reads one event and, for a continuation, returns its edits.
    fn event(&mut self, bytes: &[u8]) -> Option<seam::Edits> {
        let event = sse::parse(bytes);
        let data = event.data.as_deref()?;
        let changes = self.is_later || self.counts != Counts::Asis;
        if self.lost.is_some() && !changes || data.trim_ascii() == b"[DONE]" {
            return None;
        }
        let json = std::str::from_utf8(data).ok();
        if json.is_some_and(|json| reports_failure(event.name, json)) {
            // Not a part of the answer: another replica continues it.
            return None;
        }
        let Some(chunk) = json.and_then(|json| Chunk::read(self.endpoint, json)) else {
            self.lose(Lost::NotText);
            return None;
        };
        let edits = changes.then(|| seam::edits(&chunk, self.seam(), event.data_at));
        if self.head.is_none() {
            self.head = Some(Head::of(&chunk));
        }
        self.take_in(&chunk);
        edits
    }

    fn seam(&self) -> Seam<'_> {
        Seam {
            head: self.head.as_ref().filter(|_| self.is_later),
            has_role: self.is_later && self.has_role,
            before: self.before,
            counts: self.counts,
        }
    }

    fn take_in(&mut self, chunk: &Chunk<'_>) {
        if let Some(lost) = chunk.lost() {
            self.lose(lost);
        }
        self.has_role |= chunk.role().is_some();
        let text = chunk.text();
        self.now = self.now.saturating_add(u64::from(!text.is_empty()));
        self.now = chunk.tokens().unwrap_or(self.now);
        if self.lost.is_some() {
            return;
        }
        super::text::decode(text, &mut self.text);
        if self.text.len() > self.most {
            self.text = Vec::new();
            self.lose(Lost::TooLong);
        }
        assert!(self.text.len() <= self.most, "a text that is too long is not kept");
    }

    fn lose(&mut self, why: Lost) {
        self.lost.get_or_insert(why);
    }
}

/// Whether an event reports a failure of the engine. Few have one of these words.
fn reports_failure(name: &[u8], json: &str) -> bool {
    let has = |word: &[u8]| memchr::memmem::find(json.as_bytes(), word).is_some();
    let may = name == b"error" || has(b"\"error\"") || has(b"\"abort\"");
    may && event_error(name, json).is_some_and(|error| !error.is_of_request())
}

/// Whether the bytes end with an event, as those of most writes do.
fn ends_event(bytes: &[u8]) -> bool {
    bytes.ends_with(b"\n\n") || bytes.ends_with(b"\n\r\n")
}

#[cfg(test)]
mod tests;
