//! A client's socket that knows whether a request is being served.
//!
//! hyper itself answers a head that it cannot parse, with a status and no body, so the sender
//! learns nothing. This module recognises such an answer by when it is written, never by its bytes:
//! while no request is being served, hyper writes nothing else in HTTP/1. The answer is held back,
//! and when hyper is done, [`super::malformed`] gets the socket and answers on it.
//!
//! A request's turn starts when the service is called. It ends when its answer's body is dropped
//! and hyper flushes, which it does only with an empty buffer, so no byte of an answer is ever held
//! back. HTTP/2 passes untouched. Each read and write costs a load of a flag.
//!
//! The same turns show whether a connection is in use ([`unused`]): hyper closes an idle HTTP/1
//! connection, but would keep an idle HTTP/2 connection forever.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Version;
use http_body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;

use super::opening::Opening;
use super::stalled;

/// Whether a request is being served on a connection.
#[derive(Debug, Default)]
pub(super) struct Turn {
    state: AtomicU8,
    /// A request has arrived.
    spoke: AtomicBool,
    /// Requests arrived in HTTP/2.
    http2: AtomicBool,
    /// Requests being served.
    open: AtomicU32,
    /// Counts requests; wraps around to 0.
    started: AtomicU32,
}

/// No request is being served.
const IDLE: u8 = 0;
/// A request is being served.
const SERVING: u8 = 1;
/// Its answer has been given to hyper, and may not be written yet.
const ANSWERED: u8 = 2;

impl Turn {
    /// Marks the arrival of a request; it is served until the returned value is dropped.
    pub(super) fn begin(self: &Arc<Turn>, version: Version) -> Served {
        self.spoke.store(true, Relaxed);
        self.state.store(SERVING, Relaxed);
        self.http2.store(version == Version::HTTP_2, Relaxed);
        self.started.fetch_add(1, Relaxed);
        self.open.fetch_add(1, Relaxed);
        Served(self.clone())
    }

    pub(super) fn spoke(&self) -> bool {
        self.spoke.load(Relaxed)
    }

    fn is(&self, state: u8) -> bool {
        self.state.load(Relaxed) == state
    }
}

/// Completes when an HTTP/2 connection has been idle for `patience`, at most twice as long after
/// its last request ended.
pub(super) async fn unused(turn: &Turn, patience: Duration) {
    loop {
        let started = turn.started.load(Relaxed);
        tokio::time::sleep(patience).await;
        let is_same = turn.started.load(Relaxed) == started && turn.open.load(Relaxed) == 0;
        if is_same && turn.http2.load(Relaxed) {
            return;
        }
    }
}

/// A request that is being served.
pub(super) struct Served(Arc<Turn>);

impl Drop for Served {
    fn drop(&mut self) {
        self.0.state.store(ANSWERED, Relaxed);
        let before = self.0.open.fetch_sub(1, Relaxed);
        assert!(before > 0, "more requests of a connection end than began");
    }
}

/// An answer whose end ends the turn.
pub(super) struct Answer<B> {
    pub(super) body: B,
    pub(super) _served: Served,
}

impl<B: http_body::Body<Data = Bytes> + Unpin> http_body::Body for Answer<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        stalled::note(matches!(polled, Poll::Ready(Some(_))));
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The state after hyper is done with a connection.
pub(super) struct Left<S> {
    pub(super) io: S,
    /// hyper's own answer was held back.
    pub(super) held_back: bool,
    /// A head has started and not ended: its bytes may be answered.
    pub(super) in_head: bool,
}

/// The socket as given to hyper.
pub(super) struct Framing<S> {
    /// None once it has been handed over.
    io: Option<S>,
    turn: Arc<Turn>,
    back: Option<oneshot::Sender<Left<S>>>,
    /// Bytes that hyper has not read.
    opening: Opening,
    is_http2: bool,
    /// Bytes have arrived since the last answer.
    heard: bool,
    held_back: bool,
}

impl<S: Unpin> Framing<S> {
    pub(super) fn new(
        io: S,
        opening: Opening,
        turn: Arc<Turn>,
    ) -> (Framing<S>, oneshot::Receiver<Left<S>>) {
        let (back, left) = oneshot::channel();
        let (is_http2, heard) = (opening.is_like_http2(), !opening.is_empty());
        let (io, back) = (Some(io), Some(back));
        (Framing { io, turn, back, opening, is_http2, heard, held_back: false }, left)
    }

    fn io(&mut self) -> Pin<&mut S> {
        Pin::new(self.io.as_mut().expect("the socket is there until this is dropped"))
    }

    /// Whether hyper's current output is its own answer.
    fn holds_back(&mut self) -> bool {
        self.held_back |= self.turn.is(IDLE) && !self.is_http2;
        self.held_back
    }
}

impl<S> Drop for Framing<S> {
    fn drop(&mut self) {
        if let (Some(io), Some(back)) = (self.io.take(), self.back.take()) {
            let in_head = !self.is_http2 && self.heard && self.turn.is(IDLE);
            // The receiver is gone when the gateway shuts down.
            let _ = back.send(Left { io, held_back: self.held_back, in_head });
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Framing<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let this = &mut *self;
        // The first bytes and those that follow them are one read to hyper.
        this.opening.take(buf);
        let taken = buf.filled().len() > before;
        let read = match buf.remaining() {
            0 if taken => Poll::Ready(Ok(())),
            _ => this.io().poll_read(cx, buf),
        };
        this.heard |= buf.filled().len() > before;
        match read {
            // The next read returns the error.
            Poll::Pending | Poll::Ready(Err(_)) if taken => Poll::Ready(Ok(())),
            read => read,
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Framing<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.holds_back() {
            true => Poll::Ready(Ok(buf.len())),
            false => self.io().poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.holds_back() {
            true => Poll::Ready(Ok(bufs.iter().map(|b| b.len()).sum())),
            false => self.io().poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.io.as_ref().is_some_and(AsyncWrite::is_write_vectored)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.turn.is(ANSWERED) {
            self.turn.state.store(IDLE, Relaxed);
            self.heard = false;
        }
        self.io().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.held_back {
            true => Poll::Ready(Ok(())),
            false => self.io().poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    /// A socket that has nothing, or has failed.
    struct Socket(Option<io::ErrorKind>);

    impl AsyncRead for Socket {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            self.0.map_or(Poll::Pending, |kind| Poll::Ready(Err(kind.into())))
        }
    }

    /// The next read with this much space; none if there is nothing.
    async fn read(framing: &mut Framing<Socket>, space: usize) -> Option<io::Result<Vec<u8>>> {
        let mut space = vec![0; space];
        poll_fn(|cx| {
            let mut buf = ReadBuf::new(&mut space);
            Poll::Ready(match Pin::new(&mut *framing).poll_read(cx, &mut buf) {
                Poll::Pending => None,
                Poll::Ready(read) => Some(read.map(|()| buf.filled().to_vec())),
            })
        })
        .await
    }

    // The opening is read before anything that the socket says, and only once.
    #[tokio::test]
    async fn the_opening_comes_first() {
        for failed in [None, Some(io::ErrorKind::ConnectionReset)] {
            let mut opening = Opening::default();
            opening.read(&mut &b"GET /"[..]).await.unwrap();
            let (mut framing, _left) = Framing::new(Socket(failed), opening, Arc::default());
            assert_eq!(read(&mut framing, 1).await.unwrap().unwrap(), b"G");
            assert_eq!(read(&mut framing, 8).await.unwrap().unwrap(), b"ET /");
            let after = read(&mut framing, 8).await;
            assert_eq!(after.map(|read| read.map_err(|e| e.kind())), failed.map(Err));
        }
    }
}
