//! Information for clients about other tenants and the fleet: none if tenants are configured,
//! unless the configuration says otherwise.

use meridian_config::{AdmissionMode, Gateway as Config, TellClients};
use meridian_protocol::units::Span;

use crate::common::{Answer, Region, Replica, Script, call, chat};
use crate::forwards::{World, occupy_with};
use crate::tenants::{bearing, tenant};

const KEY: &str = "mk-0123456789abcdefghij";
const OTHER: &str = "mk-zyxwvutsrqponmlkjihg";
const TELLING: [&str; 6] = [
    "x-meridian-replica",
    "x-meridian-prefill-replica",
    "x-meridian-peer",
    "x-meridian-reason",
    "x-meridian-prefix-match",
    "endpoint-load-metrics",
];

fn two(config: &mut Config) {
    config.tenants = vec![tenant("acme", KEY), tenant("other", OTHER)];
    config.policy = serde_json::from_str(r#""meridian""#).unwrap();
}

/// A long prompt of a tenant, with every request for information about the fleet.
async fn curious(region: &Region, key: &str, dry_run: bool) -> Answer {
    let long = "the same long beginning of a prompt that fills some blocks ".repeat(20);
    let mut request = bearing(chat(&long), key);
    request.headers_mut().insert("endpoint-load-metrics-format", "TEXT".parse().unwrap());
    if dry_run {
        request.headers_mut().insert("x-meridian-dry-run", "true".parse().unwrap());
    }
    call(region.listen, request).await
}

fn revealed(answer: &Answer) -> Vec<&'static str> {
    TELLING.into_iter().filter(|name| answer.headers.contains_key(*name)).collect()
}

/// An answer of an engine that reports its load.
fn loaded() -> Script {
    let headers =
        "content-type: application/json\r\nendpoint-load-metrics: TEXT cpu_utilization=0.1\r\n";
    Script::answer(200, headers, r#"{"id":"x","choices":[]}"#)
}

// A tenant can't confirm another tenant's prompt or see the replicas: a dry run gets the same
// refusal whether the prompt was sent before or not, and answers carry none of the headers about
// matches and replicas. The region is still reported.
#[tokio::test(start_paused = true)]
async fn tenants_learn_nothing() {
    let replica = Replica::start().await;
    replica.always(loaded());
    let region = Region::with(&[&replica], two).await;
    let unknown = curious(&region, OTHER, true).await;
    assert_eq!((unknown.status, unknown.code().as_str()), (403, "dry_run_off"));
    let first = curious(&region, KEY, false).await;
    let known = curious(&region, OTHER, true).await;
    assert_eq!((unknown.status, unknown.text()), (known.status, known.text()));
    let second = curious(&region, OTHER, false).await;
    for answer in [&unknown, &known, &first, &second] {
        assert_eq!(revealed(answer), Vec::<&str>::new());
    }
    assert_eq!((second.status, second.header("x-meridian-region")), (200, "local"));
    assert_eq!(replica.count(), 2, "dry runs send nothing");
    // The admin port still shows it.
    let page = region.admin("GET", "/admin/decisions", "").await;
    assert!(page.json()[0]["matched_tokens"].as_f64().unwrap() > 100.0, "{}", page.text());
}

// Refusals don't reveal the number of replicas or peers to a tenant.
#[tokio::test(start_paused = true)]
async fn refusals_tell_nothing() {
    for (tells, is_shown) in [(None, false), (Some(TellClients::All), true)] {
        let replica = Replica::start().await;
        let region = Region::with(&[&replica], |config| {
            config.tenants = vec![tenant("acme", KEY), tenant("other", OTHER)];
            config.tell_clients = tells;
            config.admission = Some(AdmissionMode::Outstanding(1));
            config.held.max_wait = Span::secs(1);
        })
        .await;
        let _busy = occupy_with(&region, &replica, KEY).await;
        let answer = call(region.listen, bearing(chat("hi"), OTHER)).await;
        assert_eq!((answer.status, answer.code().as_str()), (503, "held_too_long"));
        assert_eq!(answer.text().contains("1 full"), is_shown, "{}", answer.text());
        assert!(answer.text().contains("within 1000 ms"), "{}", answer.text());
    }
}

// Tenants that share prefixes are informed if so configured, and so is every client if no tenants
// are configured.
#[tokio::test(start_paused = true)]
async fn told_where_configured() {
    let replica = Replica::start().await;
    replica.always(loaded());
    let all: fn(&mut Config) = |config| {
        two(config);
        config.tell_clients = Some(TellClients::All);
    };
    let unnamed: fn(&mut Config) = |config| {
        two(config);
        config.tenants.clear();
    };
    for change in [all, unnamed] {
        let region = Region::with(&[&replica], change).await;
        let answer = curious(&region, KEY, false).await;
        assert_eq!(revealed(&answer).len(), 4, "{:?}", answer.headers);
        let dry = curious(&region, OTHER, true).await.json();
        assert_eq!(dry["candidates"][0]["url"], replica.url());
        assert!(dry["candidates"][0]["matched_tokens"].as_f64().unwrap() > 100.0, "{dry}");
    }
    // It can be switched off without tenants as well.
    let region = Region::with(&[&replica], |config| {
        unnamed(config);
        config.tell_clients = Some(TellClients::Nothing);
    })
    .await;
    assert_eq!(revealed(&curious(&region, KEY, false).await), Vec::<&str>::new());
    assert_eq!(curious(&region, KEY, true).await.code(), "dry_run_off");
}

// A peer's information about its replicas stops at the first gateway.
#[tokio::test(start_paused = true)]
async fn peers_are_told_and_clients_are_not() {
    let (here, there) = (Replica::start().await, Replica::start().await);
    let mut world = World::of(&[&[&here], &[&there]]);
    for config in &mut world.configs {
        config.tenants = vec![tenant("acme", KEY), tenant("other", OTHER)];
        config.admission = Some(AdmissionMode::Outstanding(1));
    }
    let regions = world.start().await;
    let _busy = occupy_with(&regions[0], &here, KEY).await;
    let answer = call(regions[0].listen, bearing(chat("hi"), OTHER)).await;
    assert_eq!((answer.status, answer.header("x-meridian-region")), (200, "eu"));
    assert_eq!((there.count(), revealed(&answer)), (1, Vec::new()));
}
