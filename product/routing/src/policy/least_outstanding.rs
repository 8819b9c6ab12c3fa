//! The replica with the fewest of this gateway's outstanding requests.
//!
//! SkyServe's `least_load` and the least-load baseline of every paper here. It ignores prompt
//! lengths and prefixes: two long prompts weigh as much as two short ones.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use meridian_base::Rng;

use super::{Pick, Policy, Spec, View, choose};
use crate::admission::Admission;
use crate::explain::{CandidateRow, Decision};
use crate::why::Why;

pub(super) static SPEC: Spec = Spec {
    name: "least_outstanding",
    summary: "fewest outstanding requests, ties at random",
    source: "baseline; SkyServe least_load",
    params: &[],
    admission: Admission::Blind,
    index: |_| None,
    head_bytes: |_| 0,
    build: |_| Box::new(LeastOutstanding),
};

struct LeastOutstanding;

impl Policy for LeastOutstanding {
    fn pick(&self, view: &View<'_>, draw: &mut Rng) -> Pick {
        let (load, replica) = choose::least_outstanding(view, draw);
        Pick::unscored(replica, Why::LeastLoaded(f64::from(load)))
    }

    fn terms(&self, c: &CandidateRow, _: &Decision) -> Vec<(&'static str, f64)> {
        vec![("outstanding", f64::from(c.row.outstanding))]
    }
}
