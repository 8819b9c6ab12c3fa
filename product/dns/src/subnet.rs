//! The option by which a resolver sends its client's subnet (EDNS Client Subnet, RFC 7871).
//!
//! `hickory-proto` has a type for it that is not used here: it ignores octets after the address,
//! which a server should reject.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The option's code.
pub(crate) const CODE: u16 = 8;

/// The option of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subnet {
    family: u16,
    /// SOURCE PREFIX-LENGTH, in bits.
    source: u8,
    /// As many octets as the length needs.
    octets: Vec<u8>,
    /// The subnet's first address; none if the client wants an answer without its subnet.
    client: Option<IpAddr>,
}

impl Subnet {
    /// Reads the option; `None` if it breaks a rule for queries (RFC 7871, section 6): the family
    /// is IPv4 or IPv6, the length fits the family, the scope is 0, the address has exactly the
    /// octets that its length needs, and no bit is set beyond it. Without an address the family may
    /// be 0, as drafts of the RFC demanded; BIND accepts that too.
    pub(crate) fn read(data: &[u8]) -> Option<Subnet> {
        let (&[family_high, family_low, source, scope], octets) = data.split_first_chunk()?;
        let family = u16::from_be_bytes([family_high, family_low]);
        let width = match family {
            0 => 0,
            1 => 32,
            2 => 128,
            _ => return None,
        };
        if source > width || scope != 0 || octets.len() != usize::from(source.div_ceil(8)) {
            return None;
        }
        let spare = u32::from(source.wrapping_neg() % 8);
        if octets.last().is_some_and(|last| last.trailing_zeros() < spare) {
            return None;
        }
        let client = (source > 0).then(|| address(family, octets));
        Some(Subnet { family, source, octets: octets.to_vec(), client })
    }

    /// The client, unless it asked for an answer without its subnet (SOURCE PREFIX-LENGTH 0,
    /// section 7.1.2).
    pub(crate) fn client(&self) -> Option<IpAddr> {
        self.client
    }

    /// The option of the response: the query's with the scope (section 7.2.1). An answer without a
    /// subnet has the scope 0.
    pub(crate) fn response(&self, scope: u8) -> Vec<u8> {
        let scope = if self.client.is_some() { scope } else { 0 };
        let mut data = self.family.to_be_bytes().to_vec();
        data.extend([self.source, scope]);
        data.extend(&self.octets);
        data
    }
}

fn address(family: u16, octets: &[u8]) -> IpAddr {
    let mut all = [0; 16];
    all[..octets.len()].copy_from_slice(octets);
    match family {
        1 => IpAddr::V4(Ipv4Addr::new(all[0], all[1], all[2], all[3])),
        _ => IpAddr::V6(Ipv6Addr::from(all)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A subnet is its first address; the response repeats it with the scope.
    #[test]
    fn a_subnet_is_read_and_repeated() {
        let subnet = Subnet::read(&[0, 1, 20, 0, 10, 1, 0x20]).unwrap();
        assert_eq!(subnet.client(), Some("10.1.32.0".parse().unwrap()));
        assert_eq!(subnet.response(24), [0, 1, 20, 24, 10, 1, 0x20]);
        let subnet = Subnet::read(&[0, 2, 32, 0, 0x20, 1, 0xd, 0xb8]).unwrap();
        assert_eq!(subnet.client(), Some("2001:db8::".parse().unwrap()));
    }

    // A length of 0 asks for an answer without a subnet, in any family or none.
    #[test]
    fn a_client_may_hide() {
        for family in 0..=2 {
            let subnet = Subnet::read(&[0, family, 0, 0]).unwrap();
            assert_eq!(subnet.client(), None);
            assert_eq!(subnet.response(24), [0, family, 0, 0]);
        }
    }

    // What RFC 7871 tells servers to reject.
    #[test]
    fn malformed_options() {
        let bad: [&[u8]; 10] = [
            &[],
            &[0, 1, 24],
            &[0, 3, 8, 0, 10],              // unknown family
            &[0, 0, 8, 0, 10],              // an address without a family
            &[0, 1, 33, 0, 10, 1, 2, 3, 4], // longer than its family
            &[0, 1, 24, 24, 10, 1, 2],      // a scope in a query
            &[0, 1, 24, 0, 10, 1],          // too few octets
            &[0, 1, 24, 0, 10, 1, 2, 0],    // too many octets
            &[0, 1, 20, 0, 10, 1, 0x28],    // a bit beyond the length
            &[0, 2, 1, 0, 0xc0],
        ];
        for data in bad {
            assert_eq!(Subnet::read(data), None, "{data:?}");
        }
    }
}
