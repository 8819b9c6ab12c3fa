//! The default policy's price of several replicas at a time: their figures are contiguous columns, so the arithmetic
//! vectorises.

use meridian_base::ReplicaId;

use super::{Price, Prompt};
use crate::policy::View;

/// The figures of several replicas that a price depends on.
pub(super) struct Figures<const N: usize> {
    front: [f32; N],
    trust: [f32; N],
    speed: [f32; N],
    running: [f32; N],
    pairs: [f32; N],
    slope: [f32; N],
    rtt: [f32; N],
    blocks: [u32; N],
    loading: [f32; N],
}

impl<const N: usize> Figures<N> {
    #[inline(always)]
    pub(super) fn of<const POOLS: bool, const LOADS: bool>(
        view: &View<'_>,
        ids: &[ReplicaId; N],
    ) -> Figures<N> {
        let c = view.replicas.columns();
        Figures {
            front: lanes(&c.front_tokens, ids),
            trust: lanes(&c.trust, ids),
            speed: lanes(&c.ms_per_token, ids),
            running: lanes(&c.running, ids),
            pairs: if POOLS { lanes(&c.pairs, ids) } else { [0.0; N] },
            slope: lanes(&c.step_slope_ms, ids),
            rtt: lanes(&c.rtt_ms, ids),
            blocks: lanes(view.matched, ids),
            loading: if LOADS { lanes(view.loading, ids) } else { [0.0; N] },
        }
    }

    /// The prices of several replicas. Their figures are contiguous, so the arithmetic vectorises.
    #[inline(always)]
    pub(super) fn prices<const POOLS: bool, const FAR: bool, const LOADS: bool>(
        &self,
        price: Price,
        prompt: Prompt,
    ) -> [f32; N] {
        let mut prices = [0.0; N];
        for (i, sum) in prices.iter_mut().enumerate() {
            // Counts stay far below 2^31, and the signed conversion is the one that vectorises.
            let matched = self.blocks[i] as i32 as f32 * prompt.block;
            let matched = if matched < prompt.tokens { matched } else { prompt.tokens };
            let unmatched = prompt.tokens - matched * self.trust[i];
            let weight = price.prefill(self.running[i], self.front[i]);
            *sum = self.speed[i] * (self.front[i] + unmatched * weight)
                + price.reply * self.slope[i] * self.running[i];
            if POOLS {
                let stall = price.stall(self.running[i], unmatched);
                *sum += self.speed[i] * self.pairs[i] * stall;
            }
            if FAR {
                *sum += price.rtt * self.rtt[i];
            }
            if LOADS {
                *sum += self.loading[i];
            }
        }
        prices
    }
}

/// One figure of several replicas. Ids ascend, usually without a gap: then one read suffices.
#[inline(always)]
fn lanes<T: Copy + Default, const N: usize>(column: &[T], ids: &[ReplicaId; N]) -> [T; N] {
    let first = ids[0].index();
    if ids[N - 1].index() == first + N - 1
        && let Some(together) = column.get(first..).and_then(|c| c.first_chunk::<N>())
    {
        return *together;
    }
    let mut lanes = [T::default(); N];
    lanes.iter_mut().zip(ids).for_each(|(lane, id)| *lane = column[id.index()]);
    lanes
}
