//! The chaos suite in its short form, with clocks that are set. `./x test --all` runs it.

#![allow(clippy::unwrap_used, reason = "an unwrap that fails is a test that fails")]

#[path = "../real/common/mod.rs"]
mod common;
mod faults;
#[path = "../programs/mod.rs"]
mod programs;
