//! The figures that an expression may name, and how several candidates' are read at once.

use crate::explain::CandidateRow;
use crate::policy::{Common, View};
use crate::row::Row;
use meridian_base::ReplicaId;

/// Candidates whose scores are computed together.
pub(super) const LANES: usize = 8;

/// One number for each of several candidates.
pub(super) type Lanes = [f32; LANES];

/// A figure that an expression may name.
pub struct Figure {
    /// Its name.
    pub name: &'static str,
    /// What it is, with its unit.
    pub doc: &'static str,
    pub(super) read: Read,
}

/// The source of a figure.
#[derive(Clone, Copy)]
pub(super) enum Read {
    /// The same for every candidate.
    Shared(fn(&Shared) -> f32),
    /// Each candidate's own.
    Own(fn(&Batch<'_>) -> Lanes),
}

/// The figures that are the same for every candidate of a decision.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shared {
    pub(super) common: Common,
    pub(super) prompt_tokens: f32,
    pub(super) candidates: usize,
}

/// Several candidates.
pub(super) struct Batch<'a> {
    rows: [&'a Row; LANES],
    matched: Lanes,
    loading: Lanes,
    prompt: f32,
}

impl Batch<'_> {
    #[inline(always)]
    fn rows(&self, read: impl Fn(&Row) -> f32) -> Lanes {
        self.rows.map(read)
    }
}

/// The candidates of a decision, in batches.
pub(super) trait Candidates {
    /// Their number.
    fn len(&self) -> usize;
    /// The candidates from `first` on, as many as fit. The last one fills the remaining lanes.
    fn batch(&self, first: usize) -> Batch<'_>;
}

/// The candidates of a pick.
pub(super) struct Live<'a> {
    pub(super) view: &'a View<'a>,
    pub(super) ids: &'a [ReplicaId],
}

impl Candidates for Live<'_> {
    fn len(&self) -> usize {
        self.ids.len()
    }

    #[inline]
    fn batch(&self, first: usize) -> Batch<'_> {
        let view = self.view;
        let ids: [ReplicaId; LANES] =
            core::array::from_fn(|lane| self.ids[(first + lane).min(self.ids.len() - 1)]);
        Batch {
            rows: ids.map(|id| view.replicas.row(id)),
            matched: ids.map(|id| view.matched_tokens(id)),
            loading: ids.map(|id| view.loading.get(id.index()).copied().unwrap_or(0.0)),
            prompt: view.request.prompt_tokens as f32,
        }
    }
}

/// The candidates of a recorded decision.
pub(super) struct Recorded<'a>(pub(super) &'a [&'a CandidateRow]);

impl Candidates for Recorded<'_> {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn batch(&self, first: usize) -> Batch<'_> {
        let rows: [&CandidateRow; LANES] =
            core::array::from_fn(|lane| self.0[(first + lane).min(self.0.len() - 1)]);
        Batch {
            rows: rows.map(|c| &c.row),
            matched: rows.map(|c| c.matched_tokens),
            loading: rows.map(|c| c.loading_ms),
            prompt: rows[0].prompt_tokens as f32,
        }
    }
}

const fn shared(name: &'static str, doc: &'static str, read: fn(&Shared) -> f32) -> Figure {
    Figure { name, doc, read: Read::Shared(read) }
}

const fn own(name: &'static str, doc: &'static str, read: fn(&Batch<'_>) -> Lanes) -> Figure {
    Figure { name, doc, read: Read::Own(read) }
}

/// The names of the prompt's cached part: an expression with one of them needs the prefix index.
pub(super) const MATCHES: [&str; 2] = ["matched_tokens", "unmatched_tokens"];

/// Every figure: those of the request and of the region, then those of a candidate.
pub static FIGURES: &[Figure] = &[
    shared("prompt_tokens", "tokens of the prompt", |s| s.prompt_tokens),
    shared("reply_tokens", "expected tokens of the reply", |s| s.common.reply_tokens),
    shared("queued", "other requests in the gateway's queue for each replica", |s| s.common.queued),
    shared("reused", "share of the region's tokens that are used again, 0 to 1", |s| {
        s.common.reused
    }),
    shared("waited_ms", "how long ago the request arrived, ms", |s| s.common.waited_ms),
    shared("candidates", "number of the eligible replicas", |s| s.candidates as f32),
    own("matched_tokens", "prompt tokens cached there, by the prefix index", |b| b.matched),
    own("unmatched_tokens", "prompt tokens not cached there", |b| {
        b.matched.map(|matched| b.prompt - matched)
    }),
    own(
        "trust",
        "weight of the match, 0 to 1: lower if the engine reports fewer cached tokens",
        |b| b.rows(|r| r.trust),
    ),
    own("outstanding", "requests there, pending and running", |b| b.rows(|r| r.outstanding as f32)),
    own("outstanding_tokens", "prompt tokens of this gateway's requests there", |b| {
        b.rows(|r| r.outstanding_tokens)
    }),
    own("pending", "reported pending requests, and dispatches since the report", |b| {
        b.rows(|r| r.pending as f32)
    }),
    own("reported_pending", "pending requests, as the engine last reported", |b| {
        b.rows(|r| r.reported_pending as f32)
    }),
    own("running", "requests with a first token there", |b| b.rows(|r| r.running as f32)),
    own("free_slots", "free slots; infinite if no limit is known", |b| {
        b.rows(|r| if r.free_slots == u32::MAX { f32::INFINITY } else { r.free_slots as f32 })
    }),
    own("kv_used", "share of KV memory in use, as reported, 0 to 1", |b| b.rows(|r| r.kv_used)),
    own("kv_free", "KV tokens free for new work; infinite if unknown", |b| b.rows(|r| r.kv_free)),
    own("utilisation", "the larger of KV use and the share of time in prefill, 0 to 1", |b| {
        b.rows(|r| r.utilisation)
    }),
    own("front_tokens", "prefill tokens ahead of the request", |b| b.rows(|r| r.front_tokens)),
    own("ms_per_token", "time of one prefill token there, ms", |b| b.rows(|r| r.ms_per_token)),
    own("step_slope_ms", "by how much one more running request lengthens a decode step, ms", |b| {
        b.rows(|r| r.step_slope_ms)
    }),
    own("next_end_ms", "mean time until the next request ends, ms; infinite before any has", |b| {
        b.rows(|r| r.next_end_ms)
    }),
    own("rtt_ms", "round trip, ms; 0 within the region", |b| b.rows(|r| r.rtt_ms)),
    own("loading_ms", "time until the request's LoRA adapter is loaded, ms", |b| b.loading),
    own("moving_tokens", "tokens of KV under way to or from there", |b| {
        b.rows(|r| r.moving_tokens)
    }),
    own("held_tokens", "tokens of KV prefilled there and not fetched yet", |b| {
        b.rows(|r| r.held_tokens)
    }),
    own("weight", "the replica's configured weight", |b| b.rows(|r| r.weight as f32)),
];
