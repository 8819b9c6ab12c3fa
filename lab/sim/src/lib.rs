//! The simulator: regions, clients, gateways and replicas on one simulated clock.
//!
//! The simulator is a driver, like the gateway: it runs the same routing and engine machines, with
//! a queue of events in place of sockets. The network, the clients and the engines' computation are
//! models; the decisions are made by the product's own code.
//!
//! A [`Scenario`] defines a run completely, and [`run()`] turns it into a [`Report`]. The same
//! scenario gives the same report, byte for byte, on every machine: events are ordered by (time,
//! sequence), random numbers come from the seed, and floating-point functions from `libm`.
//!
//! [`cluster`] and [`fleet`] are other worlds on the same run loop and fabric, with models of their
//! own: prefill replicas whose transfers the flow machine schedules, and planned instances whose
//! collectives and KV share links.
//!
//! It deliberately has no files, statistics or plots: `bench` reads experiments, and makes tables
//! of reports.
#![deny(missing_docs)]

mod claims;
mod clients;
pub mod cluster;
mod event;
mod fabric;
pub mod fleet;
mod flight;
mod flights;
mod gateway;
mod granularity;
mod heard;
mod impossible;
mod legs;
mod network;
mod news;
mod oracle;
mod queue;
mod replica;
mod report;
mod request;
mod rows;
mod rules;
mod run;
mod running;
mod scale;
mod scenario;
mod stopped;
pub mod swarm;
mod twin;
mod world;

pub use impossible::Impossible;
pub use report::{Crossing, Fate, Record, Report, Sample};
pub use running::{Running, run, run_twin};
pub use scenario::{
    Autoscaler, Digests, Fault, Hardware, Load, Measure, News, Objective, Programs, Rack, Region,
    Scenario, Siblings, Source, System, Topology, Transfer, Wan,
};
pub use twin::Twin;
