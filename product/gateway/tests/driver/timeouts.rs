//! Timeouts of everything that may take too long. Time is paused: the minutes pass at once.

use std::time::Duration;

use meridian_protocol::units::Span;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::Instant;

use crate::common::{Region, Replica, Script, call, chat, events, stream_chat};

const MS: Duration = Duration::from_millis(1);

// A replica silent for timeouts.first_byte is given up for another, whether silent before the head
// or after it. If none answers, the 502 names the timeout.
#[tokio::test(start_paused = true)]
async fn first_byte() {
    for silence in [Script::silence(), Script::head(2).hang(), Script::sse().hang()] {
        let (mute, good) = (Replica::start().await, Replica::start().await);
        let region = Region::with(&[&mute, &good], |c| c.timeouts.first_byte = Span::secs(5)).await;
        mute.always(silence.clone());
        let began = Instant::now();
        let answer = call(region.listen, stream_or_plain(&silence)).await;
        assert_eq!((answer.status, answer.header("x-meridian-replica")), (200, "r1"));
        assert!(began.elapsed() >= 5000 * MS && began.elapsed() < 6000 * MS);
        good.always(silence);
        let answer = call(region.listen, chat("hi")).await;
        assert_eq!((answer.status, answer.code().as_str()), (502, "retries_exhausted"));
        assert!(answer.text().contains("timeouts.first_byte"), "{}", answer.text());
        let status = region.settled().await;
        assert_eq!((status.requests.done, status.requests.failed), (1, 1));
        assert_eq!((mute.hangups(), good.hangups()), (2, 1), "abandoned requests are closed");
    }
}

/// A request that suits the script. The good replica answers both kinds with plain JSON.
fn stream_or_plain(script: &Script) -> http::Request<http_body_util::Full<bytes::Bytes>> {
    if script.0.len() > 1 { stream_chat("hi") } else { chat("hi") }
}

// A stream silent for timeouts.idle ends with an error event, a non-streamed answer with a cut.
// Repeated shorter silence does not add up.
#[tokio::test(start_paused = true)]
async fn idle() {
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], |c| c.timeouts.idle = Span::secs(5)).await;
    let event = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n";
    replica.then(Script::sse().event(event).wait(4000 * MS).event(event).hang());
    let began = Instant::now();
    let answer = call(region.listen, stream_chat("hi")).await;
    let took = began.elapsed();
    assert!(took >= 9000 * MS && took < 10_000 * MS, "{took:?}");
    let last = events(answer.text()).last().unwrap().to_string();
    let last: serde_json::Value = serde_json::from_str(&last).unwrap();
    assert!(last["error"]["message"].as_str().unwrap().contains("timeouts.idle"), "{last}");
    assert!(!answer.cut);
    replica.then(Script::unfinished().hang());
    assert!(call(region.listen, chat("hi")).await.cut);
    let status = region.settled().await;
    assert_eq!((status.requests.failed, replica.hangups()), (2, 2));
}

/// The gateway's answer to `sent` followed by silence, and the time until it closes the connection.
async fn silence_after(region: &Region, sent: &str) -> (String, Duration) {
    let mut client = TcpStream::connect(region.listen).await.unwrap();
    client.write_all(sent.as_bytes()).await.unwrap();
    let began = Instant::now();
    let mut said = Vec::new();
    let read = tokio::time::timeout(3600 * 1000 * MS, client.read_to_end(&mut said)).await;
    read.expect("the gateway disconnects within an hour").unwrap();
    (String::from_utf8(said).unwrap(), began.elapsed())
}

// A client that is too slow with its body or its head gets 408. One that sends nothing, or only
// HTTP/2's preface, is disconnected.
#[tokio::test(start_paused = true)]
async fn slow_clients() {
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], |c| c.timeouts.client = Span::secs(5)).await;
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n";
    for length in ["content-length: 100", "transfer-encoding: chunked"] {
        let sent = format!("{head}{length}\r\n\r\n");
        let (said, took) = silence_after(&region, &sent).await;
        assert!(said.starts_with("HTTP/1.1 408 "), "{said}");
        assert!(said.contains("client_too_slow"), "{said}");
        assert!(took >= 5000 * MS && took < 11_000 * MS, "{took:?}");
    }
    for sent in ["", "P", "PRI * HTTP/2.0\r\n\r\n", head, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
        let (said, took) = silence_after(&region, sent).await;
        assert!(!said.contains("HTTP/1.1 2"), "{said}");
        assert!(took >= 5000 * MS && took < 11_000 * MS, "{sent:?}: {took:?}");
    }
    assert_eq!(replica.count(), 0);
    assert_eq!(region.settled().await.requests.accepted, 0);
}

// A kept-alive connection may be idle for timeouts.client between two requests, and is then closed.
#[tokio::test(start_paused = true)]
async fn kept_connections_rest() {
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], |c| c.timeouts.client = Span::secs(5)).await;
    let (said, took) = silence_after(&region, "GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(said.starts_with("HTTP/1.1 200 "), "{said}");
    assert!(took >= 5000 * MS && took < 11_000 * MS, "{took:?}");
}

// A request that takes longer than timeouts.client to be answered does not count as a slow client.
#[tokio::test(start_paused = true)]
async fn slow_answers_are_no_slow_clients() {
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], |c| c.timeouts.client = Span::secs(5)).await;
    let json = "{\"choices\":[]}";
    replica.then(
        Script::default()
            .wait(60_000 * MS)
            .send(&format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{json}", json.len())),
    );
    assert_eq!(call(region.listen, chat("hi")).await.text(), json);
    region.settled().await;
}

// A replica whose address drops connections: a listener with a full backlog leaves further
// handshakes unanswered, and timeouts.connect ends the attempt.
#[tokio::test(start_paused = true)]
async fn black_holes() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let hole = socket.listen(1).unwrap();
    let addr = hole.local_addr().unwrap();
    // Linux accepts backlog + 1 connections; further ones hang.
    let _full = [TcpStream::connect(addr).await.unwrap(), TcpStream::connect(addr).await.unwrap()];
    let good = Replica::start().await;
    let mut config = crate::common::config(&[&good]);
    config.timeouts.connect = Span::secs(2);
    config.probe.down_after = 1_000_000;
    let mut spec = good.spec();
    spec.url = format!("http://{addr}");
    spec.models = vec!["m".to_owned()];
    config.replicas.insert(0, spec);
    let region = Region::start(config).await;
    region.until("the good replica is up", |s| s.replicas[1].state == "up").await;
    region.until("its models are known", |s| !s.replicas[1].models.is_empty()).await;
    let mut slow = 0;
    for _ in 0..2 {
        let began = Instant::now();
        let answer = call(region.listen, chat("hi")).await;
        assert_eq!((answer.status, answer.header("x-meridian-replica")), (200, "r1"));
        slow += u32::from(began.elapsed() >= 2000 * MS);
        assert!(began.elapsed() < 3000 * MS);
    }
    assert_eq!(slow, 2, "the unreachable replica was picked both times");
    assert_eq!(region.settled().await.replicas[0].failed, 2);
}
