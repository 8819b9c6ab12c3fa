//! The control plane: the desired and the observed state of the fleet, kept in a store.
//!
//! [`registry`] holds the records: desired ones by operators, observed ones by gateways. [`store`]
//! defines the required operations of a store, in terms that etcd supports, too. [`embedded`] is
//! the built-in store: one crash-safe file. [`etcd`] keeps the registry in etcd, for several control
//! planes at once. [`tenure`] is the owner's side of a lease. [`serve`] is
//! the process around them, with the admin port.
//!
//! Requests never pass through the control plane. A gateway that has lost it keeps using its last
//! view.
#![deny(missing_docs)]

pub mod chosen;
pub mod embedded;
mod error;
#[cfg(feature = "etcd")]
pub mod etcd;
pub mod limits;
pub mod registry;
#[cfg(feature = "route53")]
mod route53;
mod seldom;
pub mod serve;
pub mod store;
pub mod tenure;

pub use error::Error;
