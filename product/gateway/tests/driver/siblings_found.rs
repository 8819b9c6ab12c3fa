//! Gateways of one region that find each other: by a name in the DNS, and by the registry.

use std::net::{IpAddr, SocketAddr};

use meridian_config::{Gateway as Config, SiblingDiscovery};
use meridian_protocol::admin::Status;

use crate::common::{Dns, Fleet, Region, Replica, Script, call, chat, eventually, peers};
use crate::plane::Plane;
use crate::siblings::{gateway, of_siblings};

/// The port of all gateways, as a headless Service has it.
const PORT: u16 = 8082;
const NAME: &str = "gateways.test.";

/// The address of the gateway `us-N`.
fn ip(fleet: &Fleet, number: u8) -> IpAddr {
    let SocketAddr::V4(address) = fleet.address(PORT) else { panic!("a test has IPv4") };
    let [a, b, c, d] = address.ip().octets();
    [a, b, c ^ 0x80, d.wrapping_mul(8).wrapping_add(number)].into()
}

/// The gateway `us-N`, which finds the others by the name.
fn found(fleet: &Fleet, dns: &Dns, number: u8, replica: &Replica) -> Config {
    let mut config = gateway(fleet, number.into(), &[replica]);
    let (server, dns) = (Some(dns.addr), Some(format!("{NAME}:{PORT}")));
    let peers = peers(&mut config);
    peers.listen = (ip(fleet, number), PORT).into();
    peers.accept.clear();
    peers.siblings = Some(SiblingDiscovery { dns, server, registry: false });
    config
}

fn names(status: &Status) -> Vec<&str> {
    let mut names: Vec<_> =
        status.peers.iter().filter(|p| p.state == "up").map(|p| p.name.as_str()).collect();
    names.sort_unstable();
    names
}

// Gateways find each other by the addresses of a name, and leave out their own. One that comes later is
// found, one that stops is forgotten with all that it had in flight, and one whose connection lives stays
// though the name does not have it.
#[tokio::test(start_paused = true)]
async fn by_a_name() {
    let fleet = Fleet::new("prod");
    let replica = Replica::start().await;
    let dns = Dns::start().await;
    let has = |numbers: &[u8]| {
        let ips: Vec<_> = numbers.iter().map(|number| ip(&fleet, *number)).collect();
        dns.addresses(NAME, 1, &ips);
    };
    has(&[1, 2]);
    let first = Region::start(found(&fleet, &dns, 1, &replica)).await;
    let second = Region::start(found(&fleet, &dns, 2, &replica)).await;
    first.until("it finds the second", |s| names(s) == ["us-2"]).await;
    second
        .until("it finds the first", |s| names(s) == ["us-1"] && s.replicas[0].state == "up")
        .await;
    first.until("its replica is up", |s| s.replicas[0].state == "up").await;
    // What ends while the streams begin is not told.
    let told = async || {
        assert_eq!(call(first.listen, chat("hi")).await.status, 200);
        Some(second.status().await).filter(|s| s.peers[0].sibling.unwrap().heard > 0)
    };
    eventually("the second is told", told).await;
    first.until("it counts what it told", |s| s.peers[0].sibling.unwrap().told > 0).await;

    let mut third = Region::start(found(&fleet, &dns, 3, &replica)).await;
    third.until("it finds both", |s| names(s) == ["us-1", "us-2"]).await;
    has(&[2, 3]);
    first.until("it finds the third", |s| names(s) == ["us-2", "us-3"]).await;
    second.until("it keeps the first", |s| names(s) == ["us-1", "us-3"]).await;
    replica.always(Script::silence());
    let listen = third.listen;
    let client = tokio::spawn(async move { call(listen, chat("hi")).await });
    first.until("it counts", |s| of_siblings(s) == 1).await;
    has(&[1, 2]);
    client.abort();
    third.shut_down();
    third.served.await.unwrap().unwrap();
    let status = first.until("it forgets the third", |s| s.peers.len() == 1).await;
    assert_eq!((names(&status), of_siblings(&status)), (vec!["us-2"], 0));
}

// Gateways that follow one control plane find those of their region in its registry, and no others.
#[tokio::test(start_paused = true)]
async fn in_the_registry() {
    let plane = Plane::start("").await;
    let fleet = Fleet::new("prod");
    let replica = Replica::start().await;
    let follower = |mut config: Config| {
        let text = format!("version: 1\ncontrol: {{url: '{}', name: a, lease: 3s}}\n", plane.url());
        config.control = Config::read(&text).unwrap().control;
        config.control.as_mut().unwrap().name = None;
        let peers = peers(&mut config);
        peers.accept.clear();
        peers.siblings = Some(SiblingDiscovery { registry: true, ..SiblingDiscovery::default() });
        config
    };
    let first = Region::start(follower(gateway(&fleet, 1, &[&replica]))).await;
    let mut second = Region::start(follower(gateway(&fleet, 2, &[&replica]))).await;
    let _other = Region::start(follower(fleet.gateway("eu", 3, &[&replica]))).await;
    first.until("it finds the second", |s| names(s) == ["us-2"]).await;
    second.until("it finds the first", |s| names(s) == ["us-1"]).await;
    let three = |s: &Status| s.control.as_ref().unwrap().gateways.len() == 3;
    let status = first.until("all three are registered", three).await;
    assert_eq!(names(&status), ["us-2"], "eu is another region");
    second.shut_down();
    second.served.await.unwrap().unwrap();
    first.until("it forgets the second", |s| s.peers.is_empty()).await;
}
