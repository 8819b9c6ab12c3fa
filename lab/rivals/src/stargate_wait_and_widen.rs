//! NVIDIA Stargate's wait-and-widen: the fastest replicas first, slower ones only after a wait.
//!
//! `load_balancer/wait_and_widen.rs` in NVIDIA/nvcf (2026). The TTFT of a candidate is estimated:
//!
//! ```text
//! ttft  = rtt + queue + prompt tokens * ms per token           (rtt: 0 within a region)
//! queue = 0 with a free slot, else tokens in front * ms per token
//! ```
//!
//! Sorted by it, candidates fall into buckets of 20 ms: a bucket starts at the first TTFT more than
//! 20 ms above the last bucket's start, and opens once the request has waited a quarter of that
//! gap, in addition to the waits of earlier buckets. Of the open candidates with a free slot two
//! are drawn, and the one with the shorter queue, then the smaller share of slots in use, wins. If
//! none is free the request waits here, and the machine retries on every change and by its timer.
//! Affinity rings, queue objectives and priorities are left out: all are off by default there.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use meridian_base::{ReplicaId, Rng};
use meridian_routing::policy::{Param, Pick, Policy, PolicyEvent, Spec, View};
use meridian_routing::{Admission, CandidateRow, Decision, Row};

pub(crate) static SPEC: Spec = Spec {
    name: "stargate_wait_and_widen",
    summary: "lowest estimated TTFT with a free slot; slower ones open by waiting",
    source: "NVIDIA/nvcf, stargate, load_balancer/wait_and_widen.rs, 2026",
    params: &[
        Param::number("bucket_ms", 20.0, (0.1, 10000.0), "width of a TTFT bucket in ms"),
        Param::number(
            "unlock_factor",
            0.25,
            (0.0, 100.0),
            "wait that opens the next bucket, as a share of the gap to it",
        ),
        Param::number("samples", 2.0, (1.0, 64.0), "open candidates drawn"),
        Param::number(
            "max_queued",
            0.0,
            (0.0, 1e6),
            "requests a replica may have beyond its slots",
        ),
        Param::number(
            "slots",
            256.0,
            (1.0, 1e6),
            "slots of a replica that is not configured with a number (vLLM's max-num-seqs)",
        ),
    ],
    admission: Admission::Blind,
    index: |_| None,
    head_bytes: |_| 0,
    build: |p| {
        Box::new(WaitAndWiden {
            bucket_ms: p.f32("bucket_ms"),
            unlock: p.f32("unlock_factor"),
            samples: p.count("samples") as usize,
            max_queued: p.count("max_queued"),
            default_slots: p.count("slots"),
            slots: Vec::new(),
        })
    },
};

struct WaitAndWiden {
    bucket_ms: f32,
    unlock: f32,
    samples: usize,
    max_queued: u32,
    default_slots: u32,
    /// Slots by replica id.
    slots: Vec<u32>,
}

#[derive(Clone, Copy)]
struct Candidate {
    replica: ReplicaId,
    ttft_ms: f32,
    queue_ms: f32,
    /// Share of slots in use; `max_queued` beyond 1 is full.
    used: f32,
    free: bool,
}

impl Policy for WaitAndWiden {
    fn pick(&self, view: &View<'_>, draw: &mut Rng) -> Pick {
        let prompt = view.request.prompt_tokens as f32;
        let each = view.eligible.iter();
        let mut candidates: Vec<Candidate> =
            each.map(|&r| self.candidate(r, view.replicas.row(r), prompt)).collect();
        let open = self.open(&mut candidates, view.common.waited_ms);
        candidates.retain(|c| c.ttft_ms <= open && c.free);
        match self.sample(&mut candidates, draw) {
            Some(c) => Pick::scored(c.replica, f64::from(c.ttft_ms)),
            None => Pick::Wait,
        }
    }

    fn terms(&self, c: &CandidateRow, _: &Decision) -> Vec<(&'static str, f64)> {
        let it = self.candidate(c.replica, &c.row, c.prompt_tokens as f32);
        vec![
            ("queue_ms", f64::from(it.queue_ms)),
            ("prefill_ms", f64::from(it.ttft_ms - it.queue_ms)),
        ]
    }

    fn update(&mut self, event: PolicyEvent<'_>) {
        let PolicyEvent::Replicas(replicas) = event else { return };
        self.slots.clear();
        self.slots.resize(replicas.width(), self.default_slots);
        for &r in replicas.ids() {
            let slots = replicas.spec(r).and_then(|s| s.slots);
            self.slots[r.index()] = slots.unwrap_or(self.default_slots).max(1);
        }
    }
}

impl WaitAndWiden {
    fn candidate(&self, replica: ReplicaId, row: &Row, prompt: f32) -> Candidate {
        let slots = self.slots.get(replica.index()).copied().unwrap_or(self.default_slots);
        // Ours and the reported count overlap; neither may be exceeded.
        let active = row.outstanding.max(row.pending + row.running);
        let queue_ms = if active < slots { 0.0 } else { row.front_tokens * row.ms_per_token };
        Candidate {
            replica,
            ttft_ms: queue_ms + prompt * row.ms_per_token,
            queue_ms,
            used: active as f32 / slots as f32,
            free: active < slots + self.max_queued,
        }
    }

    /// The highest TTFT of a bucket that is open after `waited_ms`.
    fn open(&self, candidates: &mut [Candidate], mut waited_ms: f32) -> f32 {
        let mut begin = candidates.iter().map(|c| c.ttft_ms).fold(f32::INFINITY, f32::min);
        // No bucket opens before a quarter of its width has passed, so sorting is only needed for
        // requests that have waited.
        if waited_ms < self.bucket_ms * self.unlock {
            return begin + self.bucket_ms;
        }
        candidates.sort_unstable_by(|a, b| a.ttft_ms.total_cmp(&b.ttft_ms));
        for c in candidates {
            let gap = c.ttft_ms - begin;
            if gap > self.bucket_ms {
                if waited_ms < gap * self.unlock {
                    break;
                }
                waited_ms -= gap * self.unlock;
                begin = c.ttft_ms;
            }
        }
        begin + self.bucket_ms
    }

    /// The best of `samples` drawn without replacement.
    fn sample(&self, candidates: &mut [Candidate], draw: &mut Rng) -> Option<Candidate> {
        let n = candidates.len();
        let mut best: Option<Candidate> = None;
        for i in 0..self.samples.min(n) {
            candidates.swap(i, i + draw.below(n - i));
            let c = candidates[i];
            if best.is_none_or(|b| (c.queue_ms, c.used) < (b.queue_ms, b.used)) {
                best = Some(c);
            }
        }
        best
    }
}
