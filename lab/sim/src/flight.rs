//! A request in progress, from the client's send to the client's end.
//!
//! A request may try several replicas, and messages of an abandoned attempt may still be on the
//! wire. Each attempt has a number; messages of other attempts are dropped.

use meridian_base::{Duration, Time};

use crate::legs::Split;
use crate::report::{Crossing, Fate, Record};
use crate::request::{ClientRequest, RequestText};

/// A request in progress. Its way is a sequence of attempts: at a replica, or at a peer.
#[derive(Clone, Debug)]
pub(crate) struct Flight {
    request: ClientRequest,
    /// The gateway where it entered, and the peer it was forwarded to.
    entry: u16,
    peer: Option<u16>,
    /// The replica of the current attempt.
    replica: Option<u32>,
    /// The two legs of the current attempt, and what its KV took to cross, if it has two.
    split: Option<Split>,
    crossing: Option<Crossing>,
    /// The newest attempt; messages carry theirs.
    attempt: u32,
    /// Its end is on the way to the client.
    ending: bool,
    /// Bytes of the answer went out: no retry is possible after that.
    streamed: bool,
    /// When the first token reaches, or will reach, the client.
    first_token: Option<Time>,
    held_since: Option<Time>,
    held: Duration,
    /// Of that, at the peer it was forwarded to.
    held_away: Duration,
    /// Forwards that a peer sent back for lack of capacity.
    sent_back: u16,
    cached: u32,
    matched: u32,
    dispatches: u32,
    forwarded: bool,
    /// The last message towards the client: streams do not overtake themselves.
    last_message: Time,
}

impl Flight {
    /// A request that its client sends now.
    pub(crate) fn new(request: ClientRequest) -> Flight {
        Flight {
            entry: 0,
            peer: None,
            replica: None,
            split: None,
            crossing: None,
            attempt: 0,
            ending: false,
            streamed: false,
            first_token: None,
            held_since: None,
            held: Duration::ZERO,
            held_away: Duration::ZERO,
            sent_back: 0,
            cached: 0,
            matched: 0,
            dispatches: 0,
            forwarded: false,
            last_message: request.sent,
            request,
        }
    }

    /// What its client asks for.
    pub(crate) fn request(&self) -> &ClientRequest {
        &self.request
    }

    /// The text of its prompt and reply.
    pub(crate) fn text(&self) -> &RequestText {
        &self.request.text
    }

    /// The region of its client.
    pub(crate) fn region(&self) -> usize {
        usize::from(self.request.region)
    }

    /// The gateway where it entered.
    pub(crate) fn entry(&self) -> u16 {
        self.entry
    }

    /// The peer that it was forwarded to.
    pub(crate) fn peer(&self) -> Option<u16> {
        self.peer
    }

    /// The gateway that dispatches it.
    pub(crate) fn sender(&self) -> u16 {
        self.peer.unwrap_or(self.entry)
    }

    /// The replica of the current attempt.
    pub(crate) fn replica(&self) -> Option<u32> {
        self.replica
    }

    /// Whether its current attempt needs this replica.
    pub(crate) fn uses(&self, replica: u32) -> bool {
        let pair = self.split.is_some_and(|split| [split.from, split.to].contains(&replica));
        pair || self.replica == Some(replica)
    }

    /// The two legs of the current attempt, if it has two.
    pub(crate) fn split(&self) -> Option<Split> {
        self.split
    }

    /// The newest attempt.
    pub(crate) fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Whether its end is on the way to the client.
    pub(crate) fn is_ending(&self) -> bool {
        self.ending
    }

    /// Whether bytes of the answer went out.
    pub(crate) fn has_streamed(&self) -> bool {
        self.streamed
    }

    /// Whether it may go elsewhere without its client knowing.
    pub(crate) fn may_move(&self) -> bool {
        !self.streamed && !self.ending
    }

    /// Whether a gateway holds it.
    pub(crate) fn is_held(&self) -> bool {
        self.held_since.is_some()
    }

    /// Whether the client gets, or got, a first token.
    pub(crate) fn has_first_token(&self) -> bool {
        self.first_token.is_some()
    }

    /// Tokens of the prompt that were cached where it was computed.
    pub(crate) fn cached(&self) -> u32 {
        self.cached
    }

    /// Tokens that were expected to be cached there.
    pub(crate) fn matched(&self) -> u32 {
        self.matched
    }

    /// It goes to a gateway, which it enters.
    pub(crate) fn enter(&mut self, gateway: u16) {
        assert!(!self.ending, "a request that ended enters again");
        self.entry = gateway;
    }

    /// A gateway holds it from now on, unless one does already.
    pub(crate) fn hold(&mut self, now: Time) {
        self.held_since.get_or_insert(now);
    }

    /// It leaves the queue, if it is in one.
    pub(crate) fn leave_queue(&mut self, now: Time) {
        if let Some(since) = self.held_since.take() {
            assert!(now >= since, "held since {since:?}, until {now:?}");
            self.held += now.since(since);
            if self.peer.is_some() {
                self.held_away += now.since(since);
            }
        }
    }

    /// It is dispatched whole to a replica that should have `matched` tokens of it. Returns the
    /// attempt.
    pub(crate) fn dispatch(&mut self, now: Time, replica: u32, matched: u32) -> u32 {
        self.crossing = None;
        self.start(now, replica, matched)
    }

    /// It is dispatched to the first replica of a pair. Returns the attempt.
    pub(crate) fn dispatch_pair(&mut self, now: Time, split: Split, matched: u32) -> u32 {
        assert!(self.split.is_none(), "one attempt is split while another one is");
        let from = split.from;
        self.split = Some(split);
        self.crossing = Some(Crossing { from, ..Crossing::default() });
        self.start(now, from, matched)
    }

    fn start(&mut self, now: Time, replica: u32, matched: u32) -> u32 {
        self.leave_queue(now);
        self.dispatches += 1;
        self.replica = Some(replica);
        self.matched = matched;
        self.next_attempt()
    }

    /// The prompt of a split attempt is computed, and the request goes to the second replica.
    /// Returns the legs, and the attempt: messages of the first leg, such as a reset, no longer
    /// count.
    pub(crate) fn goes_to_decode(&mut self) -> Option<(Split, u32)> {
        let split = self.split.as_mut()?;
        assert!(split.prefilling, "the decode leg of {} starts twice", split.name);
        split.prefilling = false;
        let split = *split;
        self.replica = Some(split.to);
        Some((split, self.next_attempt()))
    }

    /// Takes the legs of a split attempt, which ends.
    pub(crate) fn take_split(&mut self) -> Option<Split> {
        self.split.take()
    }

    /// Its KV has crossed between two replicas.
    pub(crate) fn crossed(&mut self, crossing: Crossing) {
        self.crossing = Some(crossing);
    }

    /// An engine found so many tokens of its prompt.
    pub(crate) fn found(&mut self, cached: u32) {
        self.cached = cached;
    }

    /// It is forwarded to a peer that should have `matched` tokens. Returns the attempt.
    pub(crate) fn forward(&mut self, now: Time, peer: u16, matched: u32) -> u32 {
        assert!(peer != self.entry, "gateway {peer} forwards to itself");
        self.leave_queue(now);
        self.peer = Some(peer);
        self.forwarded = true;
        self.matched = matched;
        self.next_attempt()
    }

    /// A peer sent it back for lack of capacity.
    pub(crate) fn was_sent_back(&mut self) {
        self.sent_back += 1;
    }

    /// Messages of the current attempt no longer count. Returns the next one.
    pub(crate) fn next_attempt(&mut self) -> u32 {
        self.attempt += 1;
        self.attempt
    }

    /// Its attempt at a replica failed, and the gateway decides again.
    pub(crate) fn leave_replica(&mut self) {
        self.replica = None;
    }

    /// Its attempt failed, and the gateway where it entered decides again.
    pub(crate) fn come_back(&mut self) {
        (self.peer, self.replica) = (None, None);
    }

    /// The attempt is abandoned. Returns the replica and the peer that still serve it.
    pub(crate) fn abandon(&mut self) -> (Option<u32>, Option<u16>) {
        self.next_attempt();
        (self.replica.take(), self.peer.take())
    }

    /// A message towards the client would arrive at `at`. Returns when it does: not before the one
    /// sent ahead of it.
    pub(crate) fn message(&mut self, at: Time) -> Time {
        assert!(at >= self.request.sent, "an answer at {at:?}, before {:?}", self.request.sent);
        self.last_message = self.last_message.max(at);
        self.last_message
    }

    /// Bytes of its answer are at a gateway.
    pub(crate) fn stream(&mut self) {
        self.streamed = true;
    }

    /// A first token reaches the client at `at`; only the first one counts.
    pub(crate) fn first_token_at(&mut self, at: Time) {
        self.first_token.get_or_insert(at);
    }

    /// Its end is sent to the client: messages of any attempt no longer count.
    pub(crate) fn end(&mut self) {
        self.give_up();
        self.next_attempt();
    }

    /// Its client gives up.
    pub(crate) fn give_up(&mut self) {
        assert!(!self.ending, "a request ends twice");
        self.ending = true;
    }

    /// The record of its end at `now`, in the region where it was `served`.
    pub(crate) fn record(&self, now: Time, served: Option<u16>, fate: Fate) -> Record {
        let request = &self.request;
        assert!(now >= request.sent, "it ended at {now:?}, before {:?}", request.sent);
        Record {
            sent: request.sent,
            region: request.region,
            served: served.unwrap_or(request.region),
            replica: self.replica.unwrap_or(u32::MAX),
            load: request.load,
            fate,
            forwarded: self.forwarded,
            attempts: self.dispatches.min(255) as u8,
            ttft: self.first_token.map_or(Duration::ZERO, |at| at.since(request.sent)),
            e2e: now.since(request.sent),
            held: self.held,
            held_away: self.held_away,
            sent_back: self.sent_back,
            crossing: self.crossing,
            prompt_tokens: request.text.prompt_tokens,
            cached_tokens: self.cached,
            matched_tokens: self.matched,
            reply_tokens: request.text.reply_tokens,
            slo: request.slo,
            session: request.session,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
