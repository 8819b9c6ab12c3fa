//! A replica's reports of its own load: metrics pages, capacity pages, the ORCA response header and
//! the usage object of an answer, read into one set of fields.
//!
//! Every engine publishes the same few facts under other names: how many requests it has accepted
//! but not batched yet, how many it runs, how full its KV cache is. A routing decision needs only
//! these. So a page of 50 kB is walked once, line by line, and only the lines with a needed name
//! are parsed; nothing is allocated unless the page is invalid.
//!
//! The functions here are pure: bytes in, numbers out. They fetch nothing, keep no state between
//! pages, and do not check the age of a report; the gateway does. They don't read KV events either.
//!
//! # The KV share of several ranks is their mean
//!
//! A data-parallel replica reports one KV share per rank. [`Load::kv_used`] is their mean. Ranks of
//! one replica have equal capacity, so the mean is the used share of the whole and consistent with
//! [`Load::kv_tokens`], which is the sum. The engine itself places a new request on its least
//! loaded rank, so one full rank must not close the replica. The maximum would close it.

mod adapters;
mod error;
mod load;
mod orca;
mod page;
mod totals;
mod transfers;
mod usage;

#[cfg(test)]
mod tests;

pub use adapters::AdaptersInUse;
pub use error::SignalError;
pub use load::Load;
pub(crate) use load::Tally;
pub use orca::{ORCA_REQUEST_HEADER, ORCA_RESPONSE_HEADER, orca};
pub(crate) use page::{Line, has_metric, number, pairs, verdict, walk};
pub use totals::{EngineTotals, GatewayTotals, engine_totals, gateway_totals};
pub use transfers::Transfers;
pub use usage::{Timings, Usage, usage};
