//! The network cards of a host as an operator sees them: what they carry, and how they queue.
//!
//! Deliberately not here: the order of single transfers, which is the flow machine's.

pub mod counters;
pub mod queues;
pub mod worth;
