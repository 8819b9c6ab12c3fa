//! Power of two choices: the less loaded of two replicas drawn at random.
//!
//! Mitzenmacher's power of two choices, with the load figure of sglang-router 0.3.2
//! (`policies/power_of_two.rs`): KV use if both engines report it, otherwise outstanding requests.
//! Two draws, so the cost does not grow with the fleet, and gateways that share a stale picture do
//! not herd onto one replica.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use meridian_base::Rng;

use super::{Param, Pick, Policy, Spec, View};
use crate::admission::Admission;
use crate::explain::{CandidateRow, Decision};
use crate::why::Why;

pub(super) static SPEC: Spec = Spec {
    name: "p2c",
    summary: "the less loaded of two drawn at random",
    source: "sglang-router 0.3.2, policies/power_of_two.rs",
    params: &[Param::word(
        "load",
        &["kv", "outstanding"],
        "load figure: kv (KV use where both report it, else outstanding) or outstanding",
    )],
    admission: Admission::Blind,
    index: |_| None,
    head_bytes: |_| 0,
    build: |p| Box::new(P2c { kv: p.is("load", "kv") }),
};

struct P2c {
    kv: bool,
}

impl Policy for P2c {
    fn pick(&self, view: &View<'_>, draw: &mut Rng) -> Pick {
        let n = view.eligible.len();
        let i = draw.below(n);
        // The second draw is among the others; with one candidate it is the same.
        let j = if n == 1 { i } else { (i + 1 + draw.below(n - 1)) % n };
        let (a, b) = (view.eligible[i], view.eligible[j]);
        let kv = self.kv && view.replicas.reports(a) && view.replicas.reports(b);
        let load = |r| {
            let row = view.replicas.row(r);
            if kv { f64::from(row.kv_used) } else { f64::from(row.outstanding) }
        };
        let (pick, least) = if load(b) < load(a) { (b, load(b)) } else { (a, load(a)) };
        Pick::unscored(pick, Why::LeastLoaded(least))
    }

    fn terms(&self, c: &CandidateRow, _: &Decision) -> Vec<(&'static str, f64)> {
        vec![("outstanding", f64::from(c.row.outstanding)), ("kv_used", f64::from(c.row.kv_used))]
    }
}
