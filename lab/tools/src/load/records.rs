//! A line for each finished request: the client's view of it, without any text.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::Context;
use meridian_base::Rng;
use serde::{Deserialize, Serialize};

use super::ErrorKind;
use super::outcome::{End, Seen};

/// A request, as its client saw it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// When it was sent (in an open loop: due), in ms since the start of the load.
    pub sent_ms: f64,
    /// From there to its first token; `None` if it had none.
    pub ttft_ms: Option<f64>,
    /// From there to its end.
    pub e2e_ms: f64,
    /// Why there was no complete answer.
    pub error: Option<ErrorKind>,
    /// Whether the client disconnected on purpose.
    pub aborted: bool,
    /// Whether the gateway forwarded it to a peer.
    pub forwarded: bool,
    /// Prompt tokens, by the engine.
    pub prompt_tokens: u64,
    /// Cached ones among them; `None` if the engine does not report them.
    pub cached_tokens: Option<u64>,
    /// Tokens of the reply.
    pub reply_tokens: u64,
}

impl Record {
    pub(super) fn of(sent: Duration, e2e: Duration, end: End, seen: &Seen) -> Record {
        let ms = |d: Duration| (d.as_secs_f64() * 1e6).round() / 1e3;
        Record {
            sent_ms: ms(sent),
            ttft_ms: seen.ttft.map(ms),
            e2e_ms: ms(e2e),
            error: match end {
                End::Error(kind) => Some(kind),
                End::Ok | End::Aborted => None,
            },
            aborted: end == End::Aborted,
            forwarded: seen.forwarded,
            prompt_tokens: seen.usage.map_or(0, |usage| usage.prompt),
            cached_tokens: seen.usage.and_then(|usage| usage.cached),
            reply_tokens: seen.tokens(),
        }
    }

    /// Time per token after the first, in ms; `None` without a stream of two tokens.
    #[must_use]
    pub fn tpot_ms(&self) -> Option<f64> {
        let further = self.reply_tokens.checked_sub(1).filter(|n| *n > 0)?;
        Some((self.e2e_ms - self.ttft_ms?) / further as f64)
    }

    /// Reads the records of a load.
    ///
    /// # Errors
    ///
    /// When there is no such file, or a line is invalid.
    pub fn read(path: &Path) -> anyhow::Result<Vec<Record>> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let line = |(at, line): (usize, &str)| {
            serde_json::from_str(line).with_context(|| format!("{}:{}", path.display(), at + 1))
        };
        text.lines().enumerate().map(line).collect()
    }
}

/// Most records that a report has.
const KEPT: usize = 1 << 15;

/// Measured requests: all of them, or a uniform sample if they are many (Vitter's algorithm R).
pub(super) struct Kept {
    records: Vec<Record>,
    seen: usize,
    rng: Rng,
}

impl Kept {
    pub(super) fn new(seed: u64) -> Kept {
        Kept { records: Vec::new(), seen: 0, rng: Rng::new(seed).fork(KEPT as u64) }
    }

    pub(super) fn add(&mut self, record: Record) {
        self.seen += 1;
        if self.records.len() < KEPT {
            self.records.push(record);
        } else if let Some(place) = self.records.get_mut(self.rng.below(self.seen)) {
            *place = record;
        }
    }

    /// The records by the time they were sent.
    pub(super) fn take(&mut self) -> Vec<Record> {
        let mut records = std::mem::take(&mut self.records);
        records.sort_by(|a, b| a.sent_ms.total_cmp(&b.sent_ms));
        records
    }
}

/// The file of records.
pub(super) struct Records(Mutex<BufWriter<File>>);

impl Records {
    pub(super) fn to(path: &Path) -> anyhow::Result<Records> {
        let file = File::create(path)
            .with_context(|| format!("records: cannot write {}", path.display()))?;
        Ok(Records(Mutex::new(BufWriter::new(file))))
    }

    /// A full disk loses lines, which shows in their number; the load continues.
    pub(super) fn write(&self, record: &Record) {
        let line = serde_json::to_string(record).expect("numbers are always JSON");
        let mut file = self.0.lock().expect("no thread panics while it writes");
        let _ = writeln!(file, "{line}");
    }

    /// Lets a program that follows the file read the lines so far.
    pub(super) fn flush(&self) {
        let _ = self.0.lock().expect("no thread panics while it writes").flush();
    }
}
