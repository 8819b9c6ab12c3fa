//! A scripted name server over UDP.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use hickory_resolver::proto::op::{Message, ResponseCode};
use hickory_resolver::proto::rr::rdata::{A, AAAA, SRV};
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use tokio::net::UdpSocket;

#[derive(Default)]
struct Zone {
    records: BTreeMap<(Name, RecordType), Vec<Record>>,
    fails: Option<ResponseCode>,
    asked: usize,
}

#[derive(Clone)]
pub(crate) struct Dns {
    pub(crate) addr: SocketAddr,
    zone: Arc<Mutex<Zone>>,
}

impl Dns {
    pub(crate) async fn start() -> Dns {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let dns = Dns { addr: socket.local_addr().unwrap(), zone: Arc::default() };
        let zone = dns.zone.clone();
        tokio::spawn(async move {
            let mut buffer = [0; 4096];
            loop {
                let (n, from) = socket.recv_from(&mut buffer).await.unwrap();
                let query = Message::from_vec(&buffer[..n]).unwrap();
                let answer = zone.lock().unwrap().answer(query);
                socket.send_to(&answer.to_vec().unwrap(), from).await.unwrap();
            }
        });
        dns
    }

    /// Sets the addresses of a name, of either family.
    pub(crate) fn addresses(&self, name: &str, ttl: u32, addresses: &[IpAddr]) {
        let of = |is_4: bool| addresses.iter().filter(move |ip| ip.is_ipv4() == is_4);
        for (kind, is_4) in [(RecordType::A, true), (RecordType::AAAA, false)] {
            let data = of(is_4).map(|ip| match ip {
                IpAddr::V4(ip) => RData::A(A(*ip)),
                IpAddr::V6(ip) => RData::AAAA(AAAA(*ip)),
            });
            self.set(name, kind, ttl, data.collect());
        }
    }

    /// Sets the services of a name: priority, weight, port and target.
    pub(crate) fn services(&self, name: &str, ttl: u32, services: &[(u16, u16, u16, &str)]) {
        let data = services.iter().map(|(priority, weight, port, target)| {
            RData::SRV(SRV::new(*priority, *weight, *port, target.parse().unwrap()))
        });
        self.set(name, RecordType::SRV, ttl, data.collect());
    }

    fn set(&self, name: &str, kind: RecordType, ttl: u32, data: Vec<RData>) {
        let name: Name = name.parse().unwrap();
        let record = |data| Record::from_rdata(name.clone(), ttl, data);
        let records = data.into_iter().map(record).collect();
        self.zone.lock().unwrap().records.insert((name.clone(), kind), records);
    }

    /// Answers every query with this code; with none, from the records again.
    pub(crate) fn fails(&self, how: Option<ResponseCode>) {
        self.zone.lock().unwrap().fails = how;
    }

    pub(crate) fn asked(&self) -> usize {
        self.zone.lock().unwrap().asked
    }
}

impl Zone {
    fn answer(&mut self, query: Message) -> Message {
        self.asked += 1;
        let asked = query.queries[0].clone();
        let mut answer = query.into_response();
        match (self.fails, self.records.get(&(asked.name, asked.query_type))) {
            (Some(code), _) => answer.metadata.response_code = code,
            (None, Some(records)) => answer.insert_answers(records.clone()),
            (None, None) => answer.metadata.response_code = ResponseCode::NXDomain,
        }
        answer
    }
}
