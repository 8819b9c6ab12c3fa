//! MFS: defer what can wait, promote what can't (MFS, section 4).
//!
//! A handoff begins low and rises as the share of a port that its request needs grows
//! (`update.rs`). An early flow stands by its distance from the computation, and among batches by
//! their robust effective deadline (`pass.rs`). What cannot be in time goes behind all others and
//! takes what they leave.

mod pass;
mod update;

use alloc::boxed::Box;
use alloc::vec::Vec;
use meridian_base::Time;

use self::pass::Scratch;
use super::{Needs, Passed, Policy, Spec, order};
use crate::place::Place;
use crate::stage::Stage;
use crate::tables::{FlowRow, NONE, Standing, World};
use crate::why::Why;

pub(super) static SPEC: Spec = Spec {
    name: "mfs",
    summary: "Early stages by distance and robust deadline, handoffs as late as is safe.",
    source: "MFS, sections 4.3 to 4.5 and appendix B, corrected",
    needs: Needs { updates: true, layers: true, passes: true, loads: true, aging: true },
    build: |config| Box::new(Mfs { scratch: Scratch::new(config) }),
};

struct Mfs {
    scratch: Scratch,
}

impl Policy for Mfs {
    fn place(&self, world: &World, _now: Time, flow: u32) -> (Place, Why) {
        let row = world.flow(flow);
        let (level, order, why) =
            if row.stage.is_early() { early(world, row) } else { handoff(world, row) };
        lifted(world, row, level, order, why)
    }

    fn submitted(&mut self, world: &mut World, now: Time, flow: u32) {
        if !world.flow(flow).stage.is_early() {
            for at in world.flow(flow).uses {
                if at != NONE {
                    update::rise(world, now, at);
                }
            }
        }
    }

    fn update(&mut self, world: &mut World, now: Time, request: u32) -> bool {
        update::request(world, now, request)
    }

    fn restarted(&mut self, world: &mut World, request: u32) {
        update::restart(world, request);
    }

    fn pass(
        &mut self,
        world: &mut World,
        now: Time,
        moved: &mut Vec<u32>,
        passed: &mut Vec<Passed>,
    ) {
        self.scratch.rank(world, now, moved);
        if world.config.terms.prune {
            self.scratch.prune(world, now, passed);
        }
    }
}

/// Stages 1 and 2: by distance (section 4.4.1), then by the batch's rank (4.4.2), then by layer.
fn early(world: &World, row: &FlowRow) -> (u8, u64, Why) {
    let batch = world.batch(row.batch);
    let rli = match row.stage {
        Stage::Collective => 0,
        _ => row.layer.saturating_sub(batch.layer),
    };
    let level = if world.config.terms.rli { world.ladder.early(rli) } else { 1 };
    (level, batch.rank | u64::from(row.layer), Why::Rli { rli })
}

/// Stage 3: by the largest need over the ports crossed (section 4.3), then by deadline.
fn handoff(world: &World, row: &FlowRow) -> (u8, u64, Why) {
    let request = world.request(row.request);
    let order = order(request.deadline.unwrap_or(Time::MAX), row.layer);
    let uses = row.uses.iter().filter(|at| **at != NONE).map(|at| &world.uses[*at as usize]);
    let Some(worst) = uses.clone().reduce(|a, b| if b.mlu > a.mlu { b } else { a }) else {
        return (world.ladder.levels - 1, order, Why::Deadline);
    };
    let (mlu, port) = (worst.mlu, worst.port);
    let why = match request.standing {
        Standing::In => Why::Mlu { mlu, port },
        Standing::Infeasible => Why::Infeasible { mlu, port },
        Standing::Pruned => Why::Pruned,
        Standing::Late => Why::Late,
    };
    if request.standing == Standing::In {
        let level = uses.map(|one| one.level).min().unwrap_or(world.ladder.levels - 1);
        (level, order, why)
    } else {
        (world.ladder.scavenger(), order, why)
    }
}

/// Applies the levels that a flow rose by age. One that came to the top so stands by when it was
/// submitted, before all critical flows: their deadlines lie later.
fn lifted(world: &World, row: &FlowRow, level: u8, order: u64, why: Why) -> (Place, Why) {
    let to = level.saturating_sub(row.lift);
    let order = if to == 0 && level > 0 { super::order(row.submitted, 0) } else { order };
    let why = if to < level { Why::Aged { lift: row.lift } } else { why };
    (Place::new(to, world.ladder.class(row.stage.is_early(), to), order), why)
}
