//! Residency of a request with two legs: its rule holds for both replicas.

use meridian_routing::Role;

use crate::common::{Region, call, chat};
use crate::legs::{GOOD, Pools};
use crate::residency::{KEY, OTHER, kept};
use crate::tenants::bearing;

async fn asked(region: &Region, key: &str) -> String {
    let answer = call(region.listen, bearing(chat("hi"), key)).await;
    assert_eq!((answer.status, answer.text()), (200, GOOD));
    answer.header("x-meridian-prefill-replica").to_owned()
}

// A prompt is not computed where its rule forbids it: the request stays whole at a permitted decode
// replica. Others are split, and so is this one once there is a permitted prefill replica.
#[tokio::test(start_paused = true)]
async fn a_prompt_is_kept() {
    let label = |place: &str| [("jurisdiction".to_owned(), place.to_owned())].into();
    let pools = Pools::with(1, 1, None, |config| {
        kept(config, &["jurisdiction=eu"]);
        config.replicas[0].labels = label("us");
        config.replicas[1].labels = label("eu");
    })
    .await;
    let region = &pools.region;
    assert_eq!(asked(region, KEY).await, "");
    assert_eq!((pools.prefill[0].count(), pools.decode[0].count()), (0, 1));
    assert_eq!(asked(region, OTHER).await, "r0");
    assert_eq!((pools.prefill[0].count(), pools.decode[0].count()), (1, 2));

    region.admin("DELETE", "/admin/replicas/r0", "").await;
    let (url, role) = (pools.prefill[0].url(), Role::Prefill.word());
    let spec =
        format!(r#"{{"url": "{url}", "role": "{role}", "labels": {{"jurisdiction": "eu"}}}}"#);
    assert_eq!(region.admin("POST", "/admin/replicas", &spec).await.status, 201);
    region.until("it is back", |s| s.replicas.iter().all(|r| r.version.is_some())).await;
    assert_eq!(asked(region, KEY).await, "r0.2");
    assert_eq!(region.status().await.residency.expect("there is a rule").breaches, 0);
}
