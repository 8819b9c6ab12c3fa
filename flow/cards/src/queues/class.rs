//! The traffic classes and their DSCP code points.
//!
//! All code points end in binary 11: pool 2 of RFC 2474 (section 6), which is for local use, so no
//! standard gives them a meaning and none collides with voice (46), with RoCE's usual 26 or with the
//! routing protocols' 48 and 56. Their upper three bits fall with the class, from 5 to 1. Cards and
//! switches without a map of their own take the queue from those bits, so they keep the order too,
//! below the network's control traffic (6 and 7) and apart from unmarked traffic (0).

/// One traffic class, of [`EIGHT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Class {
    /// Its name in comments and tables.
    pub name: &'static str,
    /// 0 is the most urgent; the flow machine's `Place::traffic`.
    pub number: u8,
    /// Code point of its packets, 0 to 63.
    pub dscp: u8,
    /// The transfers in it.
    pub carries: &'static str,
}

/// The flow machine's eight classes, the most urgent first.
pub const EIGHT: [Class; 8] = [
    class("critical", 0, 47, "handoffs about to miss their deadline"),
    class("collective", 1, 43, "collectives, and fetches that the current layer waits for"),
    class("fetch-1", 2, 39, "fetches for the next layer"),
    class("fetch-2", 3, 35, "fetches two layers ahead"),
    class("fetch-3", 4, 31, "fetches three layers ahead"),
    class("fetch-4", 5, 27, "fetches further ahead"),
    class("kv", 6, 19, "handoffs that can wait; all KV where there are two classes"),
    class("scavenger", 7, 11, "transfers for requests that can't meet their deadline"),
];
/// Collectives: the upper one of two classes.
pub const COLLECTIVE: Class = EIGHT[1];
/// KV: the lower one of two classes.
pub const KV: Class = EIGHT[6];

const fn class(name: &'static str, number: u8, dscp: u8, carries: &'static str) -> Class {
    assert!(number < 8, "there are eight classes");
    assert!(dscp < 64, "a code point has six bits");
    Class { name, number, dscp, carries }
}

impl Class {
    /// The byte of the IP header (TOS, traffic class) with this code point and no ECN bits.
    #[must_use]
    pub fn byte(&self) -> u8 {
        self.dscp << 2
    }

    /// Number of the class below the root of an HTB, as tc writes it in hexadecimal.
    #[must_use]
    pub(crate) fn minor(&self) -> u16 {
        u16::from(self.number) + 1
    }

    /// The queue that hardware takes from the upper three bits, 5 (most urgent) to 1.
    #[must_use]
    pub fn queue(&self) -> u8 {
        self.dscp >> 3
    }

    /// Whether it is in the upper group, above the floor of KV.
    #[must_use]
    pub(crate) fn is_upper(&self, classes: Classes) -> bool {
        match classes {
            Classes::Two => *self == COLLECTIVE,
            Classes::Eight => self.number <= COLLECTIVE.number,
        }
    }
}

/// The number of classes that a host or a switch distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Classes {
    /// Collectives above KV. The other KV classes of the eight count as KV, so that hosts with two
    /// and with eight classes can share a network.
    Two,
    /// The flow machine's eight.
    Eight,
}

impl Classes {
    /// The class that a packet with a code point of `class` is queued in.
    #[must_use]
    pub(crate) fn fold(self, class: Class) -> Class {
        match self {
            Classes::Two if class == COLLECTIVE => COLLECTIVE,
            Classes::Two => KV,
            Classes::Eight => class,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Code points are for local use, differ, and their upper bits keep the order of the classes
    // between unmarked traffic (0) and control traffic (6 and 7).
    #[test]
    fn code_points_are_local_and_ordered() {
        for (number, class) in EIGHT.iter().enumerate() {
            assert_eq!(usize::from(class.number), number);
            assert_eq!(class.dscp & 0b11, 0b11, "{class:?}");
            assert!((1..=5).contains(&class.queue()), "{class:?}");
        }
        assert!(EIGHT.is_sorted_by(|a, b| a.dscp > b.dscp && a.queue() >= b.queue()));
    }

    // Two classes know all eight code points: collectives stay alone above everything else.
    #[test]
    fn two_classes_fold_the_eight() {
        let upper = EIGHT.iter().filter(|class| Classes::Two.fold(**class) == COLLECTIVE);
        assert_eq!(upper.count(), 1);
        assert!(COLLECTIVE.is_upper(Classes::Two) && !KV.is_upper(Classes::Eight));
    }
}
