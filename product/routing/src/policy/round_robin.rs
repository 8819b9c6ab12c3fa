//! Round robin: the next eligible replica after the last one that received a request.

use alloc::boxed::Box;
use meridian_base::{ReplicaId, Rng};

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
    build: |_| Box::new(RoundRobin { last: None }),
};

struct RoundRobin {
    last: Option<ReplicaId>,
}

impl Policy for RoundRobin {
    fn pick(&self, view: &View<'_>, _draw: &mut Rng) -> Pick {
        let next = view.eligible.iter().find(|r| Some(**r) > self.last);
        let pick = *next.unwrap_or(&view.eligible[0]);
        Pick::unscored(pick, Why::Turn)
    }

    fn update(&mut self, event: PolicyEvent<'_>) {
        if let PolicyEvent::Dispatched(sent) = event {
            self.last = Some(sent.replica);
        }
    }
}
