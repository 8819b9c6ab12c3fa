//! EDF with a drop by predicted utilisation.
//!
//! Handoffs go by deadline and above all collectives; one whose own need is above 1.5 of a port that
//! it crosses is given up and goes last. It considers single flows: it ignores the needs of a
//! request's other layers, and the computation that waits for a collective. It shows what deadlines
//! alone do on a whole network; no engine does this (see `tent.rs`).

use alloc::boxed::Box;
use meridian_base::Time;

use super::edf::deadline_of;
use super::{Needs, Policy, Spec};
use crate::place::Place;
use crate::place::order;
use crate::tables::World;
use crate::why::Why;

pub(super) static SPEC: Spec = Spec {
    name: "edf_drop",
    summary: "EDF over the whole network; handoffs that need more than 1.5 of a port go last.",
    source: "EDF with a predicted drop",
    needs: Needs { updates: true, ..Needs::NONE },
    build: |_| Box::new(EdfDrop),
};

/// Predicted utilisation above which a flow is given up.
const DROP: f64 = 1.5;

struct EdfDrop;

impl Policy for EdfDrop {
    fn place(&self, world: &World, now: Time, flow: u32) -> (Place, Why) {
        let Some(deadline) = deadline_of(world, flow) else {
            return (Place::new(1, 1, 0), Why::Stage);
        };
        let row = world.flow(flow);
        let need = row.left as f64 / deadline.since(now).as_secs_f64();
        for &port in row.ports.as_slice() {
            let mlu = need / world.rates[port.index()];
            if mlu > DROP {
                return (Place::new(2, 2, 0), Why::Infeasible { mlu, port });
            }
        }
        (Place::new(0, 0, order(deadline, 0)), Why::Deadline)
    }

    fn update(&mut self, _world: &mut World, _now: Time, _request: u32) -> bool {
        true
    }
}
