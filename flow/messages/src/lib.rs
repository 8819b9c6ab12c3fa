//! The flow gate's settings, its batches, and the messages between a node and the coordinator.
//!
//! All of it is JSON. Times are relative to the moment at which a message is sent, so the clocks of
//! hosts need not agree; a message's own time on the network is the error. Ports have names, since
//! nodes number them differently.

mod batch;
mod coordinator;
mod settings;
mod translate;

pub use batch::{Batch, PortBytes, PortPlan, Request};
pub use coordinator::{Pruned, ToCoordinator, ToNode, VERSION, Verdict};
pub use settings::{Port, Settings};
pub use translate::BatchError;

/// The longest message between a node and the coordinator, in bytes: a line of JSON.
pub const LONGEST: usize = 1 << 20;
