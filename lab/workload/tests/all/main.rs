//! Generators and traces.
//!
//! One test program, so that the libraries are linked once.

#![allow(clippy::unwrap_used, reason = "an unwrap that fails is a test that fails")]

mod arrivals;
mod golden;
mod served;
mod statistics;
mod trace_bytes;
mod trace_files;
mod trace_rounds;
mod traces;
