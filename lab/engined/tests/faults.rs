//! Faults that an engine is asked for, under paused time; closed connections over real sockets.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{Client, chat, events, options, read};
use meridian_engined::{Service, serve};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

const CHAT: &str = "/v1/chat/completions";

async fn set(client: &mut Client, fault: &str) {
    let (status, answer) = client.json("/faults", &format!(r#"{{"fault":{fault}}}"#)).await;
    assert_eq!(status, 200, "{answer}");
}

fn stream() -> String {
    chat(&[("user", "hello")], r#","max_tokens":9,"stream":true"#)
}

// Every second request gets a 500, until the fault is over. Another fault than these is an error that
// names them.
#[tokio::test(start_paused = true)]
async fn every_second_request_fails() {
    let service = Service::start(options()).unwrap();
    let mut client = Client::connect(&service).await;
    set(&mut client, "\"fail\"").await;
    for status in [200, 500, 200, 500] {
        assert_eq!(read(client.post(CHAT, &stream()).await).await.0, status);
    }
    set(&mut client, "null").await;
    for _ in 0..4 {
        assert_eq!(read(client.post(CHAT, &stream()).await).await.0, 200);
    }
    let (status, answer) = client.json("/faults", r#"{"fault":"burn"}"#).await;
    assert_eq!(status, 400);
    assert!(
        answer["error"]["message"].as_str().unwrap().contains("`fail`, `tell`, `stall`"),
        "{answer}"
    );
}

// An error comes inside a 200: before any token, and after some tokens of a stream.
#[tokio::test(start_paused = true)]
async fn errors_are_told() {
    let service = Service::start(options()).unwrap();
    let mut client = Client::connect(&service).await;
    set(&mut client, "\"tell\"").await;
    for tokens in [Some(9), Some(0), Some(9), Some(4)] {
        let (status, text) = read(client.post(CHAT, &stream()).await).await;
        let (all, told) = (events(&text), text.contains("InternalServerError"));
        assert_eq!((status, all.last(), told), (200, Some(&"[DONE]"), tokens != Some(9)), "{text}");
        let said = all
            .iter()
            .filter(|event| event.contains("\"content\":\"") && !event.contains("\"role\""));
        assert_eq!(said.count(), tokens.unwrap(), "{text}");
    }
    for told in [false, true, false, true] {
        let (status, answer) =
            client.json(CHAT, &chat(&[("user", "hello")], r#","max_tokens":9"#)).await;
        assert_eq!((status, answer["error"].is_object()), (200, told), "{answer}");
    }
}

// A stalled engine answers its probes and nothing else; afterwards, what has come meanwhile is served.
#[tokio::test(start_paused = true)]
async fn nothing_makes_progress() {
    let service = Service::start(options()).unwrap();
    let mut client = Client::connect(&service).await;
    set(&mut client, "\"stall\"").await;
    let mut other = Client::connect(&service).await;
    let start = Instant::now();
    let stalled = tokio::spawn(async move {
        let answer = read(other.post(CHAT, &stream()).await).await;
        (answer.0, start.elapsed())
    });
    sleep(Duration::from_secs(5)).await;
    assert_eq!(client.get("/health").await.0, 200);
    assert_eq!(client.metric("vllm:num_requests_running").await, 0.0);
    assert!(!stalled.is_finished());
    set(&mut client, "null").await;
    let (status, after) = stalled.await.unwrap();
    assert_eq!(status, 200);
    assert!(after > Duration::from_secs(5), "{after:?}");
}

// A connection is closed when its second request arrives.
#[tokio::test]
async fn connections_are_used_once() {
    let (ready, address) = oneshot::channel();
    let (_stop, stopped) = oneshot::channel::<()>();
    tokio::spawn(serve(options(), |at| ready.send(at).unwrap(), stopped));
    let address = address.await.unwrap();
    let connect = || async { Client::over(TcpStream::connect(address).await.unwrap()).await };
    set(&mut connect().await, "\"close\"").await;
    let mut client = connect().await;
    assert_eq!(client.get("/health").await.0, 200);
    let second = tokio::spawn(async move { client.get("/health").await });
    assert!(second.await.is_err(), "a second answer came");
    assert_eq!(connect().await.get("/health").await.0, 200);
}
