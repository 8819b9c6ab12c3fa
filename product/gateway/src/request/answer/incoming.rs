//! An answer as it arrives from a replica or a peer: pieces, trailers, its end, or a break. A silence
//! that lasts too long is a break.
//!
//! Normally the timeout between two pieces is `timeouts.idle`. Once the replica is down, it is
//! `timeouts.down`, counted from then or from the last piece. A stopped process keeps its
//! connections open and sends nothing more, while one with broken status pages keeps streaming. No
//! timer is set or woken for a piece; the timer checks the clock when it fires.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http_body::Body as _;
use meridian_config::Timeouts;
use tokio::time::Instant;

use crate::replicas::member::Member;
use crate::replicas::upstream::Flow;
use crate::request::answer::mismatch::{Mismatch, MismatchCheck};

/// An answer whose head has arrived.
pub(crate) struct Incoming {
    flow: Flow,
    /// The first piece, until it is sent.
    first: Option<Bytes>,
    silence: Silence,
    /// Checks the answers of replicas; a peer's gateway checks its own.
    check: Option<MismatchCheck>,
}

/// The next event of an answer.
pub(crate) enum Event {
    Piece(Bytes),
    Trailers(HeaderMap),
    End,
    /// It broke off, for this reason.
    Broken(&'static str),
}

/// The answer was cut short after bytes were sent; the connection is closed to signal that.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the replica's answer was cut off")]
pub(crate) struct CutShort;

impl Incoming {
    /// For an answer that starts now; `member` is its replica, none for a peer's.
    pub(crate) fn new(
        flow: Flow,
        first: Option<Bytes>,
        (timeouts, member): (&Timeouts, Option<Arc<Member>>),
        check: Option<MismatchCheck>,
    ) -> Incoming {
        let is_empty = first.as_ref().is_some_and(Bytes::is_empty);
        assert!(!is_empty, "the first piece of an answer would count as its first token");
        Incoming { flow, first, silence: Silence::new(timeouts, member), check }
    }

    #[inline]
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        if let Some(piece) = self.first.take() {
            self.silence.heard();
            return Poll::Ready(Event::Piece(piece));
        }
        Poll::Ready(match Pin::new(&mut self.flow).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                self.silence.heard();
                match frame.into_data() {
                    Ok(data) => Event::Piece(data),
                    Err(frame) => Event::Trailers(frame.into_trailers().unwrap_or_default()),
                }
            }
            Poll::Ready(None) => Event::End,
            Poll::Ready(Some(Err(_))) => Event::Broken("the replica's answer stopped early"),
            Poll::Pending => Event::Broken(ready!(self.silence.poll(cx))),
        })
    }

    /// A body of known length may never be polled for its end.
    pub(crate) fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.flow.is_end_stream()
    }

    /// Checks whether it matches the request; a peer's answer is not checked.
    pub(crate) fn mismatch(
        &mut self,
        look: impl FnOnce(&mut MismatchCheck) -> Option<Mismatch>,
    ) -> Option<Mismatch> {
        self.check.as_mut().and_then(look)
    }
}

type Wait = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The timeout between two pieces.
struct Silence {
    /// The replica; none for a peer's answer.
    member: Option<Arc<Member>>,
    idle: Duration,
    down: Duration,
    last: Instant,
    wait: Wait,
}

impl Silence {
    /// For an answer that starts now.
    fn new(timeouts: &Timeouts, member: Option<Arc<Member>>) -> Silence {
        let last = Instant::now();
        let idle = timeouts.idle.0;
        let wait = wait(member.as_deref(), last + idle);
        Silence { member, idle, down: timeouts.down.0, last, wait }
    }

    /// A piece arrived.
    fn heard(&mut self) {
        self.last = Instant::now();
        if let Some(member) = &self.member {
            member.life.answered();
        }
    }

    /// Ready with the reason when the answer should be given up.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<&'static str> {
        loop {
            ready!(self.wait.as_mut().poll(cx));
            let now = Instant::now();
            let idle = self.last + self.idle;
            if idle <= now {
                return Poll::Ready("the replica sent nothing for timeouts.idle");
            }
            self.wait = match self.member.as_ref().and_then(|member| member.life.down_since()) {
                None => wait(self.member.as_deref(), idle),
                Some(since) => {
                    let due = self.last.max(since) + self.down;
                    if due <= now {
                        return Poll::Ready(
                            "the replica is down, and sent nothing for timeouts.down",
                        );
                    }
                    // The replica may be up again by then.
                    wait(None, due.min(idle))
                }
            };
        }
    }
}

/// Waits until `due`, or until the replica goes down.
fn wait(member: Option<&Member>, due: Instant) -> Wait {
    let sleep = tokio::time::sleep_until(due);
    let Some(down) = member.map(|member| member.life.down()) else { return Box::pin(sleep) };
    Box::pin(async move {
        tokio::select! {
            () = sleep => {}
            () = down.cancelled_owned() => {}
        }
    })
}
