//! The control plane: what the fleet should be and what it is, kept in a store.
//!
//! [`registry`] holds the records: desired ones by operators, observed ones by gateways. [`store`]
//! says what it needs of a store, in terms that etcd can keep too. [`embedded`] is the store that
//! needs nothing beside the program: one crash-safe file. [`tenure`] is the other side of a lease,
//! that of its owner. [`serve`] is the process around them, with the admin port.
//!
//! Requests never pass through here. A gateway that has lost its control plane goes on with the
//! last view it had.
#![deny(missing_docs)]

pub mod embedded;
mod error;
pub mod registry;
pub mod serve;
pub mod store;
pub mod tenure;

pub use error::Error;
