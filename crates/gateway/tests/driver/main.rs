//! The gateway's driver, in process: sockets in, sockets out, and only the replicas are scripted.
//!
//! Everything here runs on one thread under paused time, so a timeout of minutes passes at once
//! and no test waits for a clock.

mod admin;
mod cancel;
mod common;
mod drain;
mod h2;
mod limits;
mod passthrough;
mod retries;
mod signals;
mod stateful;
mod timeouts;
