//! One name for all regions of a fleet: an authoritative name server for a zone of its own.
//!
//! A client that resolves the zone's name gets the addresses of one region's living gateways: of
//! the region that the map of client prefixes names, or of the nearest one that is open. The
//! decision is a pure function ([`answer()`]) with the reason for its choice. [`respond()`] turns a
//! query's bytes into an answer's bytes, also without a socket or a clock. [`serve()`] is the driver:
//! UDP and TCP sockets that the caller has bound, and a [`State`] that the caller replaces as a
//! whole.
//!
//! Deliberately not here: who is alive. The caller knows that from leases and puts only living
//! gateways into the [`Fleet`]. There is no recursion, no zone transfer, no dynamic update and no
//! DNSSEC.
#![deny(missing_docs)]

mod answer;
mod counters;
mod fleet;
mod map;
mod names;
mod outcome;
mod problem;
mod query;
mod records;
mod respond;
mod serve;
mod subnet;
mod warnings;
mod zone;

pub use answer::{Answer, Decision, Home, PassedOver, Serves, answer, nearest};
pub use counters::{Count, Counters};
pub use fleet::{Family, Fleet, Region};
pub use map::{ClientMap, Entry, Found, Place, entries_of_text};
pub use outcome::{Kind, Outcome};
pub use problem::Problem;
pub use respond::{Reply, State, Transport, respond};
pub use serve::{Limits, Sockets, serve};
pub use warnings::warnings;
pub use zone::{Settings, Zone};
