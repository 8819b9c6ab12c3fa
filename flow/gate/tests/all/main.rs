//! The gate from outside: its permits, its failures, its coordinator.

mod common;
mod failures;
mod permits;
