//! Requests that would end an engine, that one engine has to serve whole, or that the decode engine
//! refuses: each is answered, and both engines live.

use serde_json::{Value, json};

use super::ask::{Asked, COMPLETION};
use super::bodies;
use super::world::{World, row};
use crate::common::{must, text};

const EXPIRED: &str = "vllm:nixl_num_kv_expired_reqs_total";
const FAILED: &str = "vllm:nixl_num_failed_transfers_total";

/// Clients' bodies with the engines' fields: the gateway removes the fields and the answers are
/// right. A strict gateway refuses the requests. No transfer fails and no lease expires.
pub(super) async fn hostile_bodies(world: &mut World) {
    let before = alarms(world).await;
    let strict = [&world.prefill, &world.decode];
    let strict = world.another("strict", &strict, "engine_fields: strict\n").await;
    let all = bodies::all(&world.prefill.place);
    for (seed, hostile) in (2000..).zip(&all) {
        let name = hostile.name;
        let (asked, control) = world.known(seed, 60).await;
        let headers: Vec<(&str, &str)> = hostile.header.into_iter().collect();
        let body = hostile.body(&asked.body);
        let refused = asked.raw(&strict.url, body.clone(), &headers).await;
        assert_eq!(
            (refused.status, refused.code.as_deref()),
            (400, Some("engine_field")),
            "{name}"
        );
        let said = asked.raw(&world.gateway.url, body, &headers).await;
        assert!(said.is(&control), "{name}: status {}, code {:?}", said.status, said.code);
        assert!(said.prefill.is_some(), "{name}: the pair answers");
        for engine in [&mut world.prefill, &mut world.decode] {
            assert!(engine.is_alive(), "{name} ended {}", engine.place.name);
        }
        row(name, "200, the right answer; strict: 400", "both alive");
    }
    world.is_right(&world.gateway, 2900).await;
    world.prefill.is_free().await;
    world.decode.is_free().await;
    assert_eq!(alarms(world).await, before, "expired leases, failed transfers");
}

/// Expired leases and failed transfers so far.
async fn alarms(world: &World) -> (f64, f64) {
    (world.prefill.sum(EXPIRED).await, world.decode.sum(FAILED).await)
}

/// A batch of prompts and several answers: served whole, since a prefill names the KV of one.
pub(super) async fn whole_requests(world: &World) {
    let batch = [text(3000, 40), text(3001, 200)];
    let mut prompts = Asked::new(COMPLETION, "", 8, false);
    prompts.body["prompt"] = json!(batch);
    let mut answers = Asked::new(COMPLETION, &text(3002, 60), 8, false);
    answers.body["n"] = 2.into();
    // vLLM refuses several greedy answers. At this temperature they are the same, given the seed.
    answers.body["temperature"] = 0.01.into();
    answers.body["seed"] = 7.into();
    for (name, asked, reason) in
        [("a batch of two prompts", prompts, "prompts"), ("`n: 2`", answers, "answers")]
    {
        let label = format!("reason=\"{reason}\"");
        let unsplit = async || {
            let page = must(world.client.scrape(&world.gateway.admin).await);
            page.count_with("meridian_unsplit_total", &[&label]).unwrap_or(0)
        };
        let before = (unsplit().await, world.decode.sum("vllm:nixl_bytes_transferred_count").await);
        let control = choices(&asked, &world.control.url).await;
        let said = choices(&asked, &world.gateway.url).await;
        assert_eq!(said.len(), 2, "{name}");
        assert_eq!(said, control, "{name}: the choices are the control engine's");
        let transfers = world.decode.sum("vllm:nixl_bytes_transferred_count").await;
        assert_eq!((unsplit().await, transfers), (before.0 + 1, before.1), "{name}");
        row(name, "200, both right", "no transfer");
    }
}

/// The texts of an answer's choices, by index.
async fn choices(asked: &Asked, url: &str) -> Vec<(u64, String)> {
    let answer = must(asked.open(url, asked.body.to_string(), &[]).await);
    let value: Value = must(answer.whole().await).value();
    let all = value["choices"].as_array().cloned().unwrap_or_default();
    let one =
        |choice: &Value| Some((choice["index"].as_u64()?, choice["text"].as_str()?.to_owned()));
    let mut all: Vec<(u64, String)> = all.iter().filter_map(one).collect();
    all.sort();
    all
}

/// A request that only the decode engine refuses: the prefill's KV is free long before its lease
/// ends.
pub(super) async fn refused_by_the_decode_engine(world: &World) {
    let before = alarms(world).await;
    let asked = Asked::new(COMPLETION, &text(3100, 60), 99_999, false);
    let said = must(asked.open(&world.gateway.url, asked.body.to_string(), &[]).await);
    assert_eq!(said.status, 400);
    let seconds = world.prefill.is_free().await;
    assert_eq!(alarms(world).await, before);
    // Another client's request after it is right.
    world.is_right(&world.gateway, 3101).await;
    let freed = format!("prefill's KV free after {seconds:.1} s, no lease expired");
    row("`max_tokens` too large", "400", &freed);
}
