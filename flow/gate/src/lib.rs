//! The flow machine in a process that sends: each chunk of a transfer waits for its permit.
//!
//! A [`Gate`] has one [flow machine](meridian_flow::Flows) behind a lock, a clock, and the threads or
//! tasks that wait. Ports, batches and transfers have the client's own names and numbers here, and
//! rows only inside. [`Gate::open`] adds the coordinator of a cluster.
//!
//! A gate only delays. Whatever is wrong with it, transfers go on without it: a client that gets an
//! error sends without a permit, a port where nothing moves fails open
//! ([`Config::max_hold`](meridian_flow::Config::max_hold)), and a coordinator that is gone leaves the
//! node with its own order.
//!
//! Deliberately not here: bytes and sockets of transfers, which are the client's.

mod batches;
mod clock;
mod coordinator;
mod counts;
mod error;
mod gate;
mod mailbox;
mod permit;
mod settings;
mod slots;
mod state;
mod transfer;
mod waiting;

pub use batches::NewBatch;
pub use clock::Clock;
pub use counts::Status;
pub use error::{GateError, SettingsError};
pub use gate::{Gate, NewFlow};
pub use permit::{Handle, Permit};
pub use transfer::Transfer;
