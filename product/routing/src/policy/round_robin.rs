//! Round robin: of the eligible replicas, the one whose last request is the longest ago.
//!
//! With one list of candidates this is the next one after the last. Several lists take turns at one
//! policy: those of two models, and those of decode and prefill replicas, where the same policy picks
//! both legs of a request. A single cursor would jump from one list to the other, and start each
//! from its beginning every time.

use alloc::boxed::Box;
use alloc::vec::Vec;
use meridian_base::Rng;

use super::{Pick, Policy, PolicyEvent, Spec, View};
use crate::admission::Admission;
use crate::why::Why;

pub(super) static SPEC: Spec = Spec {
    name: "round_robin",
    summary: "each eligible replica in turn",
    source: "baseline",
    params: &[],
    admission: Admission::Blind,
    index: |_| None,
    head_bytes: |_| 0,
    build: |_| Box::new(RoundRobin { sent: 0, last: Vec::new() }),
};

struct RoundRobin {
    /// Requests sent so far.
    sent: u64,
    /// The number of the last request of each replica, by id; 0 for none.
    last: Vec<u64>,
}

impl Policy for RoundRobin {
    fn pick(&self, view: &View<'_>, _draw: &mut Rng) -> Pick {
        let mut pick = view.eligible[0];
        let last = |at: usize| self.last.get(at).copied().unwrap_or(0);
        for id in &view.eligible[1..] {
            if last(id.index()) < last(pick.index()) {
                pick = *id;
            }
        }
        Pick::unscored(pick, Why::Turn)
    }

    fn update(&mut self, event: PolicyEvent<'_>) {
        match event {
            PolicyEvent::Dispatched(sent) => {
                let at = sent.replica.index();
                if at >= self.last.len() {
                    self.last.resize(at + 1, 0);
                }
                self.sent += 1;
                self.last[at] = self.sent;
            }
            // An id may be given to another replica.
            PolicyEvent::Replicas(replicas) => {
                let ids = replicas.ids();
                for (at, last) in self.last.iter_mut().enumerate() {
                    if ids.binary_search_by_key(&at, |id| id.index()).is_err() {
                        *last = 0;
                    }
                }
            }
            _ => {}
        }
    }
}
