//! Calibration, experiments and the load generator.
//!
//! One test program, so that the libraries are linked once.

#![allow(clippy::unwrap_used, reason = "an unwrap that fails is a test that fails")]

mod aggregated;
mod calibrate;
mod calibration;
mod experiments;
mod judged;
mod load;
mod replay;
mod support;
mod sweep;
