//! Ends HTTP/2 answers whose client reads no bytes for `timeouts.idle`.
//!
//! A client's flow-control windows limit how much of an answer may be sent. While they are closed,
//! hyper does not poll the answer's body, so no timer in the body would ever fire, and the kernel
//! sees a healthy connection: the answer would keep its request and its place at a replica forever.
//! hyper gives each stream to an executor as a task, and this executor ends a task whose answer has
//! waited for its client for too long; the stream is then reset.
//!
//! The task and the answer are polled on one thread, one within the other, so a thread-local flag
//! shows the task its answer's last action. A piece costs one store; a timer is made only when a
//! client does not take a piece at once. HTTP/1 needs none of this: TCP_USER_TIMEOUT ends its
//! connections.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use hyper::rt::Executor;
use tokio::time::{Sleep, sleep};

/// The answer's action when it was last polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Did {
    /// It returned its head or a piece and was not polled for the next one: the client's turn.
    Gave,
    /// It was polled for the next piece and has none yet, or has ended.
    Asked,
}

thread_local! {
    /// None if no answer was polled.
    static DID: Cell<Option<Did>> = const { Cell::new(None) };
}

/// Notes that an answer returned its head, or a piece if `gave`; otherwise it has nothing to send.
pub(super) fn note(gave: bool) {
    DID.set(Some(if gave { Did::Gave } else { Did::Asked }));
}

/// Runs the streams of HTTP/2 connections, each as long as its client reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Streams {
    patience: Duration,
}

impl Streams {
    /// For streams whose clients may pause reading for `patience`.
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
