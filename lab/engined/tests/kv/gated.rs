//! Transfers that wait for their permits: the request that is due first goes first on the card.

use super::{Engine, Network, TEXT, body, engine, prefill_params, prompt, with_transfer};
use crate::common::Client;
use meridian_engined::{Error, Service};
use serde_json::json;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long two decode legs take, in ms: one with 262 MB of KV and no objective, and 100 ms later one
/// with 52 MB that is due in 3 s. The card of the prefilling engine has 1 Gb/s.
async fn two_transfers(policy: Option<&str>, by_header: bool) -> [u128; 2] {
    let network = Network::in_memory();
    let options = with_transfer(&network, |_, transfer| {
        (transfer.link_gbps, transfer.flow_policy) = (1.0, policy.map(str::to_owned));
    });
    let mut from = engine(options).await;
    let to = engine(with_transfer(&network, |_, _| {})).await;
    let texts = [prompt("a long one ", 2000), prompt("short ", 400)];
    let long = from.prefill(&texts[0]).await;
    let short = prefill_with_objective(&mut from, &texts[1], by_header).await;
    let (one, two) = tokio::join!(
        timed(&to, &texts[0], &long, Duration::ZERO),
        timed(&to, &texts[1], &short, Duration::from_millis(100)),
    );
    [one, two]
}

async fn prefill_with_objective(
    from: &mut Engine,
    text: &str,
    by_header: bool,
) -> serde_json::Value {
    let mut params = prefill_params();
    if !by_header {
        params["slo_ttft_ms"] = json!(3000);
        let (status, answer) = from.client.json(TEXT, &body(text, 1, &params)).await;
        assert_eq!(status, 200, "{answer}");
        return answer["kv_transfer_params"].clone();
    }
    let request = http::Request::post(TEXT).header("x-slo-ttft-ms", "3000");
    let request = request.body(http_body_util::Full::new(body(text, 1, &params).into())).unwrap();
    let answer = from.service.handle(request).await;
    let answer = http_body_util::BodyExt::collect(answer.into_body()).await.unwrap().to_bytes();
    let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
    answer["kv_transfer_params"].clone()
}

async fn timed(to: &Engine, text: &str, params: &serde_json::Value, after: Duration) -> u128 {
    let mut client = Client::connect(&to.service).await;
    sleep(after).await;
    let start = Instant::now();
    let (status, answer) = client.json(TEXT, &body(text, 6, params)).await;
    assert_eq!(status, 200, "{answer}");
    start.elapsed().as_millis()
}

/// The time of the short one alone, in ms.
async fn alone(policy: Option<&str>) -> u128 {
    let network = Network::in_memory();
    let options = with_transfer(&network, |_, transfer| {
        (transfer.link_gbps, transfer.flow_policy) = (1.0, policy.map(str::to_owned));
    });
    let mut from = engine(options).await;
    let to = engine(with_transfer(&network, |_, _| {})).await;
    let text = prompt("short ", 400);
    let params = from.prefill(&text).await;
    timed(&to, &text, &params, Duration::ZERO).await
}

/// Time of the two chunks of the long one that are on the card when the short one comes, in ms.
const CHUNKS: u128 = 2 * 135;

// Without a policy the two share the card, and the short one takes its 420 ms twice. By MFS it waits
// for two chunks of the other at most, and the long one ends no later than before.
#[tokio::test(start_paused = true)]
async fn the_request_that_is_due_first_goes_first() {
    let alone = alone(None).await;
    let [long_shared, short_shared] = two_transfers(None, false).await;
    assert!((400..440).contains(&(short_shared - alone)), "{short_shared} after {alone} alone");
    for by_header in [false, true] {
        let [long, short] = two_transfers(Some("mfs"), by_header).await;
        assert!(short <= alone + CHUNKS, "{short} after {alone} alone");
        assert!(long <= long_shared + 20, "{long} after {long_shared}");
    }
}

// A transfer alone loses no time to the gate.
#[tokio::test(start_paused = true)]
async fn a_transfer_alone_takes_its_own_time() {
    let network = Network::in_memory();
    assert!(alone(Some("mfs")).await <= alone(None).await + 2);
    let mut times = Vec::new();
    for policy in [None, Some("mfs")] {
        let options = with_transfer(&network, |_, transfer| {
            (transfer.link_gbps, transfer.flow_policy) = (100.0, policy.map(str::to_owned));
        });
        let mut from = engine(options).await;
        let to = engine(with_transfer(&network, |_, transfer| transfer.link_gbps = 1000.0)).await;
        let text = prompt("alone ", 3000);
        let params = from.prefill(&text).await;
        times.push(timed(&to, &text, &params, Duration::ZERO).await);
    }
    assert!(times[1] <= times[0] + 2, "{times:?}");
}

// A decode leg that leaves takes its permits along. The next transfer waits at most for the chunks
// that are on the card.
#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_frees_the_card() {
    let network = Network::in_memory();
    let options = with_transfer(&network, |_, transfer| {
        (transfer.link_gbps, transfer.flow_policy) = (1.0, Some("mfs".to_owned()));
    });
    let mut from = engine(options).await;
    let to = engine(with_transfer(&network, |_, _| {})).await;
    let texts = [prompt("that leaves ", 2000), prompt("that stays ", 400)];
    let leaves = from.prefill(&texts[0]).await;
    let stays = from.prefill(&texts[1]).await;
    let leaving = to.spawn_decode(&texts[0], &leaves).await;
    sleep(Duration::from_millis(300)).await;
    leaving.abort();
    sleep(Duration::from_millis(50)).await;
    let took = timed(&to, &texts[1], &stays, Duration::ZERO).await;
    let alone = alone(Some("mfs")).await;
    assert!(took <= alone + CHUNKS, "{took} after {alone} alone");
}

// A policy that does not exist is named when the engine starts.
#[tokio::test]
async fn an_unknown_policy_is_refused() {
    let network = Network::in_memory();
    let options =
        with_transfer(&network, |_, transfer| transfer.flow_policy = Some("fast".to_owned()));
    let error = Service::start(options).expect_err("there is no such policy");
    assert!(matches!(error, Error::Flow(_)));
    assert!(error.to_string().starts_with("flow policy: policy `fast` is unknown: use one of mfs"));
}
