//! Our server on loopback, for programs to ask.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;

use meridian_dns::{
    ClientMap, Counters, Fleet, Limits, Region, Settings, Sockets, State, Zone, entries_of_text,
    serve,
};
use tokio::runtime::Builder;
use tokio::sync::watch;

pub(crate) const ZONE: &str = "llm.example.org";
/// The regions and their gateways' addresses: two each of IPv4, one of IPv6.
pub(crate) const REGIONS: [(&str, [&str; 3]); 3] = [
    ("ap", ["203.0.113.1", "203.0.113.2", "2001:db8:a::1"]),
    ("eu", ["192.0.2.1", "192.0.2.2", "2001:db8:e::1"]),
    ("us", ["198.51.100.1", "198.51.100.2", "2001:db8:5::1"]),
];

pub(crate) fn state(clients: &str) -> State {
    let nameservers = [("ns1".to_owned(), vec!["127.0.0.1".parse().unwrap()])].into();
    let settings = Settings { zone: ZONE.to_owned(), nameservers, ..Settings::default() };
    let region = |addresses: [&str; 3]| Region {
        gateways: [("gw".to_owned(), addresses.map(|ip| ip.parse().unwrap()).to_vec())].into(),
        ..Region::default()
    };
    let regions = REGIONS.map(|(name, addresses)| (name.to_owned(), region(addresses))).into();
    State {
        zone: Zone::new(&settings).unwrap(),
        map: Arc::new(
            ClientMap::new(entries_of_text("clients", clients).unwrap(), Some("us")).unwrap(),
        ),
        fleet: Fleet { regions },
    }
}

/// Starts our server on a thread that runs until the tests end.
pub(crate) fn ours(state: State) -> SocketAddr {
    let (udp, tcp) = sockets();
    let at = udp.local_addr().unwrap();
    udp.set_nonblocking(true).unwrap();
    tcp.set_nonblocking(true).unwrap();
    std::thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let udp = vec![tokio::net::UdpSocket::from_std(udp).unwrap()];
            let tcp = vec![tokio::net::TcpListener::from_std(tcp).unwrap()];
            let (_state, states) = watch::channel(Arc::new(state));
            let counters = Arc::new(Counters::default());
            let never = std::future::pending();
            serve(Sockets { udp, tcp }, states, counters, Limits::default(), never).await;
        });
    });
    at
}

/// Sockets for datagrams and connections with the same port.
pub(crate) fn sockets() -> (UdpSocket, TcpListener) {
    loop {
        let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        if let Ok(tcp) = TcpListener::bind(udp.local_addr().unwrap()) {
            return (udp, tcp);
        }
    }
}
