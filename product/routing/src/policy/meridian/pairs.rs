//! The price of a request with two legs, in the same unit as that of one.
//!
//! ```text
//! price = 1.5 RTT
//!       + max(t_p (front_p + p - m_p) + kv, t_d front_d)    until the first token
//!       + t_p (p - m_p) (q_p + r + w n_p)                   which others await at the prefill replica
//!       + ms a token (p - m_d) q_kv                         and on the network
//!       + w N s_d n_d                                       the reply, which slows n_d running requests
//! kv    = fixed + ms a token (p - m_d + moving)             the KV's way to the decode replica
//! ```
//!
//! The q queued requests wait for what is busy: none waits for a prefill replica that is idle (q_p), or
//! for a link that carries nothing (q_kv).
//!
//! So a request is split if that is cheaper than one leg: where the line lies depends on the load,
//! the prefixes and the network, and is learned. Short prompts stay whole, because any transfer has
//! a fixed part; long ones leave a decode replica whose running requests would wait for them.
//!
//! All pairs of the few best replicas of each role are compared, for each partner: the prefill
//! replicas by the time of the prompt, and the decode replicas by the price with the best of those.
//! Both use the mean pace of the links, so over unequal links a better pair may be missed
//! (tests/all/pairs.rs has by how much).

use meridian_base::{Pace, ReplicaId, Rng};

use super::{Meridian, Price};
use crate::policy::View;
use crate::row::Row;

/// Replicas of each role whose pairs are compared.
const FEW: usize = 4;

/// A pair: its price, the prefill replica and the one that answers.
type PairsFound = (f32, ReplicaId, ReplicaId);

/// The cheapest replicas of a scan, in ascending order of their price.
struct Few {
    best: [(f32, ReplicaId); FEW],
    len: usize,
}

impl Few {
    /// The cheapest of `ids`; the price of those that do not count is infinite. The scan starts at
    /// `start`; if that is random, equal prices are drawn fairly.
    fn of(ids: &[ReplicaId], start: usize, price: impl Fn(ReplicaId) -> f32) -> Few {
        let mut few = Few { best: [(f32::INFINITY, ReplicaId(0)); FEW], len: 0 };
        let (after, before) = ids.split_at(start);
        for part in [before, after] {
            for id in part {
                few.offer(price(*id), *id);
            }
        }
        few
    }

    #[inline]
    fn offer(&mut self, price: f32, id: ReplicaId) {
        if price < self.best[FEW - 1].0 {
            let mut at = FEW - 1;
            while at > 0 && price < self.best[at - 1].0 {
                self.best[at] = self.best[at - 1];
                at -= 1;
            }
            self.best[at] = (price, id);
            self.len = (self.len + 1).min(FEW);
        }
    }

    fn ids(&self) -> impl Iterator<Item = ReplicaId> {
        self.best[..self.len].iter().map(|(_, id)| *id)
    }
}

/// The parts of a pair's price.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts {
    /// Until the prompt is computed at the prefill replica, and what others lose by it and by the
    /// transfer.
    pub(super) prefill: f32,
    pub(super) others: f32,
    /// The KV's way.
    pub(super) kv: f32,
    /// Prefill ahead at the decode replica.
    pub(super) front: f32,
    /// What the reply costs others there.
    pub(super) steps: f32,
    pub(super) rtt: f32,
}

impl Parts {
    fn sum(&self) -> f32 {
        self.rtt + (self.prefill + self.kv).max(self.front) + self.others + self.steps
    }
}

impl Meridian {
    /// The cheapest pair: its price, the prefill replica and the one that answers. Most often all
    /// replicas have the same partner; each further one costs another scan.
    pub(super) fn best_pair(&self, view: &View<'_>, draw: &mut Rng) -> Option<PairsFound> {
        let partner = |id: &ReplicaId| view.replicas.row(*id).pool.partner;
        let partners = || view.prefills.iter().map(partner);
        let (mut now, most) =
            partners().fold((u32::MAX, 0), |(low, high), one| (low.min(one), high.max(one)));
        let mut best = None;
        while now <= most {
            best = self.best_of(view, draw, now, best);
            if now == most {
                break;
            }
            now = partners().filter(|other| *other > now).min().unwrap_or(most);
        }
        best
    }

    /// The cheaper one of `best` and the cheapest pair of replicas with this partner.
    fn best_of(
        &self,
        view: &View<'_>,
        draw: &mut Rng,
        partner: u32,
        mut best: Option<PairsFound>,
    ) -> Option<PairsFound> {
        if view.eligible.is_empty() {
            return best;
        }
        let starts = (draw.below(view.eligible.len()), draw.below(view.prefills.len()));
        let (price, mean) = (self.price(&view.common), view.links.mean());
        let row = |id: ReplicaId| view.replicas.row(id);
        let prompt = view.request.prompt_tokens as f32;
        let unmatched = |id| prompt - view.matched_tokens(id) * row(id).trust;
        let missing = |id| prompt - view.matched_tokens(id);
        let pair = |from, to, pace| {
            price.pair((row(from), unmatched(from)), (row(to), missing(to)), pace).sum()
        };
        let prefills = Few::of(view.prefills, starts.1, |id| {
            let row = row(id);
            let (own, others) = price.prefill_leg(row, unmatched(id));
            let cost =
                own + others + mean.ms_per_token * row.moving_tokens + price.rtt * row.rtt_ms;
            if row.pool.partner == partner { cost } else { f32::INFINITY }
        });
        let first = prefills.ids().next()?;
        let answers = Few::of(view.eligible, starts.0, |id| {
            let pool = row(id).pool;
            let cost = pair(first, id, mean);
            if pool.pairs() && pool.partner == partner { cost } else { f32::INFINITY }
        });
        for to in answers.ids() {
            for from in prefills.ids() {
                // Most pairs cost too much even if their KV took no time; a look at the link takes
                // longer than that.
                let bound = best.map_or(f32::INFINITY, |(least, ..)| least);
                if pair(from, to, Pace::default()) >= bound || view.links.is_cut(view.now, from, to)
                {
                    continue;
                }
                let pace = view.links.pace((from, row(from).pool), (to, row(to).pool));
                let sum = pair(from, to, pace);
                if sum < bound {
                    best = Some((sum, from, to));
                }
            }
        }
        best
    }
}

impl Price {
    /// The time until a prompt is computed, and what it costs others there. If a prefill replica is
    /// idle, the queue waits for replicas that answer and not for it.
    #[inline]
    fn prefill_leg(&self, row: &Row, unmatched: f32) -> (f32, f32) {
        let is_idle = row.running == 0 && row.front_tokens <= 0.0;
        let weight = match is_idle {
            true => self.unawaited,
            false => self.prefill(row.running as f32, row.front_tokens),
        };
        let own = row.ms_per_token * (row.front_tokens + unmatched);
        (own, row.ms_per_token * unmatched * (weight - 1.0))
    }

    /// The price of a pair: the prefill replica with its unmatched tokens, and the one that answers
    /// with the tokens that it lacks.
    pub(super) fn pair(&self, from: (&Row, f32), to: (&Row, f32), pace: Pace) -> Parts {
        let ((from, unmatched), (to, missing)) = (from, to);
        let (prefill, others) = self.prefill_leg(from, unmatched);
        let moving = from.moving_tokens.max(to.moving_tokens);
        // As with prefill, the queue waits for the network only if that is busy.
        let awaited = if moving > 0.0 { self.queued } else { 0.0 };
        Parts {
            prefill,
            others: others + pace.ms_per_token * missing * awaited,
            kv: pace.ms(missing + moving),
            front: to.ms_per_token * to.front_tokens,
            steps: self.reply * to.step_slope_ms * to.running as f32,
            rtt: self.rtt * from.rtt_ms.max(to.rtt_ms),
        }
    }
}
