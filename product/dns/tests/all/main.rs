//! The name server over real sockets, asked with messages made by `hickory-proto`.

#![allow(clippy::unwrap_used, reason = "an unwrap that fails is a test that fails")]

mod common;
mod connections;
mod datagrams;
