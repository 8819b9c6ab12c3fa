//! Temporary losses are waited out, and adopted replicas are found: peers that are lost for a
//! moment, a pause of the gateway itself, and replicas of a region whose gateway is gone.

use std::time::Duration;

use meridian_protocol::admin::Status;

use crate::common::{Region, Replica, call, chat, config, peers};
use crate::residency::{KEY, World, ask, kept};
use crate::tenants::bearing;

// A request arrives when its only permitted peer is lost but not yet noticed as lost. It waits, and
// is served once the peer is back.
#[tokio::test(start_paused = true)]
async fn a_lost_peer_is_waited_for() {
    let world = World::of(2).await.each(|config| kept(config, &["eu"]));
    let mut regions = world.start().await;
    let eu = regions.pop().expect("there are two");
    eu.served.abort();
    let listen = regions[0].listen;
    let asked = async |text: &str| call(listen, bearing(chat(text), KEY)).await;
    let back = async {
        regions[0].until("both are held", |s| s.held == 2).await;
        Region::start(world.configs[1].clone()).await
    };
    let later = async {
        regions[0].until("eu is gone", |s| s.peers[0].state == "gone").await;
        asked("after").await
    };
    let (at_once, after, _eu) = tokio::join!(asked("at once"), later, back);
    for answer in [at_once, after] {
        assert_eq!(
            (answer.status, answer.header("x-meridian-region")),
            (200, "eu"),
            "{}",
            answer.text()
        );
    }
    assert_eq!(world.counts(), [0, 2]);
}

// A gateway that was paused for longer than it trusts digests considers all peers lost. Requests
// then wait for the peers' next digests.
#[tokio::test(start_paused = true)]
async fn a_pause_of_the_gateway_refuses_nothing() {
    let world = World::of(2).await.each(|config| kept(config, &["eu"]));
    let regions = world.start().await;
    for seconds in [3, 30] {
        // Everything is late at once, as after SIGSTOP and SIGCONT.
        tokio::time::advance(Duration::from_secs(seconds)).await;
        let answer = ask(&regions[0], KEY).await;
        assert_eq!(
            (answer.status, answer.header("x-meridian-region")),
            (200, "eu"),
            "{}",
            answer.text()
        );
    }
    assert_eq!(world.counts(), [0, 2]);
}

/// A replica in `region`, in the form of the admin API.
fn adopted(replica: &Replica, region: &str) -> String {
    format!(r#"{{"url": "{}", "region": "{region}"}}"#, replica.url())
}

// The gateway of eu is gone. A request at us waits, and goes to eu's replica as soon as us adopts
// it. asia, whose only permitted region is gone, forwards its requests because of the places that
// us reports, and us serves them on eu's replica though its own is idle.
#[tokio::test(start_paused = true)]
async fn adopters_serve_what_they_adopted() {
    let mut world = World::of(3).await.each(|config| kept(config, &["eu"]));
    for peer in &mut peers(&mut world.configs[2]).gateways {
        peer.places = vec!["eu".to_owned()];
    }
    let mut regions = world.start().await;
    let eu = regions.remove(1);
    eu.served.abort();
    let (us, asia) = (&regions[0], &regions[1]);
    let gone = |s: &Status| s.peers.iter().any(|p| p.region == "eu" && p.state == "gone");
    us.until("eu is gone", gone).await;
    asia.until("eu is gone", gone).await;
    let waits = call(us.listen, bearing(chat("held"), KEY));
    let adopts = async {
        us.until("it is held", |s| s.held == 1).await;
        us.admin("POST", "/admin/replicas", &adopted(&world.replicas[1], "eu")).await
    };
    let (held, added) = tokio::join!(waits, adopts);
    assert_eq!(added.status, 201, "{}", added.text());
    assert_eq!((held.status, held.header("x-meridian-region")), (200, "eu"), "{}", held.text());
    for _ in 0..3 {
        let answer = ask(asia, KEY).await;
        assert_eq!(
            (answer.status, answer.header("x-meridian-region")),
            (200, "eu"),
            "{}",
            answer.text()
        );
        assert_eq!(answer.header("x-meridian-peer"), "us/us-1");
    }
    assert_eq!(world.counts(), [0, 4, 0]);
    // After it is handed back, the requests wait again, and none goes to the replica of us.
    us.admin("DELETE", "/admin/replicas/r1", "").await;
    let answer = ask(asia, KEY).await;
    assert_eq!((answer.status, answer.code().as_str()), (503, "held_too_long"));
    assert_eq!(world.counts(), [0, 4, 0]);
}

// Far more places than there are numbers appear and disappear in a gateway's life: the next replica
// still serves requests that a rule names. If there are more places at one time than numbers, the
// rest serve only requests without a rule, until a number is free.
#[tokio::test(start_paused = true)]
async fn numbers_of_places_come_back() {
    let (us, eu) = (Replica::start().await, Replica::start().await);
    let mut config = config(&[&us]);
    kept(&mut config, &["jurisdiction=eu"]);
    config.region = "us".to_owned();
    let region = Region::start(config).await;
    region.until("it is up", |s| s.replicas.iter().all(|r| r.state == "up")).await;
    let add = |at: &str, rack: usize| {
        let body =
            format!(r#"{{"url": "{at}", "labels": {{"jurisdiction": "eu", "rack": "{rack}"}}}}"#);
        let region = &region;
        async move { region.admin("POST", "/admin/replicas", &body).await.status }
    };
    for rack in 0..150 {
        assert_eq!(add(&eu.url(), rack).await, 201);
        assert_eq!(region.admin("DELETE", "/admin/replicas/1", "").await.status, 200, "{rack}");
    }
    for rack in 0..70 {
        assert_eq!(add(&format!("http://127.0.0.1:{}", rack + 1), rack).await, 201);
    }
    assert_eq!(add(&eu.url(), 70).await, 201);
    let up =
        |s: &Status| s.replicas.last().is_some_and(|r| r.state == "up" && !r.models.is_empty());
    region.until("it is up", up).await;
    let answer = ask(&region, KEY).await;
    assert_eq!((answer.status, us.count(), eu.count()), (503, 0, 0), "{}", answer.text());
    for id in 5..20 {
        region.admin("DELETE", &format!("/admin/replicas/{id}"), "").await;
    }
    let answer = ask(&region, KEY).await;
    assert_eq!((answer.status, us.count(), eu.count()), (200, 0, 1), "{}", answer.text());
}
