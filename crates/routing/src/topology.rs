//! Topologies: which other regions a request may be sent on to, and when.
//!
//! Orthogonal to the policy, as the admission modes are. `central` and `flat` need nothing here:
//! they are arrangements of the driver, one gateway with the replicas of all regions or every
//! gateway with all of them, each replica with its round trip in
//! [`ReplicaSpec`](crate::ReplicaSpec).

use meridian_base::Duration;

/// Which layer beyond the region's own replicas there is.
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
    /// The same, never off the continent (cross-region inference of Bedrock).
    Continent {
        /// The bound, 0 to 1.
        above: f32,
    },
    /// A region keeps its requests.
    Local,
}

/// How peers are judged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peering {
    /// SkyWalker's tau: a peer that holds more requests is not available. 10 in its code.
    pub tau: u32,
    /// Whether a peer that holds more than this region does is not available either, as in its
    /// code.
    pub tau_own: bool,
    /// A digest older than this says nothing: the peer is not available.
    pub stale: Duration,
    /// Weight of one sample of the round trip. 0.3 in GORGO.
    pub rtt_gain: f64,
    /// Most replicas that a digest names.
    pub most_remotes: u16,
}

impl Peering {
    /// The most requests that a peer may hold and still get one of a region that holds `own`.
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
            most_remotes: 256,
        }
    }
}

/// What the driver tells of a peer when it joins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PeerSpec {
    /// Round trip to it, until measured ones are told.
    pub rtt: Duration,
    /// On the same continent.
    pub near: bool,
    /// A hash of its name: its place on rings, the same in every gateway.
    pub name_hash: u64,
}
