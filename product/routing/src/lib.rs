//! The routing machine: it makes one region's routing decisions.
//!
//! It is a pure state machine. A driver (the gateway with sockets, the simulator with a simulated
//! clock) passes in timestamped events and polls for actions and the reasons for them. Nothing here
//! opens a socket, reads a clock, logs, or uses unseeded random numbers.
//!
//! Like every machine in the project, it has five methods:
//!
//! - [`Routing::new`] takes a validated configuration and a seed;
//! - [`Routing::handle`] takes one [`Input`] at a time `now`, never earlier than the last;
//! - [`Routing::poll`] returns the next [`Output`]; call it until `None` after each input;
//! - [`Routing::poll_timeout`] says when to call [`Routing::handle_timeout`] next.
//!
//! A request enters with [`Input::Arrived`] and leaves exactly once: with [`Output::Reject`], or
//! with the driver's [`Input::Finished`] or [`Input::Cancelled`].
#![no_std]
#![deny(missing_docs)]

extern crate alloc;

mod active;
mod adapters;
pub mod admission;
mod alternatives;
mod breaker;
mod common;
mod config;
mod cost;
mod decide;
mod ending;
mod evidence;
mod explain;
mod first_token;
mod fleet;
mod growth;
mod held;
mod index;
mod input;
mod kind;
mod legs;
mod line;
mod links;
mod log;
mod machine;
mod output;
mod peer;
mod places;
pub mod policy;
mod probe;
mod queue;
mod recall;
mod regions;
mod replica;
mod replicas;
mod request;
mod reuse;
mod ring;
mod row;
mod rule;
mod shadow;
mod siblings;
mod slots;
mod snapshot;
mod speed;
mod steps;
mod target;
mod topology;
mod traffic;
mod usual;
mod why;

// Values of the machine's inputs and outputs that also cross the network.
pub use meridian_base::{
    Branch, Digest, Holdings, Pace, PeerReplica, Pool, Priority, PromptTiming, Role, SiblingEnding,
    SiblingLine, SiblingRecord, SiblingRequest,
};

pub use adapters::AdapterReport;
pub use admission::Admission;
pub use alternatives::Alternatives;
pub use breaker::{BreakerConfig, BreakerState};
pub use config::{Config, ShadowConfig};
pub use cost::Ewma;
pub use ending::Ending;
pub use explain::{CandidateRow, Decision, PeerCandidate};
pub use first_token::FirstToken;
pub use held::HeldConfig;
pub use index::{Evict, IndexSpec, Insert, PrefixIndex};
pub use input::Input;
pub use links::Links;
pub use machine::{MOST_HOLDINGS, Routing};
pub use output::Output;
pub use peer::{PeerReplicaRow, PeerRow, PeerTotals, Peers};
pub use probe::ProbeConfig;
pub use replica::{Load, MOST_PAUSE, ReplicaSpec, State, Status, Totals};
pub use replicas::{MOST_REPLICA_IDS, Replicas};
pub use request::{Outcome, Request, Usage};
pub use ring::Ring;
pub use row::{Row, SiblingShare};
pub use shadow::{Compared, ShadowTotals, Shadowed, Would};
pub use target::Target;
pub use topology::{PeerSpec, Peering, Topology};
pub use why::{Closed, Ineligible, RejectWhy, Unavailable, Why};
