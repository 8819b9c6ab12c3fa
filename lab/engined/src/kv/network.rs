//! How engines reach each other's side channels: over TCP, or by pipes in memory, so that tests
//! need only paused time.

use meridian_cards::queues;
use std::collections::HashMap;
use std::io::{Error, ErrorKind, Result};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// A way to reach other engines. Clones of a network in memory are the same network.
#[derive(Clone, Debug, Default)]
pub struct Network(Option<Arc<Memory>>);

/// The listeners of a network in memory, by port.
#[derive(Debug, Default)]
struct Memory {
    ports: Mutex<HashMap<u16, mpsc::UnboundedSender<DuplexStream>>>,
}

/// A connection.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// Accepts connections.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    Memory(mpsc::UnboundedReceiver<DuplexStream>),
}

/// Bytes that a pipe in memory holds.
const PIPE: usize = 1 << 16;

impl Network {
    /// A network of pipes in this process, which ignores host names.
    #[must_use]
    pub fn in_memory() -> Network {
        Network(Some(Arc::default()))
    }

    /// Listens, and returns the address with its port.
    pub(crate) fn listen(&self, address: SocketAddr) -> Result<(Listener, SocketAddr)> {
        let Some(memory) = &self.0 else {
            let listener = std::net::TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            let listener = TcpListener::from_std(listener)?;
            let bound = listener.local_addr()?;
            return Ok((Listener::Tcp(listener), bound));
        };
        let mut ports = memory.ports.lock().unwrap_or_else(PoisonError::into_inner);
        let free = || (1..u16::MAX).find(|port| !ports.contains_key(port));
        let port = match address.port() {
            0 => free().ok_or(ErrorKind::AddrInUse)?,
            port => port,
        };
        let (sender, receiver) = mpsc::unbounded_channel();
        ports.insert(port, sender);
        Ok((Listener::Memory(receiver), SocketAddr::new(address.ip(), port)))
    }

    pub(super) async fn connect(&self, host: &str, port: u16) -> Result<Box<dyn Stream>> {
        let Some(memory) = &self.0 else {
            let stream = TcpStream::connect((host, port)).await?;
            return Ok(Box::new(ready(stream)?));
        };
        let (near, far) = tokio::io::duplex(PIPE);
        let ports = memory.ports.lock().unwrap_or_else(PoisonError::into_inner);
        let refused = || Error::from(ErrorKind::ConnectionRefused);
        let listener = ports.get(&port).ok_or_else(refused)?;
        listener.send(far).map_err(|_| refused())?;
        Ok(Box::new(near))
    }
}

impl Listener {
    pub(super) async fn accept(&mut self) -> Result<Box<dyn Stream>> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                Ok(Box::new(ready(stream)?))
            }
            Listener::Memory(pipes) => {
                let pipe = pipes.recv().await.ok_or(ErrorKind::NotConnected)?;
                Ok(Box::new(pipe))
            }
        }
    }
}

/// Sends small frames at once, in the traffic class of KV (docs/prefill-decode.md).
fn ready(stream: TcpStream) -> Result<TcpStream> {
    stream.set_nodelay(true)?;
    if let Err(error) = queues::mark(&stream, queues::KV) {
        tracing::debug!(%error, "KV goes without a traffic class");
    }
    Ok(stream)
}
