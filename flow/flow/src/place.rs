//! A flow's place: its level, and its position in the total order of all flows.
//!
//! A level is the granularity of a switch queue or a traffic class. A host can distinguish flows of
//! one level, so a place also has a class (a finer step than the level, by arbitration) and an
//! order within the class. Smaller always goes first.

use core::fmt;
use meridian_base::Time;

/// How flows of early and last stages are ordered against each other (MFS, section 4.5 allows both
/// readings).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arbitration {
    /// All early-stage flows before all handoffs that are not critical: possible on a host.
    Hierarchical,
    /// Level by level, early stages first within one: possible with the queues of a switch.
    Level,
}

/// A queue index: 0 is the most urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level(pub u8);

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "level {}", self.0)
    }
}

/// The classes that switches and network cards have for traffic: the class selectors of DSCP.
pub const TRAFFIC_CLASSES: u8 = 8;

/// A flow's precedence. Flows with equal class and order share by their weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// The level. `K`, one past the last, is the scavenger's.
    pub level: Level,
    /// The class of its packets where only classes are enforced, below [`TRAFFIC_CLASSES`].
    pub traffic: u8,
    /// Strict priority among all flows.
    pub class: u8,
    /// Strict priority within the class.
    pub order: u64,
    /// Its share beside flows of equal class and order, 1 as a rule.
    pub weight: f32,
    /// The rate limit of the flow, bytes a second; `None` for no limit. Only minimum-rate policies
    /// set it.
    pub rate: Option<f64>,
}

impl Default for Place {
    /// The place of flows that a policy does not distinguish.
    fn default() -> Place {
        Place::new(0, 0, 0)
    }
}

impl Place {
    /// A place of weight 1 without a rate limit, whose traffic class is its class.
    #[must_use]
    pub(crate) fn new(level: u8, class: u8, order: u64) -> Place {
        let traffic = class.min(TRAFFIC_CLASSES - 1);
        Place { level: Level(level), traffic, class, order, weight: 1.0, rate: None }
    }

    /// Whether `self` goes strictly before `other`.
    #[must_use]
    pub fn precedes(&self, other: &Place) -> bool {
        (self.class, self.order) < (other.class, other.order)
    }
}

/// Levels and classes of one configuration.
///
/// Level 0 is only for critical handoffs. Collectives and the fetches that the current layer waits
/// for share level 1; reuse for later layers follows by its distance. If RLI 0 were in level 0, as
/// "capping the RLI into [0, K-1]" reads, every fetch would compete with the flows that the level
/// is reserved for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ladder {
    pub(crate) levels: u8,
    pub(crate) arbitration: Arbitration,
}

impl Ladder {
    /// Number of classes, the scavenger's included.
    pub(crate) fn classes(self) -> u8 {
        2 * self.levels
    }

    /// The level below all others.
    pub(crate) fn scavenger(self) -> u8 {
        self.levels
    }

    /// The level of an early flow that is `rli` layers ahead of the computation.
    #[inline]
    pub(crate) fn early(self, rli: u16) -> u8 {
        u8::try_from(rli.saturating_add(1)).unwrap_or(u8::MAX).min(self.levels - 1)
    }

    /// The class of a flow in `level`.
    #[inline]
    pub(crate) fn class(self, is_early: bool, level: u8) -> u8 {
        if level == 0 {
            return 0;
        }
        if level >= self.levels {
            return self.classes() - 1;
        }
        match (self.arbitration, is_early) {
            (Arbitration::Hierarchical, true) => level,
            (Arbitration::Hierarchical, false) => self.levels - 1 + level,
            (Arbitration::Level, true) => 2 * level - 1,
            (Arbitration::Level, false) => 2 * level,
        }
    }

    /// The traffic class of a flow in `level`. Hierarchical: critical handoffs, five classes of
    /// early flows, handoffs that can wait, the scavenger. By level: the level, as far as there are
    /// classes.
    pub(crate) fn traffic(self, is_early: bool, level: u8) -> u8 {
        const LAST: u8 = TRAFFIC_CLASSES - 1;
        match self.arbitration {
            Arbitration::Level => level.min(LAST),
            Arbitration::Hierarchical if level == 0 => 0,
            Arbitration::Hierarchical if level >= self.levels => LAST,
            Arbitration::Hierarchical if is_early => level.min(LAST - 2),
            Arbitration::Hierarchical => LAST - 1,
        }
    }
}

/// Added to an order, it sorts after all orders without it.
pub(crate) const BEHIND: u64 = 1 << 62;
/// The same, once more.
pub(crate) const LAST: u64 = 1 << 63;

/// A time as an order: microseconds (of some two years), and 16 bits below for the layer.
pub(crate) fn order(at: Time, layer: u16) -> u64 {
    numbered((at.as_nanos() / 1000).min(NUMBERS)) | u64::from(layer)
}

/// A number as an order, up to [`NUMBERS`].
pub(crate) fn numbered(number: u64) -> u64 {
    (number & NUMBERS) << 16
}

const NUMBERS: u64 = (1 << 46) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn ladder(arbitration: Arbitration) -> Ladder {
        Ladder { levels: 8, arbitration }
    }

    // Correction 6: level 0 has no early flow; collectives and RLI 0 are level 1, RLI 1 is level 2,
    // and anything beyond the last level stays in it.
    #[test]
    fn correction_6_level_0_is_for_critical_handoffs() {
        let ladder = ladder(Arbitration::Hierarchical);
        let levels: [u8; 5] = [0, 1, 5, 6, 60_000].map(|rli| ladder.early(rli));
        assert_eq!(levels, [1, 2, 6, 7, 7]);
        assert!(ladder.class(false, 0) < ladder.class(true, 1));
    }

    // Correction 7: `hierarchical` puts every early flow before every handoff below level 0;
    // `level` interleaves them, early first within a level. In both the scavenger comes last.
    #[test]
    fn correction_7_two_readings_of_arbitration() {
        let host = ladder(Arbitration::Hierarchical);
        assert!(host.class(true, 7) < host.class(false, 1));
        let switch = ladder(Arbitration::Level);
        assert!(switch.class(true, 1) < switch.class(false, 1));
        assert!(switch.class(false, 1) < switch.class(true, 2));
        for ladder in [host, switch] {
            assert_eq!(ladder.class(false, 8), 15);
            assert!(ladder.class(false, 7) < 15 && ladder.class(true, 7) < 15);
            let mut all: alloc::vec::Vec<u8> =
                (1..8).flat_map(|l| [ladder.class(true, l), ladder.class(false, l)]).collect();
            all.sort_unstable();
            assert_eq!(all, (1..15).collect::<alloc::vec::Vec<u8>>(), "each class has one meaning");
        }
    }

    // Correction 17: switches have eight classes. A host's order folded into them never turns two
    // flows around.
    #[test]
    fn correction_17_traffic_classes_fold_the_order_of_a_host() {
        for arbitration in [Arbitration::Hierarchical, Arbitration::Level] {
            for levels in [2, 8, 16] {
                let ladder = Ladder { levels, arbitration };
                let mut all: alloc::vec::Vec<(u8, u8)> = (0..=levels)
                    .flat_map(|level| [true, false].map(|early| (early, level)))
                    .map(|(early, l)| (ladder.class(early, l), ladder.traffic(early, l)))
                    .collect();
                all.sort_unstable();
                assert!(all.is_sorted_by_key(|(_, traffic)| *traffic), "{arbitration:?} {all:?}");
                assert!(all.iter().all(|(_, traffic)| *traffic < TRAFFIC_CLASSES));
            }
        }
        let ladder = ladder(Arbitration::Hierarchical);
        let early = [1, 2, 5, 7].map(|level| ladder.traffic(true, level));
        assert_eq!(
            (early, ladder.traffic(false, 1), ladder.traffic(false, 8)),
            ([1, 2, 5, 5], 6, 7)
        );
    }
}
