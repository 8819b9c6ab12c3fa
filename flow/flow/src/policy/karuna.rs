//! Karuna: flows with a deadline go first, limited to the minimum rate that meets it; the rest go
//! shortest first (Chen et al., "Scheduling mix-flows in commodity datacenters with Karuna", 2016).
//!
//! The minimum rate is a flow's remaining bytes over its time left, recomputed at each update. A
//! late flow has no such rate and joins the rest.

use alloc::boxed::Box;
use meridian_base::Time;

use super::edf::deadline_of;
use super::{Needs, Policy, Spec};
use crate::place::Place;
use crate::tables::World;
use crate::why::Why;

pub(super) static SPEC: Spec = Spec {
    name: "karuna",
    summary: "Handoffs at the least rate that meets their deadline, the rest smallest first.",
    source: "Karuna, SIGCOMM 2016; baseline of MFS section 6",
    needs: Needs { updates: true, ..Needs::NONE },
    build: |_| Box::new(Karuna),
};

struct Karuna;

impl Policy for Karuna {
    fn place(&self, world: &World, now: Time, flow: u32) -> (Place, Why) {
        let row = world.flow(flow);
        match deadline_of(world, flow).filter(|deadline| *deadline > now) {
            Some(deadline) => {
                let rate = row.left as f64 / deadline.since(now).as_secs_f64();
                let place = Place { rate: Some(rate), ..Place::new(0, 0, 0) };
                (place, Why::LeastRate { rate })
            }
            None => (Place::new(1, 1, row.size), Why::Size { bytes: row.size }),
        }
    }

    fn update(&mut self, _world: &mut World, _now: Time, _request: u32) -> bool {
        true
    }
}
