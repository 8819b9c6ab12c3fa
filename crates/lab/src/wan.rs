//! The emulated WAN: a relay that lets bytes between regions take as long as they would.
//!
//! Programs of one machine reach each other in microseconds. Where they play regions, they connect
//! through this relay instead: it holds every byte back for the one-way delay of its direction,
//! lets no more pass than the link's rate and each connection's window allow, and makes a new
//! connection wait out its handshake. Links are cut, slowed and mended while everything runs.
//!
//! The timing is in machines that are told the time and know no socket: [`Link`] is one direction
//! between two regions, [`Flow`] one direction of a connection over it, [`Pair`] a connection. The
//! relay around them moves bytes between sockets and asks the machines when.
//!
//! It deliberately models no loss and no congestion control beyond slow start: a connection's
//! window only grows, and after a cut bytes flow on at once, where TCP would wait for its backed-off
//! timer. A relay ends TCP on both sides, so a client's `connect` returns at once and it is the
//! first byte that waits out the handshake.

mod admin;
mod descriptors;
mod flow;
mod link;
mod pair;
mod pipe;
mod relay;
mod routes;
mod timer;
mod view;
mod window;

pub use flow::{Flow, Mark};
pub use link::{Figures, Link, LinkCounts, LinkState};
pub use pair::{Links, Pair, Side, Step};
pub use relay::Relay;
pub use window::{SEGMENT, Window, WindowSpec};
