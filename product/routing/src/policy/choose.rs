//! The scans that policies have in common: the minimum with fair ties, and a walk along the ring.
//!
//! Like [`Policy::pick`](super::Policy::pick), they change no state, and all randomness is drawn
//! from the request's own stream.

use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Ordering;
use meridian_base::{PeerId, ReplicaId, Rng, mix};

use super::pick::Forward;
use super::view::View;
use crate::explain::CandidateRow;
use crate::replicas::Replicas;
use crate::ring::Ring;
use crate::why::Why;

/// The smallest key of a scan. Ties are drawn uniformly in one pass: the n-th equal key replaces
/// the others with probability 1/n.
pub struct Least<K, T = ReplicaId> {
    best: Option<(K, T)>,
    ties: usize,
}

impl<K: PartialOrd + Copy, T: Copy> Default for Least<K, T> {
    fn default() -> Self {
        Least::new()
    }
}

impl<K: PartialOrd + Copy, T: Copy> Least<K, T> {
    /// Of nothing yet.
    #[must_use]
    pub fn new() -> Least<K, T> {
        Least { best: None, ties: 0 }
    }

    /// Takes a replica, or another target, with its key. A key that is equal to the least so far
    /// costs a draw.
    #[inline]
    pub fn offer(&mut self, key: K, replica: T, draw: &mut Rng) {
        match self.best {
            Some((best, _)) if key == best => {
                self.ties += 1;
                if draw.below(self.ties) == 0 {
                    self.best = Some((key, replica));
                }
            }
            // A key that is not comparable (NaN) never displaces one that is.
            Some((best, _)) if key.partial_cmp(&best) != Some(Ordering::Less) => {}
            _ => {
                self.best = Some((key, replica));
                self.ties = 1;
            }
        }
    }

    /// The key and its replica; `None` if nothing was offered.
    #[must_use]
    pub fn get(&self) -> Option<(K, T)> {
        self.best
    }
}

/// The candidate with the fewest outstanding requests, and that number; ties are drawn.
///
/// # Panics
///
/// When the view has no candidate.
pub fn least_outstanding(view: &View<'_>, draw: &mut Rng) -> (u32, ReplicaId) {
    let mut least = Least::new();
    for &r in view.eligible {
        least.offer(view.replicas.row(r).outstanding, r, draw);
    }
    least.get().expect("a view has at least one candidate")
}

/// The first candidate along the ring from `key` that `accept` takes, with the members skipped on
/// the way; otherwise the first candidate.
pub fn along(
    ring: &Ring,
    key: u64,
    view: &View<'_>,
    mut accept: impl FnMut(ReplicaId) -> bool,
) -> (ReplicaId, Why) {
    let mut skipped = 0;
    let mut first = None;
    for r in ring.walk(key) {
        if view.is_eligible(r) {
            if accept(r) {
                return (r, Why::Ring { skipped });
            }
            first = first.or(Some((r, Why::Ring { skipped })));
        }
        skipped += 1;
    }
    // A candidate that is not on the ring yet is still reachable, and by key.
    let turn = (mix(key, 0) % view.eligible.len() as u64) as usize;
    first.unwrap_or((view.eligible[turn], Why::Ring { skipped }))
}

/// Of the first `set` candidates along the ring from `key`, the one with the fewest outstanding requests;
/// of equal ones the first.
#[must_use]
pub fn of_set(ring: &Ring, key: u64, view: &View<'_>, set: u32) -> (ReplicaId, Why) {
    if set == 1 {
        return along(ring, key, view, |_| true);
    }
    let (mut met, mut best) = (0, None);
    along(ring, key, view, |replica| {
        let load = view.replicas.row(replica).outstanding;
        if best.is_none_or(|(least, _)| load < least) {
            best = Some((load, replica));
        }
        met += 1;
        met == set
    });
    along(ring, key, view, |replica| best.is_none_or(|(_, chosen)| chosen == replica))
}

/// The members of a ring over every replica, by weight.
#[must_use]
pub fn members(replicas: &Replicas) -> Vec<(ReplicaId, u32)> {
    let weight = |r: ReplicaId| replicas.spec(r).map_or(1, |s| s.weight.max(1));
    replicas.ids().iter().map(|&r| (r, weight(r))).collect()
}

/// The score terms of policies that order by match and then by load: the two figures, no sum.
#[must_use]
pub fn match_and_load(c: &CandidateRow) -> Vec<(&'static str, f64)> {
    vec![
        ("matched_tokens", f64::from(c.matched_tokens)),
        ("outstanding", f64::from(c.row.outstanding)),
    ]
}

/// `Why` for a pick that follows a prefix.
#[must_use]
pub fn longest(view: &View<'_>, replica: ReplicaId) -> Why {
    Why::LongestPrefix { tokens: view.matched_tokens(replica) as u32 }
}

/// To the peer with free capacity and the shortest round trip; ties to the lowest id.
pub(super) fn nearest(view: &View<'_>) -> Option<Forward> {
    let rtt = |id: PeerId| view.peers.row(id).map_or(f32::INFINITY, |r| r.rtt_ms);
    let near = view.available.iter().copied().min_by(|a, b| rtt(*a).total_cmp(&rtt(*b)))?;
    Some(Forward::unscored(near, Why::Nearest(f64::from(rtt(near)))))
}

/// To the peer with free capacity that was sent the longest prefix of this prompt; ties are drawn.
pub fn best_matched(view: &View<'_>, draw: &mut Rng) -> Option<Forward> {
    let mut best = Least::new();
    for &peer in view.available {
        best.offer(core::cmp::Reverse(view.peer_matched[peer.index()]), peer, draw);
    }
    let (_, peer) = best.get()?;
    let tokens = view.peer_tokens(peer.0) as u32;
    Some(Forward::unscored(peer, Why::LongestPrefix { tokens }))
}
