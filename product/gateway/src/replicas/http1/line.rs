//! One connection to a replica.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{Method, StatusCode, response};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use tokio::io::{AsyncRead, ReadBuf};

use super::body::Body;
use super::head::{self, Head};
use super::request::Sending;
use super::{Broken, Host, Request};
use crate::replicas::socket::Socket;

/// Most bytes of one read.
const READ: usize = 64 << 10;

thread_local! {
    /// The buffer of all reads of a thread. Each empties it before it returns.
    static BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ].into());
}

/// One connection. It carries one request and its answer at a time.
pub(in crate::replicas) struct Line {
    socket: Socket,
    sending: Sending,
    body: Body,
    /// The part of the body that arrived with the head.
    ahead: Bytes,
    /// Whether the answer's head allows another request.
    keeps: bool,
    /// How long the replica keeps the connection for one, if it says so.
    rests: Option<Duration>,
}

/// Why a request brought no answer head.
pub(in crate::replicas) struct Unanswered {
    /// No byte of the request was sent.
    pub(in crate::replicas) unsent: bool,
    /// Some bytes of an answer arrived.
    pub(in crate::replicas) began: bool,
    pub(in crate::replicas) error: Broken,
}

/// The bytes of a head that is not complete.
#[derive(Default)]
struct Partial {
    bytes: Vec<u8>,
    /// How many of them have been read in vain.
    tried: usize,
    /// Whether any came, also those of an interim answer.
    began: bool,
}

/// The beginning of an answer: its head, and the part of its body that arrived in the same read.
struct Begun {
    parts: response::Parts,
    body: Body,
    keeps: bool,
    ahead: Bytes,
}

impl Line {
    pub(in crate::replicas) fn new(socket: Socket) -> Line {
        let (sending, body) = (Sending::nothing(), Body::Length(0));
        Line { socket, sending, body, ahead: Bytes::new(), keeps: true, rests: None }
    }

    /// Sends a request and waits for the head of its answer.
    pub(in crate::replicas) async fn ask(
        &mut self,
        request: Request<'_>,
        host: Host<'_>,
    ) -> Result<response::Parts, Unanswered> {
        assert!(self.is_reusable(), "a request is sent in the middle of another's answer");
        // Until there is an answer.
        self.keeps = false;
        self.sending = Sending::new(request, host);
        let mut partial = Partial::default();
        poll_fn(|cx| self.poll_head(cx, request.method, &mut partial)).await
    }

    /// Sends what the connection takes, and reads the head.
    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        method: &Method,
        partial: &mut Partial,
    ) -> Poll<Result<response::Parts, Unanswered>> {
        // A replica may refuse a body before it has read it, so a failure to send is reported only
        // if no answer can arrive.
        if let Err(error) = self.poll_send(cx)
            && self.sending.is_unsent()
        {
            return Poll::Ready(Err(Unanswered {
                unsent: true,
                began: false,
                error: error.into(),
            }));
        }
        loop {
            let head = ready!(read(&mut self.socket, cx, |bytes| partial.take(bytes, method)));
            let error = match head {
                Ok(Some(begun)) => return Poll::Ready(Ok(self.begin(begun))),
                Ok(None) => continue,
                Err(error) => error,
            };
            return Poll::Ready(Err(Unanswered { unsent: false, began: partial.began, error }));
        }
    }

    fn begin(&mut self, begun: Begun) -> response::Parts {
        let Begun { parts, body, keeps, ahead } = begun;
        (self.body, self.keeps, self.ahead) = (body, keeps, ahead);
        self.rests = head::rests(&parts.headers);
        parts
    }

    /// The next piece of the answer's body; none after its end.
    pub(in crate::replicas) fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Broken>>> {
        if !self.ahead.is_empty() {
            return Poll::Ready(Some(Ok(std::mem::take(&mut self.ahead))));
        }
        // The rest of a body that the replica answered early.
        let _ = self.poll_send(cx);
        while !self.body.is_done() {
            if let Some(broken) = self.body.broken() {
                return Poll::Ready(Some(Err(broken)));
            }
            let (body, keeps) = (&mut self.body, &mut self.keeps);
            let piece = read(&mut self.socket, cx, |bytes| Ok(decode(body, keeps, bytes)));
            match ready!(piece) {
                // It may have been the size of a chunk.
                Ok(piece) if piece.is_empty() => {}
                Err(Broken::Closed) if self.body == Body::UntilClose => {
                    self.body = Body::Length(0);
                }
                piece => return Poll::Ready(Some(piece)),
            }
        }
        Poll::Ready(None)
    }

    /// Whether the whole answer has arrived and was taken.
    pub(in crate::replicas) fn is_over(&self) -> bool {
        self.body.is_done() && self.ahead.is_empty()
    }

    /// Whether another request can be sent after this answer.
    pub(in crate::replicas) fn is_reusable(&self) -> bool {
        self.is_over() && self.keeps && self.sending.is_done()
    }

    /// How long the replica keeps the connection after its last answer, if it says so.
    pub(in crate::replicas) fn rests(&self) -> Option<Duration> {
        self.rests
    }

    /// Whether nothing has arrived since the last answer: an unrequested answer would be taken for
    /// the next one's. The runtime knows only the bytes it was notified of, so the kernel itself is
    /// asked, by a read that leaves them in place.
    pub(in crate::replicas) fn is_silent(&mut self, cx: &mut Context<'_>) -> bool {
        if let Socket::Tls(_) = self.socket {
            // Tickets for later sessions are not an answer.
            let read = read(&mut self.socket, cx, |_| Ok(()));
            if read.is_ready() {
                return false;
            }
        }
        let mut byte = [0];
        let peeked = recv(self.socket.tcp(), &mut byte[..], RecvFlags::PEEK | RecvFlags::DONTWAIT);
        matches!(peeked, Err(Errno::WOULDBLOCK | Errno::INTR))
    }

    /// Whether bytes have arrived since the last answer that no request asked for; a closed
    /// connection has none. Over TLS they may be tickets, so nothing is said of those.
    pub(in crate::replicas) fn has_more(&mut self) -> bool {
        let mut byte = [0];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let peeked = recv(self.socket.tcp(), &mut byte[..], flags).map(|(_, peeked)| peeked);
        !matches!(self.socket, Socket::Tls(_)) && peeked.is_ok_and(|peeked| peeked > 0)
    }

    fn poll_send(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if !self.sending.is_open() {
            return Ok(());
        }
        if let Socket::Tls(_) = self.socket {
            self.sending.begins();
        }
        match self.sending.poll(&mut self.socket, cx) {
            Poll::Ready(sent) => sent,
            Poll::Pending => Ok(()),
        }
    }
}

/// The part of the body in `bytes`. A connection with bytes left after its answer is not used again.
fn decode(body: &mut Body, keeps: &mut bool, bytes: &[u8]) -> Bytes {
    if bytes.is_empty() {
        return Bytes::new();
    }
    let mut out = BytesMut::with_capacity(bytes.len());
    let taken = body.take(bytes, &mut out);
    assert!(taken <= bytes.len() && out.len() <= taken, "a body has more bytes than arrived");
    *keeps &= taken == bytes.len();
    out.freeze()
}

impl Partial {
    /// Adds bytes to the head. Returns the beginning of the answer once its head is complete.
    fn take(&mut self, bytes: &[u8], method: &Method) -> Result<Option<Begun>, Broken> {
        self.began = true;
        if !self.bytes.is_empty() {
            self.bytes.extend_from_slice(bytes);
            // A head that trickles in is not read again for each byte: its lines are, and so is what
            // makes it longer by a sixteenth, which may show that it is no head.
            let worthwhile = bytes.contains(&b'\n') || self.bytes.len() >= self.tried / 16 * 17;
            if !worthwhile {
                return Ok(None);
            }
        }
        let mut at = 0;
        loop {
            let all = if self.bytes.is_empty() { bytes } else { &self.bytes[..] };
            let Some(head) = head::read(&all[at..], method)? else { break };
            let Head { parts, mut body, mut keeps, len } = head;
            at += len;
            assert!(at <= all.len(), "a head has more bytes than arrived");
            // The answer itself follows a `100 Continue` or `103 Early Hints`.
            if !parts.status.is_informational() || parts.status == StatusCode::SWITCHING_PROTOCOLS {
                let ahead = decode(&mut body, &mut keeps, &all[at..]);
                return Ok(Some(Begun { parts, body, keeps, ahead }));
            }
        }
        match self.bytes.is_empty() {
            true => self.bytes.extend_from_slice(&bytes[at..]),
            false => drop(self.bytes.drain(..at)),
        }
        self.tried = self.bytes.len();
        Ok(None)
    }
}

/// Reads once, and passes the bytes on.
fn read<T>(
    socket: &mut Socket,
    cx: &mut Context<'_>,
    take: impl FnOnce(&[u8]) -> Result<T, Broken>,
) -> Poll<Result<T, Broken>> {
    BUFFER.with_borrow_mut(|buffer| {
        let mut buffer = ReadBuf::new(buffer);
        ready!(Pin::new(socket).poll_read(cx, &mut buffer))?;
        Poll::Ready(match buffer.filled() {
            [] => Err(Broken::Closed),
            bytes => take(bytes),
        })
    })
}

#[cfg(test)]
mod tests;
