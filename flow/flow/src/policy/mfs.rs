//! MFS: it defers flows that can wait and promotes those that can't (MFS, section 4).
//!
//! A handoff starts low and rises as the share of a port that its request needs grows
//! (`update.rs`). An early flow is placed by its distance from the computation, and among batches
//! by their robust effective deadline (`crate::pass`). A flow that cannot be in time goes behind all
//! others and uses the capacity they leave.

mod update;

use alloc::boxed::Box;
use alloc::vec::Vec;
use meridian_base::Time;

use super::{Needs, Others, Policy, Spec};
use crate::config::Config;
use crate::pass::Scratch;
use crate::place::Place;
use crate::place::{BEHIND, LAST, order};
use crate::stage::Stage;
use crate::tables::{FlowRow, NONE, Standing, World};
use crate::why::{Passed, Why};

pub(super) static SPEC: Spec = Spec {
    name: "mfs",
    summary: "Early stages by distance and robust deadline, handoffs as late as is safe.",
    source: "MFS, sections 4.3 to 4.5 and appendix B, corrected",
    needs: Needs {
        updates: true,
        layers: true,
        passes: true,
        loads: true,
        aging: true,
        ..Needs::NONE
    },
    build: |config| Box::new(Mfs { config: *config, scratch: Scratch::new(config) }),
};

struct Mfs {
    config: Config,
    scratch: Scratch,
}

impl Policy for Mfs {
    fn place(&self, world: &World, _now: Time, flow: u32) -> (Place, Why) {
        let row = world.flow(flow);
        let rule = if row.stage.is_early() {
            early(&self.config, world, row)
        } else {
            handoff(world, row)
        };
        lifted(world, row, rule)
    }

    fn submitted(&mut self, world: &mut World, now: Time, flow: u32) -> Others {
        let FlowRow { stage, uses, request, .. } = *world.flow(flow);
        if stage.is_early() {
            return Others::None;
        }
        let passed = world.request(request).passes;
        let (mut rose, mut critical) = (false, false);
        for at in uses.into_iter().filter(|at| *at != NONE) {
            let level = world.uses[at as usize].level;
            update::rise(&self.config, world, now, at);
            let to = world.uses[at as usize].level;
            (rose, critical) = (rose || to < level, critical || to == 0);
        }
        if critical && self.config.terms.mlu {
            update::let_pass(world, now, request);
        }
        rose |= world.request(request).passes != passed;
        if rose { Others::Handoffs } else { Others::None }
    }

    fn update(&mut self, world: &mut World, now: Time, request: u32) -> bool {
        update::request(&self.config, world, now, request)
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
        if self.config.terms.prune {
            self.scratch.prune(world, now, passed);
        }
    }
}

/// A flow's place by its rule, before its age counts.
struct Rule {
    level: u8,
    /// Whether it goes with the early flows of its level, or with the handoffs.
    with_early: bool,
    order: u64,
    why: Why,
}

/// Stages 1 and 2: by distance (section 4.4.1), then by the batch's rank (4.4.2), then by layer.
fn early(config: &Config, world: &World, row: &FlowRow) -> Rule {
    let batch = world.batch(row.batch);
    let rli = match row.stage {
        Stage::Collective => 0,
        _ => row.layer.saturating_sub(batch.layer),
    };
    let level = if config.terms.rli { world.ladder.early(rli) } else { 1 };
    let order = batch.rank | u64::from(row.layer);
    // A fetch takes longer than a collective and stops one batch, as that does: shortest first, until
    // the fetch is urgent.
    let waits = level == 1 && row.stage == Stage::Reuse && !batch.urgent;
    if waits {
        return Rule { level, with_early: true, order: order | BEHIND, why: Why::Waits { rli } };
    }
    Rule { level, with_early: true, order, why: Why::Rli { rli } }
}

/// Stage 3: by the largest need over the ports crossed (section 4.3), then by deadline.
fn handoff(world: &World, row: &FlowRow) -> Rule {
    let request = world.request(row.request);
    let order = order(request.deadline.unwrap_or(Time::MAX), row.layer);
    let uses = row.uses.iter().filter(|at| **at != NONE).map(|at| &world.uses[*at as usize]);
    let lowest = world.ladder.levels - 1;
    let rule = |level, why| Rule { level, with_early: false, order, why };
    let Some(busiest) = uses.clone().reduce(|a, b| if b.mlu > a.mlu { b } else { a }) else {
        return rule(lowest, Why::Deadline);
    };
    let worst = world.worst_use(row.request).unwrap_or(busiest);
    let infeasible = Why::Infeasible { mlu: worst.need, port: worst.port };
    match request.standing {
        Standing::In => {
            let level = uses.map(|one| one.level).min().unwrap_or(lowest);
            let (mlu, port) = (busiest.mlu, busiest.port);
            if level == 0 && !request.passes {
                // It leads the handoffs.
                rule(1, Why::HeldBack { mlu, port })
            } else {
                rule(level, Why::Mlu { mlu, port })
            }
        }
        // It will be late and must not delay flows that computation waits for: it goes right behind
        // them, and before all flows that can wait.
        Standing::Spared => {
            Rule { level: 1, with_early: true, order: order | LAST, why: infeasible }
        }
        Standing::Infeasible => rule(world.ladder.scavenger(), infeasible),
        Standing::Pruned => rule(world.ladder.scavenger(), Why::Pruned),
        Standing::Late => rule(world.ladder.scavenger(), Why::Late),
    }
}

/// Applies the levels that a flow rose by age. One that reached the top this way is ordered by when
/// it was submitted, before all critical flows, whose deadlines are later.
fn lifted(world: &World, row: &FlowRow, rule: Rule) -> (Place, Why) {
    let to = rule.level.saturating_sub(row.lift);
    let rose = to < rule.level;
    let order = if to == 0 && rose { order(row.submitted, 0) } else { rule.order };
    let why = if rose { Why::Aged { lift: row.lift } } else { rule.why };
    let (class, traffic) =
        (world.ladder.class(rule.with_early, to), world.ladder.traffic(rule.with_early, to));
    // Flows that wait behind the collectives of level 1 share the next class of switches.
    let traffic = if to == 1 && order >= BEHIND { traffic.max(2) } else { traffic };
    (Place { traffic, ..Place::new(to, class, order) }, why)
}
