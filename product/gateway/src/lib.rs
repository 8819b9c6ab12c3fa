//! The gateway: a region's data plane, and the driver of the routing machine.
//!
//! It turns socket reads into events and outputs into socket writes, and makes no routing choice of
//! its own. Connections end in [`http`], the life of a request is in [`request`], and the inputs of
//! its decision are in [`inputs`]. One mutex guards the machine: a decision takes a few
//! microseconds, less than waking a task that owns it would cost.

mod admin;
mod cause;
mod certificates;
mod check;
mod descriptors;
mod draining;
mod error;
mod facts;
mod fault;
mod health;
mod http;
mod ids;
mod inputs;
mod joining;
mod lock;
mod machine;
mod metrics;
mod model_ids;
mod opening;
mod peers;
mod policy;
mod rarely;
mod record;
mod refusal;
mod registry;
mod reload;
mod replicas;
mod request;
mod resolve;
mod serve;
mod settings;
mod sources;
mod threads;

pub use check::{Live, check, check_live};
pub use descriptors::raise_descriptors;
pub use error::{Error, TlsError};
pub use inputs::in_force::Given;
pub use inputs::tenants::{NoChance, new_key};
pub use serve::{Ready, serve};
