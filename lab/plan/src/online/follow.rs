//! A rank's side of the tables: selects the table that applies to each operation.
//!
//! Tables reach the ranks of a communicator at different times. If each used its newest one, two
//! ranks could use different algorithms in one operation, and the operation would hang (correction
//! 13). So a table never takes effect on arrival. At every [`Follower::every`]-th operation of the
//! communicator, which all ranks reach with the same count, they first agree: each offers the
//! newest epoch that it has, all take the smallest offer (an all-reduce of eight bytes with a fixed
//! algorithm), and that table applies to the next operations. A rank without the new table delays
//! it for all others, but no rank waits for the controller.
//!
//! An operation replayed from a CUDA graph does not choose: it uses the algorithm from the capture,
//! and its communicator counts when it captures again.

use std::collections::VecDeque;

use crate::collective::Algorithm;
use crate::table::GroupPolicy;

/// Most tables that a rank stores: the active one and future ones.
const HELD: usize = 8;

/// A rank's next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Offer this epoch to the other ranks, and continue with [`Follower::agreed`].
    Agree(u64),
    /// Run the operation with this algorithm.
    Run(Algorithm),
}

/// Why a table is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It is not the one after the newest.
    #[error("epoch {got} does not follow {newest}; send the tables in order")]
    OutOfOrder {
        /// Its epoch.
        got: u64,
        /// The newest epoch stored.
        newest: u64,
    },
    /// The limit of stored tables is reached.
    #[error("{HELD} tables are held already; send it again after the ranks have agreed")]
    Full,
    /// It has no algorithm for some size.
    #[error("epoch {0} has no row without an end; give a way for every size")]
    Gaps(u64),
    /// The ranks agreed on an epoch that this one does not have.
    #[error("epoch {0} was agreed on and is not held; the communicator must be made again")]
    Unknown(u64),
}

/// One rank of one communicator.
#[derive(Clone, Debug)]
pub struct Follower {
    every: u64,
    operations: u64,
    /// Whether the ranks have agreed at this count.
    agreed: bool,
    /// The active table first, then future ones, epoch by epoch.
    held: VecDeque<(u64, GroupPolicy)>,
}

impl Follower {
    /// A rank whose communicator starts with this table and agrees at every `every`-th operation.
    ///
    /// # Errors
    ///
    /// If the table has no algorithm for some size.
    pub fn new(epoch: u64, table: GroupPolicy, every: u64) -> Result<Follower, Refused> {
        whole(epoch, &table)?;
        let held = VecDeque::from([(epoch, table)]);
        Ok(Follower { every: every.max(1), operations: 0, agreed: true, held })
    }

    /// Stores a table that takes effect once all ranks have it.
    ///
    /// # Errors
    ///
    /// If it is out of order, unusable, or one too many; the stored tables stay.
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

    /// The action for the next operation, of `bytes`.
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

    /// Activates the table that the ranks agreed on: the smallest epoch that any of them offered.
    ///
    /// # Errors
    ///
    /// If it is not stored, which cannot happen if every rank offered a stored epoch.
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

    /// The active epoch.
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

    /// Two ranks run operations together, in random order, while tables reach them at different
    /// times. Returns each rank's algorithm in every operation, and its last epoch.
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

    // Correction 13: two ranks that receive tables at different times never disagree about an
    // operation, and new tables do take effect.
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

    // Tables are accepted in order, complete, and up to a limit; a refused table changes nothing.
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
