//! The whole address space as ranges that each have one region.
//!
//! Prefixes nest, ranges do not: a range ends where a longer prefix of another region starts. The
//! widest scope of an address is then the shortest of its prefixes that ends inside its range on
//! both sides. RFC 7871, section 7.2.1, calls this deaggregation: with 1.2.0.0/20 in one region and
//! 1.2.3.0/24 in another, clients of the first one get the scopes 1.2.0.0/23, 1.2.2.0/24,
//! 1.2.4.0/22 and 1.2.8.0/21.
//!
//! Storing those prefixes in place of the ranges would take up to 128 of them for one single
//! address; there are at most two ranges more for each prefix.

use super::{MapRow, mask};

/// The ranges in order. The first one starts at 0, and each ends before the next.
#[derive(Clone, Debug)]
pub(super) struct Ranges(Vec<Range>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    start: u128,
    /// Not that of the range before it.
    region: Option<usize>,
}

impl Default for Ranges {
    fn default() -> Ranges {
        Ranges::new(&[], None)
    }
}

impl Ranges {
    /// Makes the ranges of sorted rows; `default` is the region outside of all of them.
    pub(super) fn new(rows: &[MapRow], default: Option<usize>) -> Ranges {
        let mut ranges = Ranges(vec![Range { start: 0, region: default }]);
        // The prefixes around the current place, the longest last, with their last addresses.
        let mut around: Vec<(u128, Option<usize>)> = vec![(u128::MAX, default)];
        for row in rows {
            ranges.leave(&mut around, row.start);
            let region = Some(row.region);
            ranges.begin(row.start, region);
            around.push((row.start | !mask(row.length), region));
        }
        ranges.leave(&mut around, u128::MAX);
        ranges
    }

    /// The region of an address and the length of its widest scope.
    pub(super) fn find(&self, bits: u128) -> (Option<usize>, u8) {
        let after = self.0.partition_point(|range| range.start <= bits);
        let range = self.0[after - 1];
        // A prefix leaves out an address if it is longer than what both have in common.
        let without = |other: u128| (bits ^ other).leading_zeros() + 1;
        let left = range.start.checked_sub(1).map_or(0, without);
        let right = self.0.get(after).map_or(0, |next| without(next.start));
        (range.region, u8::try_from(left.max(right)).unwrap_or(128))
    }

    /// Leaves the prefixes that end before `place`: the one around each continues.
    fn leave(&mut self, around: &mut Vec<(u128, Option<usize>)>, place: u128) {
        while let [.., (_, outer), (last, _)] = around[..]
            && last < place
        {
            self.begin(last + 1, outer);
            around.pop();
        }
    }

    /// Starts a range, which replaces one that starts at the same place.
    fn begin(&mut self, start: u128, region: Option<usize>) {
        if self.0.last().is_some_and(|range| range.start == start) {
            self.0.pop();
        }
        if self.0.last().is_none_or(|range| range.region != region) {
            self.0.push(Range { start, region });
        }
    }
}
