//! The engines and the programs of both sides.

use meridian_routing::Role;

use crate::parity::Options;
use meridian_tools::load::Workload;

/// The engines behind the gateway, and the programs of its clients.
pub(super) struct Shape {
    pub(super) roles: &'static [Role],
    pub(super) workload: Workload,
}

/// Rate at which an engine of a pool moves KV, in Gb/s: a common card of a server with an L4.
pub(super) const CARD_GBPS: f64 = 25.0;

const WHOLE: &[Role] = &[Role::Both; 3];
const POOLS: &[Role] = &[Role::Prefill, Role::Prefill, Role::Decode, Role::Decode];

impl Shape {
    pub(super) fn of(options: &Options) -> Shape {
        match options.pools {
            false => {
                let workload = Workload { turns: 4, ..Workload::default() };
                Shape { roles: WHOLE, workload }
            }
            // Prompts of which much is new, so that both ways are taken.
            true => {
                let workload = Workload { turns: 4, question_bytes: 4096, ..Workload::default() };
                Shape { roles: POOLS, workload }
            }
        }
    }
}
