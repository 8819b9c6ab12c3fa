//! Faults of the registry: three regions with three control planes on an etcd of three members, whose
//! members, control planes and gateways are killed, suspended and slowed, while operators change
//! replicas and regions at any control plane.
//!
//! Clients compare every answer, as with random faults. Afterwards every change that was acknowledged
//! is in the registry, all control planes show the same one, and the gateways agree with it. Meanwhile
//! no replica is served by two regions for longer than a lease (`owners.rs` says what counts).

mod agree;
mod draw;
mod named;
mod operators;
mod owners;

use meridian_base::Rng;
use meridian_protocol::registry::Snapshot;

use super::super::planes::Planes;
use super::super::world::World;
use super::super::{Demand, Options as Up};
use super::account::{self, Half, Taken};
use super::clients::{Crowd, Habits, reference};
use super::deck;
use super::play::{at_rest, close, recover};
use super::target::Target;
use super::{CALM, Options, REGISTRY};
use crate::{Error, Result};
use agree::Agreement;
use named::Named;
use operators::Operators;
use owners::{Figures, Owners};

/// Runs the scenario and prints its results; returns all problems, one sentence each.
pub(super) async fn run(options: &Options) -> Result<Vec<String>> {
    let (seconds, seed) = (options.length.as_secs(), options.seed);
    let again = format!("meridian chaos {REGISTRY} --for {seconds}s --seed {seed}");
    println!("\n== {REGISTRY}: faults of control planes and etcd\n   repeat: {again}");
    let up = Up {
        regions: ["us", "eu", "asia"].map(str::to_owned).into(),
        etcd: true,
        demand: Demand::None,
        seed,
        binary: options.binary.clone(),
        resume: seed.is_multiple_of(2),
        log_requests: true,
        ..Up::default()
    };
    let mut faults = Vec::new();
    match played(options, &up, &mut faults).await {
        Ok(played) => {
            played.half.judge(&mut faults);
            played.named.judge(&mut faults);
            played.figures.judge(&mut faults);
            let halves = [played.half];
            println!("{}\n{}", account::faults(&halves), account::requests(&halves));
            println!("{}", played.named.line());
            println!("{}\n{}", played.agreement.table(), played.figures.table());
        }
        Err(error) => faults.push(error.to_string()),
    }
    for fault in &faults {
        println!("   WRONG: {fault}");
    }
    Ok(faults.into_iter().map(|fault| format!("{again}: {fault}")).collect())
}

struct Played {
    half: Half,
    named: Named,
    agreement: Agreement,
    figures: Figures,
}

async fn played(options: &Options, up: &Up, faults: &mut Vec<String>) -> Result<Played> {
    let mut world = World::start(up).await?;
    let reference = reference(&world, up).await?;
    let snapshot = whole(&world).await?;
    let owners = Owners::start(&world, &snapshot)?;
    let (said, seed) = (reference.said(0), options.seed);
    let crowd = Crowd::start(&world, Target::listed, said, seed, Habits::USUAL)?;
    let named = Crowd::start(&world, Target::named, said, !seed, Habits::WHOLE)?;
    tokio::time::sleep(CALM).await;
    let operators = Operators::start(planes(&world)?, &snapshot, options.seed)?;
    let drawn = draw::faults(options.length.as_secs_f64(), &mut Rng::new(options.seed));
    let mut played = Vec::new();
    let healed = deck::play(&mut world, up, &drawn, &mut played).await;
    let books = operators.end().await;
    recover(&mut world, healed, faults).await;
    let (records, named) = (crowd.end().await, Named::of(named.end().await));
    at_rest(&world, faults).await?;
    let agreement = agree::check(&world, &snapshot, books, faults).await?;
    let figures = owners.end();
    close(&mut world, faults).await;
    let half = Half { resume: up.resume, records, faults: played, engines: Taken::of(&world) };
    Ok(Played { half, named, agreement, figures })
}

/// The control planes of this fleet.
fn planes(world: &World) -> Result<&Planes> {
    let missing =
        || Error::Missing { what: "a control plane".into(), remedy: "use several regions".into() };
    world.planes.as_ref().ok_or_else(missing)
}

/// The registry before the first fault.
async fn whole(world: &World) -> Result<Snapshot> {
    let planes = planes(world)?;
    agree::snapshot(&planes.operator()?, &planes.all[0].admin).await
}
