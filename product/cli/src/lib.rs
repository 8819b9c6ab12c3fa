//! The commands of `meridian`, and what they share with those of the laboratory.

mod admin;
mod certs;
mod check;
mod command;
pub mod config_file;
mod control;
pub mod ending;
mod engines;
mod explain;
mod gateway;
pub mod hangup;
pub mod http;
mod intervals;
pub mod laboratory;
pub mod logs;
pub mod man;
mod policies;
mod registry;
pub mod service;
mod tenant_key;

pub use command::{Policies, command, run};

/// The version, with the commit that was built if it is known.
pub const VERSION: &str = env!("MERIDIAN_VERSION");

/// The commit that was built; empty if it is not known.
pub const COMMIT: &str = env!("MERIDIAN_COMMIT");
