//! The batches that nodes report: their own numbers, the machine's rows, and who takes part.

use std::collections::{HashMap, VecDeque};

use meridian_base::{BatchId, Time};

/// A number that identifies a connection.
pub(crate) type NodeId = u64;

/// Those that are known.
#[derive(Debug)]
pub(crate) struct Batches {
    known: HashMap<u64, Known>,
    of_row: HashMap<u32, u64>,
    order: VecDeque<(Time, u64)>,
    free: Vec<u32>,
    begun: u64,
    /// The known batches that each node began.
    begun_by: HashMap<NodeId, usize>,
}

#[derive(Debug)]
struct Known {
    row: BatchId,
    number: u64,
    nodes: Vec<NodeId>,
}

impl Batches {
    pub(crate) fn new(rows: u32) -> Batches {
        Batches {
            known: HashMap::new(),
            of_row: HashMap::new(),
            order: VecDeque::new(),
            free: (0..rows).rev().collect(),
            begun: 0,
            begun_by: HashMap::new(),
        }
    }

    /// Adds a node's part of a batch. `None` if there is no row, or the node has reported it already.
    /// A node may begin as many batches as there are free rows left, so that each has some, whatever
    /// the others do.
    pub(crate) fn enter(&mut self, now: Time, batch: u64, node: NodeId) -> Option<(BatchId, u64)> {
        if let Some(known) = self.known.get_mut(&batch) {
            if known.nodes.contains(&node) {
                return None;
            }
            known.nodes.push(node);
            return Some((known.row, known.number));
        }
        let own = self.begun_by.get(&node).copied().unwrap_or(0);
        if own >= self.free.len() {
            return None;
        }
        let row = BatchId(self.free.pop()?);
        *self.begun_by.entry(node).or_default() += 1;
        self.begun += 1;
        let number = self.begun;
        let before = self.of_row.insert(row.0, batch);
        assert!(before.is_none(), "a row has one batch");
        let last = self.order.back();
        assert!(last.is_none_or(|(at, _)| *at <= now), "batches are in the order of their arrival");
        self.order.push_back((now, batch));
        self.known.insert(batch, Known { row, number, nodes: vec![node] });
        Some((row, number))
    }

    /// A batch is over: its row and number, for the machine.
    pub(crate) fn leave(&mut self, batch: u64) -> Option<(BatchId, u64)> {
        let known = self.known.remove(&batch)?;
        let was = self.of_row.remove(&known.row.0);
        assert!(was == Some(batch), "a batch is found by its row until it leaves");
        self.free.push(known.row.0);
        let first = known.nodes.first().copied().expect("a batch has the node that began it");
        let begun = self.begun_by.get_mut(&first).expect("the node that began it has some");
        *begun -= 1;
        if *begun == 0 {
            self.begun_by.remove(&first);
        }
        Some((known.row, known.number))
    }

    /// The batches that a node takes part in. The other nodes' parts are forgotten with its own: they
    /// keep the order of their last verdicts.
    pub(crate) fn of_node(&self, node: NodeId) -> Vec<u64> {
        let here = self.known.iter().filter(|(_, known)| known.nodes.contains(&node));
        here.map(|(batch, _)| *batch).collect()
    }

    /// The next batch that entered before `then`.
    pub(crate) fn older(&mut self, then: Time) -> Option<u64> {
        while let Some((_, batch)) = self.order.front().copied().filter(|(at, _)| *at < then) {
            self.order.pop_front();
            if self.known.contains_key(&batch) {
                return Some(batch);
            }
        }
        None
    }

    /// The batch in a row, and the nodes that take part.
    pub(crate) fn at(&self, row: BatchId) -> Option<(u64, &[NodeId])> {
        let batch = *self.of_row.get(&row.0)?;
        Some((batch, &self.known.get(&batch)?.nodes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Defect coordinator-rows: a node that begins batches without end leaves rows for the others, and
    // has its own back when they leave.
    #[test]
    fn one_node_leaves_rows_for_the_others() {
        let mut batches = Batches::new(12);
        let mut enter = |node, from: u64| {
            (from..from + 20).filter(|n| batches.enter(Time::ZERO, *n, node).is_some()).count()
        };
        assert_eq!([enter(1, 0), enter(2, 100), enter(3, 200)], [6, 3, 2]);
        for batch in batches.of_node(1) {
            batches.leave(batch);
        }
        assert_eq!(batches.begun_by.get(&1), None);
        assert!(batches.enter(Time::ZERO, 300, 3).is_some());
    }
}
