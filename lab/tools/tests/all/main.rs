//! The load generator and what is built on it, against model engines.
//!
//! One test program, so that the libraries are linked once.

#![allow(clippy::unwrap_used, reason = "an unwrap that fails is a test that fails")]

mod calibrate;
mod load;
mod replay;
mod support;
mod sweep;
