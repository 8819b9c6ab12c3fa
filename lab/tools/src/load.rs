//! The load generator: walks programs against an OpenAI endpoint and measures at the client.
//!
//! A closed loop has N clients, each with one program at a time; an open loop starts programs by a
//! Poisson process, or at recorded times ([`Recorded`]), regardless of the answers, and reports its
//! own lateness. TTFT runs from the
//! request (in an open loop: from the moment it was due) to the first bytes of the first token;
//! TPOT is (E2E - TTFT) / (n - 1).
//!
//! Clients with a location use the nearest gateway ([`Place`]). The generator retries only if a
//! client has several addresses, so its counts are the client's view. Prompts and replies are not
//! kept beyond their program or shown anywhere.

mod body;
mod drive;
pub(crate) mod exchange;
mod gateway;
pub mod http;
mod live;
mod options;
mod outcome;
mod output;
mod place;
mod recorded;
mod records;
mod report;
mod seconds;
mod slo;
mod state;
mod table;
mod tally;
mod warm;

pub use drive::run;
pub(crate) use drive::{model, models};
pub use gateway::{Check, CheckRow};
pub use live::{Live, Progress, Quick};
pub use options::{Arrivals, Options, Warm, Workload};
pub use outcome::ErrorKind;
pub(crate) use outcome::Seen;
pub use output::{csv, json, svg};
pub use place::{Place, Site, nearest_first};
pub use recorded::{Recorded, Tokens};
pub use records::Record;
pub use report::{Beside, Counts, Quantiles, ReplicaCounts, Report, Row, Warmed};
pub use seconds::seconds;
pub use slo::Slo;
pub use slo::Times;
pub use table::render;
