//! What a replica says about its own load: metrics pages, capacity pages, the ORCA response
//! header and the usage object of an answer, read into one vocabulary.
//!
//! Every engine publishes the same few facts under other names: how many requests it has accepted
//! and not yet batched, how many it runs, how full its KV cache is. A routing decision needs these
//! and nothing else, so a page of 50 kB is walked once, line by line, and only the lines that
//! carry a needed name are looked into; nothing is allocated unless the page is wrong.
//!
//! The functions here are pure: bytes in, numbers out. They fetch nothing, keep no state between
//! pages, and do not judge staleness; the gateway does. They also do not read KV events.
//!
//! # The KV share of several ranks is their mean
//!
//! A data-parallel replica reports one KV share per rank. [`Load::kv_used`] is their mean: ranks of
//! one replica have equal capacity, so the mean is the used share of the whole, in step with
//! [`Load::kv_tokens`], which is the sum; and the engine itself places a new request on its least
//! loaded rank, so one full rank does not close the replica. The maximum would.

mod error;
mod load;
mod orca;
mod page;
mod usage;

#[cfg(test)]
mod tests;

pub use error::SignalError;
pub use load::Load;
pub(crate) use load::Tally;
pub use orca::{ORCA_REQUEST_HEADER, ORCA_RESPONSE_HEADER, orca};
pub(crate) use page::{Line, has_metric, number, pairs, verdict, walk};
pub use usage::{Timings, Usage, usage};
