//! Ports for programs that get theirs in their configuration.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};

/// The first port, below those that the kernel gives to connections: one of these might have a
/// program's port when it starts again.
const FIRST: u16 = 10_000;
/// How many there are.
const COUNT: u16 = 10_000;

/// A port that is free now for TCP and UDP, and that no other call here has returned.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Other processes begin elsewhere.
    let first = (std::process::id() % 97) as u16 * 100;
    let mut ports = (0..COUNT)
        .map(|_| FIRST + first.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % COUNT);
    let is_free = |port: &u16| {
        let at = (Ipv4Addr::LOCALHOST, *port);
        TcpListener::bind(at).is_ok() && UdpSocket::bind(at).is_ok()
    };
    ports.find(is_free).expect("a port is free")
}
