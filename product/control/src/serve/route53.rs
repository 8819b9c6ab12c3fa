//! The records in a hosted zone of AWS Route 53, which follow the registry.
//!
//! Only the leader changes them. `reconcile.rs` is its work, [`crate::route53`] decides what to change,
//! and `aws.rs` asks Route 53. While AWS cannot be reached the records stay as they are.

#[cfg(not(feature = "route53"))]
mod absent;
#[cfg(feature = "route53")]
mod aws;
#[cfg(feature = "route53")]
mod convert;
#[cfg(feature = "route53")]
mod failure;
#[cfg(feature = "route53")]
mod fleet;
#[cfg(feature = "route53")]
mod keep;
#[cfg(feature = "route53")]
mod reconcile;
#[cfg(feature = "route53")]
mod state;

#[cfg(not(feature = "route53"))]
pub(super) use absent::{Route53, keep};
#[cfg(feature = "route53")]
pub(super) use keep::keep;
#[cfg(feature = "route53")]
pub(super) use state::Route53;
