//! Certificates that are revoked while gateways serve.

use std::sync::Arc;
use std::time::Duration;

use meridian_config::Gateway as Config;
use meridian_gateway::Given;
use meridian_protocol::admin::Status;
use tokio::sync::Notify;

use crate::common::{Fleet, Region, Replica, call, chat, follow, peers};

const ALL: [(&str, u16); 3] = [("us", 1), ("eu", 2), ("asia", 3)];

/// A gateway that follows the two others and reads the revocation list; and its reload trigger.
async fn start(
    fleet: &Fleet,
    (region, port): (&str, u16),
    own: &[&Replica],
) -> (Region, Arc<Notify>) {
    let mut config: Config = fleet.gateway(region, port, own);
    for (other, port) in ALL.iter().filter(|(other, _)| *other != region) {
        follow(&mut config, other, fleet.address(*port));
    }
    peers(&mut config).crl = Some(fleet.crl());
    let given = Given::from(config);
    let reload = given.reload.clone();
    (Region::start(given).await, reload)
}

fn state<'a>(status: &'a Status, region: &str) -> (&'a str, &'a str) {
    let row = status.peers.iter().find(|peer| peer.region == region).unwrap();
    (&row.state, row.problem.as_deref().unwrap_or_default())
}

fn all_up(status: &Status) -> bool {
    status.peers.iter().all(|peer| peer.state == "up" && peer.digests > 0)
}

// A gateway whose certificate is revoked loses its open connections with the reload, and gets no
// new ones, whichever side dials. The others stay connected and report the reason. An invalid list,
// or one signed by another CA, changes nothing.
#[tokio::test(start_paused = true)]
async fn a_revoked_gateway_is_cut_off() {
    let fleet = Fleet::new("prod");
    fleet.revoke(&[]);
    let replica = Replica::start().await;
    let (us, reload_us) = start(&fleet, ALL[0], &[&replica]).await;
    let (eu, _) = start(&fleet, ALL[1], &[]).await;
    let (asia, reload_asia) = start(&fleet, ALL[2], &[]).await;
    for region in [&us, &eu, &asia] {
        region.until("all follow each other", all_up).await;
    }
    let reload = async || {
        reload_us.notify_one();
        reload_asia.notify_one();
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let digests = |status: &Status| status.peers.iter().map(|peer| peer.digests).min();
    let other = Fleet::new("prod");
    other.revoke(&["eu"]);
    let foreign = std::fs::read(other.crl()).unwrap();
    for broken in [b"no list".as_slice(), foreign.as_slice(), b""] {
        std::fs::write(fleet.crl(), broken).unwrap();
        reload().await;
        let before = digests(&us.status().await);
        tokio::time::sleep(Duration::from_secs(10)).await;
        let status = us.status().await;
        assert!(all_up(&status) && digests(&status) > before, "{status:?}");
    }

    fleet.revoke(&["eu"]);
    reload().await;
    for region in [&us, &asia] {
        let cut = |s: &Status| {
            let (state, problem) = state(s, "eu");
            state == "gone" && problem.to_lowercase().contains("revoked")
        };
        region.until("eu is disconnected, and the reason is reported", cut).await;
    }
    let gone = |s: &Status| ["us", "asia"].iter().all(|region| state(s, region).0 == "gone");
    eu.until("eu follows no gateway", gone).await;
    assert_ne!(call(eu.listen, chat("hi")).await.status, 200);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(state(&us.status().await, "asia").0, "up");
    assert_eq!(state(&asia.status().await, "us").0, "up");
    assert_eq!(call(asia.listen, chat("hi")).await.status, 200);
    assert_eq!(replica.count(), 1);

    // Once no longer revoked, it is followed again.
    fleet.revoke(&[]);
    reload().await;
    for region in [&us, &eu, &asia] {
        region.until("all follow each other again", all_up).await;
    }
}

// Of two lists of one CA in the file, the newer one counts, whatever their order, in handshakes as
// for open connections. A gateway that only the newer one revokes is refused at a start, too.
#[tokio::test(start_paused = true)]
async fn the_newest_list_counts() {
    for newest_first in [false, true] {
        let fleet = Fleet::new("prod");
        let (old, new) = (fleet.list(1, &["asia"]), fleet.list(2, &["eu"]));
        let lists = if newest_first { new + &old } else { old + &new };
        std::fs::write(fleet.crl(), lists).unwrap();
        let (us, _) = start(&fleet, ALL[0], &[]).await;
        let (_eu, _) = start(&fleet, ALL[1], &[]).await;
        let (_asia, _) = start(&fleet, ALL[2], &[]).await;
        us.until("asia is followed: the newer list admits it", |s| state(s, "asia").0 == "up")
            .await;
        let refused = |s: &Status| state(s, "eu").1.to_lowercase().contains("revoked");
        us.until("eu is refused", refused).await;
    }
}
