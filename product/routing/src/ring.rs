//! Consistent hashing with virtual nodes: the same key goes to the same replica, and when a replica
//! joins or leaves only its share of the keys moves.
//!
//! Each member has many points on a circle of 64-bit numbers; a key belongs to the first point at
//! or after its own position. The walk from there gives the order in which the others take over
//! when the first is not eligible; both SkyWalker-CH (SkyWalker, section 3.2) and the bounded-load
//! variant (CHWBL) use it. Every point stores the same member's previous point, so a walk needs no
//! memory to know whether it has met a member already.
//!
//! Deliberately not here: load, eligibility, and the choice of the key.

use alloc::vec::Vec;
use meridian_base::{ReplicaId, Rng, mix};

/// Most points on a ring, 64 MiB of them; members' points are reduced beyond that.
const MOST: usize = 1 << 22;
/// Keeps the members' points independent of other values derived from their names.
const SALT: u64 = 0x52_49_4E_47;

/// A point of a member.
#[derive(Clone, Copy, Debug)]
struct Point {
    at: u64,
    /// Index of the same member's previous point around the circle; its own if it is the only one.
    before: u32,
    member: ReplicaId,
}

/// A circle of members' points.
#[derive(Clone, Debug, Default)]
pub struct Ring {
    points: Vec<Point>,
    members: usize,
}

impl Ring {
    /// A ring of `members`, each `(replica, weight)` with `weight * vnodes` points; weight 1 is the
    /// ordinary one, and 0 leaves the member out.
    ///
    /// Points follow from the replica's number. If several processes must agree on a ring, use
    /// [`named`](Self::named).
    #[must_use]
    pub fn new(members: &[(ReplicaId, u32)], vnodes: u32) -> Ring {
        Ring::named(members.iter().map(|(id, weight)| (*id, u64::from(id.0), *weight)), vnodes)
    }

    /// A ring of members `(replica, name, weight)`, whose points follow from the name (a hash of
    /// the URL, say), so that every process that knows the same names has the same ring.
    #[must_use]
    pub fn named(members: impl Iterator<Item = (ReplicaId, u64, u32)>, vnodes: u32) -> Ring {
        let mut points = Vec::new();
        for (member, name, weight) in members {
            let count = u64::from(weight) * u64::from(vnodes);
            let room = MOST - points.len();
            let mut rng = Rng::new(mix(name, SALT));
            let draw = |_| Point { at: rng.next_u64(), before: 0, member };
            points.extend((0..count.min(room as u64)).map(draw));
        }
        points.sort_unstable_by_key(|p| (p.at, p.member));
        let members = link(&mut points);
        Ring { points, members }
    }

    /// Members on the ring.
    #[must_use]
    pub fn members(&self) -> usize {
        self.members
    }

    /// The members in the order of the ring from the position of `key` on, each once.
    ///
    /// Allocates nothing. The first costs a binary search, the next ones a few steps each.
    pub fn walk(&self, key: u64) -> impl Iterator<Item = ReplicaId> + '_ {
        let place = Rng::new(key).next_u64();
        let start = self.points.partition_point(|p| p.at < place);
        let (wrapped, ahead) = self.points.split_at(start);
        let count = self.points.len();
        // Distance of the circle's point `index` from the start.
        let steps =
            move |index: usize| if index < start { index + count - start } else { index - start };
        let first = move |(step, point): (usize, &Point)| {
            // Already met, unless the member's previous point comes later in the walk than this
            // one, or is this one.
            (steps(point.before as usize) >= step).then_some(point.member)
        };
        ahead.iter().chain(wrapped).enumerate().filter_map(first).take(self.members)
    }
}

/// Writes each point's `before`; returns how many members there are.
fn link(points: &mut [Point]) -> usize {
    let mut newest = alloc::vec![u32::MAX; 1 << 16];
    // Twice around: the first time to find each member's last point.
    for round in 0..2 {
        for (i, point) in points.iter_mut().enumerate() {
            let last = &mut newest[point.member.index()];
            if round == 1 {
                point.before = *last;
            }
            *last = i as u32;
        }
    }
    newest.iter().filter(|last| **last != u32::MAX).count()
}
