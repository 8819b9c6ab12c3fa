//! An answer on its way to the client.
//!
//! Bytes are sent as they arrive, and [`Answering`] scans them on the way. An answer ends in
//! exactly one of three ways: complete, cut short by the replica, or dropped by the client. If a
//! stream that is cut short may be resumed, [`crate::request::resume`] finds a replica or a peer
//! for it.

use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::Frame;
use meridian_routing::Outcome;
use meridian_wire::openai::Answer;

use crate::request::answering::{Answering, Step, join};
use crate::request::attempt::undoes;
use crate::request::delivery::Delivery;
use crate::request::incoming::{CutShort, Event, Incoming};
use crate::request::resume::{Resumed, Search};

/// The body that a client reads, from whichever source.
pub(crate) struct Relay {
    state: State,
    delivery: Delivery,
}

/// The state of an answer.
#[derive(Default)]
enum State {
    /// Its own end has not arrived.
    Answering(Answering),
    /// A peer's stream is complete, but its trailers with the usage have not arrived.
    AwaitingTrailers(Answering),
    /// The end has been reported to the machine; anything the replica sends after it passes.
    Settled(Incoming),
    /// The stream broke, and a search for a replica or a peer to resume it is running.
    Resuming(Search),
    /// Nothing more is sent.
    #[default]
    Ended,
}

/// Message if no replica resumes a stream.
const NOWHERE: &str = "the replica's answer broke off, and nobody could go on with it";

type Piece = Option<Result<Frame<Bytes>, CutShort>>;

impl Relay {
    pub(crate) fn new(delivery: Delivery, answering: Answering) -> Relay {
        Relay { state: State::Answering(answering), delivery }
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Piece> {
        loop {
            let piece = match &mut self.state {
                State::Answering(answering) | State::AwaitingTrailers(answering) => {
                    match ready!(answering.poll(cx, &mut self.delivery)) {
                        Step::Pass(bytes) => data(bytes),
                        Step::Whole(bytes) => self.whole(bytes),
                        Step::AllButTrailers(bytes) => self.await_trailers(bytes),
                        Step::End => self.end(),
                        Step::Broken(why) => self.broken(why),
                    }
                }
                State::Settled(incoming) => match ready!(incoming.poll(cx)) {
                    Event::Piece(bytes) => {
                        self.delivery.count(incoming.odd(|oddity| oddity.after_end(&bytes)));
                        data(bytes)
                    }
                    Event::Trailers(_) => None,
                    Event::End | Event::Broken(_) => {
                        self.state = State::Ended;
                        None
                    }
                },
                State::Resuming(search) => match ready!(search.as_mut().poll(cx)) {
                    Some(resumed) => self.resumed(*resumed),
                    None => self.not_resumed(),
                },
                State::Ended => return Poll::Ready(None),
            };
            if piece.is_some() {
                return Poll::Ready(piece);
            }
        }
    }

    /// These bytes contain the answer's own end.
    fn whole(&mut self, bytes: Bytes) -> Piece {
        let (State::Answering(answering) | State::AwaitingTrailers(answering)) =
            std::mem::take(&mut self.state)
        else {
            return data(bytes);
        };
        let (incoming, rest) = answering.settle(Outcome::Done, &mut self.delivery);
        self.state = State::Settled(incoming);
        data(join(bytes, rest))
    }

    fn await_trailers(&mut self, bytes: Bytes) -> Piece {
        self.state = match std::mem::take(&mut self.state) {
            State::Answering(answering) => State::AwaitingTrailers(answering),
            state => state,
        };
        data(bytes)
    }

    /// There are no more bytes.
    fn end(&mut self) -> Piece {
        match (std::mem::take(&mut self.state), self.delivery.form.cut_short()) {
            (State::Answering(answering), Some(message)) => self.cut_short(answering, message),
            (State::Answering(answering) | State::AwaitingTrailers(answering), _) => {
                let (_, rest) = answering.settle(Outcome::Done, &mut self.delivery);
                data(rest)
            }
            _ => None,
        }
    }

    /// The transfer broke off.
    fn broken(&mut self, message: &'static str) -> Piece {
        match std::mem::take(&mut self.state) {
            State::Answering(answering) => self.cut_short(answering, message),
            State::AwaitingTrailers(answering) => {
                answering.settle(Outcome::Done, &mut self.delivery);
                None
            }
            _ => None,
        }
    }

    /// The replica cut the answer short. Another one resumes it if possible.
    fn cut_short(&mut self, answering: Answering, message: &'static str) -> Piece {
        tracing::warn!(from = %answering.by(), message, "answer cut short");
        match answering.continued(&mut self.delivery) {
            Ok(search) => {
                self.state = State::Resuming(search);
                None
            }
            Err(answering) => {
                let (_, rest) = answering.settle(Outcome::ReplicaError, &mut self.delivery);
                Some(self.delivery.failed(message, &rest))
            }
        }
    }

    /// Another answer has started, which resumes the broken one.
    fn resumed(&mut self, resumed: Resumed) -> Piece {
        let Resumed { resume, ticket, target, opened } = resumed;
        let undo = undoes(
            &self.delivery.plane.settings,
            &resume.context.prompt.info,
            &resume.payload,
            &target,
        );
        let reader = Answer::new(self.delivery.endpoint, true, undo, false);
        let answering =
            Answering::new(&self.delivery, &target, opened, reader, ticket, Some(resume));
        self.state = State::Answering(answering);
        None
    }

    fn not_resumed(&mut self) -> Piece {
        self.state = State::Ended;
        self.delivery.reserved.release();
        Some(self.delivery.failed(NOWHERE, &[]))
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
