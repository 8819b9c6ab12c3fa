//! What a request brings to the decision: its tenant with labels, limits and priority, its residency
//! rules, its prompt's fingerprint, and the replica that holds its state.

pub(crate) mod engine_fields;
pub(crate) mod fingerprint;
pub(crate) mod pins;
pub(crate) mod priority;
pub(crate) mod rate;
pub(crate) mod residency;
pub(crate) mod salts;
pub(crate) mod tenants;
