//! Checks of the index's invariants. Slow: for tests and the simulator.

use alloc::collections::BTreeMap;

use super::PrefixIndex;
use super::order::NONE;

impl PrefixIndex {
    /// Checks every relation between orders, holds and runs, in time proportional to the index's
    /// size.
    ///
    /// # Panics
    ///
    /// When one does not hold, which is a defect of the index.
    pub fn check_invariants(&self) {
        let (mut total, mut holds) = (0, 0);
        for target in 0..self.orders.targets() as u16 {
            let (blocks, listed) = self.check_order(target);
            (total, holds) = (total + blocks, holds + listed);
        }
        assert_eq!(total, self.len(), "every block at a target is in one order");
        assert!(self.len() <= self.capacity, "the total is bounded");
        let holders: usize = self.runs.iter().map(|(run, _)| self.check_run(run)).sum();
        assert_eq!(holders, holds, "every hold belongs to a run");
    }

    /// Checks a target's order; returns its blocks and holds.
    fn check_order(&self, target: u16) -> (usize, usize) {
        let mut children: BTreeMap<u32, u32> = BTreeMap::new();
        let (mut newer, mut held, mut listed) = (NONE, 0, 0);
        for at in self.orders.newest_first(target) {
            let hold = &self.orders[at];
            assert_eq!(hold.target, target, "an order has one target");
            assert_eq!(hold.newer, newer, "an order reads the same from both ends");
            let holder = self.runs[hold.run].holder(target).expect("a hold's run lists its target");
            assert_eq!(holder.hold, at, "a hold's run leads to it");
            if hold.parent != NONE {
                let seen = children.get_mut(&hold.parent);
                *seen.expect("a hold is behind its parent in the order") += 1;
                let parent = &self.orders[hold.parent];
                let whole = self.runs[parent.run].blocks().len();
                assert_eq!(self.held_of(hold.parent), whole, "children follow whole runs");
            }
            children.insert(at, 0);
            (newer, held, listed) = (at, held + self.held_of(at), listed + 1);
            assert!(held <= self.len(), "an order ends");
        }
        for (hold, count) in children {
            assert_eq!(self.orders[hold].children, count, "children are counted");
        }
        assert_eq!(self.orders.oldest(target).unwrap_or(NONE), newer, "the oldest hold is last");
        assert_eq!(held, self.orders.held(target), "a target's count is right");
        assert!(held <= self.orders.cap(target), "target {target} is within its cap");
        (held, listed)
    }

    /// Checks a run; returns the number of its holders.
    fn check_run(&self, at: u32) -> usize {
        let run = &self.runs[at];
        let found = self.runs.find(run.name()).expect("a run is found by its first block");
        assert_eq!(self.runs[found].name(), run.name(), "under its own name");
        assert_eq!(run.blocks()[0], run.name(), "a run is named by its first block");
        let longest = run.holders().iter().map(|h| h.len as usize).max();
        assert_eq!(longest, Some(run.blocks().len()), "a run is as long as a replica holds it");
        assert!(run.holders().is_sorted_by_key(|h| h.target), "holders are sorted by target");
        for holder in run.holders() {
            let hold = &self.orders[holder.hold];
            assert_eq!((hold.run, hold.target), (at, holder.target), "a holder has its hold");
            assert!(holder.len > 0, "a holder holds something");
        }
        run.holders().len()
    }
}
