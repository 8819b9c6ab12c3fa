//! The peer port serves only gateways that are listed, in the file or in the registry.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use meridian_config::{Accept, Gateway as Config};
use meridian_protocol::admin::Status;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::common::{Fleet, Region, Replica, call, chat, follow, peers};
use crate::peers::tls;
use crate::plane::Plane;

/// `us` with a replica, which lists no gateway, and `eu`, which follows it.
fn one_way(fleet: &Fleet, replica: &Replica) -> (Config, Config) {
    let mut us = fleet.gateway("us", 1, &[replica]);
    let mut eu = fleet.gateway("eu", 2, &[]);
    follow(&mut eu, "us", fleet.address(1));
    peers(&mut us).accept.clear();
    (us, eu)
}

fn is_up(status: &Status) -> bool {
    status.peers[0].state == "up" && status.peers[0].eligible == 1
}

/// Whether the peer is not connected, for this reason.
fn refused(why: &str) -> impl Fn(&Status) -> bool {
    move |status| {
        let problem = status.peers[0].problem.as_deref().unwrap_or_default();
        problem.matches(why).count() == 1 && status.peers[0].digests == 0
    }
}

// A gateway of the fleet that another one does not list receives no news from it and forwards
// nothing there. Its status gives the reason, which names both gateways and the setting.
#[tokio::test(start_paused = true)]
async fn a_gateway_that_is_not_listed_is_refused() {
    let fleet = Fleet::new("prod");
    let replica = Replica::start().await;
    let (us, eu) = one_way(&fleet, &replica);
    let (us, eu) = (Region::start(us).await, Region::start(eu).await);
    let why =
        "gateway us/us-1 does not list eu/eu-1; add it there to peers.gateways or peers.accept";
    eu.until("eu is refused", refused(why)).await;
    assert_ne!(call(eu.listen, chat("hi")).await.status, 200);
    assert_eq!(replica.count(), 0);
    assert!(us.status().await.peers.is_empty());
}

/// Forwards connections to `to`, and counts them.
async fn counted(to: SocketAddr) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, count) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    let counter = count.clone();
    tokio::spawn(async move {
        while let Ok((mut from, _)) = listener.accept().await {
            counter.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(async move {
                let Ok(mut to) = TcpStream::connect(to).await else { return };
                let _ = tokio::io::copy_bidirectional(&mut from, &mut to).await;
            });
        }
    });
    (address, count)
}

// A gateway that is refused backs off with both of its connections: in ten minutes it dials at most
// once in 2.5 s with each, apart from the first few times.
#[tokio::test(start_paused = true)]
async fn a_refused_gateway_backs_off() {
    let fleet = Fleet::new("prod");
    let replica = Replica::start().await;
    let (us, mut eu) = one_way(&fleet, &replica);
    let (address, count) = counted(fleet.address(1)).await;
    peers(&mut eu).gateways[0].address = address.to_string();
    let (_us, eu) = (Region::start(us).await, Region::start(eu).await);
    eu.until("eu is refused", refused("does not list eu/eu-1")).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    let dialled = count.load(Ordering::Relaxed);
    assert!(dialled > 20 && dialled < 2 * (600 * 2 / 5 + 10), "{dialled} connections");
}

// A gateway that is accepted by name, by its region, or because it is followed itself, is served.
#[tokio::test(start_paused = true)]
async fn listed_gateways_are_served() {
    for accept in ["eu/eu-1", "eu/*", ""] {
        let fleet = Fleet::new("prod");
        let replica = Replica::start().await;
        let (mut us, eu) = one_way(&fleet, &replica);
        match accept {
            "" => follow(&mut us, "eu", fleet.address(2)),
            name => peers(&mut us).accept = vec![Accept(name.to_owned())],
        }
        let (_us, eu) = (Region::start(us).await, Region::start(eu).await);
        eu.until("eu follows us", is_up).await;
        assert_eq!(call(eu.listen, chat("hi")).await.status, 200, "{accept}");
    }
}

// With a control plane, the registry lists a new gateway of the fleet, without a change of the
// files of those that it dials. Its lease may end again.
#[tokio::test(start_paused = true)]
async fn the_registry_lists_gateways() {
    let fleet = Fleet::new("prod");
    let replica = Replica::start().await;
    let plane = Plane::start("").await;
    let (mut us, mut eu) = one_way(&fleet, &replica);
    let control = format!("version: 1\ncontrol: {{url: '{}', name: x, lease: 3s}}\n", plane.url());
    let control = Config::read(&control).unwrap().control.unwrap();
    us.control = Some(meridian_config::Registry { name: None, ..control.clone() });
    let us = Region::start(us).await;
    let other = Region::start(eu.clone()).await;
    other.until("eu is refused", refused("does not list eu/eu-1")).await;
    drop(other);
    eu.control = Some(meridian_config::Registry { name: None, ..control });
    peers(&mut eu).listen = fleet.address(3);
    let eu = Region::start(eu).await;
    eu.until("eu follows us", is_up).await;
    drop(us);
}

// An operator's certificate gives no access to the peer port, though it belongs to the fleet.
#[tokio::test(start_paused = true)]
async fn operators_are_no_gateways() {
    let fleet = Fleet::new("prod");
    let _us = Region::start(fleet.gateway("us", 1, &[])).await;
    let mut operator = fleet.gateway("eu", 2, &[]);
    fleet.operate(&mut operator);
    let mut stream = tls(&fleet, peers(&mut operator), true).await;
    let _ = stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    assert!(answer.is_empty(), "not even settings of HTTP/2 come: {answer:?}");
}
