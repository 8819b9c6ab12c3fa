//! An answer on its way to the client.
//!
//! Bytes are sent as they arrive, and [`Scan`] scans them on the way. An answer ends in
//! exactly one of three ways: complete, cut short by the replica, or dropped by the client. If a
//! stream that is cut short may be resumed, [`crate::request::answer::resume`] finds a replica or a peer
//! for it.

use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::Frame;
use meridian_protocol::openai::Answer;
use meridian_routing::Outcome;

use crate::request::answer::delivery::Delivery;
use crate::request::answer::incoming::{CutShort, Event, Incoming};
use crate::request::answer::resume::{Resumed, Search};
use crate::request::answer::scan::{Scan, Step, join};
use crate::request::send::transport::undoes;

/// The body that a client reads, from whichever source.
pub(crate) struct Relay {
    state: State,
    delivery: Delivery,
}

/// The state of an answer.
#[derive(Default)]
enum State {
    /// Its own end has not arrived.
    Scanning(Box<Scan>),
    /// A peer's stream is complete, but its trailers with the usage have not arrived.
    AwaitingTrailers(Box<Scan>),
    /// The end has been reported to the machine; anything the replica sends after it passes.
    Settled(Box<Incoming>),
    /// The stream broke, and a search for a replica or a peer to resume it is running.
    Resuming(Search),
    /// Nothing more is sent.
    #[default]
    Ended,
}

/// Message if no replica resumes a stream.
const NOWHERE: &str = "the replica's answer stopped early, and no other replica could continue it";

type Piece = Option<Result<Frame<Bytes>, CutShort>>;

impl Relay {
    pub(crate) fn new(delivery: Delivery, scan: Scan) -> Relay {
        Relay { state: State::Scanning(Box::new(scan)), delivery }
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Piece> {
        loop {
            let (state, piece) = match std::mem::take(&mut self.state) {
                State::Scanning(mut scan) => match scan.poll(cx, &mut self.delivery) {
                    Poll::Pending => return self.wait(State::Scanning(scan)),
                    Poll::Ready(step) => self.step(scan, step),
                },
                State::AwaitingTrailers(mut scan) => match scan.poll(cx, &mut self.delivery) {
                    Poll::Pending => return self.wait(State::AwaitingTrailers(scan)),
                    Poll::Ready(step) => self.last_step(scan, step),
                },
                State::Settled(mut incoming) => match incoming.poll(cx) {
                    Poll::Pending => return self.wait(State::Settled(incoming)),
                    Poll::Ready(Event::Piece(bytes)) => {
                        self.delivery.count(incoming.mismatch(|check| check.after_end(&bytes)));
                        (State::Settled(incoming), data(bytes))
                    }
                    Poll::Ready(Event::Trailers(_)) => (State::Settled(incoming), None),
                    Poll::Ready(Event::End | Event::Broken(_)) => (State::Ended, None),
                },
                State::Resuming(mut search) => match search.as_mut().poll(cx) {
                    Poll::Pending => return self.wait(State::Resuming(search)),
                    Poll::Ready(Some(resumed)) => (self.resumed(*resumed), None),
                    Poll::Ready(None) => self.not_resumed(),
                },
                State::Ended => return Poll::Ready(None),
            };
            self.state = state;
            if piece.is_some() {
                return Poll::Ready(piece);
            }
        }
    }

    fn wait(&mut self, state: State) -> Poll<Piece> {
        self.state = state;
        Poll::Pending
    }

    /// The next step of an answer whose own end has not arrived.
    fn step(&mut self, scan: Box<Scan>, step: Step) -> (State, Piece) {
        match step {
            Step::Pass(bytes) => (State::Scanning(scan), data(bytes)),
            Step::Whole(bytes) => self.settled(scan, bytes),
            Step::AllButTrailers(bytes) => {
                assert!(scan.by().is_peer(), "engines send no usage in trailers");
                (State::AwaitingTrailers(scan), data(bytes))
            }
            Step::End => match self.delivery.form.cut_short() {
                Some(message) => self.cut_short(scan, message),
                None => self.ended(scan),
            },
            Step::Broken(message) => self.cut_short(scan, message),
        }
    }

    /// The same of a peer's stream that is complete.
    fn last_step(&mut self, scan: Box<Scan>, step: Step) -> (State, Piece) {
        match step {
            Step::Pass(bytes) | Step::AllButTrailers(bytes) => {
                (State::AwaitingTrailers(scan), data(bytes))
            }
            Step::Whole(bytes) => self.settled(scan, bytes),
            Step::End | Step::Broken(_) => self.ended(scan),
        }
    }

    /// The answer's own end came with these bytes.
    fn settled(&mut self, scan: Box<Scan>, bytes: Bytes) -> (State, Piece) {
        let (incoming, rest) = scan.settle(Outcome::Done, &mut self.delivery);
        (State::Settled(Box::new(incoming)), data(join(bytes, rest)))
    }

    /// The answer is complete, and its transfer is over.
    fn ended(&mut self, scan: Box<Scan>) -> (State, Piece) {
        let (_, rest) = scan.settle(Outcome::Done, &mut self.delivery);
        (State::Ended, data(rest))
    }

    /// The replica cut the answer short. Another one resumes it if that is possible.
    fn cut_short(&mut self, scan: Box<Scan>, message: &'static str) -> (State, Piece) {
        tracing::warn!(from = %scan.by(), message, "answer cut short");
        match scan.continued(&mut self.delivery) {
            Ok(search) => (State::Resuming(search), None),
            Err(scan) => {
                let (_, rest) = scan.settle(Outcome::ReplicaError, &mut self.delivery);
                (State::Ended, Some(self.delivery.failed(message, &rest)))
            }
        }
    }

    /// Another answer has started, which resumes the one that broke.
    fn resumed(&mut self, resumed: Resumed) -> State {
        let Resumed { resume, ticket, destination, opened } = resumed;
        let undo = undoes(
            &self.delivery.settings,
            &resume.context.prompt.info,
            &resume.payload,
            &destination,
        );
        let alias = resume.context.prompt.info.alias.as_deref();
        let reader = Answer::new(self.delivery.endpoint, true, undo, false).naming(alias);
        let scan = Scan::new(&self.delivery, &destination, opened, reader, ticket, Some(resume));
        State::Scanning(Box::new(scan))
    }

    fn not_resumed(&mut self) -> (State, Piece) {
        self.delivery.reserved.release();
        (State::Ended, Some(self.delivery.failed(NOWHERE, &[])))
    }
}

impl Drop for Relay {
    /// A client that has the complete answer need not wait for a peer's trailers.
    fn drop(&mut self) {
        match std::mem::take(&mut self.state) {
            State::AwaitingTrailers(scan) => {
                scan.settle(Outcome::Done, &mut self.delivery);
            }
            State::Scanning(scan) => scan.abandon(&mut self.delivery),
            _ => {}
        }
    }
}

/// A piece to send; none for empty bytes.
fn data(bytes: Bytes) -> Piece {
    (!bytes.is_empty()).then(|| Ok(Frame::data(bytes)))
}
