//! The live engines of a pool.

use meridian_engined::{self as engined, Network, Transfer};
use meridian_routing::Role;

use crate::work::{CARD_GBPS, LEASE};

/// How an engine with this role moves KV. Bytes of KV in a real socket would be awaited with the
/// time paused, and pipes in memory need no such care.
pub(crate) fn transfer(role: Role, network: &Network) -> Option<Transfer> {
    let role = match role {
        Role::Both => return None,
        Role::Prefill => engined::Role::Prefill,
        Role::Decode => engined::Role::Decode,
    };
    let (network, lease) = (network.clone(), LEASE);
    Some(Transfer { role, lease, link_gbps: CARD_GBPS, network, ..Transfer::default() })
}
