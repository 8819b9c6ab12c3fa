//! The name server beside real ones: asked by `dig`, and compared with PowerDNS and gdnsd, which
//! have maps of prefixes too. A program that is not installed fails the tests that need it.

#![allow(clippy::unwrap_used, reason = "an unwrap that fails is a test that fails")]

mod common;
mod compare;
mod dig;
mod gdnsd;
mod powerdns;
mod processes;
mod questions;
