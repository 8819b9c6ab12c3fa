//! Fleets: instances that compute prompts and instances that write replies, whose collectives and KV
//! meet on the links of one network.
//!
//! A request goes to a prefill instance, stage by stage through its pipeline; its KV goes to a decode
//! instance, layer by layer behind the computing where the engine can; there it is in a batch until its
//! last token. A stage computes and then synchronises: all all-reduces of a step are one transfer of
//! their bytes. A transfer takes at least what it takes alone; on each port that others use too it is a
//! flow of a [`meridian_fabric::Network`], and it is over when its last flow is. [`Setup`] says
//! everything about a run but which way a collective goes: a [`Choose`] says that, operation by
//! operation, with the time and the bytes. [`exchanges`] keeps collectives alone under way.
//!
//! What it leaves out: packets; prompts computed several at a time or in chunks; KV that does not fit
//! waits at the decode instance and not before; nothing is preempted and nothing fails.

mod decode;
mod exchange;
mod prefill;
mod report;
mod setup;
mod stage;
mod wires;
mod world;

pub use exchange::exchanges;
pub use report::{Record, Report, Spent};
pub use setup::{Choose, Instance, Request, Setup, Stage, Way};
pub use world::run;

#[cfg(test)]
mod tests;
