//! Deals GPUs to stages, each way once.

use super::seats::Seats;

/// Each seat's contribution to each stage, seat by seat.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Dealt(pub(super) Vec<Vec<u8>>);

impl Dealt {
    pub(super) fn stages(&self) -> usize {
        self.0.first().map_or(0, Vec::len)
    }

    /// Each seat's total contribution.
    pub(super) fn counts(&self) -> Vec<u8> {
        self.0.iter().map(|column| column.iter().sum()).collect()
    }
}

impl Seats {
    /// Every way of dealing `pp` stages of `tp` GPUs, including partial ones: `give` returns
    /// whether to continue from there.
    pub(super) fn every(&self, tp: u32, pp: u32, give: &mut impl FnMut(&Dealt) -> bool) {
        let mut dealt = Dealt(vec![Vec::new(); self.count()]);
        self.stages(&mut self.full(), (tp, pp), &mut dealt, give);
    }

    fn stages(
        &self,
        left: &mut [u8],
        (tp, pp): (u32, u32),
        dealt: &mut Dealt,
        give: &mut impl FnMut(&Dealt) -> bool,
    ) {
        let mut parts = Vec::new();
        self.parts(0, tp, left, dealt, &mut Vec::new(), &mut parts);
        for part in parts {
            for (seat, count) in part.iter().enumerate() {
                left[seat] -= count;
                dealt.0[seat].push(*count);
            }
            if give(dealt) && pp > 1 {
                self.stages(left, (tp, pp - 1), dealt, give);
            }
            for (seat, count) in part.iter().enumerate() {
                left[seat] += count;
                dealt.0[seat].pop();
            }
        }
    }

    /// Every way of taking `size` GPUs, starting with seat `at`.
    fn parts(
        &self,
        at: usize,
        size: u32,
        left: &[u8],
        so_far: &Dealt,
        part: &mut Vec<u8>,
        all: &mut Vec<Vec<u8>>,
    ) {
        if at == self.count() {
            if size == 0 && self.in_order(part, so_far) {
                all.push(part.clone());
            }
            return;
        }
        let mut most = (u32::from(left[at])).min(size) as u8;
        if self.as_before(at) && so_far.0[at] == so_far.0[at - 1] {
            most = most.min(part[at - 1]);
        }
        for count in 0..=most {
            part.push(count);
            self.parts(at + 1, size - u32::from(count), left, so_far, part, all);
            part.pop();
        }
    }

    /// Whether, of equal servers with the same deal so far, the former gets no less.
    pub(super) fn in_order(&self, part: &[u8], so_far: &Dealt) -> bool {
        (1..self.servers()).all(|server| {
            let (a, b) = (self.range(server - 1), self.range(server));
            self.like(server) != self.like(server - 1)
                || so_far.0[a.clone()] != so_far.0[b.clone()]
                || part[a] >= part[b]
        })
    }
}
