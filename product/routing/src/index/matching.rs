//! Matching: how deep each target's cache reaches into a chain.
//!
//! A chain is walked run by run. Comparing a run's last block shows whether the chain contains all
//! of it, so a prompt of 512 blocks behind a shared system prompt takes two steps.

use super::PrefixIndex;
use super::order::NONE;
use super::runs::Run;

/// The part of one run of a chain that a target holds.
#[derive(Clone, Copy)]
pub(super) struct Step {
    pub(super) run: u32,
    pub(super) hold: u32,
    /// Blocks of the run that the target holds.
    pub(super) len: usize,
    /// Those of them that are also in the chain.
    pub(super) agreed: usize,
}

impl PrefixIndex {
    /// Writes into `depth[target]` how many leading blocks of the chain each target holds, and
    /// 0 for the rest of the buffer. Targets beyond the buffer are left out.
    pub fn matches(&self, blocks: &[u64], depth: &mut [u32]) {
        depth.fill(0);
        for (at, agreed, run) in self.walk(blocks) {
            // A holder of a deeper run also holds this one, and is overwritten later.
            for holder in run.holders() {
                if let Some(d) = depth.get_mut(usize::from(holder.target)) {
                    *d = at as u32 + holder.len.min(agreed as u32);
                }
            }
        }
    }

    /// Leading blocks of the chain that `target` holds.
    #[must_use]
    pub fn longest(&self, blocks: &[u64], target: u16) -> u32 {
        self.deepest(blocks, target).0 as u32
    }

    /// The target that has held this whole chain for longest; if the one that held it longest has
    /// left, any holder.
    #[must_use]
    pub fn first_holder(&self, blocks: &[u64]) -> Option<u16> {
        let (at, agreed, run) = self.walk(blocks).last()?;
        run.first_of(agreed).filter(|_| at + agreed == blocks.len())
    }

    /// The runs along a chain, each with its depth and the blocks in which both agree.
    pub(super) fn walk<'a>(
        &'a self,
        blocks: &'a [u64],
    ) -> impl Iterator<Item = (usize, usize, &'a Run)> + 'a {
        let mut at = 0;
        core::iter::from_fn(move || {
            let run = &self.runs[self.runs.find(*blocks.get(at)?)?];
            let (from, agreed) = (at, run.agreed(&blocks[at..]));
            // Runs have no children in the middle.
            at = if agreed < run.blocks().len() { blocks.len() } else { at + agreed };
            Some((from, agreed, run))
        })
    }

    /// The part that `target` holds of the run that continues a chain below its hold `parent`.
    pub(super) fn step(&self, chain: &[u64], target: u16, parent: u32) -> Option<Step> {
        let run = self.runs.find(*chain.first()?)?;
        let holder = self.runs[run].holder(target)?;
        let (hold, len) = (holder.hold, holder.len as usize);
        let agreed = self.runs[run].agreed(chain).min(len);
        // A chain that repeats itself returns to an earlier run.
        (self.orders[hold].parent == parent).then_some(Step { run, hold, len, agreed })
    }

    /// How much of a chain `target` holds, and the step in which that ends.
    pub(super) fn deepest(&self, blocks: &[u64], target: u16) -> (usize, Option<Step>) {
        let (mut at, mut parent, mut last) = (0, NONE, None);
        while let Some(step) = self.step(&blocks[at..], target, parent) {
            (at, parent, last) = (at + step.agreed, step.hold, Some(step));
            if step.agreed < step.len {
                break;
            }
        }
        (at, last)
    }
}
