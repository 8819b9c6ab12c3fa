//! What the paper assumes of networks and of its rivals, one thing at a time.
//!
//! A [`Mode`](super::Mode) stands for a set of them: the paper's has all that concern links, the
//! network mode also leaves links unshared, and the corrected mode has none.

/// One assumption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assumption {
    /// Equation 11 counts the ring's bytes twice, and leaves out its latency.
    RingTwice,
    /// NCCL has rings, and no trees.
    RingOnly,
    /// Equations 6, 10 and 15: each hop takes a message's whole time again.
    StoreAndForward,
    /// Links are never shared, not even by members of one group.
    Alone,
    /// ATP and SwitchML have no NVLink, no local reduction, and no ring or tree to fall back on.
    BareRivals,
    /// HeroServe's online scheduler is that of equations 16 to 18.
    PrintedChoice,
}

/// A set of assumptions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Assumptions(u8);

impl Assumptions {
    /// The set of these.
    #[must_use]
    pub fn of(all: &[Assumption]) -> Assumptions {
        Assumptions(all.iter().fold(0, |set, one| set | bit(*one)))
    }

    /// Whether it has one.
    #[must_use]
    pub const fn has(self, one: Assumption) -> bool {
        self.0 & bit(one) != 0
    }

    /// The set without these.
    #[must_use]
    pub fn without(self, all: &[Assumption]) -> Assumptions {
        Assumptions(self.0 & !Assumptions::of(all).0)
    }

    /// The set with these.
    #[must_use]
    pub fn with(self, all: &[Assumption]) -> Assumptions {
        Assumptions(self.0 | Assumptions::of(all).0)
    }
}

const fn bit(one: Assumption) -> u8 {
    1 << one as u8
}
