//! A server on loopback, and clients for it.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use hickory_proto::op::{Message, MessageType, OpCode, Query};
use hickory_proto::rr::{Name, RecordType};
use meridian_dns::{
    ClientMap, Counters, Fleet, Limits, Region, Settings, Sockets, State, Zone, entries_of_text,
    serve,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

/// Clients on loopback belong to eu.
const CLIENTS: &str = "127.0.0.0/8 eu\n10.2.0.0/16 us";

pub(crate) fn region(addresses: impl IntoIterator<Item = String>) -> Region {
    let gateways = addresses.into_iter().map(|at| (at.clone(), vec![at.parse().unwrap()]));
    Region { gateways: gateways.collect(), ..Region::default() }
}

/// Two regions; eu has so many gateways.
pub(crate) fn state(gateways: u8) -> State {
    let nameservers = [("ns1".to_owned(), vec!["198.51.100.53".parse().unwrap()])].into();
    let zone = "llm.example.org".to_owned();
    let settings = Settings { zone, nameservers, ..Settings::default() };
    let regions = [
        ("eu".to_owned(), region((1..=gateways).map(|n| format!("192.0.2.{n}")))),
        ("us".to_owned(), region(["198.51.100.1".to_owned()])),
    ];
    State {
        zone: Zone::new(&settings).unwrap(),
        map: Arc::new(ClientMap::new(entries_of_text("clients", CLIENTS).unwrap(), None).unwrap()),
        fleet: Fleet { regions: regions.into() },
    }
}

pub(crate) struct Server {
    pub(crate) at: SocketAddr,
    pub(crate) state: watch::Sender<Arc<State>>,
    pub(crate) counters: Arc<Counters>,
    shutdown: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl Server {
    pub(crate) async fn start(state: State, limits: Limits) -> Server {
        // The port of the first socket is mostly free for the second; otherwise both try again.
        let (tcp, udp) = loop {
            let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            if let Ok(udp) = UdpSocket::bind(tcp.local_addr().unwrap()).await {
                break (tcp, udp);
            }
        };
        let at = tcp.local_addr().unwrap();
        let counters = Arc::new(Counters::default());
        let (state, states) = watch::channel(Arc::new(state));
        let (shutdown, over) = oneshot::channel::<()>();
        let over = async { drop(over.await) };
        let sockets = Sockets { udp: vec![udp], tcp: vec![tcp] };
        let serving = tokio::spawn(serve(sockets, states, counters.clone(), limits, over));
        Server { at, state, counters, shutdown, serving }
    }

    /// Stops it, and waits until it has.
    pub(crate) async fn stop(self) {
        self.shutdown.send(()).unwrap();
        self.serving.await.unwrap();
    }

    /// Sends a datagram and returns the answer.
    pub(crate) async fn udp(&self, query: &[u8]) -> Message {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        socket.send_to(query, self.at).await.unwrap();
        let mut buffer = [0; 4096];
        let (length, from) = socket.recv_from(&mut buffer).await.unwrap();
        assert_eq!(from, self.at);
        Message::from_vec(&buffer[..length]).unwrap()
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.at).await.unwrap()
    }
}

pub(crate) fn question(name: &str, kind: RecordType) -> Vec<u8> {
    let mut message = Message::new(7, MessageType::Query, OpCode::Query);
    message.add_query(Query::query(Name::from_ascii(name).unwrap(), kind));
    message.to_vec().unwrap()
}

/// The message with its length before it.
pub(crate) fn framed(message: &[u8]) -> Vec<u8> {
    let length = u16::try_from(message.len()).unwrap();
    [&length.to_be_bytes(), message].concat()
}

pub(crate) async fn send(stream: &mut TcpStream, query: &[u8]) {
    stream.write_all(&framed(query)).await.unwrap();
}

pub(crate) async fn receive(stream: &mut TcpStream) -> Message {
    let length = usize::from(stream.read_u16().await.unwrap());
    let mut answer = vec![0; length];
    stream.read_exact(&mut answer).await.unwrap();
    Message::from_vec(&answer).unwrap()
}

/// Whether the server has closed the connection without another byte.
pub(crate) async fn is_closed(stream: &mut TcpStream) -> bool {
    matches!(stream.read_u8().await, Err(error) if error.kind() != std::io::ErrorKind::WouldBlock)
}

pub(crate) fn addresses(message: &Message) -> Vec<String> {
    let mut all: Vec<String> = message.answers.iter().map(|one| one.data.to_string()).collect();
    all.sort();
    all
}
