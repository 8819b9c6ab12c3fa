//! Regions with several gateways, which tell each other of their requests.
//!
//! They are killed, suspended, restarted in turn and cut off from each other. Besides the answers, this
//! checks that in the end no gateway counts a request of another one that has ended.

use super::super::Options as Up;
use super::clients::Habits;

/// The regions.
pub(super) const SIBLING_REGIONS: [&str; 2] = ["us", "eu"];
/// Gateways in each.
pub(super) const GATEWAYS: usize = 3;
/// Replicas in each.
pub(super) const REPLICAS: usize = 3;
/// Clients of each gateway.
pub(super) const HABITS: Habits = Habits { clients: [2, 1], ..Habits::USUAL };

/// Changes the fleet to regions with several gateways.
pub(super) fn fleet(up: &mut Up) {
    up.regions = SIBLING_REGIONS.map(str::to_owned).into();
    up.gateways = GATEWAYS as u32;
    up.replicas = REPLICAS as u32;
}

/// The name of a region's gateway, counted from 0.
pub(super) fn name(region: &str, nth: usize) -> String {
    match nth {
        0 => region.to_owned(),
        nth => format!("{region}-{}", nth + 1),
    }
}
