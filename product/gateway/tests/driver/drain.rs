//! Shutdown in order.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use meridian_protocol::units::Span;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

use crate::common::{Region, Replica, Script, chat, eventually, open, stream_chat};

const MS: Duration = Duration::from_millis(1);

/// A connection that stays open.
async fn keep(address: SocketAddr) -> SendRequest<Full<Bytes>> {
    let stream = TcpStream::connect(address).await.unwrap();
    let (kept, connection) =
        hyper::client::conn::http1::handshake::<_, Full<Bytes>>(TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    kept
}

// A running stream is completed. Meanwhile no new request is accepted, an open connection to the
// admin port gives the reason, and a successor may listen on the addresses. Then the gateway ends,
// and its replicas receive nothing more.
#[tokio::test(start_paused = true)]
async fn streams_end_whole() {
    let replica = Replica::start().await;
    let mut region = Region::of(&[&replica]).await;
    let (mut kept, mut operator) = (keep(region.listen).await, keep(region.admin).await);
    let first = kept.send_request(chat("hi")).await.unwrap();
    assert_eq!(first.status(), 200);
    http_body_util::BodyExt::collect(first.into_body()).await.unwrap();
    let ready = || Request::get("/ready").header("host", "gateway").body(Full::default()).unwrap();
    assert_eq!(operator.send_request(ready()).await.unwrap().status(), 200);

    replica.then(Script::stream(
        &["data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n", "data: [DONE]\n\n"],
        2000 * MS,
    ));
    let running = open(region.listen, stream_chat("hi")).await;
    region.shut_down();
    for address in [region.listen, region.admin] {
        let successor = async || TcpListener::bind(address).await.ok().map(drop);
        eventually("a successor may listen", successor).await;
    }
    assert_eq!(operator.send_request(ready()).await.unwrap().status(), 503);
    match kept.send_request(chat("late")).await {
        Ok(answer) => assert_eq!(answer.status(), 503),
        Err(error) => assert!(error.is_canceled() || error.is_closed(), "{error:?}"),
    }
    assert!(TcpStream::connect(region.listen).await.is_err(), "no client is accepted");
    assert_eq!(replica.count(), 2);
    let whole = running.rest().await;
    assert!(whole.text().ends_with("data: [DONE]\n\n") && !whole.cut);
    region.served.await.unwrap().unwrap();
    let probes = replica.probes();
    tokio::time::sleep(120_000 * MS).await;
    assert_eq!(replica.probes(), probes, "the replica is not probed any more");
}

// Requests that last longer than timeouts.drain are cut, at both ends.
#[tokio::test(start_paused = true)]
async fn patience_ends() {
    let replica = Replica::start().await;
    let mut region = Region::with(&[&replica], |c| c.timeouts.drain = Span::secs(2)).await;
    replica.then(
        Script::sse().event("data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n").hang(),
    );
    let mut running = open(region.listen, stream_chat("hi")).await;
    running.read_to("choices").await;
    let began = Instant::now();
    region.shut_down();
    region.served.await.unwrap().unwrap();
    assert!(began.elapsed() >= 2000 * MS && began.elapsed() < 2500 * MS);
    assert!(running.rest().await.cut);
    eventually("the connection is closed", async || (replica.hangups() == 1).then_some(())).await;
}

// With nothing in flight the gateway ends at once, including idle connections.
#[tokio::test(start_paused = true)]
async fn idle_gateways_go_at_once() {
    let replica = Replica::start().await;
    let mut region = Region::of(&[&replica]).await;
    let _silent = TcpStream::connect(region.listen).await.unwrap();
    let began = Instant::now();
    region.shut_down();
    region.served.await.unwrap().unwrap();
    assert!(began.elapsed() < 1000 * MS, "{:?}", began.elapsed());
}

// The error about an address in use names the field and the remedy.
#[tokio::test(start_paused = true)]
async fn taken_addresses() {
    let replica = Replica::start().await;
    let mut config = crate::common::config(&[&replica]);
    config.admin = replica.addr;
    let error =
        meridian_gateway::serve(config, 0, |_| {}, std::future::pending()).await.unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with(&format!("admin: {} is in use", replica.addr)), "{text}");
}
