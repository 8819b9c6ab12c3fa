//! The routing machine in this gateway: one lock around it, a clock, and delivery of its outputs.

pub(crate) mod clock;
pub(crate) mod driver;
pub(crate) mod outbox;
pub(crate) mod ratios;
mod samples;
pub(crate) mod siblings;
pub(crate) mod ticket;
