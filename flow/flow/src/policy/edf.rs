//! Earliest deadline first: flows with a deadline go in its order, the rest share the remaining
//! rate.
//!
//! Only a handoff has one. A collective or a fetch ends some unknown time before the first token is
//! due (MFS, section 6.3).

use alloc::boxed::Box;
use meridian_base::Time;

use super::{Needs, Policy, Spec};
use crate::place::Place;
use crate::place::order;
use crate::tables::World;
use crate::why::Why;

pub(super) static SPEC: Spec = Spec {
    name: "edf",
    summary: "Handoffs by their deadline, the rest share equally below them.",
    source: "baseline of MFS section 6",
    needs: Needs::NONE,
    build: |_| Box::new(Edf),
};

struct Edf;

impl Policy for Edf {
    fn place(&self, world: &World, _now: Time, flow: u32) -> (Place, Why) {
        match deadline_of(world, flow) {
            Some(deadline) => (Place::new(0, 0, order(deadline, 0)), Why::Deadline),
            None => (Place::new(1, 1, 0), Why::Stage),
        }
    }
}

/// The flow's own deadline, if it has one.
pub(super) fn deadline_of(world: &World, flow: u32) -> Option<Time> {
    let row = world.flow(flow);
    if row.stage.is_early() { None } else { world.request(row.request).due() }
}
