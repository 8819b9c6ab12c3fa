//! Plans compared with exhaustive searches and linear programs on generated topologies: minutes of
//! work, so `./x test --all` runs it.

#![allow(clippy::unwrap_used, reason = "an unwrap that fails is a test that fails")]

mod exact;
mod online;
mod optimum;
mod reference;
mod suite;
