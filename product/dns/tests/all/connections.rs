use std::time::Duration;

use hickory_proto::rr::RecordType;
use meridian_dns::Limits;
use tokio::io::AsyncWriteExt;

use crate::common::{Server, addresses, framed, is_closed, question, receive, send, state};

// An answer that is too large for a datagram comes whole over a connection, which then takes more
// queries, also several at once.
#[tokio::test]
async fn large_answers_come_over_connections() {
    let server = Server::start(state(200), Limits::default()).await;
    let query = question("llm.example.org.", RecordType::A);
    let truncated = server.udp(&query).await;
    assert!(truncated.metadata.truncation && truncated.answers.is_empty());
    assert_eq!(server.counters.truncated(), 1);
    let mut stream = server.connect().await;
    send(&mut stream, &query).await;
    assert_eq!(receive(&mut stream).await.answers.len(), 200);
    let us = question("us.llm.example.org.", RecordType::A);
    stream.write_all(&[framed(&us), framed(&query), framed(&us)].concat()).await.unwrap();
    for count in [1, 200, 1] {
        assert_eq!(receive(&mut stream).await.answers.len(), count);
    }
    assert_eq!(server.counters.connections(), 1);
    server.stop().await;
}

// Connections over the limit of a client are closed at once; the others continue, and one that ends
// makes room.
#[tokio::test]
async fn connections_are_limited() {
    let limits = Limits { per_client: 2, ..Limits::default() };
    let server = Server::start(state(1), limits).await;
    let query = question("llm.example.org.", RecordType::A);
    let mut open = Vec::new();
    for _ in 0..2 {
        let mut stream = server.connect().await;
        send(&mut stream, &query).await;
        assert_eq!(addresses(&receive(&mut stream).await), ["192.0.2.1"]);
        open.push(stream);
    }
    assert!(is_closed(&mut server.connect().await).await);
    assert_eq!(server.counters.refused_connections(), 1);
    let mut left = open.pop().unwrap();
    left.shutdown().await.unwrap();
    assert!(is_closed(&mut left).await);
    let mut stream = server.connect().await;
    send(&mut stream, &query).await;
    assert_eq!(addresses(&receive(&mut stream).await), ["192.0.2.1"]);
    server.stop().await;
}

// A connection that sends no whole query in time is closed, at its first byte or its last but one,
// and so is one that announces a query longer than any, or sends a response.
#[tokio::test(start_paused = true)]
async fn connections_that_send_no_query_are_closed() {
    let limits = Limits { idle: Duration::from_secs(10), ..Limits::default() };
    let server = Server::start(state(1), limits).await;
    let query = framed(&question("llm.example.org.", RecordType::A));
    let mut response = query.clone();
    response[4] |= 0x80;
    for bytes in [&query[..0], &query[..1], &query[..query.len() - 1], &[255, 255], &response] {
        let mut stream = server.connect().await;
        stream.write_all(bytes).await.unwrap();
        assert!(is_closed(&mut stream).await, "{bytes:?}");
    }
    server.stop().await;
}
