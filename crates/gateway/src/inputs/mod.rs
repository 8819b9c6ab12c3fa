//! Inputs of a routing decision: the tenant with labels, limits and priority, the residency rules,
//! the prompt's fingerprint, and the replica with the conversation's state.

pub(crate) mod engine_fields;
pub(crate) mod fingerprint;
pub(crate) mod pins;
pub(crate) mod priority;
pub(crate) mod rate;
pub(crate) mod residency;
pub(crate) mod salts;
pub(crate) mod tenants;
