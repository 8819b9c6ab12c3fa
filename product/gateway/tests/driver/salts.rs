//! Tenants that share nothing are also separated in the engines' own prefix caches.

use std::time::Duration;

use meridian_config::{Gateway as Config, Isolation, Resume};
use meridian_protocol::admin::EngineName;
use meridian_protocol::engines::ALL;
use serde_json::Value;

use crate::common::{Region, Replica, Script, call, post, request};
use crate::forwards::{World, occupy};

const MS: Duration = Duration::from_millis(1);
const CHAT: &str = "/v1/chat/completions";
const BODY: &str = r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#;

fn apart(config: &mut Config) {
    config.isolation = Isolation::Tenant;
}

fn of(replica: &Replica) -> Option<String> {
    let body: Value = serde_json::from_slice(&replica.last().body).unwrap();
    body.get("cache_salt").map(|salt| salt.as_str().unwrap().to_owned())
}

/// The salt of a tenant's request as the replica received it.
async fn salt(region: &Region, replica: &Replica, tenant: &str, body: &str) -> Option<String> {
    let mut sent = request("POST", CHAT, body);
    if !tenant.is_empty() {
        sent.headers_mut().insert("x-tenant-id", tenant.parse().unwrap());
    }
    let answer = call(region.listen, sent).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    of(replica)
}

fn own(salt: &str) -> String {
    BODY.replace("\"m\",", &format!("\"m\",\"cache_salt\":\"{salt}\","))
}

// One tenant, one salt; no other tenant has it, and no salt that a client sends leads to it: not
// the other tenant's name, nor the very salt that the engine gets.
#[tokio::test(start_paused = true)]
async fn no_client_names_another_tenants_space() {
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], apart).await;
    let acme = salt(&region, &replica, "acme", BODY).await.unwrap();
    assert_eq!(salt(&region, &replica, "acme", BODY).await.as_ref(), Some(&acme));
    assert_eq!((acme.len(), acme.contains("acme")), (32, false));
    let mut all = vec![acme.clone()];
    for (tenant, body) in [
        ("other", BODY.to_owned()),
        ("", BODY.to_owned()),
        ("other", own("acme")),
        ("other", own(&acme)),
        ("acme", own("mine")),
        ("", own(&acme)),
        ("other", own("mine")),
    ] {
        all.push(salt(&region, &replica, tenant, &body).await.unwrap());
    }
    let number = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), number, "two salts are the same");
    // A client's own salt still divides its tenant's space, with the same result the next time.
    let mine = salt(&region, &replica, "acme", &own("mine")).await;
    assert_eq!(mine, salt(&region, &replica, "acme", &own("mine")).await);
}

// All gateways with one secret use the same salt, and one with another secret a different one. If
// tenants share prefixes, the body stays the client's.
#[tokio::test(start_paused = true)]
async fn by_the_fleets_secret() {
    let replica = Replica::start().await;
    let one = Region::with(&[&replica], apart).await;
    let two = Region::with(&[&replica], apart).await;
    let stranger = Region::with(&[&replica], |c| {
        apart(c);
        c.secret = Some("another test's secret".into());
    })
    .await;
    let shared = Region::of(&[&replica]).await;
    let salt_of = async |region: &Region| salt(region, &replica, "acme", BODY).await;
    assert_eq!(salt_of(&one).await, salt_of(&two).await);
    assert_ne!(salt_of(&one).await, salt_of(&stranger).await);
    assert_eq!(salt_of(&shared).await, None);
    assert_eq!(replica.last().text(), BODY);
    assert_eq!(salt(&shared, &replica, "acme", &own("x")).await.as_deref(), Some("x"));
}

// Engines that are not known to read a salt get the client's own.
#[tokio::test(start_paused = true)]
async fn engines_that_read_none_get_none() {
    for (engine, gets) in ALL.iter().map(|engine| (EngineName::Is(engine), engine.reads_cache_salt))
    {
        let replica = Replica::start().await;
        let region = Region::with(&[&replica], |c| {
            apart(c);
            c.replicas[0].engine = engine;
        })
        .await;
        assert_eq!(salt(&region, &replica, "acme", BODY).await.is_some(), gets, "{engine:?}");
        for (path, body) in [
            ("/v1/completions", r#"{"model":"m","prompt":"hi"}"#),
            ("/v1/responses", r#"{"model":"m","input":"hi"}"#),
            ("/v1/messages", r#"{"model":"m","max_tokens":1,"messages":[]}"#),
        ] {
            assert_eq!(post(region.listen, path, body).await.status, 200);
            assert_eq!(of(&replica).is_some(), gets, "{path} at {engine:?}");
        }
    }
}

// A forwarded request has the same salt at a replica of the peer as it would have here.
#[tokio::test(start_paused = true)]
async fn the_same_at_a_peer() {
    let (near, far) = (Replica::start().await, Replica::start().await);
    let mut world = World::of(&[&[&near], &[&far]]);
    world.configs.iter_mut().for_each(apart);
    let regions = world.start().await;
    let here = salt(&regions[0], &near, "acme", &own("mine")).await.unwrap();
    regions[0].settled().await;
    let _busy = occupy(&regions[0], &near).await;
    assert_eq!(salt(&regions[0], &far, "acme", &own("mine")).await, Some(here));
}

// A resumed stream stays in its tenant's space.
#[tokio::test(start_paused = true)]
async fn the_same_when_a_stream_goes_on() {
    let (a, b) = (Replica::start().await, Replica::start().await);
    let region = Region::with(&[&a, &b], |c| {
        apart(c);
        c.resume = Some(Resume::default());
        c.probe.down_after = 1_000_000;
    })
    .await;
    let event = |text: &str| {
        format!(
            "data: {{\"id\":\"a\",\"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}},\"finish_reason\":null}}]}}\n\n"
        )
    };
    a.then(Script::sse().event(&event("Once")).event("data: {\"id\":\"ha").wait(MS).close());
    b.always(Script::stream(&[&event(" upon"), "data: [DONE]\n\n"], MS));
    let body = BODY.replace("\"m\",", "\"m\",\"stream\":true,\"max_tokens\":9,");
    let mut sent = request("POST", CHAT, &body);
    sent.headers_mut().insert("x-tenant-id", "acme".parse().unwrap());
    assert!(call(region.listen, sent).await.text().contains("[DONE]"));
    assert!(b.last().text().contains("continue_final_message"));
    assert_eq!(of(&a).map(|salt| salt.len()), Some(32));
    assert_eq!(of(&a), of(&b));
}
