//! Follows one attempt's answer to its end: detects the first token, the end, the usage and (if the
//! policy learns from it) the reply, and reports to the machine how the attempt ended.

use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::Bytes;
use http::HeaderMap;
use meridian_protocol::openai::{Answer, Summary, ToldError, Usage};
use meridian_protocol::peer::usage_of;
use meridian_routing::{Ending, Outcome};

use crate::facts::Record;
use crate::machine::ticket::{Details, Ticket};
use crate::request::answer::delivery::{Delivery, Form};
use crate::request::answer::incoming::{Event, Incoming};
use crate::request::answer::mismatch::MismatchCheck;
use crate::request::answer::resume::{Resume, Search, search};
use crate::request::send::destination::Destination;
use crate::request::send::transport::{AnsweredBy, Opened};

/// An answer whose end has not been reported to the machine.
pub(crate) struct Scan {
    incoming: Incoming,
    reader: Answer,
    ticket: Ticket,
    by: AnsweredBy,
    sent: Instant,
    /// The usage in a peer's trailers.
    reported: Option<Usage>,
    /// The state needed to resume the stream if it breaks.
    resume: Option<Box<Resume>>,
    /// The place of the stored response is remembered.
    is_pinned: bool,
}

/// The next piece or the end of an answer.
pub(crate) enum Step {
    /// Bytes for the client; may be empty.
    Pass(Bytes),
    /// The same, and the answer is complete.
    Whole(Bytes),
    /// The same, and a peer's answer is complete except for its trailers.
    AllButTrailers(Bytes),
    /// The same, and the engine reports this error.
    Told(ToldError, Bytes),
    /// There are no more bytes.
    End,
    /// It broke off, for this reason.
    Broken(&'static str),
}

impl Scan {
    pub(crate) fn new(
        delivery: &Delivery,
        destination: &Destination,
        opened: Opened,
        reader: Answer,
        ticket: Ticket,
        resume: Option<Box<Resume>>,
    ) -> Scan {
        let Opened { flow, first, sent, by } = opened;
        let member = destination.member();
        let is_its_own = member.is_some() == matches!(by, AnsweredBy::Replica(_));
        assert!(is_its_own, "the answer of another destination than that of its attempt");
        let json = delivery.endpoint.is_generation() && delivery.form != Form::Events;
        let check = member.is_some().then(|| MismatchCheck::new(json));
        let timeouts = &delivery.settings.timeouts;
        let incoming = Incoming::new(flow, first, (timeouts, member), check);
        Scan { incoming, reader, ticket, by, sent, reported: None, resume, is_pinned: false }
    }

    pub(crate) fn by(&self) -> &AnsweredBy {
        &self.by
    }

    #[inline]
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, delivery: &mut Delivery) -> Poll<Step> {
        loop {
            return Poll::Ready(match ready!(self.incoming.poll(cx)) {
                Event::Piece(piece) => self.read(piece, delivery),
                Event::Trailers(trailers) => {
                    self.trailers(&trailers);
                    continue;
                }
                Event::End => Step::End,
                Event::Broken(why) => Step::Broken(why),
            });
        }
    }

    /// Scans a piece on its way to the client.
    fn read(&mut self, piece: Bytes, delivery: &mut Delivery) -> Step {
        if let AnsweredBy::Peer { forward, .. } = &self.by {
            forward.answered(piece.len());
        }
        delivery.count(self.incoming.mismatch(|check| check.piece(&piece)));
        let piece = match &mut self.resume {
            Some(resume) => resume.thread.feed(piece),
            None => piece,
        };
        let feed = self.reader.feed(piece);
        self.pin(delivery);
        if feed.ended {
            delivery.count(self.incoming.mismatch(|check| check.last_piece(&feed.pass)));
        }
        if feed.first_token || delivery.is_unseen() {
            delivery.first_token(&mut self.ticket);
        }
        if let Some(error) = feed.told {
            return Step::Told(error, feed.pass);
        }
        // The answer on an unknown path may consist of more than the one object that it starts
        // with.
        let ended = feed.ended && !delivery.endpoint.passes_unread();
        let events = delivery.form == Form::Events;
        match (ended, events, &self.by) {
            (true, true, AnsweredBy::Peer { .. }) => Step::AllButTrailers(feed.pass),
            (true, ..) => Step::Whole(feed.pass),
            (false, false, _) if self.incoming.is_end_stream() => Step::Whole(feed.pass),
            (false, ..) => Step::Pass(feed.pass),
        }
    }

    /// Remembers where a stored response is as soon as its stream names it: its client may leave, and ask for it or
    /// cancel it by its id.
    #[inline]
    fn pin(&mut self, delivery: &Delivery) {
        if let Some(response) = self.reader.response_id().filter(|_| !self.is_pinned) {
            delivery.pin(response, &self.by);
            self.is_pinned = true;
        }
    }

    /// Whether the transfer is over, and the client has all of it.
    pub(crate) fn has_passed_all(&self) -> bool {
        self.incoming.is_end_stream()
    }

    /// Whether nothing is missing if the answer ends here.
    pub(crate) fn is_complete(&self) -> bool {
        self.reader.is_complete()
    }

    /// The client hung up, and is charged for the delivered part.
    pub(crate) fn abandon(self, delivery: &mut Delivery) {
        let Scan { reader, mut ticket, .. } = self;
        let pieces = reader.pieces();
        delivery.reserved.seen(pieces);
        let usage = delivery.estimated(reader.finish().usage, pieces);
        ticket.note(|record| record.passed(pieces, usage));
    }

    /// A peer's report on its answer, after the last byte; engines send none.
    fn trailers(&mut self, trailers: &HeaderMap) {
        if let AnsweredBy::Peer { .. } = self.by {
            self.reported = usage_of(trailers);
        }
    }

    /// Reports the end of the attempt to the machine. Returns the rest of the transfer, and bytes
    /// that were buffered until now.
    pub(crate) fn settle(self, outcome: Outcome, delivery: &mut Delivery) -> (Incoming, Bytes) {
        let Scan {
            mut incoming,
            mut reader,
            mut ticket,
            by,
            sent,
            reported,
            mut resume,
            is_pinned,
        } = self;
        let held = resume
            .as_mut()
            .map_or_else(Bytes::new, |resume| reader.feed(resume.thread.rest()).pass);
        let pieces = reader.pieces();
        let Summary { usage, complete, told, response_id, reply, rest } = reader.finish();
        let outcome = match told {
            Some(error) if outcome == Outcome::Done && error.is_of_request() => {
                Outcome::ClientError
            }
            Some(_) if outcome == Outcome::Done => Outcome::ReplicaError,
            _ => outcome,
        };
        let (is_whole, part) = (complete || outcome == Outcome::Done, usage);
        if outcome == Outcome::Done {
            delivery.count(incoming.mismatch(|check| check.ended(complete)));
        }
        let continued = resume.filter(|resume| resume.is_later());
        let usage = usage.or_else(|| {
            reported.map(|part| continued.as_ref().map_or(part, |resume| resume.total_usage(part)))
        });
        if let (Some(usage), AnsweredBy::Replica(member)) = (&usage, &by) {
            delivery.check_cached(usage, member);
        }
        let usage = usage.map(|usage| delivery.counted(usage));
        // A count that came before the end is at least what has passed.
        let usage = usage.map(|usage| match is_whole {
            true => usage,
            false => meridian_routing::Usage {
                completion_tokens: usage.completion_tokens.max(pieces),
                ..usage
            },
        });
        delivery.reserved.settle(usage, pieces);
        ticket.note(|record| match usage.filter(|_| is_whole) {
            Some(usage) => record.counted(pieces, usage),
            None => record.passed(pieces, delivery.estimated(part, pieces)),
        });
        if let Some(response) = response_id.filter(|_| !is_pinned) {
            delivery.pin(&response, &by);
        }
        let reply = match &continued {
            Some(resume) => resume.thread.text().map(<[u8]>::to_vec),
            None => reply,
        };
        let extended = delivery.extended(reply.as_deref());
        delivery.over(outcome, sent);
        let served = by.end(outcome);
        // The usage of the whole answer does not describe this replica's part, so it is not judged
        // by it.
        let usage = usage.filter(|_| continued.is_none());
        ticket.finish(outcome, Details { usage, extended, served });
        (incoming, join(held, rest))
    }

    /// Starts a search for a replica or a peer that resumes the broken stream. Returns the answer
    /// if it can't be resumed.
    pub(crate) fn continued(mut self, delivery: &mut Delivery) -> Result<Search, Box<Scan>> {
        let attempts = &delivery.attempts;
        let plane = &attempts.plane;
        let Some(mut resume) = self.resume.take() else { return Err(Box::new(self)) };
        assert_eq!(delivery.form, Form::Events, "only a stream is resumed");
        let blocks = match resume.take_up(&plane.region.fleet) {
            Ok(blocks) => blocks,
            Err(why) => {
                plane.metrics.resumed(why);
                tracing::info!(why, "the broken stream can't be continued");
                return Err(Box::new(self));
            }
        };
        let Scan { reader, mut ticket, by, .. } = self;
        let pieces = reader.pieces();
        delivery.reserved.seen(pieces);
        ticket.note(|record| broke_off(record, pieces));
        by.end(Outcome::ReplicaError);
        let verdict = ticket.go_on(blocks);
        Ok(Box::pin(search(attempts.clone(), resume, ticket, verdict)))
    }
}

/// Notes that a stream has broken off, and that another attempt continues it.
fn broke_off(record: &mut Record, pieces: u32) {
    record.pieces += pieces;
    if let Some(times) = record.times.current() {
        times.fail(Ending::Attempt(Outcome::ReplicaError).word(), None);
    }
}

pub(crate) fn join(a: Bytes, b: Bytes) -> Bytes {
    match (a.is_empty(), b.is_empty()) {
        (_, true) => a,
        (true, _) => b,
        _ => Bytes::from([a, b].concat()),
    }
}
