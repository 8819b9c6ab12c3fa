//! An adapter that one of three engines loads gets its requests there, from the next probe on; other
//! engines get none of them, and all serve the base model.

use std::time::{Duration, Instant};

use serde_json::json;

use super::ask::Said;
use super::engines::MODEL;
use super::trio::{ADAPTER, Took, Trio, asked};
use super::world::row;

/// Rounds of loading and unloading, the engines in turn.
const ROUNDS: usize = 9;
/// Requests of a round for the adapter.
const REQUESTS: u64 = 8;
/// The most lists that the gateway reads of an engine until it serves a new adapter: one that was
/// under way when the adapter came, one that shows it, discovery's, and one after that while the engine
/// is asked for the count.
const READS: u64 = 4;

/// Loads the adapter into each engine in turn, and asks for it before, meanwhile and afterwards.
pub(super) async fn in_each_in_turn(trio: &Trio) {
    assert_eq!(trio.listed().await, [MODEL]);
    let (mut all, mut refused) = (Vec::new(), 0);
    for round in 0..ROUNDS {
        is_refused(trio).await;
        let engine = round % trio.engines.len();
        let took = trio.load(engine).await;
        let first = Instant::now();
        let seed = 100 * round as u64;
        let said = served_by(trio, engine, seed).await;
        let first = first.elapsed();
        assert!(took.reads <= READS, "{took:?}");
        assert_eq!(trio.listed().await, [MODEL, ADAPTER]);
        is_the_adapters_answer(trio, engine, seed, &said).await;
        for seed in seed + 1..seed + REQUESTS {
            served_by(trio, engine, seed).await;
        }
        several_at_once(trio, engine, seed + 50).await;
        trio.unload(engine).await;
        // At once: the gateway usually still lists it, and the engine refuses it.
        let before = trio.refused(engine).await;
        is_refused(trio).await;
        refused += trio.refused(engine).await - before;
        trio.until_listed(false).await;
        let name = trio.engines[engine].place.name;
        let text = format!(
            "loaded in {:.3} s; listed after {:.3} s and {} lists; first answer in {:.3} s more",
            took.load.as_secs_f64(),
            took.listed.as_secs_f64(),
            took.reads,
            first.as_secs_f64()
        );
        row(&format!("adapter in {name}"), "200 from there, then 404", &text);
        all.push((took, first));
    }
    summary(&all);
    println!("{refused} of {ROUNDS} requests right after the unload were refused by the engine");
    assert!(refused > 0, "no engine was asked right after the unload");
}

/// Two engines with the adapter share its requests, and the third gets none.
pub(super) async fn in_two(trio: &Trio) {
    for engine in [1, 2] {
        trio.load(engine).await;
    }
    trio.until_served_by(&["r1", "r2"]).await;
    let answers = trio.at_once(ADAPTER, 7000..7012).await;
    assert_eq!(replicas(&answers), ["r1", "r2"]);
    row("adapter in two of three", "12 of 12 at once", "both answered, the third did not");
    for engine in [1, 2] {
        trio.unload(engine).await;
    }
    trio.until_listed(false).await;
    is_refused(trio).await;
}

/// A request for the adapter gets the gateway's 404.
async fn is_refused(trio: &Trio) {
    assert_eq!(trio.refusal().await, (404, json!("model_not_found")));
}

/// One request for the adapter, which this engine has to answer.
async fn served_by(trio: &Trio, engine: usize, seed: u64) -> Said {
    let said = asked(ADAPTER, seed).at(&trio.gateway.url).await;
    let replica = said.replica.as_deref();
    assert_eq!((said.status, replica), (200, Some(&*format!("r{engine}"))));
    assert!(!said.text.is_empty());
    said
}

/// The answer is the engine's own for the adapter, and not the base model's.
async fn is_the_adapters_answer(trio: &Trio, engine: usize, seed: u64, said: &Said) {
    let own = asked(ADAPTER, seed).at(&trio.engines[engine].url).await;
    assert!(said.is(&own), "the gateway's answer is the engine's");
    let base = asked(MODEL, seed).at(&trio.engines[engine].url).await;
    assert!(base.status == 200 && !said.is(&base), "the adapter changes the answer");
}

/// Requests at once for the adapter stay at its engine; those for the base model use all engines.
async fn several_at_once(trio: &Trio, engine: usize, seed: u64) {
    let answers = trio.at_once(ADAPTER, seed..seed + 4).await;
    assert_eq!(replicas(&answers), [format!("r{engine}")]);
    let answers = trio.at_once(MODEL, seed + 4..seed + 16).await;
    assert_eq!(replicas(&answers), ["r0", "r1", "r2"]);
}

/// The replicas that gave the answers, each once. All answers are good.
fn replicas(answers: &[Said]) -> Vec<String> {
    assert!(answers.iter().all(|said| said.status == 200 && !said.text.is_empty()));
    let mut all: Vec<String> = answers.iter().filter_map(|said| said.replica.clone()).collect();
    all.sort();
    all.dedup();
    all
}

fn summary(all: &[(Took, Duration)]) {
    let range = |seconds: &dyn Fn(&(Took, Duration)) -> Duration| {
        let mut sorted: Vec<f64> = all.iter().map(|round| seconds(round).as_secs_f64()).collect();
        sorted.sort_by(f64::total_cmp);
        let (first, middle, last) = (sorted[0], sorted[sorted.len() / 2], sorted[sorted.len() - 1]);
        format!("{first:.2}, {middle:.2}, {last:.2}")
    };
    println!("{} rounds, seconds: the least, the median, the most", all.len());
    println!("the engine loads the adapter: {}", range(&|(took, _)| took.load));
    println!("then until the gateway lists it: {}", range(&|(took, _)| took.listed));
    println!("and until its first answer: {}", range(&|(took, first)| took.listed + *first));
}
