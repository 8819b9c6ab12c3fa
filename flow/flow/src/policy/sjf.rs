//! Shortest job first: the smallest flow goes first, whatever its purpose.

use alloc::boxed::Box;
use meridian_base::Time;

use super::{Needs, Policy, Spec};
use crate::place::Place;
use crate::tables::World;
use crate::why::Why;

pub(super) static SPEC: Spec = Spec {
    name: "sjf",
    summary: "The smallest flow first.",
    source: "baseline of MFS section 6",
    needs: Needs::NONE,
    build: |_| Box::new(Sjf),
};

struct Sjf;

impl Policy for Sjf {
    fn place(&self, world: &World, _now: Time, flow: u32) -> (Place, Why) {
        let bytes = world.flow(flow).size;
        (Place::new(0, 0, bytes), Why::Size { bytes })
    }
}
