//! Calibration and experiments.
//!
//! One test program, so that the libraries are linked once.

#![allow(clippy::unwrap_used, reason = "an unwrap that fails is a test that fails")]

mod calibration;
mod experiments;
#[path = "../goldens/mod.rs"]
mod goldens;
