//! The gateway: the data plane of a region, driver of the routing machine.
//!
//! It turns sockets into events and outputs into sockets, and makes no choice of its own. The life
//! of a request runs through [`proxy`] (hops 1-3), the routing machine (hops 4-5), [`attempt`] (hop 6)
//! and [`relay`] (hops 7-8). One mutex guards the machine: a decision takes a few microseconds, which
//! is less than waking a task that owns it would cost.

mod access;
mod admin;
mod attempt;
mod body;
mod certificates;
mod check;
mod clock;
mod collect;
mod discover;
mod driver;
mod engine_error;
mod engine_fields;
mod error;
mod explain;
mod fleet;
mod front;
mod headers;
mod life;
mod limits;
mod lock;
mod metrics;
mod name;
mod odd;
mod opening;
mod peers;
mod pins;
mod priority;
mod probe;
mod proxy;
mod rate;
mod reading;
mod refuse;
mod registry;
mod relay;
mod reload;
mod residency;
mod resume;
mod route;
mod salts;
mod serve;
mod shared;
mod silence;
mod sources;
mod tenants;
mod upstream;
mod way;
mod wire;
mod worker;

pub use access::Given;
pub use check::check;
pub use error::Error;
pub use peers::TlsError;
pub use serve::{Ready, serve};
pub use tenants::{NoChance, hash_key, new_key};
