//! Faults of prefill and decode replicas under load, each at a chosen moment of a request.
//!
//! A region has two prefill and three decode replicas. Clients with long prompts compare every answer
//! with that of another engine. Replicas are killed or suspended before and after the prefill's
//! answer, during the transfer and in mid-stream; the path of the KV is cut; a gateway is suspended
//! between the legs for longer than a lease. No request is lost, doubled or answered wrongly, no KV
//! of another prompt arrives, and afterwards no engine holds KV.

mod draw;
mod moment;

use std::time::Duration;

use meridian_base::Rng;
use meridian_protocol::admin::Role;
use tokio::time::Instant;

use super::super::order::{Act, Order, What};
use super::super::pools::Pools;
use super::super::world::World;
use super::super::{Demand, Options as Up};
use super::account::{self, Fault, Half, Taken};
use super::clients::{Crowd, Habits, reference};
use super::play::{at_rest, close, perform, recover};
use super::scenario::Deed;
use super::target;
use super::{CALM, Options, POOLS};
use crate::legs::{KV_SCALE, LegCounts};
use crate::{Result, page};
use draw::{Deck, How, Kind, Moment, Target};

const PREFILL: u32 = 2;
const DECODE: u32 = 3;
/// A link on which the KV of a long prompt takes about a second.
const ARGS: [&str; 2] = ["--kv-link-gbps", "4"];
/// A short lease, of which the engines and the gateway know.
const LEASE: Duration = Duration::from_secs(4);
/// Prompts of up to about 4,000 tokens. A fetch over a cut path gives up after 5 s.
const HABITS: Habits =
    Habits { clients: [10, 0], head: Duration::from_secs(20), repeats: 600, whole: false };
/// The lease, and time for the machine to notice.
const RELEASED: Duration = Duration::from_secs(4 + 6);
/// Pause between a repair and the next fault, seconds.
const PAUSE: [f64; 2] = [0.3, 1.5];

/// Runs the scenario and prints its results; returns all problems, one sentence each.
pub(super) async fn run(options: &Options) -> Result<Vec<String>> {
    let (seconds, seed) = (options.length.as_secs(), options.seed);
    let again = format!("meridian chaos {POOLS} --for {seconds}s --seed {seed}");
    println!("\n== {POOLS}: faults of pairs, every answer compared\n   repeat: {again}");
    let up = Up {
        regions: vec!["us".into()],
        pools: Some(Pools { region: "us".into(), prefill: PREFILL, decode: DECODE }),
        relays_kv: true,
        pool_args: ARGS.map(str::to_owned).into(),
        kv_lease: LEASE,
        demand: Demand::None,
        seed,
        binary: options.binary.clone(),
        log_requests: true,
        ..Up::default()
    };
    let mut faults = Vec::new();
    match played(options, &up, &mut faults).await {
        Ok((half, legs)) => {
            half.judge(&mut faults);
            let halves = [half];
            println!("{}\n{}", account::faults(&halves), account::requests(&halves));
            println!("{}", page::legs(&legs, KV_SCALE, false));
        }
        Err(error) => faults.push(error.to_string()),
    }
    for fault in &faults {
        println!("   WRONG: {fault}");
    }
    Ok(faults.into_iter().map(|fault| format!("{again}: {fault}")).collect())
}

async fn played(options: &Options, up: &Up, faults: &mut Vec<String>) -> Result<(Half, LegCounts)> {
    let mut world = World::start(up).await?;
    let reference = reference(&world, up).await?;
    let crowd =
        Crowd::start(&world, target::Target::listed, reference.said(0), options.seed, HABITS)?;
    tokio::time::sleep(CALM).await;
    let mut played = Vec::new();
    let mended = break_and_mend(&mut world, up, options, &mut played).await;
    recover(&mut world, mended, faults).await;
    let records = crowd.end().await;
    at_rest(&world, faults).await?;
    let legs = released(&world, faults).await?;
    close(&mut world, faults).await;
    Ok((Half { resume: false, records, faults: played, engines: Taken::of(&world) }, legs))
}

/// Injects faults until the time is over.
async fn break_and_mend(
    world: &mut World,
    up: &Up,
    options: &Options,
    played: &mut Vec<Fault>,
) -> std::result::Result<(), String> {
    let (start, mut rng, mut deck) = (Instant::now(), Rng::new(options.seed), Deck::new());
    while start.elapsed() < options.length {
        let kind = deck.draw(&mut rng);
        let (orders, lasts) = (orders(world, kind, &mut rng).await, between(kind.lasts, &mut rng));
        let from = std::time::Instant::now();
        println!("   {:>6.1} s  {}", start.elapsed().as_secs_f64(), kind.name);
        for order in orders.iter().cloned() {
            perform(world, up, start, &Deed::Order(order)).await?;
        }
        tokio::time::sleep(lasts).await;
        if kind.how != How::Restarted {
            for order in orders {
                let mended = Deed::Order(Order { act: Act::Revive, ..order });
                perform(world, up, start, &mended).await?;
            }
        }
        let silences = kind.target == Target::Gateway;
        played.push(Fault { kind: kind.name, silences, from, mended: std::time::Instant::now() });
        tokio::time::sleep(between(PAUSE, &mut rng)).await;
    }
    Ok(())
}

fn between([least, most]: [f64; 2], rng: &mut Rng) -> Duration {
    Duration::from_secs_f64(least + (most - least) * rng.unit())
}

/// Waits for the moment of a fault, and returns its orders.
async fn orders(world: &World, kind: &Kind, rng: &mut Rng) -> Vec<Order> {
    let act = match kind.how {
        How::Killed => Act::Kill,
        How::Suspended => Act::Stop,
        How::Restarted => Act::Restart,
        How::Cut => Act::Cut,
    };
    let role = match (kind.target, kind.moment) {
        (Target::Replica(role), _) => role,
        (_, Moment::Fetching) => Role::Decode,
        _ => Role::Prefill,
    };
    let first = rng.below((PREFILL * DECODE) as usize);
    let (at, seen) = moment::wait(world, role, kind.moment, first).await;
    if !seen {
        println!("   no replica was at that moment; the fault comes anyway");
    }
    let replica = |at: usize| Order {
        act,
        what: What::Replica,
        name: world.regions[0].replicas[at].name.clone(),
    };
    let other = |what, name: &str| Order { act, what, name: name.to_owned() };
    match kind.target {
        Target::Replica(_) => vec![replica(at)],
        Target::Pair => vec![replica(first % PREFILL as usize), replica(at)],
        Target::Path => vec![other(What::Path, "us")],
        Target::Gateway => vec![other(What::Gateway, "us")],
    }
}

/// Waits until no engine holds KV. No KV of another prompt may have arrived.
async fn released(world: &World, faults: &mut Vec<String>) -> Result<LegCounts> {
    let give_up = Instant::now() + RELEASED;
    loop {
        let legs = world.legs().await?.unwrap_or_default();
        if legs.held > 0.0 && Instant::now() < give_up {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        }
        if legs.held > 0.0 {
            faults.push(format!(
                "engines hold {:.2} % of their KV {RELEASED:?} after the last request",
                legs.held * 100.0
            ));
        }
        if legs.mismatches > 0 {
            faults.push(format!("{} transfers brought KV of another prompt", legs.mismatches));
        }
        if legs.transfers == 0 {
            faults.push("no KV was transferred, so nothing was tested".into());
        }
        return Ok(legs);
    }
}
