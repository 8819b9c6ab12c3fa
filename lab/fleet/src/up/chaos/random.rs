//! Random faults for the given time: every few seconds something is killed, suspended, restarted,
//! reloaded, cut off or slowed down. Meanwhile clients compare every answer with the expected one
//! for its prompt, and one tenant may be served in one region only.
//!
//! Half of the time broken streams are resumed on another replica (`resume`), half of the time they
//! end with an error. These must never happen: a request without an answer, a stream that ends
//! without saying so, a duplicate piece of an answer or one of another answer, an answer where a
//! rule forbids it, a final refusal while a permitted replica is alive.

mod draw;

use meridian_base::{Rng, mix};

use super::super::world::World;
use super::super::{Demand, Options as Up};
use super::account::{self, Half, Taken};
use super::clients::{Crowd, Habits, reference};
use super::deck;
use super::play::{at_rest, close, recover};
use super::target::Target;
use super::{CALM, Options, RANDOM};
use crate::Result;

/// Runs both halves and prints their results; returns all problems, one sentence each.
pub(super) async fn run(options: &Options) -> Result<Vec<String>> {
    let (seconds, seed) = (options.length.as_secs(), options.seed);
    let again = format!("meridian chaos {RANDOM} --for {seconds}s --seed {seed}");
    println!("\n== {RANDOM}: a fault every few seconds, every answer compared\n   repeat: {again}");
    let (mut halves, mut wrong) = (Vec::new(), Vec::new());
    // The seed decides which comes first, so an aborted short run may be of either kind.
    let first = options.seed.is_multiple_of(2);
    for resume in [first, !first] {
        println!("   -- broken streams {}", if resume { "resume" } else { "end" });
        let mut faults = Vec::new();
        match half(options, resume, &mut faults).await {
            Ok(half) => {
                half.judge(&mut faults);
                halves.push(half);
            }
            Err(error) => faults.push(error.to_string()),
        }
        for fault in &faults {
            println!("   WRONG: {fault}");
        }
        wrong.extend(faults.into_iter().map(|fault| format!("{again}: {fault}")));
    }
    println!("{}\n{}", account::faults(&halves), account::requests(&halves));
    Ok(wrong)
}

/// One half with its own fleet, from start to end.
async fn half(options: &Options, resume: bool, faults: &mut Vec<String>) -> Result<Half> {
    let up = Up {
        regions: ["us", "eu", "asia"].map(str::to_owned).into(),
        demand: Demand::None,
        seed: options.seed,
        binary: options.binary.clone(),
        resume,
        log_requests: true,
        ..Up::default()
    };
    let mut world = World::start(&up).await?;
    let reference = reference(&world, &up).await?;
    let seed = mix(options.seed, u64::from(resume));
    let crowd = Crowd::start(&world, Target::listed, reference.said(0), seed, Habits::USUAL)?;
    tokio::time::sleep(CALM).await;
    let drawn = draw::faults(options.length.as_secs_f64() / 2.0, &mut Rng::new(seed));
    let mut played = Vec::new();
    let healed = deck::play(&mut world, &up, &drawn, &mut played).await;
    recover(&mut world, healed, faults).await;
    let records = crowd.end().await;
    let parties = at_rest(&world, faults).await?;
    for seen in parties.gateways.iter().filter_map(|seen| seen.status.as_ref()) {
        let breaches = seen.residency.as_ref().map_or(0, |residency| residency.breaches);
        if breaches > 0 {
            faults.push(format!("the gateway of {} counts {breaches} breaches", seen.region));
        }
    }
    close(&mut world, faults).await;
    Ok(Half { resume, records, faults: played, engines: Taken::of(&world) })
}
