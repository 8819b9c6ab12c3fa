//! The flow machine: which network transfer of a prefill/decode cluster goes first, and why.
//!
//! A pure state machine after MFS (multi-stage flow scheduling). A request's time to first token is
//! made of transfers in three stages: cached KV is fetched, collectives join each layer's halves, KV
//! goes on to decode. They meet on the same ports. The machine defers what can wait and promotes what
//! can't, so that whole requests are in time, where schedulers of single flows finish the wrong ones
//! early.
//!
//! Its interface is three primitives, made for a process that shares memory with its clients: rows
//! are numbers that the driver gives out, all memory is reserved at the start, and every input costs
//! a bounded amount.
//!
//! - [`Input::Submit`] registers a flow; [`Output::Placed`] says where it stands, then and whenever
//!   that changes. A driver that maps levels to traffic classes, and a simulator with strict priority
//!   in its network, need no more.
//! - [`Input::Ask`] asks to send the next chunk; [`Output::Permit`] answers, at once or when it is the
//!   flow's turn. A driver that gates at the host bounds with it what is committed and not sent.
//! - [`Input::Completed`] tells of bytes that are over.
//!
//! Around them, [`Input::BatchArrived`], [`Input::Layer`] and [`Input::BatchDeparted`] tell how the
//! computation goes. It has the five methods of every machine of the house:
//! [`Flows::new`], [`Flows::handle`], [`Flows::poll`], [`Flows::poll_timeout`] and
//! [`Flows::handle_timeout`].
//!
//! The machine moves no bytes and paces none: [`Place::rate`], which only minimum-rate policies set,
//! is for drivers that can hold a flow to a rate.
#![no_std]
#![deny(missing_docs)]

extern crate alloc;

mod batch;
mod budget;
mod config;
mod gate;
mod limits;
mod load;
mod machine;
mod mlu;
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
pub use limits::Limits;
pub use machine::{Flows, Input, Output};
pub use place::{Arbitration, Level, Place};
pub use refusal::{Refusal, Subject};
pub use stage::{Flow, Owner, Ports, Stage};
pub use thresholds::{MOST_LEVELS, Thresholds};
pub use why::{Lever, PermitWhy, PruneWhy, Why};
