//! What a client's resolver does: asks the name servers of a name, and keeps the answer for its TTL.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::opt::{ClientSubnet, EdnsOption};
use hickory_proto::rr::{Name, RData, RecordType};
use tokio::net::UdpSocket;
use tokio::time::{Instant, timeout};

/// How long a name server may take to answer; then the next one is asked.
const SILENCE: Duration = Duration::from_millis(500);
/// Largest answer, bytes.
const MOST: usize = 1232;
/// Bits of a client's subnet that its resolver shows (RFC 7871, section 11.1).
const SHOWN: u8 = 24;

/// A name as one client sees it.
#[derive(Debug)]
pub struct Resolver {
    name: Name,
    /// The name servers; the one in use is first.
    servers: Vec<SocketAddr>,
    subnet: Ipv4Addr,
    addresses: Vec<Ipv4Addr>,
    until: Instant,
}

impl Resolver {
    /// The name for a client at this address; none if it is not a name.
    #[must_use]
    pub fn new(name: &str, servers: Vec<SocketAddr>, client: Ipv4Addr) -> Option<Resolver> {
        let name = Name::from_ascii(format!("{name}.")).ok()?;
        let until = Instant::now();
        Some(Resolver { name, servers, subnet: client, addresses: Vec::new(), until })
    }

    /// The name's addresses now; none while no server answers, or none of its gateways is there.
    pub async fn addresses(&mut self) -> &[Ipv4Addr] {
        if Instant::now() >= self.until {
            self.addresses.clear();
            for _ in 0..self.servers.len() {
                if let Some((addresses, ttl)) = self.ask(self.servers[0]).await {
                    (self.addresses, self.until) = (addresses, Instant::now() + ttl);
                    break;
                }
                self.servers.rotate_left(1);
            }
        }
        &self.addresses
    }

    async fn ask(&self, server: SocketAddr) -> Option<(Vec<Ipv4Addr>, Duration)> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.ok()?;
        socket.connect(server).await.ok()?;
        socket.send(&self.query().to_vec().ok()?).await.ok()?;
        let mut bytes = [0; MOST];
        let length = timeout(SILENCE, socket.recv(&mut bytes)).await.ok()?.ok()?;
        let answer = Message::from_vec(&bytes[..length]).ok()?;
        if answer.metadata.response_code != ResponseCode::NoError {
            return None;
        }
        let address = |data: &RData| match data {
            RData::A(address) => Some(address.0),
            _ => None,
        };
        let ttl = answer.answers.iter().map(|record| record.ttl).min().unwrap_or(0);
        let addresses = answer.answers.iter().filter_map(|record| address(&record.data)).collect();
        Some((addresses, Duration::from_secs(ttl.into())))
    }

    fn query(&self) -> Message {
        // Each question has a socket of its own, which tells its answer from others.
        let mut message = Message::new(7, MessageType::Query, OpCode::Query);
        message.add_query(Query::query(self.name.clone(), RecordType::A));
        let mut edns = Edns::new();
        edns.set_max_payload(MOST as u16);
        let subnet = ClientSubnet::new(self.subnet.into(), SHOWN, 0);
        edns.options_mut().insert(EdnsOption::Subnet(subnet));
        message.set_edns(edns);
        message
    }
}
