//! Two static classes: collectives above all KV transfers.
//!
//! A cluster gets this without a scheduler, from one traffic class. A policy that does not beat it
//! is not worth a daemon.

use alloc::boxed::Box;
use meridian_base::Time;

use super::{Needs, Policy, Spec};
use crate::place::Place;
use crate::stage::Stage;
use crate::tables::World;
use crate::why::Why;

pub(super) static SPEC: Spec = Spec {
    name: "two_class",
    summary: "Collectives above KV, each class shared equally.",
    source: "static traffic classes",
    needs: Needs::NONE,
    build: |_| Box::new(TwoClass),
};

struct TwoClass;

impl Policy for TwoClass {
    fn place(&self, world: &World, _now: Time, flow: u32) -> (Place, Why) {
        let class = u8::from(world.flow(flow).stage != Stage::Collective);
        (Place::new(class, class, 0), Why::Stage)
    }
}
