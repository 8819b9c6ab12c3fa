//! Topologies: which other regions a request may be forwarded to, and when.
//!
//! Independent of the policy, like the admission modes. `central` and `flat` need no code here: the
//! driver arranges them, with one gateway for the replicas of all regions or every gateway with all
//! of them, each replica with its round trip in [`ReplicaSpec`](crate::ReplicaSpec).

use meridian_base::Duration;

/// The second layer, beyond the region's own replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Topology {
    /// The policy chooses among the peers as well (SkyWalker, section 3.1).
    #[default]
    TwoLayer,
    /// Local until the mean utilisation passes a bound, then the nearest peer below it (a
    /// multi-cluster gateway, as GKE's).
    Waterfall {
        /// The bound, 0 to 1; published is 0.8.
        above: f32,
    },
    /// As `Waterfall`, but within the continent (cross-region inference of Bedrock).
    Continent {
        /// The bound, 0 to 1.
        above: f32,
    },
    /// A region keeps its requests.
    Local,
}

/// Thresholds for judging peers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peering {
    /// SkyWalker's tau: a peer that holds more requests is not available. 10 in its code.
    pub tau: u32,
    /// Whether a peer that holds more requests than this region is also unavailable, as in
    /// SkyWalker's code.
    pub tau_own: bool,
    /// A digest older than this is ignored: the peer is not available.
    pub stale: Duration,
    /// Weight of one sample of the round trip. 0.3 in GORGO.
    pub rtt_gain: f64,
    /// Most replicas listed in a digest.
    pub most_replicas: u16,
}

impl Peering {
    /// The most requests that a peer may hold and still receive one from a region that holds `own`.
    pub(crate) fn most_held(&self, own: u32) -> u32 {
        if self.tau_own { self.tau.min(own) } else { self.tau }
    }
}

impl Default for Peering {
    fn default() -> Peering {
        Peering {
            tau: 10,
            tau_own: true,
            stale: Duration::from_secs(2),
            rtt_gain: 0.3,
            most_replicas: 256,
        }
    }
}

/// The driver's description of a peer when it joins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PeerSpec {
    /// Round trip to it, until measurements arrive.
    pub rtt: Duration,
    /// Whether it is on the same continent.
    pub near: bool,
    /// A hash of its name: its position on rings, the same in every gateway.
    pub name_hash: u64,
}
