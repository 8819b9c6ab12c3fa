//! The records that lead clients to their nearest region, in a hosted zone of AWS Route 53.
//!
//! Pure: [`plan()`] compares the fleet with what is in the zone, and returns the changes. The process
//! around it reads the zone and makes the changes (`serve/route53.rs`).
//!
//! ```text
//! llm.example.org     A  latency, eu-central-1  alias of eu.llm.example.org
//!                     A  latency, us-east-1     alias of us.llm.example.org
//! eu.llm.example.org  A  multivalue             203.0.113.1, with a health check
//!                     A  multivalue             203.0.113.2, with a health check
//! us.llm.example.org  A  multivalue             198.51.100.1, with a health check
//! ```
//!
//! Route 53 has one latency record for each AWS region and one health check for each record, so a region
//! with several gateways needs the second level.

mod batch;
mod names;
mod plan;
#[cfg(test)]
mod tests;
mod zone;

pub(crate) use names::Names;
#[cfg(test)]
pub(crate) use plan::Region;
pub(crate) use plan::{Fleet, Plan, plan};
pub(crate) use zone::{Body, Change, Key, Kind, Probe, Zone};
