use std::net::Ipv4Addr;
use std::sync::Arc;

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::RecordType;
use meridian_dns::Limits;
use tokio::net::UdpSocket;

use crate::common::{Server, addresses, question, region, state};

// Without a subnet the sender's address counts. A new state holds from the next query on, and the
// counters show what was asked and which region answered.
#[tokio::test]
async fn a_new_state_holds_at_once() {
    let server = Server::start(state(2), Limits::default()).await;
    let query = question("llm.example.org.", RecordType::A);
    assert_eq!(addresses(&server.udp(&query).await), ["192.0.2.1", "192.0.2.2"]);
    let mut next = state(2);
    next.fleet.regions.get_mut("eu").unwrap().open = false;
    next.fleet.regions.insert("us".to_owned(), region(["198.51.100.9".to_owned()]));
    server.state.send(Arc::new(next)).unwrap();
    assert_eq!(addresses(&server.udp(&query).await), ["198.51.100.9"]);
    let counts = server.counters.queries();
    let counts: Vec<_> = counts.iter().map(|one| (one.region.as_str(), one.queries)).collect();
    assert_eq!(counts, [("eu", 1), ("us", 1)]);
    server.stop().await;
}

// Garbage gets a format error if it has a header, responses and shorter messages get nothing, and
// the server answers the next query as before.
#[tokio::test]
async fn garbage_is_survived() {
    let server = Server::start(state(1), Limits::default()).await;
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let query = question("llm.example.org.", RecordType::A);
    let mut response = query.clone();
    response[2] |= 0x80;
    let silent: [&[u8]; 4] = [&[], &[1], &query[..11], &response];
    for bytes in silent {
        socket.send_to(bytes, server.at).await.unwrap();
    }
    // Every byte is changed once in every way that sets one bit, and every length is tried.
    let flips = (0..query.len() * 8).map(|bit| {
        let mut bytes = query.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        bytes
    });
    let cuts = (12..query.len()).map(|length| query[..length].to_vec());
    for bytes in flips.chain(cuts).chain([vec![0x11; 5000]]) {
        if bytes[2] & 0x80 == 0 {
            server.udp(&bytes).await;
        }
    }
    let cut = server.udp(&query[..20]).await;
    assert_eq!(cut.metadata.response_code, ResponseCode::FormErr);
    assert_eq!(addresses(&server.udp(&query).await), ["192.0.2.1"]);
    assert!(server.counters.malformed() > 4);
    server.stop().await;
}
