//! The addresses at which clients reach a gateway from outside: those of a load balancer or of a NAT
//! in front of it, say.

use std::net::IpAddr;

use serde::{Deserialize, Deserializer};

/// Most addresses of one gateway.
const MOST: usize = 16;

/// Every problem of a gateway's public addresses, each with its place below `field`.
#[must_use]
pub fn public_problems(field: &str, addresses: &[IpAddr]) -> Vec<String> {
    let mut found = Vec::new();
    if addresses.len() > MOST {
        found.push(format!("{field}: has {} addresses; use at most {MOST}", addresses.len()));
    }
    for (i, address) in addresses.iter().enumerate() {
        if let Some(problem) = problem(*address) {
            found.push(format!("{field}[{i}]: {address} {problem}"));
        }
        if let Some(twin) = addresses[..i].iter().position(|known| known == address) {
            found.push(format!("{field}[{i}]: {address} is also {field}[{twin}]; remove one"));
        }
    }
    found
}

/// Why no client can use an address, and the remedy.
fn problem(address: IpAddr) -> Option<String> {
    let remedy = "use one at which clients reach the gateway, as in 203.0.113.7";
    let is = match address {
        _ if address.is_unspecified() => "stands for any address",
        _ if address.is_multicast() => "is a multicast address",
        IpAddr::V4(v4) if v4.is_broadcast() => "is the broadcast address",
        IpAddr::V4(v4) if v4.is_link_local() => "is valid on one link only",
        IpAddr::V6(v6) if v6.is_unicast_link_local() => "is valid on one link only",
        IpAddr::V6(v6) => {
            let v4 = v6.to_ipv4_mapped()?;
            return Some(format!("is an IPv4 address in another form; write {v4}"));
        }
        IpAddr::V4(_) => return None,
    };
    Some(format!("{is}; {remedy}"))
}

/// Reads a list of addresses, `[203.0.113.7, "2001:db8::7"]`.
pub(super) fn addresses<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<IpAddr>, D::Error> {
    #[derive(Deserialize)]
    #[serde(try_from = "String")]
    struct Address(IpAddr);
    impl TryFrom<String> for Address {
        type Error = String;
        fn try_from(text: String) -> Result<Address, String> {
            let problem = || format!("`{text}` is not an IP address; write one, as in 203.0.113.7");
            text.parse().map(Address).map_err(|_| problem())
        }
    }
    let read = Vec::<Address>::deserialize(from)?;
    Ok(read.into_iter().map(|address| address.0).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Gateway;

    fn read(list: &str) -> Result<Vec<IpAddr>, String> {
        let control = format!("{{url: 'http://c:1', name: us-1, public: {list}}}");
        let yaml = format!("version: 1\ncontrol: {control}\n");
        let config = Gateway::read(&yaml).map_err(|error| error.to_string())?;
        let again = Gateway::read(&config.print().unwrap()).unwrap();
        assert_eq!(again, config);
        Ok(config.control.unwrap().public)
    }

    // Addresses of both families are accepted, private and loopback ones, too. None is the default,
    // and is not printed.
    #[test]
    fn addresses_of_both_families() {
        let all = read("[203.0.113.7, '2001:db8::7', 10.0.0.1, 127.0.0.1]").unwrap();
        assert_eq!((all.len(), all[1]), (4, "2001:db8::7".parse().unwrap()));
        assert_eq!(read("[]").unwrap(), Vec::<IpAddr>::new());
        let config = Gateway::read("version: 1\ncontrol: {url: 'http://c:1', name: us-1}\n");
        assert!(!config.unwrap().print().unwrap().contains("public"));
    }

    // Addresses that no client can use are refused, each with its place.
    #[test]
    fn problems() {
        for (list, problem) in [
            ("[0.0.0.0]", "control.public[0]: 0.0.0.0 stands for any address; use one at which"),
            ("['::']", "control.public[0]: :: stands for any address"),
            ("[10.0.0.1, 224.0.0.1]", "control.public[1]: 224.0.0.1 is a multicast address"),
            ("['ff02::1']", "control.public[0]: ff02::1 is a multicast address"),
            ("[255.255.255.255]", "control.public[0]: 255.255.255.255 is the broadcast address"),
            ("['fe80::1']", "control.public[0]: fe80::1 is valid on one link only"),
            ("['::ffff:10.0.0.1']", "is an IPv4 address in another form; write 10.0.0.1"),
            (
                "[10.0.0.1, 10.0.0.1]",
                "control.public[1]: 10.0.0.1 is also control.public[0]; remove one",
            ),
            (
                "[10.0.0.1, gw.example.org]",
                "control.public[1]: `gw.example.org` is not an IP address; write one",
            ),
            ("['10.0.0.1:80']", "control.public[0]: `10.0.0.1:80` is not an IP address"),
            ("10.0.0.1", "control.public: has a single value, and needs a list"),
        ] {
            let error = read(list).unwrap_err();
            assert!(error.contains(problem), "{list}: {error}");
        }
        let many: Vec<IpAddr> = (0..17).map(|i| IpAddr::from([10, 0, 0, i])).collect();
        let found = public_problems("gateway.public", &many);
        assert_eq!(found, ["gateway.public: has 17 addresses; use at most 16"]);
    }
}
