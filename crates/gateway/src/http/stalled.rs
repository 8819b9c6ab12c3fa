//! HTTP/2 answers whose client takes no bytes: ended after `timeouts.idle`.
//!
//! A client decides by its windows how much of an answer may be sent. While they are closed hyper does
//! not ask the answer's body for anything, so no timer in the body would ever fire, and the kernel sees a
//! connection in good order: the answer would keep its request and its place at a replica for ever.
//! hyper gives each stream to an executor as a task, and the executor here ends a task whose answer has
//! waited for its client for too long; the stream is reset then.
//!
//! The task and the answer are polled on one thread, one within the other, so a thread-local flag tells
//! the task what its answer did. A piece costs a store to it; a timer is made only once a client does
//! not take a piece at once. HTTP/1 needs none of this: TCP_USER_TIMEOUT ends its connections.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use hyper::rt::Executor;
use tokio::time::{Sleep, sleep};

/// What an answer did when it was last polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Did {
    /// It gave its head or a piece, and was not asked for the next one: the client's turn.
    Gave,
    /// It was asked for the next piece and has none yet, or has ended.
    Asked,
}

thread_local! {
    /// None where no answer was polled.
    static DID: Cell<Option<Did>> = const { Cell::new(None) };
}

/// An answer gave its head, or a piece where `gave`; else it has nothing to give.
pub(super) fn note(gave: bool) {
    DID.set(Some(if gave { Did::Gave } else { Did::Asked }));
}

/// Runs the streams of HTTP/2 connections, each for as long as its client takes what it is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Streams {
    patience: Duration,
}

impl Streams {
    /// Streams whose clients may take nothing for `patience`.
    pub(crate) fn new(patience: Duration) -> Streams {
        Streams { patience }
    }
}

impl<F> Executor<F> for Streams
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let patience = self.patience;
        tokio::spawn(async move {
            let mut stream = pin!(stream);
            let mut given_up: Option<Pin<Box<Sleep>>> = None;
            poll_fn(|cx| {
                DID.set(None);
                if stream.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(());
                }
                match DID.take() {
                    Some(Did::Gave) => given_up = Some(Box::pin(sleep(patience))),
                    Some(Did::Asked) => given_up = None,
                    None => {}
                }
                match &mut given_up {
                    Some(timer) => timer.as_mut().poll(cx),
                    None => Poll::Pending,
                }
            })
            .await;
        });
    }
}
