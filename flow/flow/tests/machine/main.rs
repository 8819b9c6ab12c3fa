//! Tests of the flow machine through its interface: the paper's examples, the corrections to it,
//! properties over random inputs, and bad input.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod coordinator;
mod corrections;
mod golden;
mod link;
mod passes;
mod permits;
mod promotion;
mod properties;
mod refusals;
mod theorem;
