//! The flow machine: it decides which network transfer of a prefill/decode cluster goes first, and
//! why.
//!
//! A pure state machine after MFS (multi-stage flow scheduling). A request's time to first token
//! includes transfers in three stages: cached KV is fetched, collectives join each layer's halves,
//! and KV moves to decode. They share the same ports. The machine defers flows that can wait and
//! promotes those that can't, so that whole requests meet their deadlines. Schedulers of single
//! flows finish the wrong ones early.
//!
//! Its interface is three primitives, made for a process that shares memory with its clients: rows
//! are numbers that the driver assigns, the tables' memory is reserved at the start, and every input
//! costs a bounded amount.
//!
//! - [`Input::Submit`] registers a flow; [`Output::Placed`] reports its place, then and whenever it
//!   changes. That is enough for a driver that maps levels to traffic classes, and for a simulator
//!   with strict priority in its network.
//! - [`Input::Ask`] asks to send the next chunk; [`Output::Permit`] answers, at once or when it is
//!   the flow's turn. A driver that gates at the host uses this to bound the bytes that are
//!   committed but not sent.
//! - [`Input::Completed`] reports completed bytes.
//!
//! A cluster has a machine on each node. It orders and prunes by what the node knows, until the
//! cluster's [`Coordinator`] answers with a [`Verdict`] by the requests of all nodes.
//!
//! In addition, [`Input::BatchArrived`], [`Input::Layer`] and [`Input::BatchDeparted`] report the
//! progress of the computation. The machine has the same five methods as every machine in the
//! project: [`Flows::new`], [`Flows::handle`], [`Flows::poll`], [`Flows::poll_timeout`] and
//! [`Flows::handle_timeout`].
//!
//! The machine neither moves nor paces bytes: [`Place::rate`], which only minimum-rate policies
//! set, is for drivers that can limit a flow's rate.
#![no_std]
#![deny(missing_docs)]

extern crate alloc;

mod batch;
mod budget;
mod config;
mod coordinator;
mod gate;
mod limits;
mod load;
mod machine;
mod mlu;
mod pass;
mod place;
pub mod policy;
mod red;
mod refusal;
mod stage;
mod tables;
mod thresholds;
mod why;

pub use batch::{Batch, Member, PortPlan};
pub use config::{Config, ConfigError, RedOrder, Terms};
pub use coordinator::{Coordinator, Report, Ruling, Verdict};
pub use limits::Limits;
pub use machine::{Flows, Input, Output};
pub use place::{Arbitration, Level, Place, TRAFFIC_CLASSES};
pub use refusal::{Refusal, Subject};
pub use stage::{Flow, Owner, Ports, Stage};
pub use thresholds::{MOST_LEVELS, Thresholds};
pub use why::{Lever, PermitWhy, PruneWhy, Why};
