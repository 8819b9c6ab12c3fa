//! The runner: a fleet starts, a schedule of faults is played against it under load, and when all of
//! them are repaired, the results are checked.

use std::time::{Duration, Instant};

use meridian_base::{Rng, mix};

use super::super::order::Order;
use super::super::world::World;
use super::super::{DRAIN, Options as Up, verdict};
use super::account;
use super::books::{self, Parties};
use super::checks::Checks;
use super::clients::{Crowd, Record};
use super::course::{Course, Pulse};
use super::done::Done;
use super::registry::Registry;
use super::scenario::Scenario;
use super::schedule::{Deed, FOUND, Schedule};
use super::{Options, kv, wait};
use crate::{Client, ClientCounts, EngineCounts, Result};

/// Load before the first fault and after the last repair.
pub(super) const CALM: Duration = Duration::from_secs(6);

/// The results of a run.
pub(super) struct Played {
    /// In the order of their starts.
    pub(super) done: Vec<Done>,
    /// What loads counted, if there were any.
    pub(super) loads: Option<ClientCounts>,
    /// The requests of clients that know the expected answers.
    pub(super) records: Vec<Record>,
    pub(super) course: Course,
    /// Further tables.
    pub(super) notes: Vec<String>,
}

/// Plays a scenario once, and checks the results.
pub(super) async fn play(
    scenario: &Scenario,
    options: &Options,
    resume: bool,
    checks: &mut Checks,
) -> Result<Played> {
    let up = scenario.up(options, resume)?;
    let runs = (scenario.resume)(options.seed).len() as u32;
    let seed = if runs > 1 { mix(options.seed, u64::from(resume)) } else { options.seed };
    let length = options.length / runs;
    let schedule = scenario.schedule(length, &mut Rng::new(seed));
    let mut world = World::start(&up).await?;
    let mut registry = if up.etcd { Some(Registry::start(&world, seed).await?) } else { None };
    let (crowd, pulse) =
        (Crowd::start(&world, &up, scenario.crowd, seed).await?, Pulse::of(&world.regions));
    tokio::time::sleep(CALM).await;
    let mut done = Vec::new();
    let mended = break_and_mend(&mut world, &up, &schedule, length, &mut done).await;
    done.sort_by_key(|fault| fault.from);
    if let Some(registry) = &mut registry {
        registry.end().await;
    }
    recover(&mut world, mended, checks).await;
    let mut course = pulse.course(&done);
    let reports = world.stop_loads(&mut checks.faults).await;
    let records = crowd.end(&mut checks.faults).await;
    let parties = at_rest(&world, checks).await?;
    if let Some(promise) = scenario.loads {
        let links = schedule.faults.iter().any(|fault| fault.silences);
        books::check(checks, promise, links, &world.regions, &parties, &reports);
    } else {
        account::check(&records, scenario.crowd, &done, &world, checks);
        checks.range("answers from forbidden places, by the gateways", 0, parties.breaches(), 0);
        course = Course::of_records(&records, &done);
    }
    let mut notes = Vec::new();
    if let Some(registry) = registry {
        notes.extend(registry.check(&world, checks).await?);
    }
    if up.pools.is_some() {
        notes.push(kv::released(&world, checks).await?);
    }
    world.drain(&mut checks.faults).await;
    if !checks.all().is_empty() {
        world.fleet.keep_logs();
        checks.faults.push(format!("the logs are in {}", world.fleet.dir().display()));
    }
    Ok(Played { done, loads: verdict::clients(&reports), records, course, notes })
}

/// Plays a schedule, until the length of the run is over.
async fn break_and_mend(
    world: &mut World,
    up: &Up,
    schedule: &Schedule,
    length: Duration,
    done: &mut Vec<Done>,
) -> std::result::Result<(), String> {
    let mut events = Vec::new();
    for (nth, fault) in schedule.faults.iter().enumerate() {
        let last = fault.events.len() - 1;
        let each = fault.events.iter().enumerate();
        events.extend(each.map(|(at, (when, deed))| (*when, nth, [at == 0, at == last], deed)));
    }
    events.sort_by_key(|(when, ..)| *when);
    let start = tokio::time::Instant::now();
    let (mut clock, mut starts) = (start, vec![None; schedule.faults.len()]);
    let mut found = String::new();
    for (when, nth, [first, last], deed) in events {
        tokio::time::sleep_until(clock + when).await;
        let (kind, began) = (schedule.faults[nth].kind, tokio::time::Instant::now());
        if schedule.in_turn && first && start.elapsed() >= length {
            break;
        }
        if let Deed::Moment { role, moment, first } = deed {
            let seen;
            (found, seen) = wait::moment(world, *role, *moment, *first).await;
            if !seen {
                println!("   no replica was at that moment; the fault comes anyway");
            }
            println!("   {:>6.1} s  {kind}", start.elapsed().as_secs_f64());
        } else {
            let from = *starts[nth].get_or_insert_with(Instant::now);
            perform(world, up, start, deed, &found).await?;
            if last {
                let silences = schedule.faults[nth].silences;
                done.push(Done { kind, silences, from, mended: Instant::now() });
            }
        }
        if schedule.in_turn {
            clock += began.elapsed();
        }
    }
    Ok(())
}

/// Performs an event. `found` is the replica of orders without a name.
async fn perform(
    world: &mut World,
    up: &Up,
    start: tokio::time::Instant,
    deed: &Deed,
    found: &str,
) -> std::result::Result<(), String> {
    let late = start.elapsed().as_secs_f64();
    match deed {
        Deed::Order(order) => {
            let name = if order.name == FOUND { found } else { &order.name };
            let order = Order { name: name.to_owned(), ..order.clone() };
            println!("   {late:>6.1} s  {order}");
            world.obey(up, &order).await.map_err(|error| format!("{order}: {error}"))?;
        }
        Deed::Clock { of, by } => {
            println!("   {late:>6.1} s  the clock of {of} set to {by:+} s");
            world.fleet.set_clock(of, *by).map_err(|error| error.to_string())?;
        }
        Deed::Left { what, name } => {
            wait::left(world, *what, name).await?;
            println!("   {:>6.1} s  no gateway waits for {name}", start.elapsed().as_secs_f64());
        }
        Deed::Moment { .. } => {}
    }
    world.none_died()
}

/// Waits until a fleet whose faults were mended is as before, and then for a while of calm.
async fn recover(world: &mut World, mended: std::result::Result<(), String>, checks: &mut Checks) {
    if let Err(fault) = mended {
        checks.faults.push(fault);
        world.go_on();
    } else if let Err(error) = world.all_up().await {
        checks.faults.push(format!("the fleet did not recover: {error}"));
    } else {
        checks.faults.extend(world.none_died().err());
    }
    tokio::time::sleep(CALM).await;
}

/// Waits until nothing is in flight anywhere; a request that still is after a long time never ends.
async fn at_rest(world: &World, checks: &mut Checks) -> Result<Parties> {
    let give_up = Instant::now() + DRAIN / 2;
    loop {
        let parties = look(world).await?;
        let restless = parties.restless();
        if restless.is_empty() || Instant::now() > give_up {
            checks.faults.extend(restless);
            return Ok(parties);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn look(world: &World) -> Result<Parties> {
    let mut engines = Vec::new();
    for region in &world.regions {
        for replica in &region.replicas {
            let counts = EngineCounts::ask(&Client::new(), [&replica.url]).await?;
            engines.push((replica.name.clone(), counts));
        }
    }
    Ok(Parties { gateways: world.look().await, engines })
}
