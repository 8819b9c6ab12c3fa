//! How a request's handoffs rise, and when it is given up or comes back.
//!
//! Promotion is monotonic within a generation: a use of a port keeps the highest level that its need
//! ever called for. A request is given up after consecutive updates that say it cannot be in time
//! even with the whole port, and comes back after as many that say it can, with a margin between:
//! estimates move, and a request that changes sides at each update would gain nothing from either.

use meridian_base::{Duration, Time};

use crate::config::Config;
use crate::mlu::Need;
use crate::tables::{NONE, Standing, World};

/// Brings one use's level and needs up to date.
///
/// A handoff that was submitted is part of one suffix of layers, the one with all bytes, and rises by
/// that: what the last layers will need calls for nothing that it could do. Whether the request can be in
/// time at all is for every suffix to say.
pub(super) fn rise(config: &Config, world: &mut World, now: Time, at: u32) {
    let need = need(world, now, at);
    let one = &world.uses[at as usize];
    let rate = world.rates[one.port.index()];
    let class = world.ladder.class(false, one.level);
    // rho: what has a higher class, less what of it is this request's own.
    let ahead = world.port_load.above(one.port.index(), class, now)
        - world.own_load.above(at as usize, class, now);
    let rho = (ahead / rate).clamp(0.0, config.load_most);
    let mlu = need.of_all() / (rate * (1.0 - rho));
    let one = &mut world.uses[at as usize];
    (one.mlu, one.need) = (mlu, need.rate() / rate);
    if config.terms.mlu {
        one.level = one.level.min(world.edges.level(mlu));
    }
}

/// What the request still has to bring over the port, and until when.
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

/// Brings a request up to date; true where its handoffs may stand elsewhere.
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
    if any && config.terms.prune {
        stand(config, world, now, request, worst);
    }
    world.requests[request as usize].look_again = look_again(config, world, now, request);
    rose || world.request(request).standing != before
}

/// Before when nothing can change for a request that computes no more, however busy its ports become
/// and with nothing carried: looking at it each time until then would be most of the machine's work.
/// A new handoff sets it back.
fn look_again(config: &Config, world: &World, now: Time, request: u32) -> Time {
    let row = world.request(request);
    let Some(due) = row.due().filter(|_| row.standing == Standing::In && row.strikes == 0) else {
        return now;
    };
    let busiest = if config.load_window.is_zero() { 0.0 } else { config.load_most };
    let mut soonest = due;
    let mut at = row.uses;
    while at != NONE {
        let one = &world.uses[at as usize];
        at = one.next;
        if one.handoff() == 0 {
            continue;
        }
        // The need reaches a share s of the port when so many seconds are left.
        let alone = one.handoff() as f64 / world.rates[one.port.index()];
        let infeasible = alone / (1.0 + config.margin);
        let rises = alone / (world.edges.above(one.level) * (1.0 - busiest));
        let before = if config.terms.mlu { infeasible.max(rises) } else { infeasible };
        let before = Duration::try_from_secs_f64(before).unwrap_or(Duration::MAX);
        soonest = soonest.min(due - before);
    }
    soonest
}

/// Decides about the request's standing: `worst` is the largest share of a port that it needs.
fn stand(config: &Config, world: &mut World, now: Time, request: u32, worst: f64) {
    let (margin, strikes) = (config.margin, config.strikes);
    let row = &mut world.requests[request as usize];
    if row.due().is_some_and(|due| due <= now) {
        // Nothing that is done for it can help any more, so this is no drop.
        row.standing = Standing::Late;
        return;
    }
    let against = match row.standing {
        Standing::In => worst > 1.0 + margin,
        // While its batch computes, the pass that pruned it is the one that takes it back.
        Standing::Pruned if row.batch != NONE => return,
        Standing::Pruned | Standing::Infeasible | Standing::Spared => worst <= 1.0 - margin,
        Standing::Late => return,
    };
    row.strikes = if against { row.strikes.saturating_add(1) } else { 0 };
    let (standing, turns) = (row.standing, row.strikes >= strikes);
    let to = match standing {
        Standing::Spared if !against => beyond(world, now, request),
        _ if !turns => return,
        Standing::In => beyond(world, now, request),
        _ => Standing::In,
    };
    if to != standing {
        let row = &mut world.requests[request as usize];
        (row.standing, row.strikes) = (to, 0);
    }
}

/// Where a request that can't be in time goes: given up, if the drop budget has room for it.
fn beyond(world: &mut World, now: Time, request: u32) -> Standing {
    let counted = world.request(request).counted || world.budget.take(now);
    world.requests[request as usize].counted = counted;
    if counted { Standing::Infeasible } else { Standing::Spared }
}

/// A new generation: what rose begins anew.
pub(super) fn restart(world: &mut World, request: u32) {
    let mut at = world.request(request).uses;
    let lowest = world.ladder.levels - 1;
    while at != NONE {
        let one = &mut world.uses[at as usize];
        one.level = lowest;
        at = one.next;
    }
}
