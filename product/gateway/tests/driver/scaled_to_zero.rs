//! Models without a replica that may get one: their requests wait for it.

use std::net::SocketAddr;
use std::time::Duration;

use meridian_config::{Gateway as Config, ModelSettings};
use meridian_protocol::admin::Status;
use meridian_protocol::units::Span;
use tokio::task::JoinHandle;

use crate::common::{Answer, Region, Replica, config, get, post};
use crate::discovery::List;

const BODY: &str = r#"{"model":"NAME","messages":[{"role":"user","content":"hi"}]}"#;

async fn region(list: &List, change: impl FnOnce(&mut Config)) -> (Replica, Region) {
    let other = Replica::of(&["other"]).await;
    let mut config = config(&[&other]);
    config.discovery = vec![list.source()];
    config.held.max_wait = Span::secs(20);
    change(&mut config);
    let region = Region::start(config).await;
    region.until("the other model is up", |s| s.replicas.iter().any(|r| r.state == "up")).await;
    region.until("its model is known", |s| s.replicas.iter().all(|r| !r.models.is_empty())).await;
    (other, region)
}

fn ask(listen: SocketAddr, model: &str) -> JoinHandle<Answer> {
    let body = BODY.replace("NAME", model);
    tokio::spawn(async move { post(listen, "/v1/chat/completions", &body).await })
}

/// The replicas of the list, and no others, serve beside the first one.
async fn until(region: &Region, listed: usize) {
    let known = |s: &Status| {
        s.replicas.len() == 1 + listed && s.replicas.iter().all(|r| !r.models.is_empty())
    };
    region.until("the list is followed", known).await;
}

// Defect scaled-to-zero: a request for a configured model without a replica is queued, shows the need for one, and is then served or refused with 503 and Retry-After.
#[tokio::test(start_paused = true)]
async fn configured() {
    let list = List::new("zero-configured");
    list.of(&[]);
    let (other, region) = region(&list, |config| {
        let mut limited = ModelSettings::default();
        limited.limits.requests = Some(9);
        let alias = ModelSettings { alias: Some("y".to_owned()), ..ModelSettings::default() };
        config.models = [("z".to_owned(), limited), ("alias".to_owned(), alias)].into();
    })
    .await;
    for name in ["z", "alias", "y"] {
        let began = tokio::time::Instant::now();
        let answer = ask(region.listen, name).await.unwrap();
        assert_eq!((answer.status, answer.code().as_str()), (503, "held_too_long"), "{name}");
        assert!(!answer.header("retry-after").is_empty(), "{name}");
        assert!(answer.text().contains("no replica has served"), "{}", answer.text());
        assert!(began.elapsed() >= Duration::from_secs(20), "{name} was queued");
    }
    let unknown = ask(region.listen, "nope").await.unwrap();
    assert_eq!((unknown.status, unknown.code().as_str()), (404, "model_not_found"));
    // Two wait, others pass them, and the metric names the model.
    let waiting = [ask(region.listen, "z"), ask(region.listen, "z")];
    let status = region.until("both are queued", |s| s.held == 2).await;
    assert_eq!(status.held_by_model.get("z"), Some(&2));
    let metrics = get(region.admin, "/metrics").await;
    assert!(metrics.text().contains("meridian_model_held{model=\"z\"} 2"), "{}", metrics.text());
    assert_eq!(ask(region.listen, "other").await.unwrap().status, 200);
    let z = Replica::of(&["z"]).await;
    list.of(&[&z]);
    for answer in waiting {
        assert_eq!(answer.await.unwrap().status, 200);
    }
    assert_eq!((other.count(), z.count()), (1, 2));
    assert!(region.settled().await.held_by_model.is_empty());
}

// Defect scaled-to-zero: a model that was served until recently is waited for, and one that left long ago is not.
#[tokio::test(start_paused = true)]
async fn served_before() {
    let list = List::new("zero-before");
    let z = Replica::of(&["z", "adapter"]).await;
    list.of(&[&z]);
    let (_other, region) = region(&list, |_| {}).await;
    until(&region, 1).await;
    list.of(&[]);
    until(&region, 0).await;
    let waiting = [ask(region.listen, "z"), ask(region.listen, "adapter")];
    region.until("both are queued", |s| s.held == 2).await;
    list.of(&[&z]);
    for answer in waiting {
        assert_eq!(answer.await.unwrap().status, 200);
    }
    list.of(&[]);
    until(&region, 0).await;
    tokio::time::sleep(Duration::from_secs(15 * 60)).await;
    let late = ask(region.listen, "z").await.unwrap();
    assert_eq!((late.status, late.code().as_str()), (404, "model_not_found"));
    region.settled().await;
}

// A model that is down waits for itself; with a fallback, that one is asked at once.
#[tokio::test(start_paused = true)]
async fn fallbacks_come_first() {
    let list = List::new("zero-fallback");
    list.of(&[]);
    let (other, region) = region(&list, |config| {
        let fallbacks = vec!["never".to_owned(), "other".to_owned()];
        let z = ModelSettings { fallbacks, ..ModelSettings::default() };
        config.models = [("z".to_owned(), z)].into();
    })
    .await;
    let began = tokio::time::Instant::now();
    let answer = ask(region.listen, "z").await.unwrap();
    assert_eq!((answer.status, answer.header("x-meridian-fallback")), (200, "other"));
    assert!(began.elapsed() < Duration::from_secs(1), "nothing was waited for");
    assert_eq!(other.count(), 1);
}
