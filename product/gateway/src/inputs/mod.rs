//! Inputs of a routing decision: the tenant with labels, limits and priority, the residency rules,
//! the prompt's fingerprint, and the replica with the conversation's state.

use std::sync::Arc;

use self::fingerprint::ReadingNow;
use self::in_force::ConfigNow;
use self::pins::Pins;
use self::residency::Residency;
use self::used_kv::UsedKv;
use crate::machine::ratios::Ratios;

pub(crate) mod engine_fields;
pub(crate) mod fingerprint;
pub(crate) mod in_force;
pub(crate) mod models;
pub(crate) mod oidc;
pub(crate) mod pins;
pub(crate) mod priority;
pub(crate) mod rate;
pub(crate) mod residency;
pub(crate) mod salts;
pub(crate) mod tenants;
pub(crate) mod used_kv;

/// Sources of a decision's inputs. Answers add to `ratios` and `pins`.
pub(crate) struct Inputs {
    pub(crate) config: Arc<ConfigNow>,
    pub(crate) reading: Arc<ReadingNow>,
    pub(crate) ratios: Ratios,
    pub(crate) pins: Arc<Pins>,
    pub(crate) residency: Arc<Residency>,
    /// KV that was used for prompts.
    pub(crate) used_kv: UsedKv,
}
