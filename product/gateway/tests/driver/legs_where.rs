//! Which requests are looked at for two legs, and which replicas form pairs.

use std::time::Duration;

use meridian_protocol::admin::{EngineName, RoleName};
use meridian_protocol::engines::NONE;
use meridian_routing::Role;

use crate::common::{Region, Replica, Script, call, chat, eventually, get, post};
use crate::forwards::World;
use crate::legs::{GOOD, Pools, params, prefilled, replica};

/// Requests that could not be split.
async fn unsplit(region: &Region) -> usize {
    let page = get(region.admin, "/metrics").await;
    let line = page
        .text()
        .lines()
        .find_map(|line| line.strip_prefix("meridian_unsplit_total{reason=\"answers\"} "));
    line.map_or(0, |count| count.parse().unwrap())
}

/// Sends a request that cannot be split, and returns whether it was looked at.
async fn is_looked_at(region: &Region, model: &str) -> bool {
    let before = unsplit(region).await;
    let body = format!(r#"{{"model":"{model}","prompt":"a","n":2}}"#);
    assert_eq!(post(region.listen, "/v1/completions", &body).await.status, 200);
    unsplit(region).await > before
}

// Only requests for a model with a prefill replica pay for another pass over their bodies, and only
// while it is there.
#[tokio::test(start_paused = true)]
async fn models_without_prefill_replicas() {
    let (p, d, other) = (replica().await, replica().await, Replica::of(&["other"]).await);
    let region = Region::with(&[&p, &d, &other], |config| {
        config.replicas[0].role = RoleName(Role::Prefill);
        config.replicas[1].role = RoleName(Role::Decode);
    })
    .await;
    assert!(is_looked_at(&region, "m").await);
    assert!(!is_looked_at(&region, "other").await);
    region.admin("DELETE", "/admin/replicas/r0", "").await;
    assert!(!is_looked_at(&region, "m").await);
}

// Pairs of another region count as long as its digests have them.
#[tokio::test(start_paused = true)]
async fn pairs_of_a_peer() {
    let (own, p, d) = (Replica::start().await, replica().await, replica().await);
    let mut world = World::of(&[&[&own], &[&p, &d]]);
    world.configs[1].replicas[0].role = RoleName(Role::Prefill);
    world.configs[1].replicas[1].role = RoleName(Role::Decode);
    let (us, eu) = (
        Region::start(world.configs[0].clone()).await,
        Region::start(world.configs[1].clone()).await,
    );
    us.until("its replica is up", |s| s.replicas[0].state == "up").await;
    let seen = async || is_looked_at(&us, "m").await.then_some(());
    eventually("the peer has pairs", seen).await;
    eu.admin("DELETE", "/admin/replicas/r0", "").await;
    let gone = async || (!is_looked_at(&us, "m").await).then_some(());
    eventually("the peer has none", gone).await;
}

// vLLM refuses KV of another version. An engine whose version is not known forms no pair, neither
// before it was asked nor when it does not tell; the advice says so. It still answers.
#[tokio::test(start_paused = true)]
async fn an_unknown_version() {
    let (p, d) = (Replica::start().await, Replica::start().await);
    for replica in [&p, &d] {
        replica.page("/version", Script::answer(404, "", ""));
    }
    p.always(prefilled(&params("r")));
    d.always(Script::json(200, GOOD));
    let region = Region::with(&[&p, &d], |config| {
        for (replica, role) in config.replicas.iter_mut().zip([Role::Prefill, Role::Decode]) {
            replica.role = RoleName(role);
            replica.models = vec!["m".to_owned()];
            replica.transfer = Some("nixl".parse().unwrap());
        }
    })
    .await;
    assert_eq!(call(region.listen, chat("hi")).await.text(), GOOD);
    assert_eq!((p.count(), d.count()), (0, 1));
    let advice = region.status().await.advice.join("\n");
    for name in ["r0", "r1"] {
        let said = format!("{name}: it forms no pair, as its version is not known");
        assert!(advice.contains(&said), "{advice}");
    }
    // Once it tells, the next discovery pairs it.
    for replica in [&p, &d] {
        replica.page("/version", Script::json(200, r#"{"version":"0.32.0"}"#));
    }
    tokio::time::sleep(Duration::from_secs(30)).await;
    region.until("they are asked again", |s| s.replicas.iter().all(|r| r.version.is_some())).await;
    assert_eq!(call(region.listen, chat("hi")).await.text(), GOOD);
    assert_eq!((p.count(), d.count()), (1, 2));
}

// An engine without a page for its version pairs by its protocol.
#[tokio::test(start_paused = true)]
async fn an_engine_without_a_version() {
    let pools = Pools::with(1, 1, Some("ordered".parse().unwrap()), |config| {
        for replica in &mut config.replicas {
            replica.engine = EngineName::Is(NONE);
        }
    })
    .await;
    assert_eq!(pools.ask().await.text(), GOOD);
    assert_eq!((pools.prefill[0].count(), pools.decode[0].count()), (1, 1));
}
