//! Assignment: which gateways serve a region's replicas as gateways join and leave.
//!
//! A region's replicas are shared by all of its living gateways. When none of them is alive, the
//! nearest living gateway of another region that may adopt takes over the whole region (SkyWalker,
//! section 4.2), and hands it back when one of the region's own gateways returns. The assignment
//! depends on the membership alone. Gateways that see the same members compute the same assignment
//! without coordinating, a loss moves only the replicas that the lost gateway served alone, and a
//! recovery restores exactly the assignment from before the loss, however many were lost in
//! between.
//!
//! Ties in distance go to the gateway that is first by its key, so keys must mean the same on every
//! gateway: names, or positions in a shared list. An unmeasured distance counts as the farthest.
//! The simulator's `adopt` and the gateways share this definition.
//!
//! Failure detection is not part of this. While gateways disagree about the members they compute
//! different assignments, and a replica may briefly have two gateways or none. This costs balance
//! but no answers, since replicas serve any gateway.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::Duration;

/// The gateways that serve a region's replicas, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Serving<G> {
    /// The region's own living gateways together, in order of their keys.
    Own(Vec<G>),
    /// The nearest living gateway of another region, because none of the region's own is alive.
    Adopted {
        /// The gateway that serves them for now.
        by: G,
        /// The round trip between the two regions; `None` if unknown.
        rtt: Option<Duration>,
    },
    /// No gateway that may serve them is alive.
    NoGateway,
}

impl<G: PartialEq> Serving<G> {
    /// Whether `gateway` is one of the serving gateways.
    #[must_use]
    pub fn includes(&self, gateway: &G) -> bool {
        match self {
            Serving::Own(gateways) => gateways.contains(gateway),
            Serving::Adopted { by, .. } => by == gateway,
            Serving::NoGateway => false,
        }
    }
}

/// Assigns the replicas of `home`, given the `living` gateways with their regions. `rtt` is the
/// round trip from a gateway's region to the home; `may` says which regions may adopt.
///
/// One pass over the gateways.
pub fn serving<G: Ord, R: PartialEq>(
    home: &R,
    living: impl IntoIterator<Item = (G, R)>,
    rtt: impl Fn(&R) -> Option<Duration>,
    may: impl Fn(&R) -> bool,
) -> Serving<G> {
    let mut own = Vec::new();
    let mut nearest: Option<(bool, Option<Duration>, G)> = None;
    for (gateway, region) in living {
        if region == *home {
            own.push(gateway);
        } else if may(&region) {
            let distance = rtt(&region);
            let candidate = (distance.is_none(), distance, gateway);
            if nearest.as_ref().is_none_or(|best| candidate < *best) {
                nearest = Some(candidate);
            }
        }
    }
    own.sort_unstable();
    match nearest {
        _ if !own.is_empty() => Serving::Own(own),
        Some((_, rtt, by)) => Serving::Adopted { by, rtt },
        None => Serving::NoGateway,
    }
}

/// A replica as its assignment sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home<R> {
    /// Its region.
    pub region: R,
    /// The regions whose gateways may adopt it; `None` means any.
    pub adopters: Option<BTreeSet<R>>,
}

/// The members: gateways, replicas and the distances between regions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership<R, G, P> {
    /// Round trips from the first region to the second.
    pub rtts: BTreeMap<(R, R), Duration>,
    /// The living gateways with their regions.
    pub gateways: BTreeMap<G, R>,
    /// The replicas.
    pub replicas: BTreeMap<P, Home<R>>,
}

impl<R, G, P> Default for Membership<R, G, P> {
    fn default() -> Self {
        let (rtts, gateways, replicas) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Membership { rtts, gateways, replicas }
    }
}

/// The gateways that serve each replica. Costs a pass over the gateways for each replica.
#[must_use]
pub fn assign<R, G, P>(members: &Membership<R, G, P>) -> BTreeMap<P, Serving<G>>
where
    R: Ord + Clone,
    G: Ord + Clone,
    P: Ord + Clone,
{
    let whose = |replica: &Home<R>| {
        let home = &replica.region;
        let living = members.gateways.iter().map(|(gateway, at)| (gateway.clone(), at.clone()));
        let rtt = |from: &R| members.rtts.get(&(from.clone(), home.clone())).copied();
        let may = |by: &R| replica.adopters.as_ref().is_none_or(|allowed| allowed.contains(by));
        serving(home, living, rtt, may)
    };
    members.replicas.iter().map(|(key, replica)| (key.clone(), whose(replica))).collect()
}
