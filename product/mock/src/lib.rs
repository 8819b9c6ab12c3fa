//! Recorded vLLM engines with `NixlConnector`, for tests of the gateway's two legs.
//!
//! A [`Fleet`] plays prefill and decode engines over sockets. A request that equals a recorded one
//! gets the recorded answer, with a `remote_request_id` of its own; every other one gets a 500 and
//! counts as uncovered, with its differences from the nearest recording. So a test that ends with
//! `assert_eq!(fleet.uncovered(), [""; 0])` shows that each leg was one that real engines have
//! seen. `recordings/SOURCE.md` lists the recordings, and the few parts that are filled in.
//!
//! The fleet keeps the state that the recordings show: blocks held for their lease, parameters used
//! twice or late, parameters of a killed engine, and the bodies that end an engine. It computes
//! nothing: answers come at once, except where a real engine waits for its handshake timeout.
//! Texts of clients appear in no difference.

#![warn(missing_docs)]

mod decode;
mod engine;
mod exchange;
mod fleet;
mod leases;
mod nearest;
mod pages;
mod prefill;
mod socket;
mod state;

pub use engine::{Counts, LoadFailure, Role};
pub use fleet::{Engine, Fleet};
