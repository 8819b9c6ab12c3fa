//! Clients, each with a connection of its own: readers of streams, and idle ones.
//!
//! They read from raw sockets, so that a client takes little memory and reads no more than it should.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use super::answer::Answer;

/// Clients that connect at once.
const AT_ONCE: usize = 128;
/// Timeout for all clients to get their first byte.
const START: Duration = Duration::from_secs(180);
/// Timeout for all streams to end after their release.
const END: Duration = Duration::from_secs(180);
/// Connections of one source address. It has some 28,000 ports, and a free one is found at once only
/// while most are free.
const EACH_ADDRESS: usize = 4000;
/// Bytes that a slow reader takes each second.
const SLOW: usize = 1024;

/// How a client reads its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reader {
    /// Everything at once.
    Eager,
    /// 1 KB a second, until the release.
    Slow,
}

/// How the streams ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ends {
    /// To the last byte.
    pub(super) complete: u64,
    /// Answered with an error.
    pub(super) refused: u64,
    /// By the other side, before the release.
    pub(super) cut_off: u64,
    /// Incomplete, after the release.
    pub(super) broken: u64,
    /// Bytes of all bodies with status 200.
    pub(super) bytes: u64,
}

impl Ends {
    fn add(&mut self, answer: &Answer, released: bool) {
        let of = match answer.status {
            200 if answer.is_whole_stream() => &mut self.complete,
            200 | 0 if released => &mut self.broken,
            200 | 0 => &mut self.cut_off,
            _ => &mut self.refused,
        };
        *of += 1;
        self.bytes += if answer.status == 200 { answer.bytes } else { 0 };
    }

    /// Streams that did not end as they should.
    pub(super) fn lost(&self) -> u64 {
        self.refused + self.cut_off + self.broken
    }
}

/// Open streams.
pub(super) struct Streams {
    tasks: JoinSet<anyhow::Result<(Answer, bool)>>,
    release: watch::Sender<bool>,
    /// Those that have ended.
    ends: Ends,
}

impl Streams {
    /// Opens `count` streams at `address`, and waits for the first byte of each.
    pub(super) async fn open(
        address: SocketAddr,
        body: &str,
        count: usize,
        reader: Reader,
    ) -> anyhow::Result<Streams> {
        let (turns, begun) = (Arc::new(Semaphore::new(AT_ONCE)), Arc::new(AtomicU64::new(0)));
        let request: Arc<[u8]> = request(address, body).into();
        let release = watch::Sender::new(false);
        let (mut tasks, mut ends) = (JoinSet::new(), Ends::default());
        for number in 0..count {
            let (turns, begun, request) = (turns.clone(), begun.clone(), request.clone());
            let released = release.subscribe();
            tasks.spawn(async move {
                let turn = turns.acquire_owned().await?;
                let mut socket = connect(address, number).await?;
                socket.write_all(&request).await?;
                let mut answer = Answer::default();
                let more = read(&mut socket, &mut answer, 4096).await?;
                begun.fetch_add(1, Ordering::Relaxed);
                drop(turn);
                let released = if more {
                    finish(&mut socket, &mut answer, reader, released).await?
                } else {
                    false
                };
                Ok((answer, released))
            });
        }
        let deadline = tokio::time::Instant::now() + START;
        while begun.load(Ordering::Relaxed) < count as u64 {
            let seen = begun.load(Ordering::Relaxed);
            let late = tokio::time::Instant::now() >= deadline;
            ensure!(!late, "only {seen} of {count} streams began within {START:?}");
            while let Some(ended) = tasks.try_join_next() {
                let (answer, released) = ended?.with_context(|| format!("after {seen} streams"))?;
                ends.add(&answer, released);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(Streams { tasks, release, ends })
    }

    /// Tells the clients that the replica ends its streams from now on, and reads them to their ends.
    pub(super) async fn end(mut self) -> anyhow::Result<Ends> {
        self.release.send_replace(true);
        let all = async {
            while let Some(ended) = self.tasks.join_next().await {
                let (answer, released) = ended??;
                self.ends.add(&answer, released);
            }
            anyhow::Ok(self.ends)
        };
        let ended = tokio::time::timeout(END, all).await;
        ended.with_context(|| format!("not all streams ended within {END:?}"))?
    }
}

/// Reads to the end. Whether the release came before it.
async fn finish(
    socket: &mut TcpStream,
    answer: &mut Answer,
    reader: Reader,
    mut released: watch::Receiver<bool>,
) -> anyhow::Result<bool> {
    while reader == Reader::Slow && !*released.borrow_and_update() {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(1)) => {}
            _ = released.changed() => {}
        }
        if !read(socket, answer, SLOW).await? {
            return Ok(*released.borrow());
        }
    }
    while read(socket, answer, 64 << 10).await? {}
    Ok(*released.borrow())
}

/// Reads once, at most so many bytes; whether more will come.
async fn read(socket: &mut TcpStream, answer: &mut Answer, most: usize) -> anyhow::Result<bool> {
    let mut buffer = vec![0; most];
    // A reset is an end, too: the answer tells whether it is complete.
    let read = socket.read(&mut buffer).await.unwrap_or(0);
    let readable = answer.push(&buffer[..read]).is_ok();
    ensure!(readable, "an answer is not HTTP/1.1 with a length or chunks");
    Ok(read > 0 && !answer.is_complete())
}

/// Idle connections, each after one answered request.
pub(super) async fn open_idle(
    address: SocketAddr,
    body: &str,
    count: usize,
) -> anyhow::Result<Vec<TcpStream>> {
    let request = request(address, body);
    let mut sockets = Vec::with_capacity(count);
    for number in 0..count {
        let mut socket = connect(address, number).await?;
        socket.write_all(&request).await?;
        let mut answer = Answer::default();
        while read(&mut socket, &mut answer, 4096).await? {}
        let ok = answer.is_complete() && answer.status == 200;
        ensure!(ok, "connection {number} got status {} in place of an answer", answer.status);
        sockets.push(socket);
    }
    Ok(sockets)
}

/// Connections that the other side has closed.
pub(super) fn closed(sockets: &[TcpStream]) -> usize {
    let is_closed = |socket: &&TcpStream| matches!(socket.try_read(&mut [0; 1]), Ok(0));
    sockets.iter().filter(is_closed).count()
}

fn request(address: SocketAddr, body: &str) -> Vec<u8> {
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {address}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// Connects from the source address of client `number`.
async fn connect(address: SocketAddr, number: usize) -> anyhow::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    // Ports of connections that were closed a moment ago are free for other connections.
    socket.set_reuseaddr(true)?;
    socket.bind(SocketAddrV4::new(source(number), 0).into())?;
    let connected = socket.connect(address).await;
    connected.with_context(|| format!("client {number} cannot connect to {address}"))
}

/// 127.0.0.2 and those behind it; the gateway connects from 127.0.0.1.
fn source(number: usize) -> Ipv4Addr {
    let first = u32::from(Ipv4Addr::LOCALHOST) + 1;
    Ipv4Addr::from(first + u32::try_from(number / EACH_ADDRESS).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    // A source address has fewer clients than it has ports.
    #[test]
    fn addresses_are_shared_out() {
        let first = Ipv4Addr::new(127, 0, 0, 2);
        assert_eq!([source(0), source(EACH_ADDRESS - 1)], [first; 2]);
        assert_eq!(source(2 * EACH_ADDRESS), Ipv4Addr::new(127, 0, 0, 4));
    }

    // A whole stream counts as complete; one without its end is cut off before the release and broken
    // after it; an error is neither.
    #[test]
    fn ends_are_told_apart() {
        let answer = |text: &[u8]| {
            let mut answer = Answer::default();
            answer.push(text).unwrap();
            answer
        };
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        let whole = answer(format!("{head}e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n").as_bytes());
        let half = answer(format!("{head}4\r\ndata\r\n").as_bytes());
        let error = answer(b"HTTP/1.1 503 Busy\r\ncontent-length: 2\r\n\r\nno");
        let mut ends = Ends::default();
        for (answer, released) in [(&whole, true), (&half, true), (&half, false), (&error, false)] {
            ends.add(answer, released);
        }
        let expected = Ends { complete: 1, refused: 1, cut_off: 1, broken: 1, bytes: 22 };
        assert_eq!((ends, ends.lost()), (expected, 3));
    }
}
