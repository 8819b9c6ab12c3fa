//! Faults of an engine whose process lives and answers its probes, as `POST /faults` sets them.

use serde::Deserialize;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// The path that sets a fault: `{"fault": "stall"}`, and `{"fault": null}` for none.
pub(crate) const PATH: &str = "/faults";

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub(crate) enum EngineFault {
    /// Every second request gets a 500.
    Fail = 1,
    /// Every second request gets an error inside a 200: half of them at once, half of them, if they are streams, after
    /// some tokens.
    Tell,
    /// No request makes progress, and the metrics stay as they are.
    Stall,
    /// A connection is closed when its second request arrives, without an answer.
    Close,
}

/// The body of a request that sets a fault.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Set {
    pub(crate) fault: Option<EngineFault>,
}

/// How a request ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Well,
    /// A 500.
    Failed,
    /// An error inside a 200, before any token.
    Told,
    /// An error inside a 200, after this many tokens of a stream.
    ToldAfter(u32),
}

/// Tokens of a stream before its error.
const SOME: u32 = 4;

/// The fault of an engine.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    now: AtomicU8,
    requests: AtomicU64,
}

impl Faults {
    pub(crate) fn set(&self, fault: Option<EngineFault>) {
        self.now.store(fault.map_or(0, |fault| fault as u8), Ordering::Relaxed);
    }

    fn is(&self, fault: EngineFault) -> bool {
        self.now.load(Ordering::Relaxed) == fault as u8
    }

    /// How the next request ends.
    pub(crate) fn next(&self) -> Fate {
        let (fails, tells) = (self.is(EngineFault::Fail), self.is(EngineFault::Tell));
        if !fails && !tells {
            return Fate::Well;
        }
        match self.requests.fetch_add(1, Ordering::Relaxed) % 4 {
            1 | 3 if fails => Fate::Failed,
            1 => Fate::Told,
            3 => Fate::ToldAfter(SOME),
            _ => Fate::Well,
        }
    }

    /// Whether a connection ends without an answer to this request, the first of which is 0.
    pub(crate) fn closes(&self, nth: u32) -> bool {
        nth > 0 && self.is(EngineFault::Close)
    }
}
