//! Engines that are killed and clients that leave, at each stage of a split request.
//!
//! A suspended decode engine holds a request between its legs: the kernel accepts the decode leg,
//! and the gateway has the prefill's answer.

use std::time::{Duration, Instant};

use meridian_fleet::Gateway;
use tokio::task::JoinHandle;

use super::ask::{Asked, COMPLETION, Said};
use super::bodies;
use super::engines::LIMIT;
use super::world::{World, row};
use crate::common::{must, status_when, text, up};

const EXPIRED: &str = "vllm:nixl_num_kv_expired_reqs_total";
const LEGS: &str = "meridian_prefill_leg_seconds_count";
/// Tokens of an answer that is still being written when its engine or client goes.
const LONG: u32 = 3000;

/// A client that leaves in mid-answer, and one that leaves before the prefill engine has answered:
/// both engines hold nothing afterwards.
pub(super) async fn client_leaves(world: &World) {
    let asked = Asked::new(COMPLETION, &text(4000, 200), LONG, true);
    let mut stream = must(asked.open(&world.gateway.url, asked.body.to_string(), &[]).await);
    assert!(stream.header("x-meridian-prefill-replica").is_some(), "the pair answers");
    must(stream.next().await);
    assert!(world.decode.held().await > 0.0, "the answer is being written");
    drop(stream);
    let seconds = world.decode.is_free().await + world.prefill.is_free().await;
    row("client leaves during the answer", "-", &format!("both free after {seconds:.1} s"));

    let expired = world.prefill.sum(EXPIRED).await;
    world.prefill.stop();
    let body = asked.body.to_string();
    let opening = asked.open(&world.gateway.url, body, &[]);
    let left = tokio::time::timeout(Duration::from_millis(500), opening).await;
    assert!(left.is_err(), "a suspended prefill engine answers nothing");
    world.prefill.go_on();
    // A later request's answer: the engine has come to the one before.
    world.is_right(&world.gateway, 4001).await;
    let seconds = world.prefill.is_free().await + world.decode.is_free().await;
    let lease = world.prefill.sum(EXPIRED).await - expired;
    let freed = format!("both free after {seconds:.1} s, {lease} leases expired");
    row("client leaves during the prefill", "-", &freed);
}

/// Sends requests while the decode engine is suspended; returns when each gateway has the prefill
/// engine's answer.
async fn between_legs(world: &World, asks: &[(&Gateway, &Asked)]) -> Vec<JoinHandle<Said>> {
    world.decode.stop();
    let mut sent = Vec::new();
    for (gateway, asked) in asks {
        let before = world.counted_by(gateway, LEGS).await;
        let (url, asked) = (gateway.url.clone(), (*asked).clone());
        sent.push(tokio::spawn(async move { asked.at(&url).await }));
        let start = Instant::now();
        while world.counted_by(gateway, LEGS).await == before {
            assert!(start.elapsed() < LIMIT, "no prefill leg\n{}", gateway.process.log_tail());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    world.prefill.when("vllm:kv_cache_usage_perc", |share| share > 0.0).await;
    sent
}

/// The decode engine is killed after the prefill. With another replica the client gets the right
/// answer from it, without another one a single error. A stream in mid-answer ends with one error.
/// The prefill engine keeps the KV until the lease ends. Then a new decode engine takes the place.
pub(super) async fn decode_killed_after_prefill(world: &mut World) {
    let three = [&world.prefill, &world.decode, &world.control];
    let three = world.another("three", &three, "").await;
    let ((first, right), (second, _)) = (world.known(5000, 200).await, world.known(5001, 60).await);
    // Until the decode engine is the next in turn.
    for seed in 5100.. {
        if world.is_right(&three, seed).await.prefill.is_none() {
            break;
        }
    }
    let expired = world.prefill.sum(EXPIRED).await;
    let stream = in_mid_answer(world).await;
    let mut sent = between_legs(world, &[(&three, &first), (&world.gateway, &second)]).await;
    world.decode.kill().await;
    let killed = Instant::now();
    let with = sent.remove(0).await.expect("a request is answered");
    let without = sent.remove(0).await.expect("a request is answered");
    let seconds = killed.elapsed().as_secs_f64();
    assert!(with.is(&right), "status {}, code {:?}", with.status, with.code);
    assert_eq!(with.prefill, None, "by one replica alone");
    assert_eq!(without.status, 502);
    let code = without.code.unwrap_or_default();
    let client = format!(
        "the right answer from another replica; without one 502 `{code}`; both after {seconds:.1} s"
    );
    let broken = stream.await.expect("a stream is read");
    assert_eq!((broken.errors, broken.ends), (1, 0), "one error, and no end mark");
    row("decode killed during the answer", "one error event", "decode dead");

    world.decode = world.decode.place.clone().start(&world.fleet, &world.parts).await;
    world.prefill.when(EXPIRED, |now| now >= expired + 2.0).await;
    world.prefill.is_free().await;
    let seconds = killed.elapsed().as_secs_f64();
    let freed = format!("prefill's KV free by both leases after {seconds:.0} s");
    row("decode killed after the prefill", &client, &freed);
    world.decode.ready().await;
    status_when(&world.client, &world.gateway, "the new engine", up(2)).await;
    world.warm_up(&world.gateway).await;
    world.is_right(&world.gateway, 5002).await;
}

/// A stream through the gateway that has started and is read to its end.
async fn in_mid_answer(world: &World) -> JoinHandle<Said> {
    let asked = Asked::new(COMPLETION, &text(7000, 60), LONG, true);
    let mut stream = must(asked.open(&world.gateway.url, asked.body.to_string(), &[]).await);
    must(stream.next().await);
    tokio::spawn(async move { must(Said::of(stream, true).await) })
}

/// The prefill engine is killed after its answer: the client gets its answer all the same.
pub(super) async fn prefill_killed_after_its_answer(world: &mut World) {
    let (asked, right) = world.known(6000, 200).await;
    let failed = world.decode.sum("vllm:nixl_num_failed_transfers_total").await;
    let mut sent = between_legs(world, &[(&world.gateway, &asked)]).await;
    world.prefill.kill().await;
    world.decode.go_on();
    let said = sent.remove(0).await.expect("a request is answered");
    assert!(said.is(&right), "status {}, code {:?}", said.status, said.code);
    let failed = world.decode.sum("vllm:nixl_num_failed_transfers_total").await - failed;
    world.decode.is_free().await;
    let alone = world.is_right(&world.gateway, 6001).await;
    assert_eq!(alone.prefill, None, "the decode engine alone");
    let engines = format!("decode alive and free, {failed} failed transfers");
    row("prefill killed after its answer", "200, the right answer", &engines);
}

/// The decode engine ends in mid-answer, by a body that a client without a gateway sends: one error
/// event, and an error for the next request. It shows that the bodies of the cases before are fatal.
pub(super) async fn decode_ended_by_a_body(world: &mut World) {
    let stream = in_mid_answer(world).await;
    let hostile = Asked::new(COMPLETION, &text(7001, 60), 4, false);
    let body = bodies::shortest().body(&hostile.body);
    let direct = hostile.raw(&world.decode.url, body, &[]).await;
    // The engine's server outlives its core for a moment: the error is its own.
    assert_eq!(stream.await.expect("a stream is read").errors, 1);
    let engines = format!("the body at the engine itself: {}, and it ends", direct.status);
    row("decode ended by a body, not through the gateway", "one error event", &engines);
    status_when(&world.client, &world.gateway, "no engine", up(0)).await;
    assert!(!world.decode.is_alive(), "its server ends with its core");
    let said = hostile.at(&world.gateway.url).await;
    assert_eq!(said.status, 503);
    row("no engine left", &format!("503 `{}`", said.code.unwrap_or_default()), "none");
}
