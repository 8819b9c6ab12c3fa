//! One scenario from start to end.

use std::time::Duration;

use tokio::time::Instant;

use super::super::order::{Act, Order, What};
use super::super::world::World;
use super::super::{DRAIN, Demand, Options as Up, verdict};
use super::books::{Books, Parties};
use super::left;
use super::pulse::{Course, Pulse};
use super::scenario::{Deed, Scenario, Step};
use super::{CALM, Options};
use crate::{Client, ClientCounts, EngineCounts, Result, clocks};

/// The result of a scenario.
pub(super) struct Played {
    /// The counts of all regions' clients.
    pub(super) clients: ClientCounts,
    pub(super) books: Books,
    pub(super) course: Course,
    /// Problems, one sentence each.
    pub(super) faults: Vec<String>,
}

/// Starts a fleet, injects faults, repairs them, and checks the results.
pub(super) async fn play(scenario: &Scenario, steps: &[Step], options: &Options) -> Result<Played> {
    let up = Up {
        regions: ["us", "eu", "asia"].map(str::to_owned).into(),
        topology: scenario.topology.to_owned(),
        demand: Demand::Steady,
        seed: options.seed,
        binary: options.binary.clone(),
        clocks: if scenario.sets_clocks() { Some(clocks::library()?) } else { None },
        ..Up::default()
    };
    let mut world = World::start(&up).await?;
    let pulse = Pulse::of(&world.regions);
    tokio::time::sleep(CALM).await;
    let mut faults = Vec::new();
    let broken = Instant::now();
    let healed = match break_and_mend(&mut world, &up, steps).await {
        Ok(healed) => healed,
        Err(fault) => {
            faults.push(fault);
            world.go_on();
            Instant::now()
        }
    };
    tokio::time::sleep(CALM).await;
    let course = pulse.course(broken, healed);
    let reports = world.stop_loads(&mut faults).await;
    let parties = at_rest(&world, &mut faults).await?;
    let books = Books::new(scenario, steps, &world.regions, &parties, &reports);
    books.judge(&mut faults);
    close(&mut world, &mut faults).await;
    let clients = verdict::clients(&reports).unwrap_or_default();
    Ok(Played { clients, books, course, faults })
}

/// Runs the table, and returns when the last fault is repaired and everything is as before.
async fn break_and_mend(
    world: &mut World,
    up: &Up,
    steps: &[Step],
) -> std::result::Result<Instant, String> {
    let start = Instant::now();
    for step in steps {
        tokio::time::sleep_until(start + step.at).await;
        perform(world, up, start, &step.deed).await?;
    }
    let healed = Instant::now();
    world.all_up().await.map_err(|error| format!("the fleet did not recover: {error}"))?;
    world.none_died()?;
    Ok(healed)
}

/// Performs a step.
pub(super) async fn perform(
    world: &mut World,
    up: &Up,
    start: Instant,
    deed: &Deed,
) -> std::result::Result<(), String> {
    let late = start.elapsed().as_secs_f64();
    match deed {
        Deed::Order(order) => {
            println!("   {late:>6.1} s  {order}");
            world.obey(up, order).await.map_err(|error| format!("{order}: {error}"))?;
        }
        Deed::Clock { of, by } => {
            println!("   {late:>6.1} s  the clock of {of} set to {by:+} s");
            world.fleet.set_clock(of, *by).map_err(|error| error.to_string())?;
        }
        Deed::Left { what, name } => {
            left::wait(world, *what, name).await?;
            println!("   {:>6.1} s  no gateway waits for {name}", start.elapsed().as_secs_f64());
        }
    }
    world.none_died()
}

/// Waits until a fleet whose faults were mended is as before, and then for a while of calm.
pub(super) async fn recover(
    world: &mut World,
    mended: std::result::Result<(), String>,
    faults: &mut Vec<String>,
) {
    if let Err(fault) = mended {
        faults.push(fault);
        world.go_on();
    } else if let Err(error) = world.all_up().await {
        faults.push(format!("the fleet did not recover: {error}"));
    }
    tokio::time::sleep(CALM).await;
}

/// Ends a fleet. If anything was wrong, its logs are kept.
pub(super) async fn close(world: &mut World, faults: &mut Vec<String>) {
    world.drain(faults).await;
    if !faults.is_empty() {
        world.fleet.keep_logs();
        faults.push(format!("the logs are in {}", world.fleet.dir().display()));
    }
}

/// Waits until nothing is in flight anywhere; a request that still is after a long time never ends.
pub(super) async fn at_rest(world: &World, faults: &mut Vec<String>) -> Result<Parties> {
    let give_up = Instant::now() + DRAIN / 2;
    loop {
        let parties = look(world).await?;
        let restless = parties.restless();
        if restless.is_empty() {
            return Ok(parties);
        }
        if Instant::now() > give_up {
            faults.extend(restless);
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

/// Whether an order affects a link, or suspends a gateway. Then two gateways may count differently:
/// the one gives up before the other reads.
pub(super) fn touches_links(steps: &[Step]) -> bool {
    let touches = |step: &Step| match &step.deed {
        Deed::Order(Order { what: What::Link, act, .. }) => *act != Act::Slow,
        Deed::Order(Order { what: What::Gateway | What::Region, act, .. }) => *act == Act::Stop,
        _ => false,
    };
    steps.iter().any(touches)
}
