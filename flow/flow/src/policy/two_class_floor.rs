//! Two static classes with a floor for fetches.
//!
//! Strict priority for collectives starves fetches once collectives keep a port busy, and then the
//! batches that wait for them send no collectives either. Operators give the lower class a share: the
//! first fetch of each port's queue shares with the collectives, at a small weight.

use alloc::boxed::Box;
use meridian_base::Time;

use super::heads::Heads;
use super::{Needs, Others, Policy, Spec};
use crate::place::Place;
use crate::stage::Stage;
use crate::tables::World;
use crate::why::Why;

pub(super) static SPEC: Spec = Spec {
    name: "two_class_floor",
    summary: "Collectives above KV, but a tenth of a port for fetches.",
    source: "static traffic classes with a guaranteed rate, as HTB and ETS have",
    needs: Needs { heads: true, ..Needs::NONE },
    build: |config| {
        Box::new(TwoClassFloor { heads: Heads::new(config.limits.ports, config.limits.flows) })
    },
};

/// The first fetch's weight: a tenth of a port beside two collectives of weight 1, the usual number
/// on a card.
const WEIGHT: f32 = 0.2;

struct TwoClassFloor {
    heads: Heads,
}

impl Policy for TwoClassFloor {
    fn place(&self, world: &World, _now: Time, flow: u32) -> (Place, Why) {
        let place = match world.flow(flow).stage {
            Stage::Collective => Place::new(0, 0, 0),
            Stage::Reuse if self.heads.is_head(world, flow) => {
                Place { weight: WEIGHT, ..Place::new(0, 0, 0) }
            }
            Stage::Reuse | Stage::Handoff => Place::new(1, 1, 0),
        };
        (place, Why::Stage)
    }

    fn submitted(&mut self, world: &mut World, _now: Time, flow: u32) -> Others {
        let queued = world.flow(flow).stage == Stage::Reuse;
        queued.then(|| self.heads.enter(world, flow, 0)).flatten().into()
    }

    fn ended(&mut self, world: &World, _now: Time, flow: u32) -> Option<u32> {
        let queued = world.flow(flow).stage == Stage::Reuse;
        queued.then(|| self.heads.leave(world, flow)).flatten()
    }
}
