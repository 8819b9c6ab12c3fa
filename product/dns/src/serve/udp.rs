//! Datagrams: one loop for each socket. An answer takes microseconds, so it is made in the loop;
//! while the loop is busy, datagrams wait in the socket's buffer, whose size is their limit.

use std::sync::Arc;

use tokio::net::UdpSocket;

use super::{LONGEST_QUERY, PAUSE, Shared};
use crate::respond::Transport;

pub(super) async fn answer(shared: Arc<Shared>, socket: UdpSocket) {
    let mut buffer = vec![0; LONGEST_QUERY];
    loop {
        let (length, from) = match socket.recv_from(&mut buffer).await {
            Ok(received) => received,
            Err(error) => {
                tracing::debug!(%error, "cannot receive a datagram");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        // Port 0 can't receive an answer.
        if from.port() == 0 {
            continue;
        }
        let Some(reply) = shared.respond(&buffer[..length], from.ip(), Transport::Udp) else {
            continue;
        };
        if let Err(error) = socket.send_to(&reply.bytes, from).await {
            tracing::debug!(%error, "cannot send an answer");
        }
    }
}
