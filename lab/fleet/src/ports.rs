//! Ports for programs that get theirs in their configuration.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};

use crate::{Error, Result};

/// Below those that the kernel gives to connections, one of which might have a program's port when
/// the program starts, or starts again.
const PORTS: [u16; 2] = [20_000, 32_000];

/// A port of this machine that is free now for TCP and UDP, and that no other call in this process
/// has returned.
///
/// # Errors
/// If none is free.
pub fn free_port() -> Result<u16> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let [least, most] = PORTS;
    // Other processes begin elsewhere.
    let first = (std::process::id() % 97) as u16 * 100;
    for _ in least..most {
        let nth = first.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % (most - least);
        let at = (Ipv4Addr::LOCALHOST, least + nth);
        if TcpListener::bind(at).is_ok() && UdpSocket::bind(at).is_ok() {
            return Ok(least + nth);
        }
    }
    Err(Error::Missing {
        what: format!("a free port from {least} to {most}"),
        remedy: "end other programs".into(),
    })
}
