//! The fabric: the ports of a cluster, and how its flows share them.
//!
//! [`Topology`] lays out the ports of a cluster (NVLink inside a server, a single switch,
//! leaf-spine or fat tree outside) and finds the path between two GPUs. [`Network`] is a flow-level
//! model on such ports: rates follow strict priority and, within one priority, weighted max-min
//! fairness, instantly and without packets. A well-tuned transport converges to that over the
//! milliseconds of a transfer. Round trips, queues, loss and incast below that scale are not
//! modelled.
//!
//! Priorities are inputs; nothing here chooses them.
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
