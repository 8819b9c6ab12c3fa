//! HTTP/2 without TLS, by prior knowledge: the same service on one connection.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Version};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use meridian_protocol::units::Span;

use crate::common::{Region, Replica, Script, eventually, get};

const MS: Duration = Duration::from_millis(1);

async fn connect(region: &Region) -> SendRequest<Full<Bytes>> {
    connect_with(region, 1 << 20).await
}

/// A client with this flow-control window for each answer.
async fn connect_with(region: &Region, window: u32) -> SendRequest<Full<Bytes>> {
    let stream = TcpStream::connect(region.listen).await.unwrap();
    // Delays in the kernel are not in paused time.
    stream.set_nodelay(true).unwrap();
    let (sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(window)
        .handshake(TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    sender
}

fn chat(region: &Region, stream: bool) -> Request<Full<Bytes>> {
    let body = format!(r#"{{"model":"m","stream":{stream},"messages":[]}}"#);
    let uri = format!("http://{}/v1/chat/completions", region.listen);
    Request::post(uri).version(Version::HTTP_2).body(Full::from(body)).unwrap()
}

// Plain answers and streams, many at once on one connection.
#[tokio::test(start_paused = true)]
async fn answers_and_streams() {
    let replica = Replica::start().await;
    let region = Region::of(&[&replica]).await;
    let client = connect(&region).await;
    let events = ["data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n", "data: [DONE]\n\n"];
    replica.always(Script::stream(&events, 50 * MS));
    let calls = (0..20).map(|_| {
        let mut client = client.clone();
        let request = chat(&region, true);
        tokio::spawn(async move {
            let response = client.send_request(request).await.unwrap();
            assert_eq!(
                (response.status(), response.version()),
                (http::StatusCode::OK, Version::HTTP_2)
            );
            response.into_body().collect().await.unwrap().to_bytes()
        })
    });
    for call in calls.collect::<Vec<_>>() {
        assert_eq!(call.await.unwrap(), events.concat());
    }
    replica.always(Script::json(200, "{}"));
    let response = client.clone().send_request(chat(&region, false)).await.unwrap();
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "{}");
    assert_eq!(region.settled().await.requests.done, 21);
    // HTTP/1's hop-by-hop headers do not exist in HTTP/2; the replica receives HTTP/1.1.
    assert_eq!(replica.last().header("host"), Some(replica.addr.to_string().as_str()));
}

// If a client resets a stream, the gateway closes the connection to the replica; the client's
// connection stays usable.
#[tokio::test(start_paused = true)]
async fn a_reset_cancels() {
    let replica = Replica::start().await;
    let region = Region::of(&[&replica]).await;
    let mut client = connect(&region).await;
    replica.then(
        Script::sse().event("data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n").hang(),
    );
    let response = client.send_request(chat(&region, true)).await.unwrap();
    let mut body = response.into_body();
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(first.starts_with(b"data: "));
    drop(body);
    eventually("the connection is closed", async || (replica.hangups() == 1).then_some(())).await;
    assert_eq!(region.settled().await.requests.cancelled, 1);
    let response = client.send_request(chat(&region, false)).await.unwrap();
    assert_eq!(response.status(), 200);
    response.into_body().collect().await.unwrap();
    assert_eq!(region.settled().await.requests.done, 1);
}

// A connection that was idle for `timeouts.client` is closed, and its permit is free again. One
// with a stream stays as long as the stream.
#[tokio::test(start_paused = true)]
async fn unused_connections_are_closed() {
    let replica = Replica::start().await;
    let region = Region::of(&[&replica]).await;
    let connections = async || {
        let page = get(region.admin, "/metrics").await;
        let line = page.text().lines().find_map(|l| l.strip_prefix("meridian_connections "));
        line.unwrap().parse::<f64>().unwrap() as usize
    };
    let mut streaming = connect(&region).await;
    let event = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n";
    let slow = Script::sse().event(event).wait(100_000 * MS).event(event).wait(100_000 * MS);
    replica.then(slow.event("data: [DONE]\n\n").send("0\r\n\r\n"));
    let answer = streaming.send_request(chat(&region, true)).await.unwrap();
    let mut clients = Vec::new();
    for _ in 0..20 {
        let mut client = connect(&region).await;
        let uri = format!("http://{}/health", region.listen);
        let request = Request::get(uri).version(Version::HTTP_2).body(Full::default()).unwrap();
        let health = client.send_request(request).await.unwrap();
        assert_eq!(health.status(), 200);
        health.into_body().collect().await.unwrap();
        clients.push(client);
    }
    assert_eq!(connections().await, 21);
    tokio::time::sleep(Duration::from_secs(61)).await;
    eventually("the unused ones are closed", async || {
        clients.iter().all(SendRequest::is_closed).then_some(())
    })
    .await;
    eventually("their places are free", async || (connections().await == 1).then_some(())).await;
    let all = answer.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(all, [event, event, "data: [DONE]\n\n"].concat());
}

// A non-streamed answer that is cut short resets only its own stream.
#[tokio::test(start_paused = true)]
async fn a_cut_answer_resets() {
    let replica = Replica::start().await;
    let region = Region::of(&[&replica]).await;
    let mut client = connect(&region).await;
    replica.then(Script::unfinished().wait(MS).close());
    let response = client.send_request(chat(&region, false)).await.unwrap();
    assert!(response.into_body().collect().await.is_err());
    let response = client.send_request(chat(&region, false)).await.unwrap();
    response.into_body().collect().await.unwrap();
    let status = region.settled().await;
    assert_eq!((status.requests.failed, status.requests.done), (1, 1));
}

// A client that reads nothing of its answer, or stops in its middle, is given up after
// timeouts.idle: the replica's connection is closed, and the client's stays usable. A client that
// keeps reading is left alone, however slow its replica.
#[tokio::test(start_paused = true)]
async fn answers_that_are_not_taken_end() {
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], |c| c.timeouts.idle = Span::secs(5)).await;
    let event = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";
    let mut hangups = 0;
    for window in [0, 60] {
        let mut client = connect_with(&region, window).await;
        // Each event is a piece of its own, so that one of them meets a closed window.
        replica.then(Script::stream(&[event; 4], MS).hang());
        let response = client.send_request(chat(&region, true)).await.unwrap();
        hangups += 1;
        eventually("the replica's connection is closed", async || {
            (replica.hangups() == hangups).then_some(())
        })
        .await;
        let status = region.settled().await;
        assert_eq!((status.requests.cancelled, status.requests.in_flight), (hangups as u64, 0));
        assert!(response.into_body().collect().await.is_err(), "its stream is reset");
        let slow = Script::stream(&[event, event, event, "data: [DONE]\n\n"], 4000 * MS);
        replica.then(slow);
        let mut open = connect(&region).await;
        let response = open.send_request(chat(&region, true)).await.unwrap();
        let whole = response.into_body().collect().await.unwrap().to_bytes();
        assert!(whole.ends_with(b"data: [DONE]\n\n"));
    }
}
