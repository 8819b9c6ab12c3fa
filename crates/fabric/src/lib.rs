//! The fabric: which ports a cluster has, and how its flows share them.
//!
//! [`Topology`] lays out the ports of a cluster (NVLink inside a server, a single switch, leaf-spine
//! or fat tree outside) and finds the path between two GPUs. [`Network`] is a flow-level model on such
//! ports: rates follow strict priority and, among equals, weighted max-min fairness, at once and
//! without packets. That is what a well-tuned transport comes to over the milliseconds that a
//! transfer takes; round trips, queues, loss and incast below that are not in it.
//!
//! Nothing here decides who goes first: priorities are handed in.
#![no_std]
#![deny(missing_docs)]

extern crate alloc;

mod fill;
mod network;
mod path;
mod topology;

pub use network::{Demand, Network, Priority};
pub use path::Path;
pub use topology::{Cluster, Gpu, PortName, Shape, Topology, TopologyError, Uplinks};
