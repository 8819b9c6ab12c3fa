//! The default policy: it scores replicas in milliseconds, and work on busy replicas costs more.
//!
//! ```text
//! score = t_p * front                              prefill that is before this one
//!       + t_p * (p - m) * (1 + 0.05 * running)     its own unmatched prefill, and delays of others
//!       + 10 ms * running * t_p / mean t_p         slower steps for all
//! ```
//!
//! While an engine prefills a prompt, its running requests decode more slowly. A cold prompt costs
//! its own time once, and a twentieth of it again for each running request. So an idle fleet
//! minimises TTFT, which is GORGO's aim, and a busy one minimises work, which is SkyWalker's, with
//! no threshold between the two. The fixed price of a running request prevents herding onto the
//! first warm replica when a long shared system prompt matches everywhere. In a mixed fleet it is
//! lower on faster GPUs, whose steps it slows less.
//!
//! On an idle replica, unmatched prefill counts half: it delays no other request, and later
//! requests can reuse the cached prefix. Otherwise a system prompt that all requests share would
//! stay on the GPUs that cached it first, because each request alone is faster there, and other
//! GPUs would stay idle.
//!
//! A replica is eligible if it has KV capacity for the request (admission `pending_kv`). The
//! machine measures t_p for each replica, and also the trust that scales m if engines find less
//! cached than the index predicts. Both prompt and answer enter the index. A remote replica that
//! this gateway serves itself costs an extra 0.7 of its round trip: a higher price would crowd the
//! near ones, whose answers would then slow down by more than the round trip saves. Peers are
//! scored in `forwarding.rs`.
//!
//! If a KV-full replica scores a second better than the best eligible one, the request waits for it
//! in the queue instead of spilling to a cold one (delay scheduling, Zaharia et al. 2010). Near
//! saturation this keeps long shared prefixes in place, instead of recomputing them wherever
//! capacity frees up.

mod forwarding;

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use meridian_base::{Duration, ReplicaId, Rng};

use self::forwarding::Reach;
use super::choose::Least;
use super::spec::TOTAL_BLOCKS;
use super::{Forwarding, Param, Pick, Policy, Spec, View};
use crate::admission::Admission;
use crate::explain::{CandidateRow, Decision};
use crate::index::{Evict, IndexSpec, Insert};

pub(super) static SPEC: Spec = Spec {
    name: "meridian",
    summary: "least of prefill in front, unmatched prefill with the requests that it delays, and running requests",
    source: "Meridian; GORGO section 3.4, SkyWalker section 3.3, delay scheduling",
    params: &[
        Param::number(
            "delay_weight",
            0.05,
            (0.0, 1000.0),
            "what a ms of unmatched prefill costs for each running request, which it delays",
        ),
        Param::number(
            "idle_weight",
            0.5,
            (0.0, 1.0),
            "weight of unmatched prefill at a replica that does nothing",
        ),
        Param::number(
            "running_ms",
            10.0,
            (0.0, 1e5),
            "price of a running request in ms, on a replica of the region's mean speed",
        ),
        Param::word(
            "running_by_speed",
            &["on", "off"],
            "a running request costs more on a slower replica, as its t_p over the mean",
        ),
        Param::number_or(
            "wait_gain_ms",
            1000.0,
            (0.0, 1e6),
            &["off"],
            "hold a request when a KV-full replica scores this much better; off: never",
        ),
        Param::number("wait_max_s", 10.0, (0.0, 3600.0), "longest such hold in seconds"),
        Param::number("rtt_weight", 1.5, (0.0, 1000.0), "weight of the round trip to a peer"),
        Param::number(
            "far_weight",
            0.7,
            (0.0, 1000.0),
            "weight of the round trip to a replica elsewhere that this gateway serves itself",
        ),
        Param::word(
            "forward_early",
            &["on", "off"],
            "forward when a peer scores lower; off: only when nothing here is taken",
        ),
        Param::number(
            "forward_margin_ms",
            20.0,
            (0.0, 1e6),
            "by how much a peer must score lower than an eligible replica here",
        ),
        Param::word(
            "credits",
            &["on", "off"],
            "bound forwards to a peer between two of its digests",
        ),
        Param::number(
            "credit_share",
            0.1,
            (0.0, 100.0),
            "share of the KV tokens free at a peer's replicas that forwards may need between two of its digests",
        ),
        Param::word(
            "count_own",
            &["on", "off"],
            "count own forwards that a peer's digest does not know of",
        ),
    ],
    admission: Admission::PendingKv,
    index: |_| {
        Some(IndexSpec {
            block_bytes: 64,
            per_target_blocks: None,
            total_blocks: TOTAL_BLOCKS,
            evict: Evict::LeastRecent,
            insert: Insert::Both,
            ttl: None,
        })
    },
    head_bytes: |_| 0,
    build: |p| {
        Box::new(Meridian {
            delay_weight: p.f32("delay_weight"),
            idle_weight: p.f32("idle_weight"),
            running_ms: p.f32("running_ms"),
            wait_gain_ms: p.number("wait_gain_ms").map_or(f32::INFINITY, |n| n as f32),
            wait_max: p.seconds("wait_max_s"),
            by_speed: p.is("running_by_speed", "on"),
            rtt_weight: p.f32("rtt_weight"),
            far_weight: p.f32("far_weight"),
            reach: Reach::of(p),
        })
    },
};

/// Replicas scored together.
const LANES: usize = 8;

struct Meridian {
    delay_weight: f32,
    idle_weight: f32,
    running_ms: f32,
    wait_gain_ms: f32,
    wait_max: Duration,
    by_speed: bool,
    rtt_weight: f32,
    far_weight: f32,
    reach: Reach,
}

impl Policy for Meridian {
    fn pick(&self, view: &View<'_>, draw: &mut Rng) -> Pick {
        // Without a comparable score (NaN figures), any candidate will do.
        let best = self.least(view, view.eligible, draw);
        let (best, replica) = best.unwrap_or((f32::INFINITY, view.eligible[0]));
        if self.waits(view) {
            let full = self.least(view, view.full, draw);
            if full.is_some_and(|(score, _)| best - score > self.wait_gain_ms) {
                return Pick::Wait;
            }
        }
        Pick::scored(replica, f64::from(best))
    }

    fn forwarding(&self) -> &dyn Forwarding {
        self
    }

    fn waits_for_room(&self) -> bool {
        true
    }

    fn terms(&self, c: &CandidateRow, _: &Decision) -> Vec<(&'static str, f64)> {
        let row = &c.row;
        let unmatched = c.prompt_tokens as f32 - c.matched_tokens * row.trust;
        let own = row.ms_per_token * unmatched;
        // Negative if there are no requests to delay.
        let delay = own * (self.prefill_weight(row.running as f32, row.front_tokens) - 1.0);
        vec![
            ("front_ms", f64::from(row.ms_per_token * row.front_tokens)),
            ("prefill_ms", f64::from(own)),
            ("delay_ms", f64::from(delay)),
            (
                "running_ms",
                f64::from(
                    self.running(c.mean_ms_per_token).at(row.ms_per_token) * row.running as f32,
                ),
            ),
            ("rtt_ms", f64::from(self.far_weight * row.rtt_ms)),
        ]
    }
}

/// The inputs of the score that depend on the request and the region.
#[derive(Clone, Copy)]
struct Asked {
    prompt: f32,
    block: f32,
    running: Running,
}

/// The price of a running request: in ms at the mean speed, and the inverse of the mean.
#[derive(Clone, Copy)]
struct Running {
    ms: f32,
    per_mean: f32,
}

/// GPUs count as equal if their learned speeds are within these factors of the mean.
const LIKE: (f32, f32) = (0.75, 1.33);

impl Running {
    #[inline(always)]
    fn at(self, ms_per_token: f32) -> f32 {
        let relative = ms_per_token * self.per_mean;
        let unlike = (relative < LIKE.0) & (relative > 0.0) | (relative > LIKE.1);
        self.ms * if unlike { relative } else { 1.0 }
    }
}

impl Meridian {
    /// Whether this request should wait for a full replica that scores so much better. A request
    /// from a peer is not queued: it would go back, and return.
    fn waits(&self, view: &View<'_>) -> bool {
        let in_time = view.may_wait && view.waited < self.wait_max;
        let own = view.request.hops == 0;
        own && in_time && !view.full.is_empty() && self.wait_gain_ms.is_finite()
    }

    /// The price of a ms of unmatched prefill: one for the request itself, more for the requests it
    /// delays, less if there are none to delay.
    #[inline(always)]
    fn prefill_weight(&self, running: f32, front_tokens: f32) -> f32 {
        let idle = (running <= 0.0) & (front_tokens <= 0.0);
        if idle { self.idle_weight } else { 1.0 + self.delay_weight * running }
    }

    /// The price of a running request, where replicas have this mean speed.
    fn running(&self, mean_ms_per_token: f32) -> Running {
        // Zero marks speeds that do not count.
        let like = !self.by_speed || mean_ms_per_token <= 0.0;
        Running { ms: self.running_ms, per_mean: if like { 0.0 } else { 1.0 / mean_ms_per_token } }
    }

    /// The scores of several replicas. Their figures are contiguous, so the arithmetic vectorises.
    #[inline(always)]
    fn scores<const FAR: bool, const N: usize>(&self, of: Figures<N>, asked: Asked) -> [f32; N] {
        let mut scores = [0.0; N];
        for (i, score) in scores.iter_mut().enumerate() {
            // Counts stay far below 2^31, and the signed conversion is the one that vectorises.
            let matched = of.blocks[i] as i32 as f32 * asked.block;
            let matched = if matched < asked.prompt { matched } else { asked.prompt };
            let unmatched = asked.prompt - matched * of.trust[i];
            let weight = self.prefill_weight(of.running[i], of.front[i]);
            *score = of.speed[i] * (of.front[i] + unmatched * weight)
                + asked.running.at(of.speed[i]) * of.running[i];
            if FAR {
                *score += self.far_weight * of.rtt[i];
            }
        }
        scores
    }

    /// The least score among `ids` and its replica; `None` if `ids` is empty.
    fn least(
        &self,
        view: &View<'_>,
        ids: &[ReplicaId],
        draw: &mut Rng,
    ) -> Option<(f32, ReplicaId)> {
        match view.replicas.columns().far {
            false => self.least_of::<false>(view, ids, draw),
            true => self.least_of::<true>(view, ids, draw),
        }
    }

    fn least_of<const FAR: bool>(
        &self,
        view: &View<'_>,
        ids: &[ReplicaId],
        draw: &mut Rng,
    ) -> Option<(f32, ReplicaId)> {
        let request = view.request;
        let asked = Asked {
            prompt: request.prompt_tokens as f32,
            block: request.block_tokens,
            running: self.running(view.replicas.columns().mean_ms_per_token()),
        };
        let mut least = Least::new();
        let mut low = f32::INFINITY;
        let (chunks, rest) = ids.as_chunks::<LANES>();
        for chunk in chunks {
            let scores = self.scores::<FAR, _>(Figures::of(view, chunk), asked);
            // Few groups contain a new minimum; the others cost one comparison of all lanes.
            if scores.iter().fold(false, |any, s| any | (*s <= low)) {
                low = offer(&mut least, &scores, chunk, draw);
            }
        }
        for &r in rest {
            let score = self.scores::<FAR, _>(Figures::of(view, &[r]), asked);
            offer(&mut least, &score, &[r], draw);
        }
        least.get()
    }
}

/// The inputs of the score for several replicas.
struct Figures<const N: usize> {
    front: [f32; N],
    trust: [f32; N],
    speed: [f32; N],
    running: [f32; N],
    rtt: [f32; N],
    blocks: [u32; N],
}

impl<const N: usize> Figures<N> {
    #[inline(always)]
    fn of(view: &View<'_>, ids: &[ReplicaId; N]) -> Figures<N> {
        let c = view.replicas.columns();
        Figures {
            front: lanes(&c.front_tokens, ids),
            trust: lanes(&c.trust, ids),
            speed: lanes(&c.ms_per_token, ids),
            running: lanes(&c.running, ids),
            rtt: lanes(&c.rtt_ms, ids),
            blocks: lanes(view.matched, ids),
        }
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

/// Offers several scores and returns the least so far. Kept out of the scan so that the scan
/// vectorises.
#[inline(never)]
fn offer(least: &mut Least<f32>, scores: &[f32], ids: &[ReplicaId], draw: &mut Rng) -> f32 {
    scores.iter().zip(ids).for_each(|(s, r)| least.offer(*s, *r, draw));
    least.get().map_or(f32::INFINITY, |l| l.0)
}
