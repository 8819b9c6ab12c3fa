//! What an operator sees of prefill and decode replicas: pools and advice in the status, both legs in
//! explanations and headers, counters and alarms of KV transfers in the metrics.

use meridian_config::{Gateway as Config, TellClients};
use meridian_protocol::admin::{Decided, Explanation, RoleName};

use crate::common::{Region, Replica, Script, call, chat, open, stream_chat};

/// An answer of a prefill leg, as vLLM's NIXL connector gives it.
const FILLED: &str = r#"{"id":"p","choices":[{"index":0,"finish_reason":"length","message":{"role":"assistant","content":"a"}}],
    "usage":{"prompt_tokens":20,"completion_tokens":1,"total_tokens":21},
    "kv_transfer_params":{"do_remote_prefill":true,"do_remote_decode":false,"remote_block_ids":[[1,2]],
    "remote_engine_id":"e-1","remote_request_id":"cmpl-1","remote_host":"10.0.0.7","remote_port":5600,
    "tp_size":1,"remote_num_tokens":20}}"#;
const FIRST: &str =
    "data: {\"id\":\"d\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n";

fn version(version: &str) -> Script {
    Script::json(200, &format!(r#"{{"version":"{version}"}}"#))
}

/// A prefill replica, `r0`, and a decode replica, `r1`, of one version.
async fn pair() -> (Replica, Replica) {
    let (prefill, decode) = (Replica::start().await, Replica::start().await);
    for replica in [&prefill, &decode] {
        replica.page("/version", version("0.32.0"));
    }
    prefill.always(Script::json(200, FILLED));
    (prefill, decode)
}

fn roles(config: &mut Config) {
    for (replica, role) in config.replicas.iter_mut().zip(["prefill", "decode"]) {
        replica.role = role.parse::<RoleName>().expect("is a role");
    }
}

async fn metrics(region: &Region) -> String {
    region.admin("GET", "/metrics", "").await.text().to_owned()
}

// A request with two legs: the answer's headers, the decision and the explanation name both
// replicas, and the decode replica counts the KV that it fetched.
#[tokio::test(start_paused = true)]
async fn both_legs_are_named() {
    let (prefill, decode) = pair().await;
    let region = Region::with(&[&prefill, &decode], roles).await;
    let answer = call(region.listen, chat("hi")).await;
    assert_eq!((answer.status, answer.header("x-meridian-replica")), (200, "r1"));
    assert_eq!(answer.header("x-meridian-prefill-replica"), "r0");
    let id = answer.header("x-request-id");
    let page = region.admin("GET", &format!("/admin/explain/{id}"), "").await;
    let why: Explanation = serde_json::from_slice(&page.body).unwrap();
    assert_eq!((why.picked, why.prefill), (Some(decode.url()), Some(prefill.url())));
    assert!(why.pair.is_some_and(|pair| pair.score.is_none() && pair.fixed_ms > 0.0));
    let roles: Vec<_> = why.candidates.iter().map(|c| c.role.as_str()).collect();
    assert_eq!(roles, ["decode", "prefill"]);
    let page = region.admin("GET", "/admin/decisions", "").await;
    let newest: Vec<Decided> = serde_json::from_slice(&page.body).unwrap();
    assert_eq!(newest[0].prefill, Some(prefill.url()));

    let status = region.settled().await;
    assert_eq!(status.replicas.iter().map(|r| r.fetched).collect::<Vec<_>>(), [0, 1]);
    assert!(metrics(&region).await.contains("meridian_replica_fetched_total{replica=\"r1\"} 1"));
}

// An answer that one replica gave alone has no header about a prefill replica, even if its engine
// sends one; clients that may not see the fleet never get it.
#[tokio::test(start_paused = true)]
async fn the_header_is_the_gateways() {
    const NAME: &str = "x-meridian-prefill-replica";
    let forged =
        Script::answer(200, "x-meridian-prefill-replica: r9\r\n", r#"{"id":"x","choices":[]}"#);
    let replica = Replica::start().await;
    replica.always(forged.clone());
    let region = Region::of(&[&replica]).await;
    assert!(!call(region.listen, chat("hi")).await.headers.contains_key(NAME));
    let (prefill, decode) = pair().await;
    decode.always(forged);
    let region = Region::with(&[&prefill, &decode], |config| {
        roles(config);
        config.tell_clients = Some(TellClients::Nothing);
    })
    .await;
    let answer = call(region.listen, chat("hi")).await;
    assert_eq!((answer.status, prefill.count(), decode.count()), (200, 1, 1));
    assert!(!answer.headers.contains_key(NAME));
}

// The default policy: a long prompt is split away from a replica with many running answers. The
// explanation has the price of the pair, the lower of the two, and the terms of both legs.
#[tokio::test(start_paused = true)]
async fn the_price_of_both_legs() {
    let (prefill, decode) = pair().await;
    let region = Region::with(&[&prefill, &decode], |config| {
        roles(config);
        config.policy = serde_json::from_str("\"meridian\"").unwrap();
    })
    .await;
    let mut busy = Vec::new();
    for n in 0..16 {
        decode.then(Script::sse().event(FIRST).hang());
        busy.push(open(region.listen, stream_chat("hi")).await);
        region.until("it runs", |s| s.replicas[1].running == n + 1).await;
    }
    let long = "a long prompt about nothing in particular, number by number, ".repeat(400);
    let answer = call(region.listen, chat(&long)).await;
    assert_eq!(answer.header("x-meridian-reason"), "two-legs");
    let id = answer.header("x-request-id");
    let page = region.admin("GET", &format!("/admin/explain/{id}"), "").await;
    let why: Explanation = serde_json::from_slice(&page.body).unwrap();
    let pair = why.pair.expect("it has two legs");
    assert!(pair.score < pair.alone, "{pair:?}");
    let names =
        |at: usize| why.candidates[at].terms.iter().map(|t| t.0.as_str()).collect::<Vec<_>>();
    assert_eq!(names(1), ["front_ms", "prefill_ms", "others_ms", "rtt_ms"]);
    assert_eq!(names(0), ["kv_ms", "steps_ms", "rtt_ms"]);
    let sum: f64 = why.candidates.iter().flat_map(|c| &c.terms).map(|t| t.1).sum();
    assert!((sum - pair.score.unwrap()).abs() < 0.01 * sum, "{sum} is not {pair:?}");
}

// The status has the role, version and protocol of each replica, and its pools. Engines of another
// version pair with none, and the advice says so.
#[tokio::test(start_paused = true)]
async fn pools_and_advice() {
    let (prefill, decode) = pair().await;
    let region = Region::with(&[&prefill, &decode], roles).await;
    let status = region.status().await;
    let [p, d] = &status.replicas[..] else { panic!("there are two") };
    assert_eq!((p.role.as_str(), p.transfer.as_deref()), ("prefill", Some("nixl")));
    assert_eq!((d.role.as_str(), d.version.as_deref()), ("decode", Some("0.32.0")));
    let pools: Vec<_> = status.pools.iter().map(|p| (p.role.as_str(), p.up, p.needed)).collect();
    assert_eq!(pools, [("decode", 1, 1), ("prefill", 1, 1)]);
    assert_eq!(status.advice, Vec::<String>::new());
    let links = status.links.expect("there are both roles");
    assert!(!links.learned && links.cut.is_empty());
    let page = metrics(&region).await;
    assert!(page.contains("meridian_pool_replicas_up{model=\"m\",role=\"prefill\"} 1"), "{page}");

    let (prefill, decode) = pair().await;
    decode.page("/version", version("0.31.0"));
    let region = Region::with(&[&prefill, &decode], roles).await;
    let advice = region.status().await.advice.join("\n");
    assert!(advice.contains("r0: vllm 0.32.0 pairs with no decode replica"), "{advice}");
    assert!(
        !call(region.listen, chat("hi")).await.headers.contains_key("x-meridian-prefill-replica")
    );
}

// The counters of the engines' connectors are on the page by replica. Those before the first report
// are no news; an expired lease after it is an alarm.
#[tokio::test(start_paused = true)]
async fn expired_leases_are_alarms() {
    let page = |expired: u32, bytes: u32| {
        Script::answer(
            200,
            "",
            &format!(
                "vllm:num_requests_waiting 0\nvllm:num_requests_running 0\n\
             vllm:nixl_bytes_transferred_sum{{engine=\"0\"}} {bytes}\n\
             vllm:nixl_num_kv_expired_reqs_total{{engine=\"0\"}} {expired}\n"
            ),
        )
    };
    let (prefill, decode) = pair().await;
    prefill.page("/metrics", page(4, 0));
    decode.page("/metrics", page(0, 1_572_864));
    let region = Region::with(&[&prefill, &decode], roles).await;
    let seen = |expired| {
        move |s: &meridian_protocol::admin::Status| {
            s.replicas[0].transfers.is_some_and(|t| t.expired == Some(expired))
        }
    };
    region.until("the first report came", seen(4)).await;
    region.until("the other one, too", |s| s.replicas[1].transfers.is_some()).await;
    let before = metrics(&region).await;
    for line in [
        "meridian_replica_kv_expired_total{replica=\"r0\"} 4",
        "meridian_replica_kv_bytes_total{replica=\"r1\"} 1572864",
    ] {
        assert!(before.contains(line), "{before}");
    }
    assert!(!before.contains("meridian_kv_alarms_total{"), "{before}");
    prefill.page("/metrics", page(6, 0));
    region.until("the next report came", seen(6)).await;
    let after = metrics(&region).await;
    assert!(after.contains("meridian_kv_alarms_total{kind=\"expired\"} 2"), "{after}");
}

// An answer with more cached tokens than its prompt has was written from another prompt's KV.
#[tokio::test(start_paused = true)]
async fn more_cached_than_prompted() {
    let (prefill, decode) = pair().await;
    let usage = |cached: u32| {
        Script::json(
            200,
            &format!(
                r#"{{"id":"x","choices":[],"usage":{{"prompt_tokens":397,"completion_tokens":4,"total_tokens":401,"prompt_tokens_details":{{"cached_tokens":{cached}}}}}}}"#
            ),
        )
    };
    decode.then(usage(397)).then(usage(672));
    let region = Region::with(&[&prefill, &decode], roles).await;
    assert_eq!(call(region.listen, chat("hi")).await.status, 200);
    region.settled().await;
    assert!(!metrics(&region).await.contains("meridian_kv_alarms_total{"));
    assert_eq!(call(region.listen, chat("hi")).await.status, 200);
    region.settled().await;
    let page = metrics(&region).await;
    assert!(page.contains("meridian_kv_alarms_total{kind=\"cached_beyond_prompt\"} 1"), "{page}");
}
