//! The gateway: the data plane of a region, driver of the routing machine.
//!
//! It turns sockets into events and outputs into sockets, and makes no choice of its own. Connections
//! end in [`http`], the life of a request is in [`request`], and what it brings to the decision in
//! [`inputs`]. One mutex guards the machine: a decision takes a few microseconds, which
//! is less than waking a task that owns it would cost.

mod access;
mod admin;
mod certificates;
mod check;
mod draining;
mod error;
mod http;
mod ids;
mod inputs;
mod lock;
mod machine;
mod metrics;
mod opening;
mod peers;
mod registry;
mod reload;
mod replicas;
mod request;
mod serve;
mod sources;
mod worker;

pub use access::Given;
pub use check::check;
pub use error::Error;
pub use inputs::tenants::{NoChance, hash_key, new_key};
pub use peers::tls::TlsError;
pub use serve::{Ready, serve};
