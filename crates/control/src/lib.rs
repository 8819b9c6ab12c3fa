//! The control plane: what the fleet should be and what it is, kept in a store.
//!
//! [`store`] says what a store can do, in terms that etcd can keep too. [`embedded`] is the store
//! that needs nothing beside the program: one crash-safe file. [`tenure`] is the other side of a
//! lease, that of its owner.
//!
//! Requests never pass through here. A gateway that has lost its control plane goes on with the
//! last view it had.
#![deny(missing_docs)]

pub mod embedded;
mod error;
pub mod store;
pub mod tenure;

pub use error::Error;
