//! Gateways that have a secret in place of certificates.

use meridian_config::Gateway as Config;
use meridian_protocol::admin::Status;

use crate::common::{Fleet, Region, Replica, call, chat, config, eventually};
use crate::siblings::{gateway, is_up, lists};

/// The gateway `us-N` with a secret, which follows the other one.
fn with(fleet: &Fleet, secret: &str, number: u16, replica: &Replica) -> Config {
    let mut config = config(&[replica]);
    let yaml = format!(
        "version: 1\nregion: us\npeers: {{listen: {}, secret: {secret}, name: us-{number}}}\n",
        fleet.address(number)
    );
    let read = Config::read(&yaml).unwrap();
    (config.region, config.peers) = (read.region, read.peers);
    lists(&mut config, 3 - number, fleet.address(3 - number));
    config
}

fn problem(status: &Status) -> Option<&str> {
    status.peers[0].problem.as_deref()
}

// Two gateways with one secret report their requests to each other, without any file.
#[tokio::test(start_paused = true)]
async fn one_secret() {
    let fleet = Fleet::new("prod");
    let replica = Replica::start().await;
    let secret = "correct-horse-battery";
    let first = Region::start(with(&fleet, secret, 1, &replica)).await;
    let second = Region::start(with(&fleet, secret, 2, &replica)).await;
    for region in [&first, &second] {
        region.until("its sibling and replicas are up", is_up).await;
    }
    let told = async || {
        assert_eq!(call(first.listen, chat("hi")).await.status, 200);
        Some(second.status().await).filter(|s| s.peers[0].sibling.unwrap().heard > 0)
    };
    eventually("the second is told", told).await;
}

// With another secret, or with certificates on one side, neither follows the other, and both name the
// remedy.
#[tokio::test(start_paused = true)]
async fn other_proofs_are_refused() {
    let fleet = Fleet::new("prod");
    let replica = Replica::start().await;
    let first = Region::start(with(&fleet, "correct-horse-battery", 1, &replica)).await;
    let mut certified = gateway(&fleet, 2, &[&replica]);
    lists(&mut certified, 1, fleet.address(1));
    for other in [with(&fleet, "another-horse-battery", 2, &replica), certified] {
        let mut second = Region::start(other).await;
        for region in [&first, &second] {
            let named =
                |s: &Status| problem(s).is_some_and(|p| p.contains("set the same peers.secret"));
            let status = region.until("the remedy is named", named).await;
            assert_eq!(status.peers[0].state, "gone");
        }
        second.shut_down();
        second.served.await.unwrap().unwrap();
        first
            .until("it is unreachable", |s| problem(s).is_some_and(|p| p.contains("refused")))
            .await;
    }
}
