//! Promotion of a request's handoffs, and its demotion and reinstatement.
//!
//! Promotion is monotonic within a generation: a use of a port keeps the highest level that its
//! need ever reached. A request is given up after consecutive updates in which it cannot be in time
//! even with the whole port, and reinstated after as many in which it can, with a margin in
//! between: estimates fluctuate, and a request that flips at each update would gain nothing.

use meridian_base::{Duration, PortId, Time};

use crate::config::Config;
use crate::mlu::Need;
use crate::tables::{NONE, Standing, Use, World};

/// Updates the level and needs of one use.
///
/// A submitted handoff is part of one suffix of layers, the one with all bytes, and rises by that:
/// it cannot help with the needs of the last layers. The request's feasibility depends on every
/// suffix.
pub(super) fn rise(config: &Config, world: &mut World, now: Time, at: u32) {
    let need = need(world, now, at);
    let one = &world.uses[at as usize];
    let rate = world.rates[one.port.index()];
    let class = world.ladder.class(false, one.level);
    // rho: the load of higher classes, less the request's own part.
    let ahead = world.port_load.above(one.port.index(), class, now)
        - world.own_load.above(at as usize, class, now);
    let rho = (ahead / rate).clamp(0.0, config.load_most);
    assert!(rho < 1.0, "the load ahead leaves a part of the port");
    let mlu = need.of_all() / (rate * (1.0 - rho));
    let one = &mut world.uses[at as usize];
    (one.mlu, one.need) = (mlu, need.rate() / rate);
    if config.terms.mlu {
        one.level = one.level.min(world.edges.level(mlu));
    }
}

/// Lets the handoffs of a critical request pass early flows if every port that they cross has the
/// slack for all bytes that pass there.
///
/// Without this bound a critical handoff goes before all collectives. For a whole prompt's KV in one
/// flow that stalls batches for longer than the promotion saves.
pub(super) fn let_pass(world: &mut World, now: Time, request: u32) {
    let fits = |one: &Use| {
        let slack = world.slack(now, one.port).as_secs_f64();
        slack > 0.0 && {
            let bytes = passing(world, one.port) + one.handoff() as f64;
            bytes / world.rates[one.port.index()] <= slack
        }
    };
    let pass = !world.request(request).passes
        && world.is_critical(request)
        && world.uses_of(request).filter(|one| one.handoff() > 0).all(fits);
    world.requests[request as usize].passes |= pass;
}

/// Bytes of handoffs at a port that may already pass.
fn passing(world: &World, port: PortId) -> f64 {
    let uses = world.uses_at(port).filter(|one| world.request(one.request).passes);
    uses.map(|one| one.handoff() as f64).sum()
}

/// The bytes that the request still has to send over the port, and the time left.
fn need(world: &World, now: Time, at: u32) -> Need {
    let one = &world.uses[at as usize];
    let request = world.request(one.request);
    let seconds_to = |then: Time| then.since(now).as_secs_f64();
    let (mut next, mut pace) = (0.0, 0.0);
    if one.coming > 0 && request.batch != NONE {
        let batch = world.batch(request.batch);
        pace = batch.pace.as_secs_f64();
        next = if batch.computes { seconds_to(batch.layer_began + batch.pace) } else { pace };
    }
    let left = request.due().map_or(f64::INFINITY, seconds_to);
    Need {
        released: one.released as f64,
        coming: one.coming as f64,
        per_layer: one.per_layer as f64,
        next,
        pace,
        left,
    }
}

/// Updates a request; true if the places of its handoffs may have changed.
pub(super) fn request(config: &Config, world: &mut World, now: Time, request: u32) -> bool {
    let before = world.request(request).standing;
    let (mut worst, mut rose, mut any) = (0.0_f64, false, false);
    let mut at = world.request(request).uses;
    while at != NONE {
        let (level, next) = (world.uses[at as usize].level, world.uses[at as usize].next);
        if world.uses[at as usize].handoff() > 0 {
            rise(config, world, now, at);
            let one = &world.uses[at as usize];
            (worst, rose) = (worst.max(one.need), rose || one.level < level);
            any = true;
        }
        at = next;
    }
    let passed = world.request(request).passes;
    if any && config.terms.mlu {
        let_pass(world, now, request);
    }
    rose |= world.request(request).passes != passed;
    if any && config.terms.prune {
        stand(config, world, now, request, worst);
    }
    world.requests[request as usize].look_again = look_again(config, world, now, request);
    rose || world.request(request).standing != before
}

/// The time before which nothing can change for a request that no longer computes, however busy its
/// ports become and even without progress. Updating it each time until then would be most of the
/// machine's work. A new handoff resets it.
fn look_again(config: &Config, world: &World, now: Time, request: u32) -> Time {
    let row = world.request(request);
    let Some(due) = row.due().filter(|_| row.standing == Standing::In && row.strikes == 0) else {
        return now;
    };
    if config.terms.mlu && !row.passes && world.is_critical(request) {
        return now;
    }
    let busiest = if config.load_window.is_zero() { 0.0 } else { config.load_most };
    let mut soonest = due;
    let mut at = row.uses;
    while at != NONE {
        let one = &world.uses[at as usize];
        at = one.next;
        if one.handoff() == 0 {
            continue;
        }
        // The need reaches a share s of the port when this many seconds are left.
        let alone = one.handoff() as f64 / world.rates[one.port.index()];
        let infeasible = alone / (1.0 + config.margin);
        let rises = alone / (world.edges.above(one.level) * (1.0 - busiest));
        let before = if config.terms.mlu { infeasible.max(rises) } else { infeasible };
        let before = Duration::try_from_secs_f64(before).unwrap_or(Duration::MAX);
        soonest = soonest.min(due - before);
    }
    soonest
}

/// Sets the request's standing: `worst` is the largest share of a port that it needs.
fn stand(config: &Config, world: &mut World, now: Time, request: u32, worst: f64) {
    let (margin, strikes) = (config.margin, config.strikes);
    let row = &mut world.requests[request as usize];
    if row.due().is_some_and(|due| due <= now) {
        // Nothing can help it any more, so this does not count as a drop.
        row.standing = Standing::Late;
        return;
    }
    let against = match row.standing {
        Standing::In => worst > 1.0 + margin,
        // While its batch computes, the pass that pruned it also reinstates it.
        Standing::Pruned if row.batch != NONE => return,
        Standing::Pruned | Standing::Infeasible | Standing::Spared => worst <= 1.0 - margin,
        Standing::Late => return,
    };
    row.strikes = if against { row.strikes.saturating_add(1) } else { 0 };
    let (standing, turns) = (row.standing, row.strikes >= strikes);
    let to = match standing {
        Standing::Spared if !against => out_of_time(world, now, request),
        _ if !turns => return,
        Standing::In => out_of_time(world, now, request),
        _ => Standing::In,
    };
    if to != standing {
        let row = &mut world.requests[request as usize];
        (row.standing, row.strikes) = (to, 0);
    }
}

/// The standing of a request that can't be in time: given up, if the drop budget allows it.
fn out_of_time(world: &mut World, now: Time, request: u32) -> Standing {
    let counted = world.request(request).counted || world.budget.take(now);
    world.requests[request as usize].counted = counted;
    if counted { Standing::Infeasible } else { Standing::Spared }
}

/// Starts a new generation: promotions are reset.
pub(super) fn restart(world: &mut World, request: u32) {
    world.requests[request as usize].passes = false;
    let mut at = world.request(request).uses;
    let lowest = world.ladder.levels - 1;
    while at != NONE {
        let one = &mut world.uses[at as usize];
        one.level = lowest;
        at = one.next;
    }
}
