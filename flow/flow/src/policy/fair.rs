//! Fair sharing: all flows are equal, max-min fair at every port.

use alloc::boxed::Box;
use meridian_base::Time;

use super::{Needs, Policy, Spec};
use crate::place::Place;
use crate::tables::World;
use crate::why::Why;

pub(super) static SPEC: Spec = Spec {
    name: "fair",
    summary: "All flows share equally.",
    source: "baseline of MFS section 6",
    needs: Needs::NONE,
    build: |_| Box::new(Fair),
};

struct Fair;

impl Policy for Fair {
    fn place(&self, _world: &World, _now: Time, _flow: u32) -> (Place, Why) {
        (Place::new(0, 0, 0), Why::Equal)
    }
}
