//! Commands as processes, without other software.
//!
//! One test program, so that the libraries are linked once.

#![allow(clippy::unwrap_used, reason = "an unwrap that fails is a test that fails")]

mod check;
mod command_line;
mod examples;
mod explain;
mod import;
mod wrong_configs;
