//! A rank's side of the tables: which table holds for which operation.
//!
//! Tables reach the ranks of a communicator at different times. If each used what it has, two ranks
//! would do different things in one operation, and the operation would hang (correction 13). So a
//! table never comes into force when it arrives. At every [`Follower::every`]-th operation of the
//! communicator, which all ranks reach with the same count, they first agree: each offers the newest
//! epoch that it holds, the smallest offer is taken by all (an all-reduce of eight bytes that always
//! goes the same way), and that table holds for the next operations. A rank that has not heard of a
//! table holds all others back, and nobody waits for the controller.
//!
//! An operation that is replayed from a CUDA graph asks nobody: its way is that of the capture, and
//! its communicator counts when it captures again.

use std::collections::VecDeque;

use crate::collective::Algorithm;
use crate::table::GroupPolicy;

/// Tables that a rank holds at most: the one in force and those to come.
const HELD: usize = 8;

/// What a rank does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Offer this epoch to the other ranks, and go on with [`Follower::agreed`].
    Agree(u64),
    /// Do the operation this way.
    Run(Algorithm),
}

/// Why a table is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It is not the one after the newest.
    #[error("epoch {got} does not follow {newest}; send the tables in order")]
    OutOfOrder {
        /// Its epoch.
        got: u64,
        /// The newest that is held.
        newest: u64,
    },
    /// As many are held as there may be.
    #[error("{HELD} tables are held already; send it again after the ranks have agreed")]
    Full,
    /// It has no way for some size.
    #[error("epoch {0} has no row without an end; give a way for every size")]
    Gaps(u64),
    /// The ranks agreed on an epoch that this one does not hold.
    #[error("epoch {0} was agreed on and is not held; the communicator must be made anew")]
    Unknown(u64),
}

/// One rank of one communicator.
#[derive(Clone, Debug)]
pub struct Follower {
    every: u64,
    operations: u64,
    /// Whether the ranks have agreed at this count.
    agreed: bool,
    /// The table in force first, then those to come, epoch by epoch.
    held: VecDeque<(u64, GroupPolicy)>,
}

impl Follower {
    /// A rank whose communicator begins with this table and agrees at every `every`-th operation.
    ///
    /// # Errors
    /// When the table has no way for some size.
    pub fn new(epoch: u64, table: GroupPolicy, every: u64) -> Result<Follower, Refused> {
        whole(epoch, &table)?;
        let held = VecDeque::from([(epoch, table)]);
        Ok(Follower { every: every.max(1), operations: 0, agreed: true, held })
    }

    /// Takes a table that is to hold once all ranks have it.
    ///
    /// # Errors
    /// When it is out of order, unusable, or one too many; what is held stays.
    pub fn hear(&mut self, epoch: u64, table: GroupPolicy) -> Result<(), Refused> {
        whole(epoch, &table)?;
        let newest = self.newest();
        if epoch != newest + 1 {
            return Err(Refused::OutOfOrder { got: epoch, newest });
        }
        if self.held.len() == HELD {
            return Err(Refused::Full);
        }
        self.held.push_back((epoch, table));
        Ok(())
    }

    /// What to do for the next operation, of `bytes`.
    #[must_use]
    pub fn next(&mut self, bytes: f64) -> Step {
        if !self.agreed {
            return Step::Agree(self.newest());
        }
        let (_, table) = &self.held[0];
        let way = table.pick(bytes).expect("a table has a way for every size");
        self.operations += 1;
        self.agreed = !self.operations.is_multiple_of(self.every);
        Step::Run(way)
    }

    /// Puts in force what the ranks agreed on: the smallest epoch that any of them offered.
    ///
    /// # Errors
    /// When it is not held, which ranks that offered what they hold can't agree on.
    pub fn agreed(&mut self, epoch: u64) -> Result<(), Refused> {
        let at = self.held.iter().position(|(held, _)| *held == epoch);
        self.held.drain(..at.ok_or(Refused::Unknown(epoch))?);
        self.agreed = true;
        Ok(())
    }

    /// Operations so far.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.operations
    }

    /// The epoch in force.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.held[0].0
    }

    fn newest(&self) -> u64 {
        self.held.back().map_or(0, |(epoch, _)| *epoch)
    }
}

fn whole(epoch: u64, table: &GroupPolicy) -> Result<(), Refused> {
    let end = table.rows.last().is_some_and(|(end, _)| *end == f64::INFINITY);
    if end { Ok(()) } else { Err(Refused::Gaps(epoch)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meridian_base::Rng;

    fn table(epoch: u64) -> GroupPolicy {
        let ways = [Algorithm::Ring, Algorithm::Tree, Algorithm::Relayed, Algorithm::InNetwork];
        let rows = vec![(f64::INFINITY, ways[epoch as usize % 4])];
        GroupPolicy { members: Vec::new(), choices: Vec::new(), rows }
    }

    /// Two ranks that do one operation together, in whatever order chance has it, while tables reach
    /// them at different times. What each did in every operation, and the last epoch of each.
    fn run(seed: u64, every: u64) -> (Vec<[Algorithm; 2]>, [u64; 2]) {
        let mut rng = Rng::new(seed);
        let mut ranks = [0, 1].map(|_| Follower::new(0, table(0), every).unwrap());
        let mut sent = [1_u64, 1];
        let mut done = Vec::new();
        while done.len() < 200 {
            let mut did: [Option<Algorithm>; 2] = [None, None];
            let mut offers: [Option<u64>; 2] = [None, None];
            while did.contains(&None) {
                let at = rng.below(2);
                if rng.below(3) == 0 && ranks[at].hear(sent[at], table(sent[at])).is_ok() {
                    sent[at] += 1;
                }
                if did[at].is_none() && offers[at].is_none() {
                    match ranks[at].next(1e6) {
                        Step::Run(way) => did[at] = Some(way),
                        Step::Agree(epoch) => offers[at] = Some(epoch),
                    }
                }
                if let [Some(a), Some(b)] = offers {
                    ranks.iter_mut().for_each(|rank| rank.agreed(a.min(b)).unwrap());
                    offers = [None, None];
                }
            }
            done.push(did.map(|way| way.expect("both ranks did the operation")));
        }
        let epochs = [ranks[0].epoch(), ranks[1].epoch()];
        (done, epochs)
    }

    // Correction 13: two ranks with tables that reach them at different times never disagree about
    // an operation, and new tables do come into force.
    #[test]
    fn correction_13_ranks_never_disagree() {
        for seed in 0..200 {
            let (done, epochs) = run(seed, 1 + seed % 7);
            for (nth, [a, b]) in done.iter().enumerate() {
                assert_eq!(a, b, "seed {seed}, operation {nth}");
            }
            assert_eq!(epochs[0], epochs[1]);
            assert!(epochs[0] > 3, "seed {seed}: {epochs:?}");
        }
    }

    // A table is taken in order, whole, and up to a bound; what is refused changes nothing.
    #[test]
    fn tables_are_taken_in_order() {
        let mut rank = Follower::new(4, table(4), 2).unwrap();
        assert_eq!(rank.hear(6, table(6)), Err(Refused::OutOfOrder { got: 6, newest: 4 }));
        let empty = GroupPolicy { rows: Vec::new(), ..table(5) };
        assert_eq!(rank.hear(5, empty), Err(Refused::Gaps(5)));
        for epoch in 5..12 {
            assert_eq!(rank.hear(epoch, table(epoch)), Ok(()));
        }
        assert_eq!(rank.hear(12, table(12)), Err(Refused::Full));
        let way = table(4).rows[0].1;
        assert_eq!([rank.next(1.0), rank.next(1.0)], [Step::Run(way); 2]);
        assert_eq!(rank.next(1.0), Step::Agree(11));
        assert_eq!(rank.agreed(20), Err(Refused::Unknown(20)));
        assert_eq!(rank.next(1.0), Step::Agree(11), "nothing runs until the ranks agree");
        rank.agreed(6).unwrap();
        assert_eq!((rank.epoch(), rank.operations()), (6, 2));
        assert_eq!(rank.next(1.0), Step::Run(table(6).rows[0].1));
    }
}
