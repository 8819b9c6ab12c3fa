//! Errors in a trace, with their remedies.
//!
//! A message names the line, the field, its value and the remedy. Values are shown only if they are
//! numbers: a string in the wrong place may be a user's prompt.

use std::io;
use std::time::Duration;

/// A fault in one value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {is}; {remedy}")]
pub struct Fault {
    /// The field, or "the line".
    pub field: String,
    /// The fault.
    pub is: String,
    /// The remedy.
    pub remedy: String,
    /// Whether the line is incomplete.
    pub(crate) unfinished: bool,
}

impl Fault {
    pub(crate) fn new(
        field: impl Into<String>,
        is: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Fault {
        Fault { field: field.into(), is: is.into(), remedy: remedy.into(), unfinished: false }
    }

    /// Marks the fault as one that a truncated line would show.
    pub(crate) fn unfinished(self) -> Fault {
        Fault { unfinished: true, ..self }
    }
}

/// Why reading a trace cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// A line with an invalid value.
    #[error("line {line}: {fault}")]
    Line {
        /// Its number, from 1.
        line: u64,
        /// The problem with it.
        fault: Fault,
    },
    /// The last line is incomplete.
    #[error(
        "line {line}, the last, ends in the middle: the trace was cut short; fetch it again, or go \
         without that line"
    )]
    CutShort {
        /// Its number, from 1.
        line: u64,
    },
    /// A line beyond the bound.
    #[error(
        "line {line} is longer than {limit} bytes, the most that a line may have; is this a trace?"
    )]
    TooLong {
        /// Its number, from 1.
        line: u64,
        /// The bound in bytes.
        limit: usize,
    },
    /// A request that comes too late to be sorted.
    #[error(
        "request {request} arrived {by:?} before requests that stand {within:?} or more ahead of \
         it; sort the trace by time, or put it in order over a longer time"
    )]
    Unsorted {
        /// Its place in the trace, from 1.
        request: u64,
        /// How much too early its time is.
        by: Duration,
        /// The window within which requests are sorted.
        within: Duration,
    },
    /// Reading failed.
    #[error("cannot read on after line {line}")]
    Io {
        /// The last line that was read.
        line: u64,
        /// Why.
        source: io::Error,
    },
}
