//! Rate limits of a tenant, and of a model, over the gateways of one region.

use std::time::Duration;

use meridian_config::{Gateway as Config, ModelLimits, ModelSettings, TenantLimits};
use tokio::time::sleep;

use crate::common::{Fleet, Region, Replica, Script, call, request};
use crate::siblings::{is_up, two};
use crate::tenants::{bearing, tenant};

const KEY: &str = "mk-0123456789abcdefghij";

fn limited(config: &mut Config) {
    config.tenants = vec![tenant("acme", KEY)];
    config.tenants[0].limits =
        TenantLimits { requests_per_minute: Some(20), ..TenantLimits::default() };
}

async fn ask(region: &Region) -> u16 {
    let body = r#"{"model":"m","max_tokens":900,"messages":[{"role":"user","content":"hi"}]}"#;
    let request = bearing(request("POST", "/v1/chat/completions", body), KEY);
    call(region.listen, request).await.status
}

/// Requests that were answered and refused, sent to the gateways in turn, a hundred a second.
async fn sent(regions: &[&Region], count: usize) -> (usize, usize) {
    let (mut answered, mut refused) = (0, 0);
    for at in 0..count {
        match ask(regions[at % regions.len()]).await {
            200 => answered += 1,
            429 => refused += 1,
            other => panic!("{other}"),
        }
        sleep(Duration::from_millis(10)).await;
    }
    (answered, refused)
}

// Two gateways admit a limit once, but for what they take between two messages. One that starts knows
// what is taken. One that reaches no sibling admits its half.
#[tokio::test(start_paused = true)]
async fn gateways_share_a_limit() {
    let fleet = Fleet::new("prod");
    let both = [Replica::start().await, Replica::start().await];
    both.iter().for_each(|replica| {
        replica.always(Script::json(200, r#"{"id":"x","choices":[]}"#));
    });
    let (mut first, mut second) = two(&fleet, [&both[0], &both[1]]);
    limited(&mut first);
    limited(&mut second);
    let first = Region::start(first).await;
    let mut other = Region::start(second.clone()).await;
    for region in [&first, &other] {
        region.until("its sibling and replicas are up", is_up).await;
    }
    let (answered, refused) = sent(&[&first, &other], 40).await;
    assert!((20..=22).contains(&answered), "{answered} answered, {refused} refused");

    other.shut_down();
    other.served.await.unwrap().unwrap();
    let mut again = Region::start(second).await;
    again.until("its sibling and replicas are up", is_up).await;
    sleep(Duration::from_millis(100)).await;
    assert_eq!(ask(&again).await, 429, "what is taken is known after a start");

    again.shut_down();
    again.served.await.unwrap().unwrap();
    first.until("the sibling is gone", |s| s.peers[0].state == "gone").await;
    sleep(Duration::from_secs(120)).await;
    let (answered, _) = sent(&[&first], 30).await;
    assert_eq!(answered, 10, "half of the limit without the sibling");
}

// The tokens of a model count over both gateways, too, also for one that starts.
#[tokio::test(start_paused = true)]
async fn gateways_share_a_models_limit() {
    let fleet = Fleet::new("prod");
    let both = [Replica::start().await, Replica::start().await];
    let usage = r#"{"prompt_tokens":10,"completion_tokens":890}"#;
    both.iter().for_each(|replica| {
        let answer = format!(r#"{{"id":"x","choices":[],"usage":{usage}}}"#);
        replica.always(Script::json(200, &answer));
    });
    let (mut first, mut second) = two(&fleet, [&both[0], &both[1]]);
    let limits = ModelLimits { requests: None, tokens_per_minute: Some(2000) };
    for config in [&mut first, &mut second] {
        let settings = ModelSettings { limits, ..ModelSettings::default() };
        config.models.insert("m".to_owned(), settings);
    }
    let first = Region::start(first).await;
    let mut other = Region::start(second.clone()).await;
    for region in [&first, &other] {
        region.until("its sibling and replicas are up", is_up).await;
    }
    assert_eq!(sent(&[&first, &other], 6).await, (2, 4), "there is room for two of 900 tokens");

    other.shut_down();
    other.served.await.unwrap().unwrap();
    let again = Region::start(second).await;
    again.until("its sibling and replicas are up", is_up).await;
    sleep(Duration::from_millis(100)).await;
    assert_eq!(ask(&again).await, 429, "what is taken is known after a start");
}
