//! A probe of the network between servers: goodput over several TCP streams, and round trips.
//!
//! Each server runs a [`Responder`]. A [`Remote`] orders one of them to send to another, and gets the
//! rate at which the bytes arrived there. Data goes between the servers only, never to the caller.
//!
//! TCP needs a processor at both ends, and one of them may be the limit before a fast link is. So
//! every measurement contains the largest share of the time that the ends of one of its streams
//! computed or waited for a processor ([`busy`]).
//!
//! It sends zeros and says nothing about RDMA, which does not use the kernel's TCP.

pub mod busy;
mod order;
mod remote;
mod responder;
mod stream;
mod words;

pub use remote::{Remote, Rtt, Sent};
pub use responder::{Responder, Spec};
pub use words::Token;

use std::time::Duration;

/// Most TCP streams of a measurement.
pub const MOST_STREAMS: u32 = 16;
/// The longest measurement.
pub const MOST_TIME: Duration = Duration::from_secs(60);
/// Most round trips of a measurement.
pub const MOST_TRIPS: u32 = 1000;
/// Most bytes that a responder takes over a connection: a minute of 100 GB/s.
const MOST_BYTES: u64 = 6_000_000_000_000;
/// Connections that a responder has at once at each of its addresses; further ones are closed.
const MOST_CONNECTIONS: usize = 64;
/// A peer that sends nothing, or takes nothing, for this long is given up.
const PATIENCE: Duration = Duration::from_secs(5);
/// The step in which arrived bytes are counted.
const STEP: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests;
