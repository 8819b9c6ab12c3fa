//! A request on its way to a replica: its head as bytes, then the body's parts as they are.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http::header::{AUTHORIZATION, CONTENT_LENGTH, HOST};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use meridian_protocol::openai::Pieces;
use tokio::io::AsyncWrite;

use crate::http::headers::API_KEY;
use crate::http::parts::{Parts, Taken};

/// Most pieces given to the kernel at once: a head and the parts of nearly every body.
const PIECES: usize = 8;

/// A request to a replica.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) method: &'a Method,
    /// Path and query.
    pub(crate) path: &'a str,
    pub(crate) headers: &'a HeaderMap,
    /// Replace fields of the same name in `headers`.
    pub(crate) added: &'a [(HeaderName, HeaderValue)],
    pub(crate) body: &'a Parts,
    /// Whether a connection has ended during it, here or at another replica.
    pub(crate) cut: &'a AtomicBool,
}

/// The receiver of a request.
#[derive(Clone, Copy)]
pub(in crate::replicas) struct Host<'a> {
    /// Host and port.
    pub(in crate::replicas) authority: &'a str,
    /// Its own key, which replaces the client's.
    pub(in crate::replicas) key: Option<&'a HeaderValue>,
}

impl Request<'_> {
    /// The request's head for `host`.
    fn head(&self, host: Host<'_>) -> Bytes {
        let mut head = Vec::with_capacity(1024);
        let mut write = |parts: &[&[u8]]| parts.iter().for_each(|p| head.extend_from_slice(p));
        let start = [self.method.as_str(), " ", self.path, " HTTP/1.1\r\n"].map(str::as_bytes);
        write(&start);
        let mut field = |name: &HeaderName, value: &[u8]| {
            write(&[name.as_ref(), b": ", value, b"\r\n"]);
        };
        field(&HOST, host.authority.as_bytes());
        for (name, value) in self.headers.iter().filter(|(name, _)| self.passes(name, host)) {
            field(name, value.as_bytes());
        }
        for (name, value) in self.added {
            field(name, value.as_bytes());
        }
        if let Some(key) = host.key {
            field(&AUTHORIZATION, key.as_bytes());
        }
        let length = self.body.left();
        if length > 0 || ![Method::GET, Method::HEAD].contains(self.method) {
            field(&CONTENT_LENGTH, HeaderValue::from(length).as_bytes());
        }
        write(&[b"\r\n"]);
        head.into()
    }

    /// Whether a field is not replaced by another one.
    fn passes(&self, name: &HeaderName, host: Host<'_>) -> bool {
        let of_key = host.key.is_some() && (name == AUTHORIZATION || name == API_KEY);
        let is_added = self.added.iter().any(|(added, _)| added == name);
        !of_key && !is_added && name != HOST && name != CONTENT_LENGTH
    }
}

/// What is left to send of a request.
pub(super) struct Sending {
    head: Bytes,
    parts: Pieces,
    /// The first part that is not sent.
    next: usize,
    state: BodyState,
    /// Whether any byte may have been sent.
    is_any: bool,
    /// Learns of the first byte.
    taken: Option<Taken>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyState {
    Writing,
    /// Everything is written; TLS may still hold some of it.
    Flushing,
    Done,
    /// The replica takes no more. It may have answered all the same.
    Failed,
}

impl Sending {
    pub(super) fn new(request: Request<'_>, host: Host<'_>) -> Sending {
        let (head, (parts, taken)) = (request.head(host), request.body.parts());
        Sending { head, parts, next: 0, state: BodyState::Writing, is_any: false, taken }
    }

    /// Nothing to send.
    pub(super) fn nothing() -> Sending {
        let (head, parts) = (Bytes::new(), Pieces::new());
        Sending { head, parts, next: 0, state: BodyState::Done, is_any: true, taken: None }
    }

    /// Whether the whole request was sent.
    pub(super) fn is_done(&self) -> bool {
        self.state == BodyState::Done
    }

    /// Whether there may be more to send.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, BodyState::Writing | BodyState::Flushing)
    }

    /// Whether no byte was sent.
    pub(super) fn is_unsent(&self) -> bool {
        !self.is_any
    }

    /// Notes that a byte may have been sent. Called before a connection is written to that may send
    /// some of the bytes and then fail, as TLS does.
    pub(super) fn begins(&mut self) {
        if !std::mem::replace(&mut self.is_any, true)
            && let Some(taken) = &self.taken
        {
            taken.set();
        }
    }

    /// Sends as much as the connection takes. Not called again after an error.
    pub(super) fn poll<S: AsyncWrite + Unpin>(
        &mut self,
        stream: &mut S,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        assert!(self.is_open(), "a request is written after its end");
        let sent = ready!(self.send(Pin::new(stream), cx));
        self.state = if sent.is_ok() { BodyState::Done } else { BodyState::Failed };
        Poll::Ready(sent)
    }

    fn send<S: AsyncWrite>(
        &mut self,
        mut stream: Pin<&mut S>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while self.state == BodyState::Writing {
            let mut pieces = [IoSlice::new(&[]); PIECES];
            let rest = self.parts[self.next..].iter();
            let all = std::iter::once(&self.head).chain(rest).filter(|piece| !piece.is_empty());
            let mut many = 0;
            for (slot, piece) in pieces.iter_mut().zip(all) {
                *slot = IoSlice::new(piece);
                many += 1;
            }
            if many == 0 {
                self.state = BodyState::Flushing;
                break;
            }
            let written = ready!(stream.as_mut().poll_write_vectored(cx, &pieces[..many]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            let given: usize = pieces[..many].iter().map(|piece| piece.len()).sum();
            assert!(written <= given, "{written} bytes were written of {given}");
            self.begins();
            self.advance(written);
        }
        stream.poll_flush(cx)
    }

    /// Drops the first `n` bytes.
    fn advance(&mut self, mut n: usize) {
        let of_head = n.min(self.head.len());
        self.head.advance(of_head);
        n -= of_head;
        // Head and parts are freed as soon as they are sent: an answer may stream for minutes.
        if self.head.is_empty() {
            self.head = Bytes::new();
        }
        while let Some(part) = self.parts.get_mut(self.next) {
            let of_part = n.min(part.len());
            part.advance(of_part);
            n -= of_part;
            if !part.is_empty() {
                break;
            }
            *part = Bytes::new();
            self.next += 1;
        }
        assert_eq!(n, 0, "bytes were sent that are no part of the request");
    }
}

#[cfg(test)]
mod tests;
