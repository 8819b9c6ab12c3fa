//! A uniform random choice: the baseline for every other policy.

use alloc::boxed::Box;
use meridian_base::Rng;

use super::{Pick, Policy, Spec, View};
use crate::admission::Admission;
use crate::why::Why;

pub(super) static SPEC: Spec = Spec {
    name: "random",
    summary: "uniformly random",
    source: "baseline",
    params: &[],
    admission: Admission::Blind,
    index: |_| None,
    head_bytes: |_| 0,
    build: |_| Box::new(Random),
};

struct Random;

impl Policy for Random {
    fn pick(&self, view: &View<'_>, draw: &mut Rng) -> Pick {
        Pick::unscored(view.eligible[draw.below(view.eligible.len())], Why::Turn)
    }
}
