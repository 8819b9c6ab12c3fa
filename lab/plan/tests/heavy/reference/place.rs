//! Places an instance on every set of equal seats, each set once.

use super::deal::Dealt;
use super::places::Ties;
use super::seats::Seats;

/// The contributions of a server's seats.
type Block = Vec<Vec<u8>>;

impl Seats {
    /// Every placement of a deal on equal seats and servers, if seats have `left` free GPUs. Of
    /// tied ones the former contributes no less.
    pub(super) fn placements(&self, dealt: &Dealt, ties: &Ties, left: &[u8]) -> Vec<Dealt> {
        let canonical = self.canonical(&dealt.0);
        let blocks = (0..self.servers()).map(|at| canonical[self.range(at)].to_vec()).collect();
        let mut placing = Placing { seats: self, ties, left, blocks, all: Vec::new() };
        placing.server(0, &mut Vec::new(), &mut Vec::new());
        placing.all
    }
}

struct Placing<'a> {
    seats: &'a Seats,
    ties: &'a Ties,
    left: &'a [u8],
    /// Blocks not assigned to a server yet, each at the position of its server in the sorted order.
    blocks: Vec<Block>,
    all: Vec<Dealt>,
}

impl Placing<'_> {
    /// Gives each server from `at` on the block of an equal one. `order` has the blocks of the
    /// servers before, `columns` their seats' contributions.
    fn server(&mut self, at: usize, order: &mut Vec<Block>, columns: &mut Vec<Vec<u8>>) {
        if at == self.seats.servers() {
            self.all.push(Dealt(columns.clone()));
            return;
        }
        let like = self.seats.like(at);
        let mut tried: Vec<Block> = Vec::new();
        for other in like..self.seats.servers() {
            let block = &self.blocks[other];
            let free = !block.is_empty() && self.seats.like(other) == like;
            let late = self.ties.servers[at] && *block > order[at - 1];
            if !free || late || tried.contains(block) {
                continue;
            }
            let block = core::mem::take(&mut self.blocks[other]);
            tried.push(block.clone());
            order.push(block.clone());
            let (len, start) = (columns.len(), self.seats.range(at).start);
            for arranged in self.arrangements(at, start, block.clone()) {
                columns.extend(arranged);
                self.server(at + 1, order, columns);
                columns.truncate(len);
            }
            order.pop();
            self.blocks[other] = block;
        }
    }

    /// A block's columns in every order of equal seats, from `seat` on.
    fn arrangements(&self, at: usize, seat: usize, block: Block) -> Vec<Block> {
        let range = self.seats.range(at);
        if seat == range.end {
            return vec![block];
        }
        let here = seat - range.start;
        let classes = self.seats.classes(at);
        let class = classes.iter().find(|class| class.contains(&seat)).expect("each has a class");
        let mut all = Vec::new();
        let mut tried: Vec<Vec<u8>> = Vec::new();
        for other in here..class.end - range.start {
            let mut block = block.clone();
            block.swap(here, other);
            let column = &block[here];
            let same = self.ties.seats[seat];
            let fits = column.iter().sum::<u8>() <= self.left[seat];
            if !fits || tried.contains(column) || same && *column > block[here - 1] {
                continue;
            }
            tried.push(column.clone());
            all.extend(self.arrangements(at, seat + 1, block));
        }
        all
    }
}
