//! An answer on its way to the client.
//!
//! Bytes are sent as they arrive, and [`Scan`] scans them on the way. An answer ends in
//! exactly one of three ways: complete, cut short by the replica, or dropped by the client. If a
//! stream that is cut short may be resumed, [`crate::request::answer::resume`] finds a replica or a peer
//! for it.

use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::Frame;
use meridian_protocol::openai::{Answer, ToldError};
use meridian_routing::Outcome;

use crate::request::answer::delivery::{Delivery, Form};
use crate::request::answer::incoming::{CutShort, Event, Incoming};
use crate::request::answer::resume::{Resumed, Search};
use crate::request::answer::scan::{Scan, Step, join};
use crate::request::send::transport::undoes;

/// The body that a client reads, from whichever source.
pub(crate) struct Relay {
    state: RelayState,
    delivery: Delivery,
}

/// The state of an answer.
#[derive(Default)]
enum RelayState {
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
        Relay { state: RelayState::Scanning(Box::new(scan)), delivery }
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self.state, RelayState::Ended)
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Piece> {
        loop {
            let (state, piece) = match std::mem::take(&mut self.state) {
                RelayState::Scanning(mut scan) => match scan.poll(cx, &mut self.delivery) {
                    Poll::Pending => return self.wait(RelayState::Scanning(scan)),
                    Poll::Ready(step) => self.step(scan, step),
                },
                RelayState::AwaitingTrailers(mut scan) => match scan.poll(cx, &mut self.delivery) {
                    Poll::Pending => return self.wait(RelayState::AwaitingTrailers(scan)),
                    Poll::Ready(step) => self.last_step(scan, step),
                },
                RelayState::Settled(mut incoming) => match incoming.poll(cx) {
                    Poll::Pending => return self.wait(RelayState::Settled(incoming)),
                    Poll::Ready(Event::Piece(bytes)) => {
                        self.delivery.count(incoming.mismatch(|check| check.after_end(&bytes)));
                        (RelayState::Settled(incoming), data(bytes))
                    }
                    Poll::Ready(Event::Trailers(_)) => (RelayState::Settled(incoming), None),
                    Poll::Ready(Event::End | Event::Broken(_)) => (RelayState::Ended, None),
                },
                RelayState::Resuming(mut search) => match search.as_mut().poll(cx) {
                    Poll::Pending => return self.wait(RelayState::Resuming(search)),
                    Poll::Ready(Some(resumed)) => (self.resumed(*resumed), None),
                    Poll::Ready(None) => self.not_resumed(),
                },
                RelayState::Ended => return Poll::Ready(None),
            };
            self.state = state;
            if piece.is_some() {
                return Poll::Ready(piece);
            }
        }
    }

    fn wait(&mut self, state: RelayState) -> Poll<Piece> {
        self.state = state;
        Poll::Pending
    }

    /// The next step of an answer whose own end has not arrived.
    fn step(&mut self, scan: Box<Scan>, step: Step) -> (RelayState, Piece) {
        match step {
            Step::Pass(bytes) => (RelayState::Scanning(scan), data(bytes)),
            Step::Whole(bytes) => self.settled(scan, bytes),
            Step::AllButTrailers(bytes) => {
                assert!(scan.by().is_peer(), "engines send no usage in trailers");
                (RelayState::AwaitingTrailers(scan), data(bytes))
            }
            Step::Told(error, bytes) => self.told(scan, error, bytes),
            Step::End => match self.delivery.form.cut_short() {
                Some(message) if !scan.is_complete() => self.cut_short(scan, message),
                _ => self.ended(scan),
            },
            // Only its end mark is missing.
            Step::Broken(_) if self.delivery.form == Form::Events && scan.is_complete() => {
                self.ended(scan)
            }
            Step::Broken(message) => self.cut_short(scan, message),
        }
    }

    /// The same of a peer's stream that is complete.
    fn last_step(&mut self, scan: Box<Scan>, step: Step) -> (RelayState, Piece) {
        match step {
            Step::Pass(bytes) | Step::AllButTrailers(bytes) => {
                (RelayState::AwaitingTrailers(scan), data(bytes))
            }
            Step::Whole(bytes) | Step::Told(_, bytes) => self.settled(scan, bytes),
            Step::End | Step::Broken(_) => self.ended(scan),
        }
    }

    /// The answer's own end came with these bytes.
    fn settled(&mut self, scan: Box<Scan>, bytes: Bytes) -> (RelayState, Piece) {
        self.settled_as(scan, Outcome::Done, bytes)
    }

    fn settled_as(
        &mut self,
        scan: Box<Scan>,
        outcome: Outcome,
        bytes: Bytes,
    ) -> (RelayState, Piece) {
        let (incoming, rest) = scan.settle(outcome, &mut self.delivery);
        (RelayState::Settled(Box::new(incoming)), data(join(bytes, rest)))
    }

    /// The answer is complete, and its transfer is over.
    fn ended(&mut self, scan: Box<Scan>) -> (RelayState, Piece) {
        let (_, rest) = scan.settle(Outcome::Done, &mut self.delivery);
        (RelayState::Ended, data(rest))
    }

    /// The replica cut the answer short. Another one resumes it if that is possible.
    fn cut_short(&mut self, scan: Box<Scan>, message: &'static str) -> (RelayState, Piece) {
        tracing::warn!(from = %scan.by(), message, "answer cut short");
        match scan.continued(&mut self.delivery) {
            Ok(search) => (RelayState::Resuming(search), None),
            Err(scan) => {
                let (_, rest) = scan.settle(Outcome::ReplicaError, &mut self.delivery);
                (RelayState::Ended, Some(self.delivery.failed(message, &rest)))
            }
        }
    }

    /// The engine reports an error within its answer, after these bytes. If it is the engine's own,
    /// another replica resumes the answer where that is possible. Otherwise the error passes.
    fn told(&mut self, scan: Box<Scan>, error: ToldError, bytes: Bytes) -> (RelayState, Piece) {
        if error.is_of_request() {
            return self.settled_as(scan, Outcome::ClientError, bytes);
        }
        tracing::warn!(from = %scan.by(), status = error.status, "the answer reports an error");
        match scan.continued(&mut self.delivery) {
            Ok(search) => (RelayState::Resuming(search), data(bytes)),
            Err(scan) => self.settled_as(scan, Outcome::ReplicaError, bytes),
        }
    }

    /// Another answer has started, which resumes the one that broke.
    fn resumed(&mut self, resumed: Resumed) -> RelayState {
        let Resumed { resume, ticket, destination, opened } = resumed;
        let undo = undoes(
            &self.delivery.settings,
            &resume.context.prompt.info,
            &resume.payload,
            &destination,
        );
        let alias = resume.context.prompt.info.alias.as_deref();
        let reader = Answer::new(self.delivery.endpoint, true, undo, false).naming(alias);
        let reader = reader.keeping_errors();
        let scan = Scan::new(&self.delivery, &destination, opened, reader, ticket, Some(resume));
        RelayState::Scanning(Box::new(scan))
    }

    fn not_resumed(&mut self) -> (RelayState, Piece) {
        self.delivery.reserved.release();
        (RelayState::Ended, Some(self.delivery.failed(NOWHERE, &[])))
    }
}

impl Drop for Relay {
    /// A client that has the complete answer need not wait for a peer's trailers.
    fn drop(&mut self) {
        match std::mem::take(&mut self.state) {
            RelayState::AwaitingTrailers(scan) => {
                scan.settle(Outcome::Done, &mut self.delivery);
            }
            // An answer without a body is not polled.
            RelayState::Scanning(scan)
                if self.delivery.form == Form::Whole && scan.has_passed_all() =>
            {
                scan.settle(Outcome::Done, &mut self.delivery);
            }
            RelayState::Scanning(scan) => scan.abandon(&mut self.delivery),
            _ => {}
        }
    }
}

/// A piece to send; none for empty bytes.
fn data(bytes: Bytes) -> Piece {
    (!bytes.is_empty()).then(|| Ok(Frame::data(bytes)))
}
