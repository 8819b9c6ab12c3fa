//! Addresses that a program listens on.

use std::io;
use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Deserializer, de::Error};

/// Reads the address of a port, `127.0.0.1:8080`.
pub(crate) fn listening<'de, D: Deserializer<'de>>(from: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map_err(|_| D::Error::custom(not_listening(&text)))
}

/// The problem of an address that cannot be listened on, and its remedy.
fn not_listening(text: &str) -> String {
    let example = "write an IP address and a port, as in 127.0.0.1:8080";
    let bare = text.split_once("://").map_or(text, |(_, rest)| rest).trim_end_matches('/');
    let port = |port: &str| port.parse::<u16>().is_ok();
    if text.parse::<u16>().is_ok() || text.strip_prefix(':').is_some_and(port) {
        let port = text.trim_start_matches(':');
        return format!(
            "`{text}` is a port alone; write 127.0.0.1:{port}, or 0.0.0.0:{port} for clients on other machines"
        );
    }
    if bare != text && bare.parse::<SocketAddr>().is_ok() {
        return format!("`{text}` is a URL; write {bare}");
    }
    if let Ok(ip) = text.trim_matches(['[', ']']).parse::<IpAddr>() {
        return format!("`{text}` has no port; write {}", SocketAddr::new(ip, 8080));
    }
    match bare.rsplit_once(':') {
        Some(("localhost", number)) if port(number) => {
            format!("`{text}` is a name; write 127.0.0.1:{number}")
        }
        Some((host, number))
            if !host.is_empty() && number.parse::<u32>().is_ok_and(|n| n > 65535) =>
        {
            format!("`{text}` has the port {number}; use at most 65535")
        }
        _ => format!("`{text}` is not an address; {example}"),
    }
}

/// The message about an address of the field `field` that the system refuses to listen on.
#[must_use]
pub fn cannot_listen(field: &str, address: SocketAddr, error: &io::Error) -> String {
    let port = address.port();
    match error.kind() {
        io::ErrorKind::AddrInUse => format!(
            "{field}: {address} is in use by another process; stop that process (`ss -ltnp 'sport = :{port}'` shows it), or choose another port"
        ),
        io::ErrorKind::AddrNotAvailable => format!(
            "{field}: {} is not an address of this machine; use one that `ip address` shows, or 0.0.0.0:{port} for all of them",
            address.ip()
        ),
        io::ErrorKind::PermissionDenied => format!(
            "{field}: {address} needs a privilege that this process lacks; choose a port above 1023, or grant CAP_NET_BIND_SERVICE"
        ),
        _ => format!("{field}: cannot listen on {address}: {error}; choose another address"),
    }
}
