//! The relay on one thread of monoio, whose one interface has a driver on epoll and one on io_uring.

use std::net::SocketAddr;

use monoio::io::{AsyncReadRent, AsyncWriteRent, AsyncWriteRentExt as _, Splitable as _};
use monoio::net::{TcpListener, TcpStream};

use crate::race::BUFFER;

pub fn on_epoll(listen: SocketAddr, server: SocketAddr) -> anyhow::Result<()> {
    monoio::RuntimeBuilder::<monoio::LegacyDriver>::new().build()?.block_on(serve(listen, server))
}

pub fn on_io_uring(listen: SocketAddr, server: SocketAddr) -> anyhow::Result<()> {
    monoio::RuntimeBuilder::<monoio::IoUringDriver>::new().build()?.block_on(serve(listen, server))
}

async fn serve(listen: SocketAddr, server: SocketAddr) -> anyhow::Result<()> {
    let listener = TcpListener::bind(listen)?;
    loop {
        let (client, _) = listener.accept().await?;
        monoio::spawn(async move {
            let Ok(server) = TcpStream::connect(server).await else { return };
            if client.set_nodelay(true).is_err() || server.set_nodelay(true).is_err() {
                return;
            }
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = server.into_split();
            monoio::spawn(copy(from_client, to_server));
            copy(from_server, to_client).await;
        });
    }
}

/// Copies until either side closes.
async fn copy(mut from: impl AsyncReadRent, mut to: impl AsyncWriteRent) {
    let mut buffer = Vec::with_capacity(BUFFER);
    loop {
        let (read, filled) = from.read(buffer).await;
        let Ok(1..) = read else { return };
        let (written, emptied) = to.write_all(filled).await;
        if written.is_err() {
            return;
        }
        buffer = emptied;
        buffer.clear();
    }
}
