//! The relay on one thread of tokio, as each serving thread of the gateway.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

use crate::race::BUFFER;

pub fn run(listen: SocketAddr, server: SocketAddr) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    // As a local task: nothing here moves to another thread.
    tokio::task::LocalSet::new().block_on(&runtime, serve(listen, server))
}

async fn serve(listen: SocketAddr, server: SocketAddr) -> anyhow::Result<()> {
    let listener = TcpListener::bind(listen).await?;
    loop {
        let (client, _) = listener.accept().await?;
        tokio::task::spawn_local(async move {
            let Ok(server) = TcpStream::connect(server).await else { return };
            if client.set_nodelay(true).is_err() || server.set_nodelay(true).is_err() {
                return;
            }
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = server.into_split();
            tokio::task::spawn_local(copy(from_client, to_server));
            copy(from_server, to_client).await;
        });
    }
}

/// Copies until either side closes.
async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
    let mut buffer = vec![0; BUFFER];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}
