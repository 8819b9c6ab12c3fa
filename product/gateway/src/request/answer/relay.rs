//! An answer on its way to the client.
//!
//! Bytes are sent as they arrive, and [`Answering`] scans them on the way. An answer ends in
//! exactly one of three ways: complete, cut short by the replica, or dropped by the client. If a
//! stream that is cut short may be resumed, [`crate::request::answer::resume`] finds a replica or a peer
//! for it.

use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::Frame;
use meridian_protocol::openai::Answer;
use meridian_routing::Outcome;

use crate::request::answer::answering::{Answering, Step, join};
use crate::request::answer::delivery::Delivery;
use crate::request::answer::incoming::{CutShort, Event, Incoming};
use crate::request::answer::resume::{Resumed, Search};
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
    Answering(Box<Answering>),
    /// A peer's stream is complete, but its trailers with the usage have not arrived.
    AwaitingTrailers(Box<Answering>),
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
    pub(crate) fn new(delivery: Delivery, answering: Answering) -> Relay {
        Relay { state: State::Answering(Box::new(answering)), delivery }
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Piece> {
        loop {
            let (state, piece) = match std::mem::take(&mut self.state) {
                State::Answering(mut answering) => match answering.poll(cx, &mut self.delivery) {
                    Poll::Pending => return self.wait(State::Answering(answering)),
                    Poll::Ready(step) => self.step(answering, step),
                },
                State::AwaitingTrailers(mut answering) => {
                    match answering.poll(cx, &mut self.delivery) {
                        Poll::Pending => return self.wait(State::AwaitingTrailers(answering)),
                        Poll::Ready(step) => self.last_step(answering, step),
                    }
                }
                State::Settled(mut incoming) => match incoming.poll(cx) {
                    Poll::Pending => return self.wait(State::Settled(incoming)),
                    Poll::Ready(Event::Piece(bytes)) => {
                        self.delivery.count(incoming.odd(|oddity| oddity.after_end(&bytes)));
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
    fn step(&mut self, answering: Box<Answering>, step: Step) -> (State, Piece) {
        match step {
            Step::Pass(bytes) => (State::Answering(answering), data(bytes)),
            Step::Whole(bytes) => self.settled(answering, bytes),
            Step::AllButTrailers(bytes) => (State::AwaitingTrailers(answering), data(bytes)),
            Step::End => match self.delivery.form.cut_short() {
                Some(message) => self.cut_short(answering, message),
                None => self.ended(answering),
            },
            Step::Broken(message) => self.cut_short(answering, message),
        }
    }

    /// The same of a peer's stream that is complete.
    fn last_step(&mut self, answering: Box<Answering>, step: Step) -> (State, Piece) {
        match step {
            Step::Pass(bytes) | Step::AllButTrailers(bytes) => {
                (State::AwaitingTrailers(answering), data(bytes))
            }
            Step::Whole(bytes) => self.settled(answering, bytes),
            Step::End | Step::Broken(_) => self.ended(answering),
        }
    }

    /// The answer's own end came with these bytes.
    fn settled(&mut self, answering: Box<Answering>, bytes: Bytes) -> (State, Piece) {
        let (incoming, rest) = answering.settle(Outcome::Done, &mut self.delivery);
        (State::Settled(Box::new(incoming)), data(join(bytes, rest)))
    }

    /// The answer is complete, and its transfer is over.
    fn ended(&mut self, answering: Box<Answering>) -> (State, Piece) {
        let (_, rest) = answering.settle(Outcome::Done, &mut self.delivery);
        (State::Ended, data(rest))
    }

    /// The replica cut the answer short. Another one resumes it if that is possible.
    fn cut_short(&mut self, answering: Box<Answering>, message: &'static str) -> (State, Piece) {
        tracing::warn!(from = %answering.by(), message, "answer cut short");
        match answering.continued(&mut self.delivery) {
            Ok(search) => (State::Resuming(search), None),
            Err(answering) => {
                let (_, rest) = answering.settle(Outcome::ReplicaError, &mut self.delivery);
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
        let answering =
            Answering::new(&self.delivery, &destination, opened, reader, ticket, Some(resume));
        State::Answering(Box::new(answering))
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
            State::AwaitingTrailers(answering) => {
                answering.settle(Outcome::Done, &mut self.delivery);
            }
            State::Answering(answering) => answering.abandon(&mut self.delivery),
            _ => {}
        }
    }
}

/// A piece to send; none for empty bytes.
fn data(bytes: Bytes) -> Piece {
    (!bytes.is_empty()).then(|| Ok(Frame::data(bytes)))
}
