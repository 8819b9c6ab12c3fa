//! Fleets: prefill and decode instances whose collectives and KV share the links of one network.
//!
//! A request goes to a prefill instance, stage by stage through its pipeline; its KV goes to a
//! decode instance, layer by layer during the computation if the engine supports that; there it is
//! in a batch until its last token. A stage computes and then synchronises: all all-reduces of a
//! step are one transfer of their bytes. A transfer takes at least its time without contention. On
//! each shared port it is a flow of a [`meridian_fabric::Network`], and it ends with its last flow.
//! [`Setup`] defines a run except for the ways of collectives: a [`Choose`] selects those,
//! operation by operation, given the time and the bytes. [`exchanges`] runs only collectives.
//!
//! Instead of prefill and decode instances, a fleet may have aggregated ones, which do both.
//!
//! It does not model packets, in prefill instances prompts computed several at a time or in chunks,
//! prefill preemption, or failures. KV that does not fit waits at the decode instance and not before.

mod decode;
mod exchange;
mod mixed;
mod prefill;
mod report;
mod setup;
mod stage;
mod wires;
mod world;

pub use exchange::exchanges;
pub use report::{Record, Report, Spent};
pub use setup::{Aggregated, Choose, Instance, Request, Setup, Stage, Way};
pub use world::run;

#[cfg(test)]
mod tests;
