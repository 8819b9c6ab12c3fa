//! The map that all servers get, the questions about it, and their answers.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::opt::{ClientSubnet, EdnsCode, EdnsOption};
use hickory_proto::rr::{Name, RecordType};

use crate::common::REGIONS;

pub(crate) use meridian_dns::Family;

/// Longer prefixes inside wider ones, neighbours with one region, single addresses, and a prefix
/// that repeats its surroundings. The default region is us.
pub(crate) const CLIENTS: [(&str, &str); 16] = [
    ("10.0.0.0/8", "us"),
    ("10.1.0.0/16", "eu"),
    ("10.1.7.0/24", "us"),
    ("10.1.7.128/25", "ap"),
    ("10.64.0.0/10", "ap"),
    ("10.64.0.0/24", "eu"),
    ("172.16.0.0/12", "eu"),
    ("192.0.2.0/24", "ap"),
    ("192.0.3.0/24", "ap"),
    ("198.51.100.7/32", "eu"),
    ("203.0.113.0/24", "us"),
    ("2001:db8::/32", "us"),
    ("2001:db8:1::/48", "eu"),
    ("2001:db8:1:8000::/49", "ap"),
    ("2001:db8:2::/48", "eu"),
    ("2a00::/12", "eu"),
];

/// A client's subnet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Subnet {
    pub(crate) address: IpAddr,
    pub(crate) length: u8,
}

/// The answer to a question with a subnet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) region: String,
    pub(crate) scope: u8,
}

impl Subnet {
    /// The subnet of an address: its bits after the length are zero.
    pub(crate) fn of(address: IpAddr, length: u8) -> Subnet {
        Subnet { address: keep(address, length), length }
    }

    /// Whether an address is in the first `length` bits of this one.
    pub(crate) fn contains(self, length: u8, other: IpAddr) -> bool {
        other.is_ipv4() == self.address.is_ipv4()
            && keep(other, length) == keep(self.address, length)
    }
}

fn keep(address: IpAddr, length: u8) -> IpAddr {
    let length = u32::from(length);
    match address {
        IpAddr::V4(ip) => {
            IpAddr::V4((u32::from(ip) & u32::MAX.checked_shl(32 - length).unwrap_or(0)).into())
        }
        IpAddr::V6(ip) => {
            IpAddr::V6((u128::from(ip) & u128::MAX.checked_shl(128 - length).unwrap_or(0)).into())
        }
    }
}

/// The questions: around both ends of each prefix, with subnets of several lengths, and addresses
/// drawn from a seed. Each once, in order.
pub(crate) fn subnets() -> Vec<Subnet> {
    let mut all = Vec::new();
    let mut number = 7_u64;
    for (prefix, _) in CLIENTS {
        let (address, length) = prefix.split_once('/').unwrap();
        let (address, length): (IpAddr, u8) = (address.parse().unwrap(), length.parse().unwrap());
        let (width, usual, bits) = match address {
            IpAddr::V4(ip) => (32, 24, u128::from(u32::from(ip)) << 96),
            IpAddr::V6(ip) => (128, 56, u128::from(ip)),
        };
        let last = bits | u128::MAX.checked_shr(u32::from(length)).unwrap_or(0);
        let step = 1 << (128 - width);
        let mut ends = vec![bits, bits.wrapping_sub(step), last, last.wrapping_add(step)];
        for _ in 0..6 {
            // Knuth's MMIX generator, for addresses that are the same in every run.
            number = number
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            ends.push(bits | u128::from(number) << 64 >> length);
        }
        for end in ends {
            let address = match address {
                IpAddr::V4(_) => IpAddr::V4(u32::try_from(end >> 96).unwrap().into()),
                IpAddr::V6(_) => IpAddr::V6(end.into()),
            };
            for length in [width, usual, length, length.saturating_sub(3).max(1)] {
                all.push(Subnet::of(address, length));
            }
        }
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// Asks a server for the addresses of a name. `None` if nothing comes back.
pub(crate) fn ask(
    at: SocketAddr,
    name: &str,
    family: Family,
    subnet: Option<Subnet>,
) -> Option<Message> {
    let kind = match family {
        Family::V4 => RecordType::A,
        Family::V6 => RecordType::AAAA,
    };
    let mut message = Message::new(7, MessageType::Query, OpCode::Query);
    message.add_query(Query::query(Name::from_ascii(format!("{name}.")).unwrap(), kind));
    let mut edns = Edns::new();
    edns.set_max_payload(1232);
    if let Some(Subnet { address, length }) = subnet {
        edns.options_mut().insert(EdnsOption::Subnet(ClientSubnet::new(address, length, 0)));
    }
    message.set_edns(edns);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(at).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    socket.send(&message.to_vec().unwrap()).ok()?;
    let mut buffer = [0; 4096];
    let length = socket.recv(&mut buffer).ok()?;
    Some(Message::from_vec(&buffer[..length]).unwrap())
}

/// The region of an answer and its scope.
pub(crate) fn told(at: SocketAddr, name: &str, family: Family, subnet: Subnet) -> Told {
    let answer = ask(at, name, family, Some(subnet)).expect("an answer");
    assert_eq!(answer.metadata.response_code, ResponseCode::NoError, "{subnet:?}");
    let mut addresses: Vec<String> =
        answer.answers.iter().map(|one| one.data.to_string()).collect();
    addresses.sort();
    let is_of = |ips: &[&str; 3]| match family {
        Family::V4 => addresses == ips[..2],
        Family::V6 => addresses == ips[2..],
    };
    let region = REGIONS.iter().find(|(_, ips)| is_of(ips));
    let region = region.unwrap_or_else(|| panic!("{subnet:?}: {addresses:?} are of no region"));
    let edns = answer.edns.expect("an OPT record");
    let Some(EdnsOption::Subnet(option)) = edns.option(EdnsCode::Subnet) else {
        panic!("{subnet:?}: no subnet in the answer");
    };
    assert_eq!((option.addr(), option.source_prefix()), (subnet.address, subnet.length));
    Told { region: region.0.to_owned(), scope: option.scope_prefix() }
}
