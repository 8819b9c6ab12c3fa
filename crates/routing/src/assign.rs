//! Who serves a region's replicas, while gateways come and go.
//!
//! A region's replicas are shared by all of its living gateways. When none of them lives, the
//! region is adopted whole by the one nearest living gateway of another region that may (SkyWalker,
//! section 4.2), and when one of its own is back it is handed back. The answer is a function of the
//! membership alone: gateways that know the same members answer alike without asking each other, a
//! loss moves only what the lost gateway served alone, and a recovery brings back exactly the state
//! before the loss, however many were lost in between.
//!
//! Ties in distance go to the gateway that is first by its key, so keys must mean the same on
//! every side: names, or places in a list that all share. A distance that nobody has measured is
//! the farthest. The simulator's `adopt` and the gateways use this one definition.
//!
//! What this does not do is notice who lives. Sides that differ in that answer differently for as
//! long; a replica then has two gateways or none for a moment, which costs balance and not answers,
//! since replicas serve whoever asks.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use meridian_base::Duration;

/// Who serves the replicas of a region, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Serving<G> {
    /// The region's own living gateways, together; in order of their keys.
    Own(Vec<G>),
    /// The nearest living gateway elsewhere: none of the region's own lives.
    Adopted {
        /// Whose they are for now.
        by: G,
        /// The round trip between the two regions; `None`: not known.
        rtt: Option<Duration>,
    },
    /// No gateway that may serve them lives.
    Nobody,
}

impl<G: PartialEq> Serving<G> {
    /// Whether `gateway` is one of those who serve.
    #[must_use]
    pub fn includes(&self, gateway: &G) -> bool {
        match self {
            Serving::Own(gateways) => gateways.contains(gateway),
            Serving::Adopted { by, .. } => by == gateway,
            Serving::Nobody => false,
        }
    }
}

/// Who serves the replicas of `home`, given the `living` gateways with their regions. `rtt` is the
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
        None => Serving::Nobody,
    }
}

/// A replica as its assignment sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home<R> {
    /// Its region.
    pub region: R,
    /// The regions whose gateways may adopt it; `None`: any.
    pub adopters: Option<BTreeSet<R>>,
}

/// Who is there.
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

/// Who serves each replica. Costs a pass over the gateways for each replica.
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
