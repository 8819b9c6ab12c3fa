//! Connections: each message is preceded by its length (RFC 1035, section 4.2.2), and a client may
//! send the next query before the answer (RFC 7766, section 6.2.1.1).

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{LONGEST_QUERY, Limits, PAUSE, Shared};
use crate::respond::Transport;

/// The connections of all listeners.
pub(super) struct Places {
    limits: Limits,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    all: usize,
    by_client: BTreeMap<IpAddr, usize>,
}

/// The place of one connection, given back on drop.
struct ConnectionPlace {
    places: Arc<Places>,
    client: IpAddr,
}

impl Places {
    pub(super) fn new(limits: Limits) -> Places {
        Places { limits, taken: Mutex::default() }
    }

    /// A place for a connection from `source`, if there is one.
    fn take(self: &Arc<Self>, source: IpAddr) -> Option<ConnectionPlace> {
        let client = client(source);
        let mut taken = self.taken();
        let own = taken.by_client.get(&client).copied().unwrap_or(0);
        if taken.all >= self.limits.connections || own >= self.limits.per_client {
            return None;
        }
        taken.all += 1;
        taken.by_client.insert(client, own + 1);
        drop(taken);
        Some(ConnectionPlace { places: self.clone(), client })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().expect("no panic while held")
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        taken.all -= 1;
        if let Some(own) = taken.by_client.get_mut(&self.client) {
            *own -= 1;
            if *own == 0 {
                taken.by_client.remove(&self.client);
            }
        }
    }
}

/// The address that connections are counted by: one customer of IPv6 has a whole /64.
fn client(source: IpAddr) -> IpAddr {
    match source.to_canonical() {
        IpAddr::V6(ip) => {
            let [a, b, c, d, ..] = ip.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        v4 => v4,
    }
}

pub(super) async fn accept(shared: Arc<Shared>, listener: TcpListener, places: Arc<Places>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::debug!(%error, "cannot accept a connection");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        while connections.try_join_next().is_some() {}
        let Some(place) = places.take(from.ip()) else {
            shared.counters.refused.fetch_add(1, Relaxed);
            continue;
        };
        let shared = shared.clone();
        connections.spawn(async move {
            let open = Open::new(&shared);
            if let Err(error) = converse(&shared, stream, from.ip(), &place).await {
                tracing::debug!(%error, "a connection broke");
            }
            drop(open);
        });
    }
}

/// Counts a connection while it is open.
struct Open<'a>(&'a Shared);

impl Open<'_> {
    fn new(shared: &Shared) -> Open<'_> {
        shared.counters.connections.fetch_add(1, Relaxed);
        Open(shared)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.counters.connections.fetch_sub(1, Relaxed);
    }
}

/// Answers the queries of a connection, one after the other, until the client closes it, a limit is
/// reached or a message gets no answer.
async fn converse(
    shared: &Shared,
    mut stream: TcpStream,
    source: IpAddr,
    place: &ConnectionPlace,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let idle = place.places.limits.idle;
    let mut query = Vec::new();
    while timeout(idle, read(&mut stream, &mut query)).await?? {
        let Some(reply) = shared.respond(&query, source, Transport::Tcp) else {
            return Ok(());
        };
        let length = u16::try_from(reply.bytes.len()).map_err(io::Error::other)?;
        let mut message = length.to_be_bytes().to_vec();
        message.extend(reply.bytes);
        timeout(idle, stream.write_all(&message)).await??;
    }
    Ok(())
}

/// Reads a query; false at the end of the connection.
async fn read(stream: &mut TcpStream, query: &mut Vec<u8>) -> io::Result<bool> {
    let mut length = [0; 2];
    if stream.read(&mut length[..1]).await? == 0 {
        return Ok(false);
    }
    stream.read_exact(&mut length[1..]).await?;
    let length = usize::from(u16::from_be_bytes(length));
    if length > LONGEST_QUERY {
        return Err(io::Error::other("a query is too long"));
    }
    query.resize(length, 0);
    stream.read_exact(query).await?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    // The limits hold for all clients together and for each one, and a closed connection makes room.
    #[test]
    fn places_are_limited_and_given_back() {
        let limits = Limits { connections: 3, per_client: 2, ..Limits::default() };
        let places = Arc::new(Places::new(limits));
        let take = |ip: &str| places.take(ip.parse().unwrap());
        let first = take("2001:db8::1").unwrap();
        let _second = take("2001:db8::2").unwrap();
        assert!(take("2001:db8::3").is_none(), "the same /64");
        let _third = take("192.0.2.1").unwrap();
        assert!(take("192.0.2.2").is_none(), "three at most");
        drop(first);
        assert!(take("::ffff:192.0.2.1").is_some(), "the second of this client");
        assert_eq!(places.taken().by_client.len(), 2);
    }
}
