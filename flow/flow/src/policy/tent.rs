//! After the deadlines of Mooncake's TENT engine.
//!
//! The engine orders its own transfers, fetches as well as handoffs: the earliest deadline first, then
//! those that can't be in time (past, or with a need above [`DROP`] of a port), each in order of
//! arrival on a tie. Collectives belong to another library, and share the card with the transfer that
//! the engine sends. A fetch must arrive early enough to compute the prompt by its deadline.
//!
//! TENT drops a transfer that can't be in time and asks the engine to compute instead; here it goes
//! last, which keeps the comparison to the order of bytes. TENT's promotion of transfers with little
//! slack passes only transfers that can't be in time, which stand behind here anyway. Its deadlines
//! are off by default.

use alloc::boxed::Box;
use meridian_base::Time;

use super::heads::Heads;
use super::{Needs, Others, Policy, Spec};
use crate::place::Place;
use crate::place::{BEHIND, order};
use crate::stage::Stage;
use crate::tables::{NONE, World};
use crate::why::Why;

pub(super) static SPEC: Spec = Spec {
    name: "tent",
    summary: "KV by deadline, what can't be in time last; collectives share beside it.",
    source: "Mooncake TENT: RFC 2519 and pull requests 2618, 2763, 2764, 2814",
    needs: Needs { heads: true, ..Needs::NONE },
    build: |config| Box::new(Tent { heads: Heads::new(config.limits.ports, config.limits.flows) }),
};

/// Predicted utilisation from which a transfer can't be in time.
const DROP: f64 = 1.5;

struct Tent {
    heads: Heads,
}

impl Policy for Tent {
    fn place(&self, world: &World, _now: Time, flow: u32) -> (Place, Why) {
        if world.flow(flow).stage == Stage::Collective {
            return (Place::new(0, 0, 0), Why::Stage);
        }
        if self.heads.is_head(world, flow) {
            return (Place::new(0, 0, 0), Why::Deadline);
        }
        (Place::new(1, 1, self.heads.key(flow)), Why::Deadline)
    }

    fn submitted(&mut self, world: &mut World, now: Time, flow: u32) -> Others {
        if world.flow(flow).stage == Stage::Collective {
            return Others::None;
        }
        self.heads.enter(world, flow, key(world, now, flow)).into()
    }

    fn ended(&mut self, world: &World, now: Time, flow: u32) -> Option<u32> {
        if world.flow(flow).stage == Stage::Collective {
            return None;
        }
        let mut head = self.heads.leave(world, flow)?;
        // Whether the next can be in time is judged when it is sent.
        while self.heads.key(head) & BEHIND == 0 && key(world, now, head) & BEHIND != 0 {
            self.heads.leave(world, head);
            self.heads.enter(world, head, key(world, now, head));
            head = self.heads.head(world, head)?;
        }
        Some(head)
    }
}

/// By deadline, and behind all others if it can't be in time.
fn key(world: &World, now: Time, flow: u32) -> u64 {
    let row = world.flow(flow);
    let deadline = deadline(world, now, flow);
    let needs = row.left as f64 / deadline.since(now).as_secs_f64();
    let mut ports = row.ports.as_slice().iter();
    let late = ports.any(|port| needs > DROP * world.rates[port.index()]);
    order(deadline, row.layer) | if late { BEHIND } else { 0 }
}

/// When the last byte must have arrived: for a handoff when decode must start, for a fetch the time
/// earlier that its batch computes.
fn deadline(world: &World, now: Time, flow: u32) -> Time {
    let row = world.flow(flow);
    let due = world.request(row.request).due().unwrap_or(Time::MAX);
    match row.stage {
        Stage::Reuse if row.batch != NONE => due - world.batch(row.batch).compute_left(now),
        _ => due,
    }
}
