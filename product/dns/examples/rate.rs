//! Queries per second on this machine: the pure part on one thread, and over UDP on loopback with
//! the server on one thread and a client on another.
//!
//! `cargo run --release -p meridian-dns --example rate -- [SECONDS]`

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query};
use hickory_proto::rr::rdata::opt::{ClientSubnet, EdnsOption};
use hickory_proto::rr::{Name, RecordType};
use meridian_dns::{
    ClientMap, Counters, Entry, Fleet, Limits, Place, Region, Settings, Sockets, State, Transport,
    Zone, respond, serve,
};
use tokio::net::UdpSocket;
use tokio::sync::watch;

/// Prefixes of the map: every /16 of 64 networks, in turn to one of three regions.
const REGIONS: [&str; 3] = ["ap", "eu", "us"];
/// Queries under way in the measurement over UDP.
const WINDOW: usize = 64;

fn main() {
    let seconds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(5);
    let time = Duration::from_secs(seconds);
    let state = state();
    let queries: Vec<Vec<u8>> = (0..1024).map(query).collect();
    println!("{} prefixes", state.map.len());
    println!("pure      {:9.0} queries/s", pure(&state, &queries, time));
    println!("loopback  {:9.0} queries/s", loopback(state, &queries, time));
    let (count, took) = large();
    println!("a map of {count} prefixes is made in {took:.1?}");
}

fn state() -> State {
    let address = |a, b| IpAddr::V4(Ipv4Addr::new(192, 0, a, b));
    let nameservers = [("ns1".to_owned(), vec![address(0, 53)])].into();
    let zone = "llm.example.org".to_owned();
    let settings = Settings { zone, nameservers, ..Settings::default() };
    let region = |n: u8| Region {
        gateways: (1..=3)
            .map(|gateway| (format!("gw-{gateway}"), vec![address(n, gateway)]))
            .collect(),
        ..Region::default()
    };
    let regions = (2..).zip(REGIONS).map(|(n, name)| (name.to_owned(), region(n))).collect();
    let prefixes: Vec<(String, &str)> = (0..64 * 256)
        .map(|n: usize| (format!("{}.{}.0.0/16", n / 256 + 10, n % 256), REGIONS[n % 3]))
        .collect();
    State {
        zone: Zone::new(&settings).expect("the settings are right"),
        map: Arc::new(map(&prefixes)),
        fleet: Fleet { regions },
    }
}

fn map(prefixes: &[(String, &str)]) -> ClientMap {
    let place = Place::Field("clients");
    let entries = prefixes.iter().map(|(prefix, region)| Entry { place, prefix, region });
    ClientMap::new(entries, Some("us")).expect("the prefixes are right")
}

/// A question with the subnet of another client each time.
fn query(n: usize) -> Vec<u8> {
    let id = u16::try_from(n).expect("1,024 queries");
    let mut message = Message::new(id, MessageType::Query, OpCode::Query);
    let name = Name::from_ascii("llm.example.org.").expect("a name");
    message.add_query(Query::query(name, RecordType::A));
    let client =
        Ipv4Addr::new(u8::try_from(n % 64).expect("below 64") + 10, id.to_be_bytes()[1], 7, 0);
    let mut edns = Edns::new();
    edns.set_max_payload(1232);
    edns.options_mut().insert(EdnsOption::Subnet(ClientSubnet::new(client.into(), 24, 0)));
    message.set_edns(edns);
    message.to_vec().expect("a short message")
}

fn pure(state: &State, queries: &[Vec<u8>], time: Duration) -> f64 {
    let source = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let start = Instant::now();
    let mut turn = 0;
    while start.elapsed() < time {
        for query in queries {
            turn += 1;
            let reply = respond(state, query, source, Transport::Udp, turn);
            assert!(reply.is_some_and(|reply| reply.region.is_some()));
        }
    }
    rate(turn, start)
}

fn loopback(state: State, queries: &[Vec<u8>], time: Duration) -> f64 {
    let one_thread = || tokio::runtime::Builder::new_current_thread().enable_all().build();
    let server = one_thread().expect("a runtime");
    let socket = server.block_on(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))).expect("a port");
    let at = socket.local_addr().expect("bound");
    let (_state, states) = watch::channel(Arc::new(state));
    let sockets = Sockets { udp: vec![socket], tcp: vec![] };
    let serving = serve(
        sockets,
        states,
        Arc::new(Counters::default()),
        Limits::default(),
        std::future::pending(),
    );
    std::thread::spawn(move || server.block_on(serving));
    one_thread().expect("a runtime").block_on(ask(at, queries, time))
}

/// Keeps a window of queries under way. A datagram that is lost would leave the window smaller, so
/// the rate counts answers.
async fn ask(at: SocketAddr, queries: &[Vec<u8>], time: Duration) -> f64 {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    socket.connect(at).await.expect("loopback");
    let mut buffer = [0; 1500];
    let mut next = queries.iter().cycle();
    for query in next.by_ref().take(WINDOW) {
        socket.send(query).await.expect("loopback");
    }
    let start = Instant::now();
    let mut answers = 0;
    while start.elapsed() < time {
        socket.recv(&mut buffer).await.expect("an answer");
        answers += 1;
        socket.send(next.next().expect("a cycle")).await.expect("loopback");
    }
    rate(answers, start)
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn rate(count: u64, start: Instant) -> f64 {
    count as f64 / start.elapsed().as_secs_f64()
}

/// The time to make a large map.
fn large() -> (usize, Duration) {
    let net = |n: usize| format!("{}.{}.{}.0/24", n >> 16 & 255, n >> 8 & 255, n & 255);
    let prefixes: Vec<(String, &str)> = (0..1 << 20).map(|n| (net(n), REGIONS[n % 3])).collect();
    let start = Instant::now();
    let map = map(&prefixes);
    (map.len(), start.elapsed())
}
