//! A long connection between two gateways, under paused time: every byte takes the real delay, and
//! a connection starts with a small congestion window, as in TCP.
//!
//! At most one window of bytes is in transit per direction. Arrived bytes are acknowledged one
//! delay later, and the window grows by them: it doubles each round trip (RFC 5681 section 3.1). It
//! never shrinks, as with `net.ipv4.tcp_slow_start_after_idle=0`.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

/// Ten segments of 1,460 bytes.
const WINDOW: usize = 14_600;

/// A listener that forwards to `target` with delay `way`.
pub(crate) struct Ocean {
    pub(crate) door: SocketAddr,
    task: JoinHandle<()>,
}

impl Ocean {
    pub(crate) async fn to(target: SocketAddr, way: Duration) -> Ocean {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let door = listener.local_addr().unwrap();
        let task = tokio::spawn(async move {
            loop {
                let (near, _) = listener.accept().await.unwrap();
                tokio::spawn(async move {
                    // The handshake: one round trip before the first byte.
                    tokio::time::sleep(2 * way).await;
                    let Ok(far) = TcpStream::connect(target).await else { return };
                    near.set_nodelay(true).unwrap();
                    far.set_nodelay(true).unwrap();
                    let ((from_near, to_near), (from_far, to_far)) =
                        (near.into_split(), far.into_split());
                    tokio::join!(carry(from_near, to_far, way), carry(from_far, to_near, way));
                });
            }
        });
        Ocean { door, task }
    }
}

impl Drop for Ocean {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// One direction.
struct Water {
    window: usize,
    under_way: usize,
    /// Bytes in transit, with their arrival time; the end is none.
    bytes: VecDeque<(Instant, Option<Bytes>)>,
    /// Bytes read at the other end, with the time at which the sender learns of it.
    acks: VecDeque<(Instant, usize)>,
}

async fn carry(from: OwnedReadHalf, to: OwnedWriteHalf, way: Duration) {
    let water =
        Water { window: WINDOW, under_way: 0, bytes: VecDeque::new(), acks: VecDeque::new() };
    let water = (Mutex::new(water), Notify::new(), Notify::new());
    let water = Arc::new(water);
    tokio::join!(send(from, water.clone(), way), deliver(to, water, way));
}

type Shared = Arc<(Mutex<Water>, Notify, Notify)>;

async fn send(mut from: OwnedReadHalf, shared: Shared, way: Duration) {
    let (water, put, acked) = &*shared;
    loop {
        let (room, next) = {
            let mut water = water.lock().unwrap();
            while water.acks.front().is_some_and(|(at, _)| *at <= Instant::now()) {
                let (_, n) = water.acks.pop_front().unwrap();
                water.under_way -= n;
                water.window += n;
            }
            (water.window - water.under_way, water.acks.front().map(|(at, _)| *at))
        };
        if room == 0 {
            match next {
                Some(at) => sleep_until(at).await,
                None => acked.notified().await,
            }
            continue;
        }
        let mut piece = BytesMut::zeroed(room.min(64 << 10));
        let n = from.read(&mut piece).await.unwrap_or(0);
        let arrives = Instant::now() + way;
        let mut water = water.lock().unwrap();
        water.under_way += n;
        water.bytes.push_back((arrives, (n > 0).then(|| piece.split_to(n).freeze())));
        put.notify_one();
        if n == 0 {
            return;
        }
    }
}

async fn deliver(mut to: OwnedWriteHalf, shared: Shared, way: Duration) {
    let (water, put, acked) = &*shared;
    loop {
        let next = water.lock().unwrap().bytes.pop_front();
        let Some((at, piece)) = next else {
            put.notified().await;
            continue;
        };
        sleep_until(at).await;
        let Some(piece) = piece else { return };
        if to.write_all(&piece).await.is_err() {
            return;
        }
        water.lock().unwrap().acks.push_back((Instant::now() + way, piece.len()));
        acked.notify_one();
    }
}
