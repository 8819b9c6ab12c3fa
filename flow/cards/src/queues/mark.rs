//! Marks a socket of ours with a class.
//!
//! The code point travels with every packet, so hosts, cards and switches can queue by it. The
//! socket's priority is the HTB's class itself: on this host it saves the lookup by filters, where
//! the process may set it.

use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::net::{AddressFamily, sockopt};
use socket2::SockRef;

use super::class::Class;
use super::htb;

/// A socket that could not be marked.
#[derive(Debug, thiserror::Error)]
pub enum MarkError {
    #[error("a socket of family {0} has no IP header to mark; mark TCP and UDP sockets")]
    NotIp(u16),
    #[error("cannot set {option} of the socket: {source}")]
    Option { option: &'static str, source: std::io::Error },
}

/// The marks that a socket has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marked {
    /// Code point and priority.
    Both,
    /// The code point alone, by which the filters find the class. Priorities above 6 need
    /// CAP_NET_ADMIN, or on recent kernels CAP_NET_RAW.
    CodePoint,
}

/// Marks the packets of an IPv4 or IPv6 socket as `class`, from now on. Bits of ECN stay as they
/// are where the kernel manages them (TCP).
///
/// # Errors
///
/// When it is no IP socket, or the kernel refuses the code point.
pub fn mark(socket: impl AsFd, class: Class) -> Result<Marked, MarkError> {
    let fd = socket.as_fd();
    let option = |option| move |errno: Errno| MarkError::Option { option, source: errno.into() };
    match sockopt::socket_domain(fd).map_err(option("SO_DOMAIN"))? {
        AddressFamily::INET => {}
        AddressFamily::INET6 => {
            let byte = u32::from(class.byte());
            sockopt::set_ipv6_tclass(fd, byte).map_err(option("IPV6_TCLASS"))?;
        }
        other => return Err(MarkError::NotIp(other.as_raw())),
    }
    // Also on IPv6 sockets: their IPv4 peers (::ffff:a.b.c.d) get IPv4 packets.
    sockopt::set_ip_tos(fd, class.byte()).map_err(option("IP_TOS"))?;
    // The kernel derives a priority from the TOS, so the priority comes after it.
    let priority = u32::from(htb::HANDLE) << 16 | u32::from(class.minor());
    match SockRef::from(&fd).set_priority(priority) {
        Ok(()) => Ok(Marked::Both),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Ok(Marked::CodePoint),
        Err(source) => Err(MarkError::Option { option: "SO_PRIORITY", source }),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::unix::net::UnixDatagram;

    use super::*;
    use crate::queues::{COLLECTIVE, EIGHT, KV};

    fn tos(socket: impl AsFd) -> u8 {
        sockopt::ip_tos(socket).unwrap()
    }

    // The options read back as set, for IPv4 and IPv6, and a second mark replaces the first.
    #[test]
    fn marks_read_back() {
        for class in EIGHT {
            let v4 = UdpSocket::bind("127.0.0.1:0").unwrap();
            let marked = mark(&v4, class).unwrap();
            assert_eq!(tos(&v4), class.dscp << 2);
            let expected = 0x4d44_0000 | u32::from(class.number + 1);
            let priority = SockRef::from(&v4).priority().unwrap();
            assert_eq!(priority == expected, marked == Marked::Both, "{priority:#x} {marked:?}");
            let v6 = UdpSocket::bind("[::1]:0").unwrap();
            mark(&v6, KV).unwrap();
            mark(&v6, class).unwrap();
            assert_eq!(sockopt::ipv6_tclass(&v6).unwrap(), u32::from(class.byte()));
            assert_eq!(tos(&v6), class.byte());
        }
    }

    // A connected TCP socket may be marked too.
    #[test]
    fn open_connections_are_marked() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        mark(&stream, COLLECTIVE).unwrap();
        assert_eq!(tos(&stream) & 0xfc, 43 << 2);
    }

    // A socket without IP is refused.
    #[test]
    fn other_sockets_are_refused() {
        let (socket, _other) = UnixDatagram::pair().unwrap();
        assert!(mark(&socket, KV).unwrap_err().to_string().contains("no IP header"));
    }
}
