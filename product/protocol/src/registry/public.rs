//! The addresses at which clients reach a gateway.

use std::net::IpAddr;

use http::Uri;

use super::Gateway;

/// Its public addresses; without any, that of its own address for clients, unless no other machine can
/// use it.
#[must_use]
pub fn public_addresses(gateway: &Gateway) -> Vec<IpAddr> {
    if !gateway.public.is_empty() {
        return gateway.public.clone();
    }
    let uri = gateway.address.parse::<Uri>().ok();
    let host = uri.as_ref().and_then(Uri::host).unwrap_or_default();
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>().ok();
    address.filter(|ip| !ip.is_loopback() && !ip.is_unspecified()).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // The public addresses count, else the one that the gateway listens on, if others can reach it.
    #[test]
    fn addresses_of_a_gateway() {
        let of = |address: &str, public: &[&str]| {
            let public = public.iter().map(|ip| ip.parse().unwrap()).collect();
            let gateway = Gateway { address: address.into(), public, ..Gateway::default() };
            public_addresses(&gateway).iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            of("http://10.0.0.1:8080", &["203.0.113.5", "2001:db8::5"]),
            "203.0.113.5 2001:db8::5"
        );
        assert_eq!(of("http://10.0.0.1:8080", &[]), "10.0.0.1");
        assert_eq!(of("http://[2001:db8::1]:8080", &[]), "2001:db8::1");
        for own in
            ["http://127.0.0.1:8080", "http://0.0.0.0:8080", "http://[::]:1", "http://host:1"]
        {
            assert_eq!(of(own, &[]), "");
        }
        assert_eq!(of("http://127.0.0.1:1", &["127.0.0.1"]), "127.0.0.1");
    }
}
