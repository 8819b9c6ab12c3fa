//! KV that no decode leg fetches is given back: another request, which a decode engine has to refuse,
//! names it. It is done only if the decode leg was surely not sent.

use std::net::SocketAddr;
use std::time::Duration;

use meridian_protocol::admin::RoleName;
use meridian_protocol::units::Span;
use meridian_routing::Role;
use serde_json::Value;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::common::{Region, Replica, Script, Seen, call, chat, eventually, open};
use crate::legs::{GOOD, Pools, params, prefilled, replica};

const S: Duration = Duration::from_secs(1);

fn is_refusable(seen: &Seen) -> bool {
    seen.text().contains("\"max_tokens\":-1,")
}

fn names_kv(seen: &Seen) -> bool {
    seen.text().contains("kv_transfer_params")
}

/// The request by which KV is given back.
async fn given(replica: &Replica) -> Value {
    let given = || replica.seen().into_iter().find(is_refusable);
    let given = eventually("a request to refuse", async || given()).await;
    serde_json::from_slice(&given.body).unwrap()
}

// A decode replica that cannot be reached never frees the KV. Another one does.
#[tokio::test(start_paused = true)]
async fn the_decode_replica_is_out_of_reach() {
    let pools = Pools::of(1, 2).await;
    pools.decode[0].stop().await;
    let mut n = 0;
    while pools.prefill[0].count() < 3 {
        pools.prefill[0].then(prefilled(&params(&format!("r{n}"))));
        assert_eq!(pools.ask().await.text(), GOOD);
        n += 1;
    }
    assert_eq!(given(&pools.decode[1]).await["kv_transfer_params"]["do_remote_prefill"], true);
    pools.settled().await;
}

// A decode replica that has the request may only be stalled, and reads the KV when it wakes: nothing
// is given back, although probes say that the replica is down.
#[tokio::test(start_paused = true)]
async fn not_what_may_be_read() {
    let pools = Pools::with(1, 2, None, |config| config.probe.down_after = 3).await;
    let stalled = &pools.decode[0];
    stalled.always(Script::silence());
    stalled.answers_probes(false);
    while !stalled.seen().iter().any(names_kv) {
        assert_eq!(pools.ask().await.text(), GOOD);
    }
    let down = |s: &meridian_protocol::admin::Status| s.replicas[1].state == "down";
    pools.region.until("the stalled one is down", down).await;
    tokio::time::sleep(10 * S).await;
    assert!(!pools.decode[1].seen().iter().any(is_refusable));
}

// A replica of another model would refuse for a reason that frees nothing.
#[tokio::test(start_paused = true)]
async fn not_by_another_model() {
    let (p, d, other) = (replica().await, replica().await, Replica::of(&["other"]).await);
    other.page("/version", Script::json(200, r#"{"version":"0.32.0"}"#));
    p.always(prefilled(&params("r")));
    let region = Region::with(&[&p, &d, &other], |config| {
        config.probe.down_after = 1_000_000;
        for (replica, role) in
            config.replicas.iter_mut().zip([Role::Prefill, Role::Decode, Role::Decode])
        {
            replica.role = RoleName(role);
        }
    })
    .await;
    d.stop().await;
    assert_eq!(call(region.listen, chat("hi")).await.status, 502);
    tokio::time::sleep(10 * S).await;
    assert!(p.count() > 0);
    assert_eq!(other.count(), 0);
}

/// Connections to this address hang from now on.
async fn hole(addr: SocketAddr) -> (TcpListener, [TcpStream; 2]) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind(addr).unwrap();
    let hole = socket.listen(1).unwrap();
    // Linux accepts backlog + 1 connections; further ones hang.
    let full = [TcpStream::connect(addr).await.unwrap(), TcpStream::connect(addr).await.unwrap()];
    (hole, full)
}

// A client that leaves while the decode replica is being dialled costs the prefill engine no lease.
#[tokio::test(start_paused = true)]
async fn the_client_leaves_between_the_legs() {
    let pools = Pools::with(1, 2, None, |config| config.timeouts.connect = Span::secs(60)).await;
    pools.decode[0].stop().await;
    let _hole = hole(pools.decode[0].addr).await;
    let listen = pools.region.listen;
    for n in 0.. {
        assert!(n < 10, "each decode replica gets its turn");
        let before = pools.prefill[0].count();
        let client = tokio::spawn(async move {
            open(listen, chat("hi")).await.rest().await;
        });
        let prefilled = async || (pools.prefill[0].count() > before).then_some(());
        eventually("the prefill leg is there", prefilled).await;
        tokio::time::sleep(2 * S).await;
        if !client.is_finished() {
            client.abort();
            break;
        }
    }
    let given = given(&pools.decode[1]).await;
    assert_eq!(given["kv_transfer_params"], params("r"));
    assert_eq!(pools.settled().await.requests.cancelled, 1);
}

// KV that gets too old while the decode replica is being dialled is given back, and the request goes
// whole.
#[tokio::test(start_paused = true)]
async fn dialling_takes_too_long() {
    let pools = Pools::with(1, 2, None, |config| {
        (config.timeouts.connect, config.kv_lease) = (Span::secs(60), Span::secs(4));
    })
    .await;
    pools.decode[0].stop().await;
    let _hole = hole(pools.decode[0].addr).await;
    for _ in 0..2 {
        assert_eq!(pools.ask().await.text(), GOOD);
    }
    assert_eq!(given(&pools.decode[1]).await["kv_transfer_params"], params("r"));
    assert_eq!(pools.settled().await.requests.done, 2);
}

// The parameters may tell tokens of the prompt, so they do not go to another place.
#[tokio::test(start_paused = true)]
async fn not_in_another_place() {
    let pools = Pools::with(1, 2, None, |config| {
        config.replicas[2].labels.insert("zone".to_owned(), "b".to_owned());
    })
    .await;
    pools.decode[0].stop().await;
    while pools.prefill[0].count() < 3 {
        assert_eq!(pools.ask().await.text(), GOOD);
    }
    tokio::time::sleep(10 * S).await;
    assert!(!pools.decode[1].seen().iter().any(is_refusable));
    pools.settled().await;
}
