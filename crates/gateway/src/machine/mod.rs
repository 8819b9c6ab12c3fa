//! The routing machine as this gateway drives it: one lock around it, a clock, and the outputs
//! carried to those that wait for them.

pub(crate) mod clock;
pub(crate) mod driver;
pub(crate) mod outbox;
pub(crate) mod policy;
pub(crate) mod ratios;
mod samples;
pub(crate) mod ticket;
