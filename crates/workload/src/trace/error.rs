//! What can be wrong with a trace, told so that it can be put right.
//!
//! A message names the line, the field, its value and the remedy. Values are shown only where they
//! are numbers: a string in the wrong place may be somebody's prompt.

use std::io;
use std::time::Duration;

/// What is wrong with one value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {is}; {remedy}")]
pub struct Fault {
    /// The field, or "the line".
    pub field: String,
    /// What it is.
    pub is: String,
    /// What to do about it.
    pub remedy: String,
    /// Whether the line ends in the middle.
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

    /// A fault that a line cut short would show.
    pub(crate) fn unfinished(self) -> Fault {
        Fault { unfinished: true, ..self }
    }
}

/// Why a trace cannot be read on.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// A line that says something impossible.
    #[error("line {line}: {fault}")]
    Line {
        /// Its number, from 1.
        line: u64,
        /// What is wrong with it.
        fault: Fault,
    },
    /// The last line stops in the middle.
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
    /// A request that comes too late to be put in order.
    #[error(
        "request {request} arrived {by:?} before requests that stand {within:?} or more ahead of \
         it; sort the trace by time, or put it in order over a longer time"
    )]
    Unsorted {
        /// Its place in the trace, from 1.
        request: u64,
        /// How much too early it is.
        by: Duration,
        /// Over how long a time requests are put in order.
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
