//! The emulated WAN: a relay that delays bytes between regions as a real network would.
//!
//! Programs on one machine reach each other in microseconds. If they stand for regions, they
//! connect through this relay instead. It delays every byte by the one-way delay of its direction,
//! limits throughput to the link's rate and each connection's window, and makes a new connection
//! wait for its handshake. Links can be cut, slowed and restored at run time.
//!
//! The timing is in machines that get the time as an argument and own no socket: [`Link`] is one
//! direction between two regions, [`Flow`] one direction of a connection over it, [`Pair`] a
//! connection. The relay around them moves bytes between sockets at the times that the machines
//! return.
//!
//! It deliberately models no loss, and of congestion control only slow start: a connection's window
//! only grows, and after a cut bytes flow at once, whereas TCP would wait for its backed-off timer.
//! A relay ends TCP on both sides, so a client's `connect` returns at once, and the first byte
//! waits for the handshake.

mod admin;
pub mod config;
mod descriptors;
mod error;
mod flow;
mod link;
mod pair;
mod pipe;
mod relay;
mod routes;
mod timer;
mod view;
mod window;

pub use error::{Error, Result};
pub use flow::{Flow, Mark};
pub use link::{Figures, Link, LinkCounts, LinkState};
pub use pair::{Links, Pair, Side, Step};
pub use relay::Relay;
pub use window::{SEGMENT, Window, WindowSpec};
